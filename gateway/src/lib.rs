//! The gateway: phones, stages and hosts on one side, the shards' logs and ticks on the other.
//!
//! Modules in the order in which a tap and then its tick pass through them.

pub mod settings;
pub mod metrics;
pub mod app;
pub mod http;
pub mod connection;
pub mod fallback;
pub mod rooms;

use settings::Settings;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The ports, bound before anything else starts.
#[derive(Debug)]
pub struct Listeners {
    /// Browsers.
    pub public: TcpListener,
    /// Probes and Prometheus.
    pub operations: TcpListener,
}

impl Listeners {
    /// Binds both.
    ///
    /// # Errors
    /// Which port cannot be had, and why.
    pub async fn bind(settings: &Settings) -> anyhow::Result<Listeners> {
        Ok(Listeners {
            public: bind("gateway.listen", settings.listen)?,
            operations: bind("gateway.operations_listen", settings.operations_listen)?,
        })
    }
}

/// Connections that may wait to be accepted: a whole hall reconnects within a second, and one that finds the queue full
/// tries again only after a second or three. The kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

fn bind(name: &str, address: std::net::SocketAddr) -> anyhow::Result<TcpListener> {
    use anyhow::Context;
    use socket2::{Domain, Protocol, Socket, Type};
    let listen = || -> std::io::Result<TcpListener> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        socket.set_nonblocking(true)?;
        // A restart must not wait for the connections of the last process to be forgotten.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    listen().with_context(|| format!("cannot listen on {address} ({name}): choose a free port"))
}

/// Runs the gateway until `shutdown`, then drains it.
///
/// # Errors
/// It could not start, or the drain did not end in time.
pub async fn run(
    _settings: Settings,
    _listeners: Listeners,
    _shutdown: CancellationToken,
) -> anyhow::Result<()> {
    todo!()
}
