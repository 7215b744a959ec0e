//! The taps of one phone and what became of each: the rules of [`crate::phone::state`], on the run's own records.

use super::harvest::{TapFate, TapHarvest};
use shared::protocol::Why;

/// Past this age a tap is given up: the gateway would refuse it as `too_old`.
const AGE_MAX_US: u64 = 80_000_000;

/// At most so many taps wait unanswered: more than 64 would be refused as `seq`.
pub(super) const WAITING_MAX: usize = 32;

/// What a phone tapped.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    /// In the order of their seq, which is their index plus one.
    pub(super) taps: Vec<TapHarvest>,
    /// The seqs of those without an answer, in order.
    waiting: Vec<u32>,
}

/// A tap to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sending {
    pub(super) key: u8,
    pub(super) seq: u32,
    pub(super) age_ms: u64,
}

impl Sheet {
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A new tap, so much later than it could have been.
    pub(super) fn tap(&mut self, key: u8, due_us: u64, late_us: u64, now_us: u64) -> Sending {
        self.taps.push(TapHarvest {
            key,
            due_us,
            sent_us: now_us,
            late_us: u32::try_from(late_us).unwrap_or(u32::MAX),
            attempts: 1,
            fate: TapFate::Waiting,
        });
        let seq = u32::try_from(self.taps.len()).unwrap_or(u32::MAX);
        self.waiting.push(seq);
        Sending {
            key,
            seq,
            age_ms: 0,
        }
    }

    /// Gives up what is too old.
    pub(super) fn give_up(&mut self, now_us: u64) {
        let taps = &mut self.taps;
        self.waiting.retain(|seq| {
            let tap = &mut taps[index(*seq)];
            let is_young = now_us.saturating_sub(tap.sent_us) <= AGE_MAX_US;
            if !is_young {
                tap.fate = TapFate::Unknown;
            }
            is_young
        });
    }

    /// What to send again after a reconnect, in order, with its age.
    pub(super) fn send_again(&mut self, now_us: u64) -> Vec<Sending> {
        self.give_up(now_us);
        let again = self.waiting.iter().map(|seq| {
            let tap = &mut self.taps[index(*seq)];
            tap.attempts += 1;
            let age_us = now_us.saturating_sub(tap.sent_us);
            Sending {
                key: tap.key,
                seq: *seq,
                // An age of 0 would make it a first attempt.
                age_ms: (age_us / 1000).max(1),
            }
        });
        again.collect()
    }

    /// Acknowledged; how long that took from when it was due, microseconds. None if it did not wait any more.
    pub(super) fn acknowledge(&mut self, seq: u32, now_us: u64) -> Option<u64> {
        let tap = self.settle(seq)?;
        tap.fate = TapFate::Acknowledged(now_us);
        Some(now_us.saturating_sub(tap.due_us))
    }

    /// Refused; whether that is the end of it.
    pub(super) fn refuse(&mut self, seq: u32, why: Why) -> bool {
        let Some(tap) = self.settle(seq) else {
            return false;
        };
        let is_final = tap.attempts == 1;
        tap.fate = if is_final {
            TapFate::Refused(why)
        } else {
            TapFate::Unknown
        };
        is_final
    }

    /// The first answer decides; a later one, to an attempt on an earlier connection, finds nothing that waits.
    fn settle(&mut self, seq: u32) -> Option<&mut TapHarvest> {
        let place = self.waiting.iter().position(|waiting| *waiting == seq)?;
        self.waiting.remove(place);
        Some(&mut self.taps[index(seq)])
    }
}

fn index(seq: u32) -> usize {
    usize::try_from(seq).unwrap_or(usize::MAX) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn what_was_not_answered_is_sent_again_in_order_with_its_age() {
        let mut sheet = Sheet::default();
        for second in 0..3 {
            sheet.tap(0, second * SECOND, 0, second * SECOND);
        }
        assert_eq!(sheet.acknowledge(2, 3 * SECOND), Some(2 * SECOND));
        let again = sheet.send_again(10 * SECOND);
        let again: Vec<_> = again.iter().map(|tap| (tap.seq, tap.age_ms)).collect();
        assert_eq!(again, [(1, 10_000), (3, 8_000)]);
        assert_eq!(sheet.tap(0, 0, 0, 0).seq, 4);
        assert_eq!(sheet.taps[0].attempts, 2);
    }

    #[test]
    fn a_wait_counts_from_when_a_tap_was_due() {
        let mut sheet = Sheet::default();
        sheet.tap(0, SECOND, 3 * SECOND, 4 * SECOND);
        assert_eq!(sheet.acknowledge(1, 5 * SECOND), Some(4 * SECOND));
        assert_eq!(sheet.acknowledge(1, 6 * SECOND), None);
        assert_eq!(sheet.taps[0].fate, TapFate::Acknowledged(5 * SECOND));
    }

    #[test]
    fn what_is_too_old_is_given_up_and_its_fate_unknown() {
        let mut sheet = Sheet::default();
        sheet.tap(0, 0, 0, 0);
        assert_eq!(sheet.send_again(81 * SECOND), []);
        assert_eq!((sheet.taps[0].fate, sheet.waiting()), (TapFate::Unknown, 0));
    }

    #[test]
    fn only_the_refusal_of_a_first_attempt_is_final() {
        let mut sheet = Sheet::default();
        sheet.tap(0, 0, 0, 0);
        sheet.tap(0, 0, 0, 0);
        assert!(sheet.refuse(1, Why::Cooldown));
        sheet.send_again(0);
        assert!(!sheet.refuse(2, Why::Cooldown));
        let fates = [TapFate::Refused(Why::Cooldown), TapFate::Unknown];
        assert_eq!(
            sheet.taps.iter().map(|tap| tap.fate).collect::<Vec<_>>(),
            fates
        );
        assert_eq!(sheet.acknowledge(1, 1), None);
    }
}
