//! How many rows each partition has taken since it was analysed: after a big load the planner would otherwise take it
//! for empty and read all of it.

use crate::database::partitions::Partition;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Fewer rows than this change no plan.
const ROWS_MIN: u64 = 10_000;
/// A partition is analysed at most this often; autovacuum does the rest.
const PAUSE: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
struct Load {
    rows: u64,
    /// All rows since the process started.
    total: u64,
    analyzed: Option<Instant>,
}

/// Rows taken, by partition.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    by_partition: Mutex<HashMap<Partition, Load>>,
}

impl Loads {
    pub(crate) fn add(&self, partition: Partition, rows: u64) {
        let mut loads = self
            .by_partition
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let load = loads.entry(partition).or_default();
        load.rows += rows;
        load.total += rows;
    }

    /// The partitions that are due: with many rows, and a tenth of all that came, since they were analysed. They count
    /// as analysed from here on.
    pub(crate) fn take_due(&self, now: Instant) -> Vec<Partition> {
        let mut loads = self
            .by_partition
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        for (partition, load) in loads.iter_mut() {
            let rested = load
                .analyzed
                .is_none_or(|at| now.duration_since(at) >= PAUSE);
            if load.rows >= ROWS_MIN && load.rows >= load.total / 10 && rested {
                load.rows = 0;
                load.analyzed = Some(now);
                due.push(*partition);
            }
        }
        due
    }

    /// Forgets partitions that nothing is written to any more.
    pub(crate) fn retain(&self, keep: impl Fn(&Partition) -> bool) {
        let mut loads = self
            .by_partition
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loads.retain(|partition, _| keep(partition));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::partitions::TAPS;

    #[test]
    fn a_partition_is_due_after_a_big_load_and_then_rests() {
        let loads = Loads::default();
        let partition = Partition::of(TAPS, 0);
        let start = Instant::now();
        loads.add(partition, ROWS_MIN - 1);
        assert_eq!(loads.take_due(start), []);
        loads.add(partition, 1);
        assert_eq!(loads.take_due(start), [partition]);
        loads.add(partition, 10 * ROWS_MIN);
        assert_eq!(loads.take_due(start + PAUSE / 2), []);
        assert_eq!(loads.take_due(start + PAUSE), [partition]);
    }
}
