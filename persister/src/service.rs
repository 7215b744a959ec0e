//! The persister as a service: ports first, then Postgres and Redis, in whatever order they come up.

use crate::context::Context;
use crate::database::pool::Pool;
use crate::maintenance;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::sharing::Sharing;
use anyhow::Context as _;
use prometheus_client::registry::Registry;
use shared::cluster::Cluster;
use shared::service::operations::{self, Readiness, Registries};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The ports, bound before anything else is done.
#[derive(Debug)]
pub struct Listeners {
    /// `/livez`, `/readyz`, `/metrics`.
    pub operations: TcpListener,
}

impl Listeners {
    /// Binds them.
    ///
    /// # Errors
    /// The port is in use, or not ours to use; the message says which setting it is.
    pub async fn bind(settings: &Settings) -> anyhow::Result<Listeners> {
        let address = settings.operations_listen;
        let operations = TcpListener::bind(address).await.with_context(|| {
            format!("cannot listen on {address} (persister.operations_listen): choose a free port")
        })?;
        Ok(Listeners { operations })
    }
}

/// Runs the persister until `shutdown`.
///
/// # Errors
/// The database or Redis will not do for it (a newer schema, another layout), or it did not end in time.
pub async fn run(
    settings: Settings,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::new());
    let readiness = Readiness::default();
    let tracker = TaskTracker::new();
    let stop = CancellationToken::new();
    let registries = Registries::default();
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    registries.add(registry);
    tracker.spawn(operations::serve(
        listeners.operations,
        readiness.clone(),
        registries.clone(),
        stop.clone(),
    ));
    let told = Told {
        metrics,
        readiness,
        registries,
    };
    let ended = work(settings, told, &tracker, &stop, shutdown).await;
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    ended
}

/// What the operations port tells.
struct Told {
    metrics: Arc<Metrics>,
    readiness: Readiness,
    registries: Registries,
}

async fn work(
    settings: Settings,
    told: Told,
    tracker: &TaskTracker,
    stop: &CancellationToken,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let pool = Pool::new(
        settings.postgres.clone(),
        settings.timeouts(),
        settings.connections,
        settings.redis.shards,
        told.metrics.clone(),
    );
    // The first connection migrates; a database that will not do is told before Redis is asked for anything.
    tokio::select! {
        connection = pool.get() => connection?.give_back(),
        () = shutdown.cancelled() => return Ok(()),
    }
    // The cluster client outlives the shutdown's beginning: the last offsets and the leases go through it.
    let cluster = tokio::select! {
        cluster = Cluster::connect(settings.redis.clone(), tracker, stop.clone()) => cluster?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let mut registry = Registry::default();
    cluster
        .metrics()
        .register(registry.sub_registry_with_prefix("uproar_persister"));
    told.registries.add(registry);
    let context = Arc::new(Context::new(
        settings,
        cluster,
        pool,
        told.metrics,
        told.readiness,
    ));
    let lag = tracker.spawn(maintenance::watch_lag(context.clone(), stop.clone()));
    let sharing = Sharing::new(context.clone()).run(shutdown.clone());
    let ended = tokio::select! {
        ended = sharing => ended,
        // It ends early only when the database will not do; the shards then find the same and end.
        Err(unfit) = maintenance::upkeep(context, stop.clone()) => Err(unfit.into()),
    };
    lag.abort();
    ended
}
