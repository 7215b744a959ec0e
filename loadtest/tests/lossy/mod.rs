//! A proxy that leaves out one of so many ticks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

#[derive(Debug)]
pub(crate) struct Lossy {
    address: SocketAddr,
    counts: Arc<Counts>,
    _serving: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Counts {
    ticks: AtomicU64,
    dropped: AtomicU64,
}

impl Lossy {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many ticks have been left out.
    pub(crate) fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::SeqCst)
    }
}

/// Leaves out every `one_in`-th tick, of all connections together.
pub(crate) async fn start(gateway: SocketAddr, one_in: u64) -> Lossy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::new(Counts::default());
    let mut serving = JoinSet::new();
    let shared = Arc::clone(&counts);
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((phone, _)) = listener.accept().await {
            let counts = Arc::clone(&shared);
            connections.spawn(async move {
                // Whichever side breaks, the connection is over.
                let _ = serve(phone, gateway, one_in, &counts).await;
            });
        }
    });
    Lossy {
        address,
        counts,
        _serving: serving,
    }
}

async fn serve(
    phone: TcpStream,
    gateway: SocketAddr,
    one_in: u64,
    counts: &Counts,
) -> std::io::Result<()> {
    let (mut from_phone, mut to_phone) = phone.into_split();
    let (mut from_gateway, mut to_gateway) = TcpStream::connect(gateway).await?.into_split();
    let up = tokio::io::copy(&mut from_phone, &mut to_gateway);
    let down = async {
        let mut bytes = Vec::new();
        let mut is_upgraded = false;
        loop {
            if from_gateway.read_buf(&mut bytes).await? == 0 {
                return to_phone.shutdown().await;
            }
            if !is_upgraded {
                // Whatever is plain HTTP passes as it is.
                is_upgraded = bytes.starts_with(b"HTTP/1.1 101");
                let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
                let passes = if is_upgraded {
                    head.map_or(0, |at| at + 4)
                } else {
                    bytes.len()
                };
                to_phone.write_all(&bytes[..passes]).await?;
                bytes.drain(..passes);
                is_upgraded = is_upgraded && passes > 0;
            }
            while is_upgraded && let Some(length) = frame_length(&bytes) {
                let frame: Vec<u8> = bytes.drain(..length).collect();
                let is_tick = frame.windows(7).any(|seven| seven == b"{\"tick\"");
                if is_tick && counts.ticks.fetch_add(1, Ordering::SeqCst) % one_in == one_in - 1 {
                    counts.dropped.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                to_phone.write_all(&frame).await?;
            }
        }
    };
    tokio::select! {
        copied = up => copied.map(|_| ()),
        passed = down => passed,
    }
}

/// The length of the first frame, once it is whole; a server's frames have no mask.
fn frame_length(bytes: &[u8]) -> Option<usize> {
    let (header, payload) = match *bytes {
        [_, length, ..] if length < 126 => (2, usize::from(length)),
        [_, 126, high, low, ..] => (4, usize::from(u16::from_be_bytes([high, low]))),
        _ => return None,
    };
    (bytes.len() >= header + payload).then_some(header + payload)
}
