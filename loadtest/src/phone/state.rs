//! What a phone keeps and by which rules it sends: no socket and no clock in here.

use crate::ledger::{Fate, Sheet, TapRecord};
use shared::protocol::{Refused, RoomFrame, ServerFrame, TapFrame};
use shared::room::{ReactionKey, RoomCode, RoomState};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Past this age a tap is given up: the gateway would refuse it as `too_old`.
const AGE_MAX: Duration = Duration::from_secs(80);

/// At most so many taps wait unanswered: more than 64 would be refused as `seq`.
const WAITING_MAX: usize = 32;

/// A phone.
#[derive(Debug)]
pub struct Phone {
    /// What it sent.
    pub sheet: Sheet,
    /// Taps without an answer, in order, as indexes into the sheet.
    waiting: VecDeque<usize>,
    /// The totals it shows.
    pub totals: BTreeMap<ReactionKey, u64>,
    is_open: bool,
}

impl Phone {
    /// One that has just loaded the page.
    pub fn new(room: RoomCode) -> Self {
        Phone {
            sheet: Sheet::new(room),
            waiting: VecDeque::new(),
            totals: BTreeMap::new(),
            is_open: false,
        }
    }

    /// Whether a tap would be sent: the room is open and not too many taps wait.
    pub fn may_tap(&self) -> bool {
        self.is_open && self.waiting.len() < WAITING_MAX
    }

    /// How many taps wait for an answer.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// A new tap, which was due at `due`.
    pub fn tap(&mut self, key: ReactionKey, due: Instant, now: Instant) -> TapFrame {
        let index = self.sheet.taps.len();
        let seq = u32::try_from(index + 1).expect("a page does not live for four billion taps");
        let tap = TapRecord {
            seq,
            key: key.clone(),
            due,
            first_sent: now,
            attempts: 1,
            fate: Fate::Waiting,
        };
        self.sheet.taps.push(tap);
        self.waiting.push_back(index);
        TapFrame {
            key,
            seq,
            age_ms: 0,
        }
    }

    /// What to send again after a reconnect, in order, with its age. Gives up what is too old.
    pub fn send_again(&mut self, now: Instant) -> Vec<TapFrame> {
        let taps = &mut self.sheet.taps;
        self.waiting.retain(|index| {
            let is_young = now.duration_since(taps[*index].first_sent) <= AGE_MAX;
            if !is_young {
                taps[*index].fate = Fate::Unknown;
            }
            is_young
        });
        let frames = self.waiting.iter().map(|index| {
            let tap = &mut taps[*index];
            tap.attempts += 1;
            let age = now.duration_since(tap.first_sent).as_millis();
            let age_ms = u64::try_from(age).unwrap_or(u64::MAX);
            TapFrame {
                key: tap.key.clone(),
                seq: tap.seq,
                age_ms,
            }
        });
        frames.collect()
    }

    /// Takes a frame. True when totals may have grown.
    pub fn take(&mut self, frame: &ServerFrame, now: Instant) -> bool {
        match frame {
            ServerFrame::Room(RoomFrame { state, totals, .. }) => {
                self.is_open = *state == RoomState::Open;
                self.merge(totals);
                true
            }
            ServerFrame::Tick(tick) => {
                self.merge(&tick.totals);
                true
            }
            ServerFrame::Ack(seq) => {
                self.settle(*seq, |tap| {
                    Fate::Acknowledged(now.saturating_duration_since(tap.due))
                });
                false
            }
            ServerFrame::Refused(Refused { seq, why, .. }) => {
                let why = *why;
                self.settle(*seq, |tap| match tap.attempts {
                    1 => Fate::Refused(why),
                    _ => Fate::Unknown,
                });
                false
            }
            _ => false,
        }
    }

    /// The first answer decides; a later one (to an attempt on an earlier socket) finds nothing that waits.
    fn settle(&mut self, seq: u32, fate: impl FnOnce(&TapRecord) -> Fate) {
        let taps = &mut self.sheet.taps;
        if let Some(position) = self
            .waiting
            .iter()
            .position(|index| taps[*index].seq == seq)
        {
            let index = self.waiting[position];
            taps[index].fate = fate(&taps[index]);
            self.waiting.remove(position);
        }
    }

    fn merge(&mut self, totals: &BTreeMap<ReactionKey, u64>) {
        for (key, total) in totals {
            let known = self.totals.entry(key.clone()).or_default();
            *known = (*known).max(*total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::protocol::{TickFrame, Why};

    fn phone() -> Phone {
        Phone::new("PARTY7".parse().unwrap())
    }

    fn tap(phone: &mut Phone, now: Instant) -> u32 {
        phone.tap("clap".parse().unwrap(), now, now).seq
    }

    fn refused(seq: u32) -> ServerFrame {
        ServerFrame::Refused(Refused {
            seq,
            why: Why::Cooldown,
            retry_ms: Some(10),
        })
    }

    #[test]
    fn what_was_not_answered_is_sent_again_in_order_with_its_age() {
        let (mut phone, start) = (phone(), Instant::now());
        for seconds in 0..3 {
            tap(&mut phone, start + Duration::from_secs(seconds));
        }
        phone.take(&ServerFrame::Ack(2), start);
        let again = phone.send_again(start + Duration::from_secs(10));
        let again: Vec<_> = again.iter().map(|tap| (tap.seq, tap.age_ms)).collect();
        assert_eq!(again, [(1, 10_000), (3, 8_000)]);
        assert_eq!(tap(&mut phone, start), 4);
    }

    #[test]
    fn what_is_too_old_is_given_up_and_its_fate_unknown() {
        let (mut phone, start) = (phone(), Instant::now());
        tap(&mut phone, start);
        assert!(phone.send_again(start + Duration::from_secs(81)).is_empty());
        assert_eq!(phone.sheet.taps[0].fate, Fate::Unknown);
        assert_eq!(phone.waiting(), 0);
    }

    #[test]
    fn only_the_refusal_of_a_first_attempt_is_final() {
        let (mut phone, start) = (phone(), Instant::now());
        tap(&mut phone, start);
        tap(&mut phone, start);
        phone.take(&refused(1), start);
        assert_eq!(phone.sheet.taps[0].fate, Fate::Refused(Why::Cooldown));
        phone.send_again(start);
        phone.take(&refused(2), start);
        assert_eq!(phone.sheet.taps[1].fate, Fate::Unknown);
        phone.take(&ServerFrame::Ack(1), start);
        assert_eq!(phone.sheet.taps[0].fate, Fate::Refused(Why::Cooldown));
    }

    #[test]
    fn totals_merge_by_maximum() {
        let mut phone = phone();
        for total in [5, 9, 7] {
            let totals = BTreeMap::from([("clap".parse().unwrap(), total)]);
            assert!(phone.take(&ServerFrame::Tick(TickFrame { totals }), Instant::now()));
        }
        assert_eq!(phone.totals.values().copied().collect::<Vec<_>>(), [9]);
    }
}
