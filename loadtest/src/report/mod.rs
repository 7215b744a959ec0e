//! What a run says in the end: one object, the same as JSON, as a table and as a page.
//!
//! `None` is what could not be measured, as with a target whose Redis and Postgres are out of reach; a threshold on it
//! counts as crossed, since nobody knows.

pub mod number;
pub mod words;
pub mod distribution;
pub mod judge;
pub mod table;
pub mod html;
pub mod compare;
pub mod output;
#[cfg(test)]
mod sample;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run, or as much of it as there was before it was interrupted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunReport {
    /// The scenario's title.
    pub scenario: String,
    /// Whether Ctrl-C ended it early.
    pub interrupted: bool,
    /// No threshold was crossed, and the generator was not the bottleneck.
    pub passed: bool,
    /// What was crossed, a sentence each.
    pub crossed: Vec<String>,
    /// Why the figures are not to be believed: the generator was the bottleneck. A sentence each.
    pub vetoes: Vec<String>,

    /// Phones of the scenario.
    pub phones: u64,
    /// Phones that have joined at least once.
    pub joined: u64,
    /// Joins that were turned away or not answered.
    pub joins_refused: u64,
    /// From due to the room's first frame, 95 of 100.
    pub join_p95_ms: Option<f64>,
    /// The same, the slowest.
    pub joined_max_ms: Option<f64>,
    /// Joins per second of the gateways' CPU time while phones arrived.
    pub joins_per_core_second: Option<f64>,
    /// Frames that had to be delivered.
    pub expected: u64,
    /// Those that were.
    pub delivered: u64,
    /// Taps acknowledged.
    pub acked: u64,
    /// Taps neither acknowledged nor finally refused.
    pub unsettled: u64,
    /// Taps refused.
    pub taps_refused: u64,
    /// Totals in Redis.
    pub totals: Option<u64>,
    /// Rows in `taps`.
    pub taps: Option<u64>,
    /// Sums in `tap_counts`.
    pub tap_counts: Option<u64>,
    /// Acknowledged and not counted.
    pub lost: Option<u64>,
    /// Counted more often than sent.
    pub doubled: Option<u64>,
    /// From due to acknowledged.
    pub ack_p99_ms: Option<f64>,
    /// From due to the first frame in which another phone sees it counted.
    pub tick_p99_ms: Option<f64>,
    /// The same less the flush and the tick that the tap waited for.
    pub beyond_window_p99_ms: Option<f64>,
    /// Cores that the gateways used in the measured window.
    pub gateway_cores: Option<f64>,
    /// The busiest generator thread's share of the measured window, 0 to 1.
    pub generator_busy: f64,
    /// How late taps were sent, 99 of 100.
    pub generator_late_p99_ms: f64,
    /// CPU time per frame: gateways per frame sent.
    pub gateway_us_per_frame: Option<f64>,
    /// And generator per frame received.
    pub generator_us_per_frame: Option<f64>,

    /// What was asked of the run, and whether it held; filled by [`judge`].
    pub bounds: Vec<Bound>,
    /// Figures that could not be measured where the run went, and what to give so that they can be.
    pub out_of_reach: BTreeMap<String, String>,
    /// Room by room.
    pub rooms: Vec<RoomReport>,
    /// The same figure from several sides: the generator's, the servers', the kernel's, the browser's.
    pub cross_checks: Vec<CrossCheck>,
    /// Waits as distributions.
    pub distributions: Vec<Distribution>,
    /// Second by second.
    pub seconds: Vec<Second>,
    /// The servers' processes and the generators.
    pub processes: Vec<ProcessReport>,
    /// What went wrong at the generator and how often.
    pub errors: Vec<(String, u64)>,
    /// The measured window, seconds from zero.
    pub window: (f64, f64),
    /// When, on what and with what.
    pub circumstances: Circumstances,
}

/// One threshold and what was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bound {
    /// Such as "tick_p99_ms".
    pub figure: String,
    /// " ms" or " %": stands behind the number; empty for counts.
    pub unit: String,
    /// What was measured; none: it could not be.
    pub measured: Option<f64>,
    /// What it may be.
    pub bound: f64,
    /// Whether it must be at least the bound; otherwise at most.
    pub at_least: bool,
    /// Whether it held.
    pub held: bool,
}

/// One room.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoomReport {
    /// Its code.
    pub code: String,
    /// Phones in it.
    pub phones: u64,
    /// Frames that had to be delivered.
    pub expected: u64,
    /// Those that were.
    pub delivered: u64,
    /// Taps acknowledged.
    pub acked: u64,
    /// Its totals in Redis.
    pub totals: Option<u64>,
}

/// One figure from two sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrossCheck {
    /// What was counted, such as "phones in their rooms".
    pub what: String,
    /// Who counted first, such as "generator",
    pub one: String,
    /// and what.
    pub one_says: f64,
    /// Who counted second, such as "gateways (uproar_gateway_sockets)",
    pub other: String,
    /// and what.
    pub other_says: f64,
    /// Whether they agree, as far as they must.
    pub agrees: bool,
}

/// A distribution of waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Distribution {
    /// Such as "tick": see the definitions.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Milliseconds at 50, 90, 95, 99, 99.9 and 100 %.
    pub percentiles: [f64; 6],
    /// Upper bound of a bucket in milliseconds, and how many fell into it; buckets with none are left out.
    pub buckets: Vec<(f64, u64)>,
}

/// One second of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    /// From zero.
    pub at: u32,
    /// Phones in their room at its end.
    pub joined: u64,
    /// Taps sent.
    pub taps: u64,
    /// Room-wide frames received.
    pub frames: u64,
    /// Failed and broken connections.
    pub errors: u64,
    /// Waits of taps due in it, where there were any: acknowledged, 50 and 99 %; seen by another phone, 50 and 99 %.
    pub ack_ms: Option<(f64, f64)>,
    /// See above.
    pub tick_ms: Option<(f64, f64)>,
}

/// One process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessReport {
    /// Such as "gateway 1" or "redis 127.0.0.1:7001".
    pub name: String,
    /// gateway, aggregator, persister, redis, postgres, generator or browser.
    pub kind: String,
    /// Cores used in the measured window.
    pub cores: f64,
    /// Most resident memory.
    pub memory_bytes_max: u64,
    /// Second by second: cores used, resident bytes.
    pub seconds: Vec<(u32, f64, u64)>,
}

/// When, on what and with what a run was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Circumstances {
    /// RFC 3339, UTC.
    pub at: String,
    /// The command line, without secrets.
    pub command: String,
    /// Name and value: operating system, processor, cores, memory.
    pub machine: Vec<(String, String)>,
    /// Name and version: uproar, its profile, redis, postgres, browser.
    pub versions: Vec<(String, String)>,
    /// Name and value of the services' settings that matter, and the scenario's.
    pub settings: Vec<(String, String)>,
}
