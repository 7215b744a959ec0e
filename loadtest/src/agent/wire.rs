//! What coordinator and agent say to each other: a length in four bytes, little endian, and a message by `postcard`.

use crate::swarm::assignment::Assignment;
use crate::swarm::harvest::{Harvest, Snapshot};
use anyhow::{Context, bail};
use hmac::{Hmac, KeyInit, Mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A harvest of a hundred thousand phones over ten minutes takes some 300 MB; more than this is no message of ours. The
/// first four letters of an HTTP request or answer, read as a length, are more.
const MESSAGE_BYTES_MAX: u32 = 1 << 29;

/// From the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// First: who it is. `proof` is the keyed hash of the agent's nonce.
    Hello {
        /// The coordinator's version.
        version: String,
        /// See [`proof`].
        proof: [u8; 32],
    },
    /// Asks for the agent's clock.
    Clock,
    /// Plays. `zero_us` is the run's zero by the agent's clock.
    Start {
        /// What to play.
        assignment: Box<Assignment>,
        /// Zero.
        zero_us: u64,
    },
    /// Asks for the counters.
    Snapshot,
    /// Nobody taps any more.
    StopTapping,
    /// Everybody leaves; the harvest is wanted.
    Finish,
}

/// From the agent: one for each order, and the nonce before the first.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Said at once: to be proven with the key.
    Nonce([u8; 16]),
    /// Done, nothing to say.
    Done,
    /// The agent's clock, microseconds.
    Clock(u64),
    /// The counters.
    Snapshot(Snapshot),
    /// What the phones saw.
    Harvest(Box<Harvest>),
    /// The order could not be carried out, and why.
    Failed(String),
}

/// What shows that one knows the key, without telling it.
pub fn proof(key: &str, nonce: &[u8; 16]) -> [u8; 32] {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key.as_bytes())
        .expect("HMAC takes keys of any length");
    mac.update(b"uproar agent");
    mac.update(nonce);
    mac.finalize().into_bytes().into()
}

/// Whether a proof is right, in constant time.
pub fn is_proof(key: &str, nonce: &[u8; 16], claimed: &[u8; 32]) -> bool {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key.as_bytes())
        .expect("HMAC takes keys of any length");
    mac.update(b"uproar agent");
    mac.update(nonce);
    mac.verify_slice(claimed).is_ok()
}

/// Sends a message.
///
/// # Errors
/// The connection broke.
///
/// # Cancel safety
/// Not safe: a part of the message may have been written.
pub async fn send<M: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &M,
) -> anyhow::Result<()> {
    let bytes = postcard::to_allocvec(message).context("a message cannot be written down")?;
    let length = u32::try_from(bytes.len()).context("a message is longer than 4 GB")?;
    stream.write_all(&length.to_le_bytes()).await?;
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    Ok(())
}

/// Receives a message; none at the end of the connection.
///
/// # Errors
/// The connection broke, or what came is no message.
///
/// # Cancel safety
/// Not safe: a part of the message may have been read.
pub async fn receive<M: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> anyhow::Result<Option<M>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let length = u32::from_le_bytes(length);
    if length > MESSAGE_BYTES_MAX {
        bail!("what came is no message of a load test: it says that it has {length} bytes");
    }
    // Grows with what comes, so that a false length takes no memory.
    let mut bytes = Vec::new();
    let read = stream
        .take(u64::from(length))
        .read_to_end(&mut bytes)
        .await?;
    if read < length as usize {
        bail!("the connection ended in the middle of a message");
    }
    let message = postcard::from_bytes(&bytes);
    Ok(Some(message.context(
        "what came is no message of a load test of this version",
    )?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_arrive_as_they_were_sent() {
        let (mut one, mut other) = tokio::io::duplex(64);
        let sending = tokio::spawn(async move {
            send(&mut one, &Answer::Clock(17)).await.unwrap();
            send(&mut one, &Answer::Failed("x".repeat(1000)))
                .await
                .unwrap();
        });
        let clock = receive(&mut other).await.unwrap();
        assert!(matches!(clock, Some(Answer::Clock(17))), "{clock:?}");
        let failed = receive(&mut other).await.unwrap();
        assert!(matches!(&failed, Some(Answer::Failed(why)) if why.len() == 1000));
        sending.await.unwrap();
        assert!(receive::<Answer>(&mut other).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_is_no_message_is_said_to_be_none() {
        let http: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
        let error = receive::<Order>(&mut &*http).await.unwrap_err();
        assert!(error.to_string().contains("no message"), "{error:#}");
        let half: &[u8] = &[5, 0, 0, 0, 1];
        assert!(receive::<Order>(&mut &*half).await.is_err());
    }

    #[test]
    fn only_who_knows_the_key_can_prove_it() {
        let nonce = [7; 16];
        assert!(is_proof("secret", &nonce, &proof("secret", &nonce)));
        assert!(!is_proof("secret", &nonce, &proof("guess", &nonce)));
        assert!(!is_proof("secret", &[8; 16], &proof("secret", &nonce)));
    }
}
