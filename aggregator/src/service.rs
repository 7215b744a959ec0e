//! From settings to a running aggregator, and its orderly end.

use crate::metrics::{Metrics, PREFIX};
use crate::settings::{Listeners, Settings};
use crate::shard::Common;
use crate::shares;
use prometheus_client::registry::Registry;
use shared::cluster::{Cluster, ConnectError};
use shared::counting::ids::Nonce;
use shared::service::operations::{self, Readiness, Registries};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Runs an aggregator until `shutdown`: then what is under way is finished and all shards are let go.
///
/// # Errors
/// Redis is unfit, the work on a shard failed for good, or the end took too long.
pub async fn run(
    settings: Settings,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let tracker = TaskTracker::new();
    // Probes and the watcher of the topology go on until the last shard is let go.
    let last = CancellationToken::new();
    let (readiness, registries) = (Readiness::default(), Registries::default());
    readiness.set("redis", Err("not reached yet".to_owned()));
    tracker.spawn(operations::serve(
        listeners.operations,
        readiness.clone(),
        registries.clone(),
        last.clone(),
    ));
    let ended = work(
        &settings,
        &tracker,
        &readiness,
        &registries,
        &shutdown,
        &last,
    )
    .await;
    last.cancel();
    tracker.close();
    tracker.wait().await;
    ended
}

async fn work(
    settings: &Settings,
    tracker: &TaskTracker,
    readiness: &Readiness,
    registries: &Registries,
    shutdown: &CancellationToken,
    last: &CancellationToken,
) -> anyhow::Result<()> {
    let Some(cluster) = connect(settings, tracker, shutdown, last).await? else {
        return Ok(());
    };
    let mut registry = Registry::with_prefix(PREFIX);
    let metrics = Metrics::register(&mut registry);
    cluster.metrics().register(&mut registry);
    registries.add(registry);
    readiness.set("redis", Ok(()));
    let common = Common {
        cluster,
        owner: Nonce(rand::random::<u64>().max(1)),
        tick_interval: settings.tick_interval,
        room_retention: settings.room_retention,
        read_entries_max: settings.read_entries_max,
        metrics,
        started: Instant::now(),
    };
    tracing::info!(
        owner = shared::cluster::leases::hex(common.owner),
        "taking part in the aggregation"
    );
    shares::run(
        common,
        readiness.clone(),
        shutdown.clone(),
        settings.shutdown_timeout,
    )
    .await
}

/// None when it is shut down while Redis does not answer.
async fn connect(
    settings: &Settings,
    tracker: &TaskTracker,
    shutdown: &CancellationToken,
    last: &CancellationToken,
) -> anyhow::Result<Option<Cluster>> {
    let connecting = Cluster::connect(settings.redis.clone(), tracker, last.clone());
    tokio::pin!(connecting);
    let connected = tokio::select! {
        connected = &mut connecting => connected,
        () = shutdown.cancelled() => {
            last.cancel();
            connecting.await
        }
    };
    match connected {
        _ if shutdown.is_cancelled() => Ok(None),
        Ok(cluster) => Ok(Some(cluster)),
        Err(error @ (ConnectError::Unfit(_) | ConnectError::Unreachable(_))) => Err(error.into()),
    }
}
