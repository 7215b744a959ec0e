//! What each phone sent and what became of it: the one side of every comparison.

use shared::counting::ids::ClientHash;
use shared::protocol::Why;
use shared::room::{ReactionKey, RoomCode};
use std::time::{Duration, Instant};

/// What became of a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// No answer yet.
    Waiting,
    /// Acknowledged, this long after it was due: it must count exactly once.
    Acknowledged(Duration),
    /// Its first and only attempt was refused: it must not count.
    Refused(Why),
    /// It was sent more than once and the last attempt was refused, or it became too old: an earlier attempt may have
    /// counted, and nobody will ever say.
    Unknown,
}

/// One tap of a phone.
#[derive(Debug, Clone)]
pub struct TapRecord {
    /// With the sheet's client and page its identity.
    pub seq: u32,
    /// The reaction.
    pub key: ReactionKey,
    /// When the person would have tapped: latencies count from here, so that a phone that is late itself does not
    /// make them look short.
    pub due: Instant,
    /// When it was first written to a socket.
    pub first_sent: Instant,
    /// How often it was.
    pub attempts: u32,
    /// What became of it.
    pub fate: Fate,
}

/// All taps of one page of one client.
#[derive(Debug, Clone)]
pub struct Sheet {
    /// The room.
    pub room: RoomCode,
    /// 128 random bits.
    pub client: [u8; 16],
    /// 32 random bits.
    pub page: u32,
    /// In the order of their seq, which is their index plus one.
    pub taps: Vec<TapRecord>,
}

impl Sheet {
    /// An empty one, with new ids.
    pub fn new(room: RoomCode) -> Self {
        Sheet {
            room,
            client: rand::random(),
            page: rand::random(),
            taps: Vec::new(),
        }
    }

    /// Waits from due to acknowledgement.
    pub fn ack_waits(&self) -> impl Iterator<Item = Duration> {
        self.taps.iter().filter_map(|tap| match tap.fate {
            Fate::Acknowledged(after) => Some(after),
            _ => None,
        })
    }
}

/// The hash under which a client's taps are stored: the gateway's, whose key the rig chose.
pub fn client_hash(key: &str, client: &[u8; 16]) -> ClientHash {
    use hmac::{Hmac, KeyInit, Mac};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key.as_bytes())
        .expect("HMAC takes keys of any length");
    mac.update(client);
    let digest = mac.finalize().into_bytes();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    ClientHash(u64::from_be_bytes(first))
}
