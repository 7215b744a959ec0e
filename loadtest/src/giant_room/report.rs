//! What a run says in the end.

use serde::{Deserialize, Serialize};

/// What a stage showed. Cores, and microseconds of CPU, are by the scheduler's account, all threads of a process; those of
/// Redis are the shard's master's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Taps that were to be made.
    pub planned_taps_per_second: u64,
    /// Taps acknowledged.
    pub taps_per_second: f64,
    /// Batches appended.
    pub appends_per_second: f64,
    /// Between two ticks of the shard, as a gateway gets them.
    pub tick_interval_p50_ms: f64,
    /// See above.
    pub tick_interval_p99_ms: f64,
    /// See above.
    pub tick_interval_max_ms: f64,
    /// Ticks in the window.
    pub ticks: u64,
    /// Serials that never came, and loads of the aggregator's state.
    pub tick_gaps: u64,
    /// How old, when a tick came, the oldest acknowledged tap was that it did not have.
    pub behind_p50_ms: f64,
    /// See above.
    pub behind_p99_ms: f64,
    /// Per entry that the aggregator folded.
    pub aggregator_us_per_entry: f64,
    /// Per tap that it folded.
    pub aggregator_us_per_tap: f64,
    /// Cores of it.
    pub aggregator_cores: f64,
    /// Its memory at the end.
    pub aggregator_memory_bytes: u64,
    /// Per entry appended.
    pub redis_us_per_entry: f64,
    /// Per tap appended.
    pub redis_us_per_tap: f64,
    /// Cores of the master.
    pub redis_cores: f64,
    /// Of these, what its busiest thread used: the one that does all commands.
    pub redis_main_thread_cores: f64,
    /// Its memory at the end.
    pub redis_memory_bytes: u64,
    /// What the log grew by, per second.
    pub redis_growth_bytes_per_second: f64,
    /// Cores of its replica.
    pub replica_cores: f64,
    /// Cores of the persister, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persister_cores: Option<f64>,
    /// The busiest thread of virtual gateways, 1 is a core.
    pub generator_busy: f64,
    /// All of them.
    pub generator_cores: f64,
    /// How late batches were begun through the generator's own fault, 99 of 100.
    pub generator_late_p99_ms: f64,
    /// From sending a batch to its acknowledgement.
    pub append_p50_ms: f64,
    /// See above.
    pub append_p99_ms: f64,
    /// All cores of the machine, 1 is all of them.
    pub machine_busy: f64,
    /// The measured window.
    pub seconds: f64,
    /// Taps acknowledged, before and after the window included.
    pub acknowledged: u64,
    /// Taps refused, since a gateway's open batch was full.
    pub refused: u64,
    /// Appends that had to be repeated.
    pub repeated: u64,
    /// Taps of batches given up: they may count.
    pub given_up: u64,
    /// What the totals in Redis grew by.
    pub totals: u64,
    /// Acknowledged and not in the totals.
    pub missed: u64,
    /// In the totals and never tapped.
    pub doubled: u64,
    /// The last tick's totals are those in Redis.
    pub last_tick_has_all: bool,
    /// The last error of an append, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// The whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// No threshold was crossed, and the generator was not the bottleneck.
    pub passed: bool,
    /// What was crossed, a sentence each.
    pub crossed: Vec<String>,
    /// Why the figures are not to be believed, a sentence each.
    pub vetoes: Vec<String>,
    /// Whether Ctrl-C ended it early.
    pub interrupted: bool,
    /// The stage that counts: the only one, or of several the last that held.
    #[serde(flatten)]
    pub stage: Stage,
    /// Of the taps that ten million people can make in one room.
    pub share_of_3_3_million: f64,
    /// Virtual gateways, each with a connection of its own for appends and one that is subscribed to the ticks.
    pub producers: u32,
    /// Threads that they shared.
    pub generator_threads: usize,
    /// People who tapped.
    pub people: u64,
    /// Of these, those whom the shard remembered from before the run.
    pub remembered: u64,
    /// Cores that the aggregator used while nobody tapped: 64 idle shards.
    pub aggregator_idle_cores: f64,
    /// Cores that the shard's master used while nobody tapped.
    pub redis_idle_cores: f64,
    /// On what: all of it shares the machine.
    pub machine: Vec<(String, String)>,
    /// By which Cargo profile it was built.
    pub profile: String,
    /// With `--find-limit`: all stages, the one that did not hold included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// With `--find-limit`: what gave out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_out: Option<String>,
}
