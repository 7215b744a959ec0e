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
            public: bind("gateway.listen", settings.listen).await?,
            operations: bind("gateway.operations_listen", settings.operations_listen).await?,
        })
    }
}

async fn bind(name: &str, address: std::net::SocketAddr) -> anyhow::Result<TcpListener> {
    use anyhow::Context;
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} ({name}): choose a free port"))
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
