//! What one phone is to do next: its part and its taps, in the run's microseconds.

use super::clock::{NEVER, microseconds};
use crate::scenario::taps::Taps;
use crate::scenario::timeline::Part;
use crate::scenario::{Parting, Scenario};

/// A change of circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It goes.
    Go(Parting),
    /// It comes back, or arrives.
    Come,
    /// It reads nothing any more.
    Stall,
    /// It reads again.
    Resume,
}

/// The rest of a phone's part.
#[derive(Debug)]
pub(super) struct Script {
    /// The next one last.
    changes: Vec<(u64, Change)>,
    taps: Taps,
    next_tap: Option<(u64, u8)>,
}

impl Script {
    pub(super) fn new(scenario: &Scenario, seed: u64, phone: u32) -> (Script, u32) {
        let part = scenario.part(seed, phone);
        let mut script = Script {
            changes: changes(&part),
            taps: scenario.taps(seed, phone),
            next_tap: None,
        };
        script.next_tap = script.draw();
        (script, part.room)
    }

    fn draw(&mut self) -> Option<(u64, u8)> {
        let (due, key) = self.taps.next()?;
        Some((microseconds(due), key))
    }

    /// When the next change is due.
    pub(super) fn change_due_us(&self) -> u64 {
        self.changes.last().map_or(NEVER, |(due_us, _)| *due_us)
    }

    /// The next change, if it is due.
    pub(super) fn take_change(&mut self, now_us: u64) -> Option<(u64, Change)> {
        self.changes.pop_if(|(due_us, _)| *due_us <= now_us)
    }

    /// When the next tap is due.
    pub(super) fn tap_due_us(&self) -> u64 {
        self.next_tap.map_or(NEVER, |(due_us, _)| due_us)
    }

    /// The next tap, if it is due.
    pub(super) fn take_tap(&mut self, now_us: u64) -> Option<(u64, u8)> {
        let tap = self.next_tap.filter(|(due_us, _)| *due_us <= now_us)?;
        self.next_tap = self.draw();
        Some(tap)
    }

    /// Leaves out the taps that are due before then.
    pub(super) fn skip_taps(&mut self, before_us: u64) {
        while self.next_tap.is_some_and(|(due_us, _)| due_us < before_us) {
            self.next_tap = self.draw();
        }
    }

    /// It does not tap any more.
    pub(super) fn end_taps(&mut self) {
        self.next_tap = None;
    }

    /// Nothing happens to it any more.
    pub(super) fn end_changes(&mut self) {
        self.changes = Vec::new();
    }
}

/// In the order in which [`Vec::pop`] yields them in time.
fn changes(part: &Part) -> Vec<(u64, Change)> {
    let mut changes = vec![(microseconds(part.arrives), Change::Come)];
    for (goes, comes, how) in &part.away {
        changes.push((microseconds(*goes), Change::Go(*how)));
        changes.push((microseconds(*comes), Change::Come));
    }
    for (begins, ends) in &part.stalls {
        changes.push((microseconds(*begins), Change::Stall));
        changes.push((microseconds(*ends), Change::Resume));
    }
    changes.sort_by_key(|(due_us, _)| *due_us);
    changes.reverse();
    changes.shrink_to_fit();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn changes_come_in_time() {
        let at = Duration::from_secs;
        let part = Part {
            room: 0,
            arrives: at(1),
            away: vec![(at(5), at(9), Parting::Cut)],
            stalls: vec![(at(2), at(3)), (at(6), at(7))],
        };
        let mut changes = changes(&part);
        let mut in_time = Vec::new();
        while let Some((due_us, change)) = changes.pop() {
            in_time.push((due_us / 1_000_000, change));
        }
        assert_eq!(
            in_time,
            [
                (1, Change::Come),
                (2, Change::Stall),
                (3, Change::Resume),
                (5, Change::Go(Parting::Cut)),
                (6, Change::Stall),
                (7, Change::Resume),
                (9, Change::Come),
            ]
        );
    }
}
