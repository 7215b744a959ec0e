//! What the persister counts, as `uproar_persister_…`.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use shared::counting::reader::Skipped;
use shared::shards::ShardId;

/// Which shard.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ShardLabel {
    shard: u32,
}

impl From<ShardId> for ShardLabel {
    fn from(shard: ShardId) -> Self {
        ShardLabel {
            shard: shard.0.into(),
        }
    }
}

/// Which table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TableLabel {
    pub(crate) table: &'static str,
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Failure {
    /// A connection that could not be opened.
    Connection,
    Postgres,
    Redis,
    ForeignLedger,
    LeaseLost,
    NotStable,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct FailureLabel {
    kind: Failure,
}

/// Why something of the log did not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
enum SkippedWhat {
    VoidEntries,
    DuplicateBatches,
    DuplicateTaps,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SkippedLabel {
    what: SkippedWhat,
}

#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) taps: Counter,
    pub(crate) rows: Counter,
    pub(crate) rows_shed: Counter,
    pub(crate) taps_clamped: Counter,
    pub(crate) commits: Counter,
    pub(crate) commit_seconds: Histogram,
    failures: Family<FailureLabel, Counter>,
    skipped: Family<SkippedLabel, Counter>,
    pub(crate) rejected: Counter,
    pub(crate) trimmed: Counter,
    pub(crate) postgres_reachable: Gauge,
    pub(crate) shards_owned: Gauge,
    pub(crate) members: Gauge,
    pub(crate) shards_held: Family<ShardLabel, Gauge>,
    pub(crate) shards_stopped: Family<ShardLabel, Gauge>,
    pub(crate) lag_ms: Family<ShardLabel, Gauge>,
    pub(crate) log_entries: Family<ShardLabel, Gauge>,
    pub(crate) partitions: Family<TableLabel, Gauge>,
    pub(crate) partitions_dropped: Counter,
    pub(crate) analyzed: Counter,
    pub(crate) maintenance_failures: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Metrics {
            taps: Counter::default(),
            rows: Counter::default(),
            rows_shed: Counter::default(),
            taps_clamped: Counter::default(),
            commits: Counter::default(),
            // From 1 ms, a commit without rows on a fast disk, to 16 s, near the statement timeout.
            commit_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            failures: Family::default(),
            skipped: Family::default(),
            rejected: Counter::default(),
            trimmed: Counter::default(),
            postgres_reachable: Gauge::default(),
            shards_owned: Gauge::default(),
            members: Gauge::default(),
            shards_held: Family::default(),
            shards_stopped: Family::default(),
            lag_ms: Family::default(),
            log_entries: Family::default(),
            partitions: Family::default(),
            partitions_dropped: Counter::default(),
            analyzed: Counter::default(),
            maintenance_failures: Counter::default(),
        }
    }

    /// Adds all of them to a registry.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("uproar_persister");
        self.register_counting(registry);
        self.register_state(registry);
    }

    fn register_counting(&self, registry: &mut Registry) {
        registry.register("taps", "Taps stored in the counts", self.taps.clone());
        registry.register("rows", "Rows stored in taps", self.rows.clone());
        let shed =
            "Taps that were counted but got no row, because the persister was too far behind";
        registry.register("rows_shed", shed, self.rows_shed.clone());
        let clamped =
            "Taps whose time was out of bounds (a gateway's or a master's clock is wrong)";
        registry.register("taps_clamped", clamped, self.taps_clamped.clone());
        registry.register("commits", "Transactions committed", self.commits.clone());
        let seconds = "Time from BEGIN to the answer of COMMIT";
        registry.register_with_unit(
            "commit",
            seconds,
            Unit::Seconds,
            self.commit_seconds.clone(),
        );
        let failures =
            "What failed and was done again: steps that were thrown away, connections, reads";
        registry.register("failures", failures, self.failures.clone());
        let skipped = "What stood in the log and does not count";
        registry.register("skipped", skipped, self.skipped.clone());
        let rejected = "Entries that could not be read, kept in rejected_batches";
        registry.register("rejected_entries", rejected, self.rejected.clone());
        let trimmed = "Entries trimmed from the logs";
        registry.register("trimmed_entries", trimmed, self.trimmed.clone());
    }

    fn register_state(&self, registry: &mut Registry) {
        let reachable = "Whether Postgres was reached at the last attempt (1) or not (0)";
        registry.register(
            "postgres_reachable",
            reachable,
            self.postgres_reachable.clone(),
        );
        registry.register(
            "shards_owned",
            "Shards this instance stores",
            self.shards_owned.clone(),
        );
        registry.register(
            "members",
            "Persisters that share the shards",
            self.members.clone(),
        );
        let held = "1 while a shard waits because no replica could be elected";
        registry.register("shard_held", held, self.shards_held.clone());
        let stopped = "1 while a shard is stopped and needs somebody: its log does not fit its ledger, or is newer than this build reads";
        registry.register("shard_stopped", stopped, self.shards_stopped.clone());
        let lag = "Log time between the last entry stored and the newest, in milliseconds; 0 when all is stored";
        registry.register("lag_ms", lag, self.lag_ms.clone());
        let entries = "Entries in a shard's log, including those kept for readers that start again";
        registry.register("log_entries", entries, self.log_entries.clone());
        registry.register(
            "partitions",
            "Partitions of a table",
            self.partitions.clone(),
        );
        let dropped = "Partitions dropped after the retention";
        registry.register(
            "partitions_dropped",
            dropped,
            self.partitions_dropped.clone(),
        );
        registry.register(
            "analyzed",
            "Partitions analysed after loads",
            self.analyzed.clone(),
        );
        let failed = "Rounds of upkeep (partitions, ANALYZE) that failed and come again";
        registry.register(
            "maintenance_failures",
            failed,
            self.maintenance_failures.clone(),
        );
    }

    pub(crate) fn failed(&self, kind: Failure) {
        self.failures.get_or_create(&FailureLabel { kind }).inc();
    }

    /// Adds what a reader skipped since it was asked last.
    pub(crate) fn skipped(&self, before: Skipped, now: Skipped) {
        let add = |what, before: u64, now: u64| {
            self.skipped
                .get_or_create(&SkippedLabel { what })
                .inc_by(now.saturating_sub(before));
        };
        add(
            SkippedWhat::VoidEntries,
            before.void_entries,
            now.void_entries,
        );
        add(
            SkippedWhat::DuplicateBatches,
            before.duplicate_batches,
            now.duplicate_batches,
        );
        add(
            SkippedWhat::DuplicateTaps,
            before.duplicate_taps,
            now.duplicate_taps,
        );
    }
}
