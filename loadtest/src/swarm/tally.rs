//! What a thread counts, and how others get to see it.

use super::clock::Busy;
use super::harvest::Snapshot;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Counted by one thread.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// All but the waits, the errors and the CPU time, which are filled in when it is published.
    pub(super) counts: Snapshot,
    ack_ms: BTreeMap<u32, u32>,
    late_ms: BTreeMap<u32, u32>,
    /// What went wrong and how often.
    pub(super) errors: HashMap<String, u64>,
}

impl Tally {
    /// A tap was acknowledged so long after it was due.
    pub(super) fn acknowledged(&mut self, wait_us: u64) {
        self.counts.acked += 1;
        *self.ack_ms.entry(milliseconds(wait_us)).or_default() += 1;
    }

    /// A tap was sent so long after it could have been.
    pub(super) fn tapped(&mut self, late_us: u64) {
        self.counts.taps += 1;
        *self.late_ms.entry(milliseconds(late_us)).or_default() += 1;
    }

    /// A connection failed or broke.
    pub(super) fn error(&mut self, message: String) {
        self.counts.errors += 1;
        *self.errors.entry(message).or_default() += 1;
    }
}

/// Rounded up: nothing takes no time.
fn milliseconds(us: u64) -> u32 {
    u32::try_from(us.div_ceil(1000)).unwrap_or(u32::MAX)
}

/// A thread's counters as others see them, a little later.
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<Published>);

#[derive(Debug, Default)]
struct Published {
    counts: Snapshot,
    ack_ms: BTreeMap<u32, u32>,
    late_ms: BTreeMap<u32, u32>,
}

impl Board {
    /// Shows what has been counted.
    pub(super) fn publish(&self, tally: &mut Tally, busy: &Busy) {
        let mut published = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        published.counts = tally.counts.clone();
        published.counts.cpu_us = busy.cpu_us();
        published.counts.busy = busy.last();
        add(&mut published.ack_ms, std::mem::take(&mut tally.ack_ms));
        add(&mut published.late_ms, std::mem::take(&mut tally.late_ms));
    }
}

fn add(waits: &mut BTreeMap<u32, u32>, more: BTreeMap<u32, u32>) {
    for (milliseconds, count) in more {
        *waits.entry(milliseconds).or_default() += count;
    }
}

/// All threads' counters together; waits are taken from the boards.
pub(super) fn snapshot<'a>(boards: impl Iterator<Item = &'a Board>) -> Snapshot {
    let mut all = Snapshot::default();
    let (mut ack_ms, mut late_ms) = (BTreeMap::new(), BTreeMap::new());
    for board in boards {
        let mut published = board.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = &published.counts;
        all.phones += one.phones;
        all.joined += one.joined;
        all.taps += one.taps;
        all.acked += one.acked;
        all.refused += one.refused;
        all.waiting += one.waiting;
        all.frames += one.frames;
        all.bytes += one.bytes;
        all.errors += one.errors;
        all.cpu_us += one.cpu_us;
        all.busy = all.busy.max(one.busy);
        add(&mut ack_ms, std::mem::take(&mut published.ack_ms));
        add(&mut late_ms, std::mem::take(&mut published.late_ms));
    }
    all.ack_ms = ack_ms.into_iter().collect();
    all.late_ms = late_ms.into_iter().collect();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_and_waits_are_told_once() {
        let boards = [Board::default(), Board::default()];
        let busy = Busy::new();
        for board in &boards {
            let mut tally = Tally::default();
            tally.tapped(0);
            tally.tapped(1);
            tally.acknowledged(30_001);
            tally.error("it broke".to_owned());
            board.publish(&mut tally, &busy);
            tally.acknowledged(40_000);
            board.publish(&mut tally, &busy);
        }
        let all = snapshot(boards.iter());
        assert_eq!((all.taps, all.acked, all.errors), (4, 4, 2));
        assert_eq!(all.ack_ms, [(31, 2), (40, 2)]);
        assert_eq!(all.late_ms, [(0, 2), (1, 2)]);
        let again = snapshot(boards.iter());
        assert_eq!((again.acked, again.ack_ms), (4, Vec::new()));
    }
}
