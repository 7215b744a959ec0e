//! What the aggregator counts: `uproar_aggregator_…`.

use crate::state::Counted;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use shared::counting::reader::Skipped;
use std::time::Duration;

/// The prefix of all names.
pub(crate) const PREFIX: &str = "uproar_aggregator";

/// All of them; clones share the numbers.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    /// Time between two ticks of one shard.
    pub(crate) tick_interval: Histogram,
    /// Time from the beginning of a tick to its commit.
    pub(crate) tick_duration: Histogram,
    /// How long the oldest entry of a tick had stood in the log when it was committed.
    pub(crate) lag: Histogram,
    pub(crate) entries: Counter,
    pub(crate) taps: Counter,
    pub(crate) rejected: Counter,
    pub(crate) commits: Family<Outcome, Counter>,
    pub(crate) reloads: Family<Cause, Counter>,
    pub(crate) early_reads: Counter,
    pub(crate) not_stable: Counter,
    pub(crate) unreplicated: Counter,
    pub(crate) skipped: Family<Kind, Counter>,
    pub(crate) expired: Counter,
    pub(crate) taken: Family<How, Counter>,
    pub(crate) held: Gauge,
    pub(crate) stopped: Gauge,
    pub(crate) members: Gauge,
}

/// How a commit ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Outcome {
    pub(crate) outcome: &'static str,
}

/// Why a shard's state was loaded again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Cause {
    pub(crate) cause: &'static str,
}

/// What was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Kind {
    pub(crate) kind: &'static str,
}

/// How a shard was come by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct How {
    pub(crate) how: &'static str,
}

impl Metrics {
    /// New ones, shown by `registry`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Metrics::new();
        metrics.register_ticks(registry);
        metrics.register_counting(registry);
        metrics.register_shares(registry);
        metrics
    }

    fn new() -> Self {
        // From a quarter of a tick to a take-over.
        let seconds = || {
            Histogram::new([
                0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 1.0, 2.0, 5.0,
            ])
        };
        Metrics {
            tick_interval: seconds(),
            tick_duration: seconds(),
            lag: Histogram::new([0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0]),
            entries: Counter::default(),
            taps: Counter::default(),
            rejected: Counter::default(),
            commits: Family::default(),
            reloads: Family::default(),
            early_reads: Counter::default(),
            not_stable: Counter::default(),
            unreplicated: Counter::default(),
            skipped: Family::default(),
            expired: Counter::default(),
            taken: Family::default(),
            held: Gauge::default(),
            stopped: Gauge::default(),
            members: Gauge::default(),
        }
    }

    fn register_ticks(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "tick_interval",
            "Time between two ticks of one shard",
            Unit::Seconds,
            self.tick_interval.clone(),
        );
        registry.register_with_unit(
            "tick_duration",
            "Time from the beginning of a tick to the end of its commit",
            Unit::Seconds,
            self.tick_duration.clone(),
        );
        registry.register_with_unit(
            "lag",
            "How long the oldest entry of a tick had stood in the log when it was committed",
            Unit::Seconds,
            self.lag.clone(),
        );
    }

    fn register_counting(&self, registry: &mut Registry) {
        registry.register(
            "folded_entries",
            "Entries of logs folded and committed",
            self.entries.clone(),
        );
        registry.register(
            "folded_taps",
            "Taps that count, committed",
            self.taps.clone(),
        );
        registry.register(
            "rejected_entries",
            "Entries that could not be read and were left out; the persister keeps them",
            self.rejected.clone(),
        );
        registry.register(
            "skipped",
            "What was skipped so that nothing counts twice, by kind",
            self.skipped.clone(),
        );
        registry.register("commits", "Commits, by outcome", self.commits.clone());
        registry.register(
            "reloads",
            "How often a shard's state was discarded and loaded again, by cause",
            self.reloads.clone(),
        );
        registry.register(
            "early_reads",
            "Reads between two ticks, of shards that have much to fold",
            self.early_reads.clone(),
        );
        registry.register(
            "reads_not_stable",
            "Reads that were not folded, since not every electable replica had what was read",
            self.not_stable.clone(),
        );
        registry.register(
            "unreplicated_reads",
            "Reads that were folded while no replica was electable: a failover could take back what they brought",
            self.unreplicated.clone(),
        );
        registry.register(
            "expired_rooms",
            "Rooms deleted at the end of their retention",
            self.expired.clone(),
        );
    }

    fn register_shares(&self, registry: &mut Registry) {
        registry.register(
            "shards_taken",
            "Shards taken, by how they were come by",
            self.taken.clone(),
        );
        registry.register("shards_held", "Shards held now", self.held.clone());
        registry.register(
            "shards_stopped",
            "Shards that this instance cannot go on with: their logs hold entries of newer software, or not what was committed",
            self.stopped.clone(),
        );
        registry.register(
            "members",
            "Aggregators that share the shards, this one included",
            self.members.clone(),
        );
    }

    /// What a commit made true.
    pub(crate) fn committed(&self, entries: u64, counted: Counted, log_now_ms: u64) {
        self.entries.inc_by(entries);
        self.taps.inc_by(counted.taps);
        self.rejected.inc_by(counted.rejected);
        self.expired.inc_by(counted.expired);
        if let Some(oldest_ms) = counted.oldest_ms {
            self.lag
                .observe(Duration::from_millis(log_now_ms.saturating_sub(oldest_ms)).as_secs_f64());
        }
    }

    /// What a reader skipped since it said `before`.
    pub(crate) fn skipped(&self, before: Skipped, now: Skipped) {
        for (kind, before, now) in [
            ("void_entry", before.void_entries, now.void_entries),
            (
                "duplicate_batch",
                before.duplicate_batches,
                now.duplicate_batches,
            ),
            ("duplicate_tap", before.duplicate_taps, now.duplicate_taps),
        ] {
            self.skipped
                .get_or_create(&Kind { kind })
                .inc_by(now.saturating_sub(before));
        }
    }
}
