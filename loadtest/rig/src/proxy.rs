//! A TCP proxy that breaks connections on demand, and spreads them over several servers.

use anyhow::Context;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a server may take to accept before the next one is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// What is done to connections. Each change is seen by all that are open.
#[derive(Debug, Clone, Default)]
struct Faults {
    /// Grows with each cut: a connection from before ends.
    cuts: u64,
    /// The same for those that carry a WebSocket.
    websocket_cuts: u64,
    refusing_websockets: bool,
    stalled: bool,
    refusing: bool,
    delay: Duration,
}

/// A proxy; dropping it closes its port and its connections. It lives on the runtime that started it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    faults: watch::Sender<Faults>,
    _stop: DropGuard,
}

impl Proxy {
    /// In front of one server, on a free port.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(target: SocketAddr) -> anyhow::Result<Proxy> {
        Proxy::balance(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), vec![target]).await
    }

    /// In front of several servers, in turn; one that does not accept is passed over.
    ///
    /// # Errors
    /// `listen` cannot be bound.
    pub async fn balance(listen: SocketAddr, targets: Vec<SocketAddr>) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("port {} is taken", listen.port()))?;
        let address = listener.local_addr()?;
        let (faults, seen) = watch::channel(Faults::default());
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let targets: Arc<[SocketAddr]> = targets.into();
        tokio::spawn(async move {
            // Owns all connections: they end with it.
            let mut connections = JoinSet::new();
            let turn = Arc::new(AtomicUsize::new(0));
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    Some(_) = connections.join_next() => continue,
                    () = stopped.cancelled() => return,
                };
                match accepted {
                    Ok((stream, _)) => {
                        let (targets, turn) = (Arc::clone(&targets), Arc::clone(&turn));
                        connections.spawn(carry(stream, targets, turn, seen.clone()));
                    }
                    // Out of file descriptors: wait for some to come back.
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        });
        Ok(Proxy {
            address,
            faults,
            _stop: stop.drop_guard(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all open connections; new ones are let through.
    pub fn cut(&self) {
        self.faults.send_modify(|faults| faults.cuts += 1);
    }

    /// Lets nothing through any more, in either direction; connections stay open.
    pub fn stall(&self) {
        self.faults.send_modify(|faults| faults.stalled = true);
    }

    /// Ends stalling, refusing and delaying; what was held is let through.
    pub fn resume(&self) {
        self.faults.send_modify(|faults| {
            let (cuts, websocket_cuts) = (faults.cuts, faults.websocket_cuts);
            *faults = Faults {
                cuts,
                websocket_cuts,
                ..Faults::default()
            };
        });
    }

    /// Ends the open connections that carry a WebSocket; HTTP goes on.
    pub fn cut_websockets(&self) {
        self.faults.send_modify(|faults| faults.websocket_cuts += 1);
    }

    /// Ends each connection that asks for a WebSocket, as a captive portal does; HTTP goes on.
    pub fn refuse_websockets(&self, refusing: bool) {
        self.faults
            .send_modify(|faults| faults.refusing_websockets = refusing);
    }

    /// Closes new connections as soon as they are made; open ones stay.
    pub fn refuse(&self, refusing: bool) {
        self.faults.send_modify(|faults| faults.refusing = refusing);
    }

    /// Holds each piece of data for this long, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.faults.send_modify(|faults| faults.delay = delay);
    }
}

async fn carry(
    client: TcpStream,
    targets: Arc<[SocketAddr]>,
    turn: Arc<AtomicUsize>,
    mut faults: watch::Receiver<Faults>,
) {
    let before = faults.borrow_and_update().clone();
    if before.refusing {
        return;
    }
    let Some(server) = connect(&targets, turn.fetch_add(1, Ordering::Relaxed)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let is_websocket = AtomicBool::new(false);
    let up = pump(
        client_read,
        server_write,
        faults.clone(),
        Some(&is_websocket),
    );
    let down = pump(server_read, client_write, faults.clone(), None);
    let is_cut = |faults: &Faults| {
        let websocket_cut = faults.websocket_cuts != before.websocket_cuts;
        faults.cuts != before.cuts || websocket_cut && is_websocket.load(Ordering::Relaxed)
    };
    tokio::select! {
        _ = async { tokio::join!(up, down) } => {}
        _ = faults.wait_for(is_cut) => {}
    }
}

/// A connection to one of the servers, beginning with that whose turn it is.
async fn connect(targets: &[SocketAddr], turn: usize) -> Option<TcpStream> {
    for index in 0..targets.len() {
        let target = targets[turn.wrapping_add(index) % targets.len()];
        if let Ok(Ok(server)) = timeout(CONNECT_TIMEOUT, TcpStream::connect(target)).await {
            return Some(server);
        }
    }
    None
}

/// Carries one direction to its end, which it passes on. `is_websocket` is set when what comes first asks for a
/// WebSocket; browsers do so on a connection of its own, and within its first piece of data.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut faults: watch::Receiver<Faults>,
    mut is_websocket: Option<&AtomicBool>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if let Some(is_websocket) = is_websocket.take() {
            let head = buffer[..length].to_ascii_lowercase();
            let asks = head
                .windows(18)
                .any(|window| window == b"upgrade: websocket");
            is_websocket.store(asks, Ordering::Relaxed);
            if asks && faults.borrow().refusing_websockets {
                return;
            }
        }
        let delay = faults.borrow().delay;
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if faults.wait_for(|faults| !faults.stalled).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
