//! What must hold of a run; each crossed one is named in the report and gives exit code 99.

use serde::{Deserialize, Serialize};

/// Bounds; none: not asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Of the expected frames, delivered.
    pub delivered_percent_min: Option<f64>,
    /// Acknowledged and not counted.
    pub lost_max: Option<u64>,
    /// Counted more often than sent.
    pub doubled_max: Option<u64>,
    /// Neither acknowledged nor refused in the end.
    pub unsettled_max: Option<u64>,
    /// Joins that were turned away.
    pub joins_refused_max: Option<u64>,
    /// 95 of 100 joins, from due to the room's first frame.
    pub join_p95_ms_max: Option<f64>,
    /// The last phone's join.
    pub joined_max_ms_max: Option<f64>,
    /// From due to acknowledged.
    pub ack_p99_ms_max: Option<f64>,
    /// From due to seen by another phone.
    pub tick_p99_ms_max: Option<f64>,
    /// The same less the flush and the tick that the tap waited for.
    pub beyond_window_p99_ms_max: Option<f64>,
}
