//! What all shards share.

use crate::database::partitions::Partitions;
use crate::database::pool::Pool;
use crate::loads::Loads;
use crate::metrics::Metrics;
use crate::settings::Settings;
use shared::cluster::Cluster;
use shared::service::operations::Readiness;
use shared::shards::ShardId;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Of a time that a broken clock made: not further ahead than this.
const AHEAD_MAX_MS: i64 = 86_400_000;

/// What all shards share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) cluster: Cluster,
    pub(crate) pool: Pool,
    pub(crate) partitions: Partitions,
    pub(crate) loads: Loads,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Readiness,
    /// Some master has had an electable replica.
    replicated: AtomicBool,
    /// Shards that are stopped, and why.
    stopped: Mutex<BTreeMap<ShardId, String>>,
}

impl Context {
    pub(crate) fn new(
        settings: Settings,
        cluster: Cluster,
        pool: Pool,
        metrics: Arc<Metrics>,
        readiness: Readiness,
    ) -> Self {
        Context {
            settings,
            cluster,
            pool,
            partitions: Partitions::default(),
            loads: Loads::default(),
            metrics,
            readiness,
            replicated: AtomicBool::new(false),
            stopped: Mutex::default(),
        }
    }

    /// Times outside are brought to the nearer end: before the start they would be dropped at once, and beyond the end
    /// a wrong clock could have any number of partitions made.
    pub(crate) fn time_bounds_ms(&self) -> RangeInclusive<i64> {
        let now = self.pool.now_ms();
        let retention = i64::try_from(self.settings.taps_retention.as_millis()).unwrap_or(i64::MAX);
        now.saturating_sub(retention).max(0)..=now.saturating_add(AHEAD_MAX_MS)
    }

    /// Whether what was read without any replica must wait: only where there have been replicas, since there a failover
    /// may still bring one back that lacks it.
    pub(crate) fn holds_without_replicas(&self) -> bool {
        self.settings.hold_without_replicas && self.replicated.load(Ordering::Relaxed)
    }

    /// Looks whether any master has an electable replica now.
    pub(crate) fn look_for_replicas(&self) {
        let topology = self.cluster.topology();
        if topology
            .borrow()
            .masters
            .iter()
            .any(|master| master.electable_replicas > 0)
        {
            self.replicated.store(true, Ordering::Relaxed);
        }
    }

    /// How full the master of a shard is; 0 where it has no limit.
    pub(crate) fn memory_used_ratio(&self, shard: ShardId) -> f64 {
        let slot = self.cluster.shards().slot(shard);
        let topology = self.cluster.topology();
        let topology = topology.borrow();
        topology
            .master_of(slot)
            .map_or(0.0, |master| master.memory_used_ratio)
    }

    /// Tells that a shard is stopped, or that it goes on again.
    pub(crate) fn set_stopped(&self, shard: ShardId, why: Option<String>) {
        let gauge = self
            .metrics
            .shards_stopped
            .get_or_create(&shard.into())
            .clone();
        gauge.set(i64::from(why.is_some()));
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => stopped.insert(shard, why),
            None => stopped.remove(&shard),
        };
        let all: Vec<String> = stopped
            .iter()
            .map(|(shard, why)| format!("shard {}: {why}", shard.0))
            .collect();
        let state = if all.is_empty() {
            Ok(())
        } else {
            Err(all.join("; "))
        };
        self.readiness.set("shards", state);
    }
}
