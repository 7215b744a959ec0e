//! The gateway: phones, stages and hosts on one side, the shards' logs and ticks on the other.
//!
//! Modules in the order in which a tap and then its tick pass through them.

pub mod settings;
pub mod metrics;
pub mod app;
mod clock;
pub mod http;
pub mod connection;
pub mod fallback;
mod session;
pub mod rooms;
mod peer;
mod encoded;
mod appender;
mod feed;
mod fanout;
mod sweeper;
mod drain;

use app::{App, Foundation};
use prometheus_client::registry::Registry;
use settings::Settings;
use shared::cluster::Cluster;
use shared::service::operations::{self, Registries};
use std::sync::Arc;
use std::time::Duration;
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
    settings: Settings,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut registry = Registry::default();
    let foundation = Foundation::new(settings, &mut registry)?;
    let (tracker, stopping) = (foundation.tracker.clone(), foundation.stopping.clone());
    foundation.readiness.set(
        "started",
        Err("waiting for Redis and its ticks channels".to_owned()),
    );
    let registries = Registries::from(Arc::new(registry));
    tracker.spawn(operations::serve(
        listeners.operations,
        foundation.readiness.clone(),
        registries.clone(),
        stopping.clone(),
    ));
    let redis = foundation.settings.redis.clone();
    let result = tokio::select! {
        // Dropped only when the process ends.
        connected = Cluster::connect(redis, &tracker, stopping.clone()) => match connected {
            Ok(cluster) => {
                registries.add(redis_metrics(&cluster));
                serve(App::new(foundation, cluster), listeners.public, &shutdown).await
            }
            Err(error) => Err(error.into()),
        },
        () = shutdown.cancelled() => Ok(()),
    };
    stopping.cancel();
    tracker.close();
    if tokio::time::timeout(LAST_TASKS, tracker.wait())
        .await
        .is_err()
    {
        tracing::warn!(tasks = tracker.len(), "tasks that did not end are cut off");
    }
    result
}

fn redis_metrics(cluster: &Cluster) -> Registry {
    let mut registry = Registry::with_prefix("uproar_gateway");
    cluster.metrics().register(&mut registry);
    registry
}

/// How long tasks may take to end once all is done: the last answers of the operations port, and a request to Redis.
const LAST_TASKS: Duration = Duration::from_secs(3);

async fn serve(
    app: Arc<App>,
    public: TcpListener,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    app.tracker.spawn(appender::run(Arc::clone(&app)));
    app.tracker.spawn(feed::run(Arc::clone(&app)));
    app.tracker.spawn(sweeper::run(Arc::clone(&app)));
    app.tracker.spawn(http::accept::serve(
        Arc::clone(&app),
        public,
        app.draining.clone(),
    ));
    shutdown.cancelled().await;
    tracing::info!("draining");
    drain::run(&app).await?;
    tracing::info!("drained: every tap is settled");
    Ok(())
}
