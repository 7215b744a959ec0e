//! The way to a [`Cluster`]: reach it, see that it is fit, start the watcher.

use super::client::{Cluster, Inner};
use super::dial::{Dialer, split_address};
use super::errors::{ConnectError, RequestError};
use super::fitness;
use super::metrics::ClusterMetrics;
use super::pools::Pools;
use super::scripts::LAYOUT;
use super::settings::RedisSettings;
use super::topology::Topology;
use super::view::ViewError;
use super::watcher::Watcher;
use crate::shards::Shards;
use redis::Value;
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Where the layout of the data is written. Its slot must not depend on how many shards there are, or two services with
/// different numbers would not meet there.
const LAYOUT_KEY: &str = "uproar:layout";

/// The layout of the data in Redis: keys, their types and their fields.
const LAYOUT_VERSION: u32 = 1;

impl Cluster {
    /// Reaches the cluster, checks that it is fit (cluster mode, noeviction, layout, clocks) and starts the watcher on
    /// `tracker`. Waits for a first topology that covers all slots; tries again while nodes do not answer until
    /// `shutdown`.
    ///
    /// `shutdown` ends the watcher, and with it all knowledge of failovers: cancel it when the last request is done, not
    /// when a drain begins.
    ///
    /// # Errors
    /// [`ConnectError::Unfit`] at once; [`ConnectError::Unreachable`] only when shut down while waiting.
    ///
    /// # Cancel safety
    /// Safe: at worst the layout is written.
    pub async fn connect(
        settings: RedisSettings,
        tracker: &TaskTracker,
        shutdown: CancellationToken,
    ) -> Result<Cluster, ConnectError> {
        check_settings(&settings)?;
        let dialer = Dialer::new(&settings);
        let metrics = ClusterMetrics::default();
        let pools = Arc::new(Pools::new(&settings, dialer.clone()));
        let hint = Arc::new(Notify::new());
        let polled = Arc::new(Notify::new());
        let (publish, topology) = watch::channel(Arc::new(Topology::empty()));
        let mut watcher = Watcher::new(
            settings.clone(),
            dialer.clone(),
            publish,
            pools.clone(),
            hint.clone(),
            polled.clone(),
            metrics.clone(),
        );
        wait_for_cluster(&mut watcher, &settings, &shutdown).await?;
        for (address, findings) in watcher.findings() {
            if let Some(unfit) = fitness::judge(&address, &findings, &settings).unfit {
                return Err(ConnectError::Unfit(unfit));
            }
        }
        watcher.judge();
        let shards = Shards::new(settings.shards);
        let inner = Inner {
            settings,
            shards,
            topology,
            dialer,
            pools,
            hint,
            polled,
            metrics,
        };
        let cluster = Cluster {
            inner: Arc::new(inner),
        };
        // Stopped again when the layout turns out to be another one.
        let watching = shutdown.child_token();
        let unfit = watching.clone().drop_guard();
        tracker.spawn(watcher.run(watching));
        cluster.check_layout(&shutdown).await?;
        unfit.disarm();
        Ok(cluster)
    }

    /// Writes the layout where there is none, and compares it with ours.
    async fn check_layout(&self, shutdown: &CancellationToken) -> Result<(), ConnectError> {
        let settings = &self.inner.settings;
        let slot = crc16::State::<crc16::XMODEM>::calculate(LAYOUT_KEY.as_bytes()) % 16_384;
        let arguments = [LAYOUT_VERSION.to_string(), settings.shards.to_string()];
        let mut told = Told::default();
        loop {
            let why = match self
                .script_at(slot, &LAYOUT, &[LAYOUT_KEY.to_owned()], &arguments)
                .await
            {
                Ok(found) => return compare_layout(&found, settings),
                Err(RequestError::Refused(why)) => {
                    let text =
                        format!("the layout of the data cannot be read from {LAYOUT_KEY}: {why}");
                    return Err(ConnectError::Unfit(text));
                }
                Err(error) => error.to_string(),
            };
            told.tell(&why);
            pause(settings, shutdown, &why).await?;
        }
    }
}

/// The layout found, against ours.
fn compare_layout(found: &Value, settings: &RedisSettings) -> Result<(), ConnectError> {
    let fields: Vec<Option<String>> = redis::from_redis_value(found.clone()).unwrap_or_default();
    let field = |index: usize| fields.get(index).cloned().flatten().unwrap_or_default();
    let (version, shards) = (field(0), field(1));
    if version != LAYOUT_VERSION.to_string() {
        return Err(ConnectError::Unfit(format!(
            "the data in Redis has layout version {version:?}, this service has {LAYOUT_VERSION}; run the version that \
             wrote it, or start with an empty Redis"
        )));
    }
    if shards != settings.shards.to_string() {
        return Err(ConnectError::Unfit(format!(
            "the data in Redis has {shards} shards, redis.shards is {}; set it to {shards} (the number is fixed for the \
             life of the data)",
            settings.shards
        )));
    }
    Ok(())
}

fn check_settings(settings: &RedisSettings) -> Result<(), ConnectError> {
    if settings.nodes.is_empty() {
        return Err(ConnectError::Unfit("redis.nodes names no node".to_owned()));
    }
    match settings
        .nodes
        .iter()
        .find(|node| split_address(node).is_none())
    {
        Some(node) => Err(ConnectError::Unfit(format!(
            "redis.nodes has {node:?}; a node is host:port, such as redis-0.example.com:6379"
        ))),
        None => Ok(()),
    }
}

/// Polls until the cluster is whole and all masters have told of themselves.
async fn wait_for_cluster(
    watcher: &mut Watcher,
    settings: &RedisSettings,
    shutdown: &CancellationToken,
) -> Result<(), ConnectError> {
    let mut told = Told::default();
    loop {
        let why = match watcher.step().await {
            Ok(()) => match watcher.missing() {
                None => return Ok(()),
                Some(missing) => missing,
            },
            Err((node, ViewError::Later(why))) => format!("{node}: {why}"),
            Err((node, ViewError::Never(code, details))) => {
                let text = fitness::explain(&node, &code, &details, settings);
                return Err(ConnectError::Unfit(text.unwrap_or_else(|| {
                    format!("Redis at {node} says: {code} {details}")
                })));
            }
        };
        told.tell(&why);
        pause(settings, shutdown, &why).await?;
    }
}

async fn pause(
    settings: &RedisSettings,
    shutdown: &CancellationToken,
    why: &str,
) -> Result<(), ConnectError> {
    tokio::select! {
        () = tokio::time::sleep(settings.topology_interval) => Ok(()),
        () = shutdown.cancelled() => Err(ConnectError::Unreachable(why.to_owned())),
    }
}

/// Says why we wait, once per reason.
#[derive(Default)]
struct Told(Vec<String>);

impl Told {
    /// Reasons remembered: with several nodes down their reasons take turns, which is no news.
    const REASONS_MAX: usize = 16;

    fn tell(&mut self, why: &str) {
        if self.0.iter().any(|told| told == why) {
            return;
        }
        tracing::warn!("waiting for Redis: {why}");
        if self.0.len() == Self::REASONS_MAX {
            self.0.remove(0);
        }
        self.0.push(why.to_owned());
    }
}
