//! One shard's state between two loads: totals as committed, what was folded since, and what the next tick tells.
//!
//! No I/O. What is folded changes only `pending`, until a commit makes it true; when one fails the whole state is dropped.

use crate::rates::Rates;
use hashbrown::HashMap;
use shared::counting::audience::Audience as Present;
use shared::counting::entry::{RoomChange, RoomChangeKind, Tap};
use shared::counting::ids::EntryId;
use shared::counting::reader::Folded;
use shared::room::{REACTIONS_MAX, ReactionKey, Room, RoomCode};
use shared::ticks::{Audience, RoomTick, Tick};
use std::collections::{BTreeMap, BTreeSet};

/// Totals are kept this long after a room's last tap, in log time; then they are read again when they are needed.
const TOTALS_KEPT_MS: u64 = 600_000;

/// Totals of one room.
pub(crate) type Totals = BTreeMap<ReactionKey, u64>;

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct State {
    /// Random, new at each load.
    epoch: u64,
    /// Of the last tick.
    serial: u64,
    /// Totals as committed; a room that is not here has to be read.
    totals: HashMap<RoomCode, Known, foldhash::fast::RandomState>,
    /// Folded, not committed.
    pending: BTreeMap<RoomCode, Pending>,
    /// Committed, not told.
    untold: BTreeMap<RoomCode, RoomTick>,
    present: Present,
    rates: Rates,
    /// What hosts were told last, where it is not nothing.
    told: HashMap<RoomCode, Audience, foldhash::fast::RandomState>,
    counted: Counted,
}

#[derive(Debug, Default)]
struct Known {
    totals: Totals,
    /// Log time of its last tap.
    used_ms: u64,
}

/// What was folded of one room since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// What its totals begin with.
    pub(crate) begins: Begins,
    /// Taps per reaction.
    pub(crate) taps: Totals,
    /// Log time of its last tap or change; none if it has none since it expired.
    pub(crate) active_ms: Option<u64>,
    /// As the host left it.
    pub(crate) room: Option<Room>,
    pub(crate) expired: bool,
}

/// What a room's totals begin with in a commit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// With what stands there.
    #[default]
    Kept,
    /// With nothing: it is new.
    Created,
    /// With nothing: it expired in this version.
    Expired(u64),
}

/// What was folded since it was asked for last, for metrics.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) taps: u64,
    pub(crate) rejected: u64,
    pub(crate) expired: u64,
    /// Log time of the oldest entry folded.
    pub(crate) oldest_ms: Option<u64>,
}

impl State {
    /// Nothing known and nothing folded.
    pub(crate) fn new(epoch: u64) -> Self {
        State {
            epoch,
            serial: 0,
            totals: HashMap::default(),
            pending: BTreeMap::new(),
            untold: BTreeMap::new(),
            present: Present::default(),
            rates: Rates::default(),
            told: HashMap::default(),
            counted: Counted::default(),
        }
    }

    /// Takes one thing that was folded.
    pub(crate) fn fold(&mut self, id: EntryId, folded: Folded<'_>) {
        match folded {
            Folded::Taps { room, taps } => {
                let pending = self.pending.entry(room.clone()).or_default();
                count(taps, &mut pending.taps);
                pending.active_ms = Some(id.ms);
                self.rates.count(room, id.ms, taps.len());
                self.counted.taps += taps.len() as u64;
            }
            // Told while rebuilding too; it counts nothing.
            Folded::People {
                room,
                producer,
                people,
            } => {
                self.present.observe(room, producer, people, id.ms);
                return;
            }
            Folded::Change(change) => self.fold_change(id, change),
            Folded::Rejected { raw, reason } => {
                tracing::warn!(entry = %raw.id, %reason, "an entry of the log cannot be read and is left out");
                self.counted.rejected += 1;
            }
        }
        self.counted.oldest_ms.get_or_insert(id.ms);
    }

    fn fold_change(&mut self, id: EntryId, change: &RoomChange) {
        let pending = self.pending.entry(change.room.code.clone()).or_default();
        match change.kind {
            RoomChangeKind::Created => {
                *pending = Pending {
                    begins: Begins::Created,
                    ..Pending::default()
                };
            }
            RoomChangeKind::Updated => {}
            RoomChangeKind::Expired => {
                *pending = Pending {
                    begins: Begins::Expired(change.room.version),
                    expired: true,
                    ..Pending::default()
                };
                self.counted.expired += 1;
                return;
            }
        }
        pending.active_ms = Some(id.ms);
        pending.expired = false;
        pending.room = Some(change.room.clone());
    }

    /// Rooms whose totals have to be read before [`State::prepare`].
    pub(crate) fn missing(&self) -> Vec<RoomCode> {
        let is_missing = |(code, pending): &(&RoomCode, &Pending)| {
            pending.begins == Begins::Kept
                && !pending.taps.is_empty()
                && !self.totals.contains_key(*code)
        };
        self.pending
            .iter()
            .filter(is_missing)
            .map(|(code, _)| code.clone())
            .collect()
    }

    /// Totals that were read, as they are committed.
    pub(crate) fn learn(&mut self, room: RoomCode, totals: Totals) {
        self.totals.insert(room, Known { totals, used_ms: 0 });
    }

    /// What a commit of all that is pending writes: for each room what was folded, and the new totals of the reactions that
    /// changed. From here on the state holds as if it was committed; a commit that fails is followed by a load.
    pub(crate) fn prepare(&mut self) -> BTreeMap<RoomCode, (Pending, Totals)> {
        let pending = std::mem::take(&mut self.pending);
        pending
            .into_iter()
            .map(|(code, pending)| {
                let totals = self.prepare_room(&code, &pending);
                (code, (pending, totals))
            })
            .collect()
    }

    fn prepare_room(&mut self, code: &RoomCode, pending: &Pending) -> Totals {
        if pending.begins != Begins::Kept {
            self.totals.insert(code.clone(), Known::default());
        }
        let mut changed = Totals::new();
        if !pending.taps.is_empty() {
            // A room that was not read would begin with nothing: `missing` names it.
            let known = self.totals.entry(code.clone()).or_default();
            for (key, taps) in &pending.taps {
                let total = known.totals.entry(key.clone()).or_default();
                *total += taps;
                changed.insert(key.clone(), *total);
            }
            known.used_ms = pending.active_ms.unwrap_or_default();
        }
        let untold = self.untold.entry(code.clone()).or_default();
        if pending.begins != Begins::Kept {
            *untold = RoomTick::default();
        }
        untold
            .totals
            .extend(changed.iter().map(|(key, total)| (key.clone(), *total)));
        untold.expired = pending.expired;
        if let Some(room) = &pending.room {
            untold.room = Some(room.clone());
        }
        changed
    }

    /// The next tick: all that is untold, and, where asked for, head counts and rates.
    pub(crate) fn tick(&mut self, log_now_ms: u64, with_audience: bool) -> Tick {
        if with_audience {
            self.tell_audience(log_now_ms);
        }
        self.serial += 1;
        let rooms = std::mem::take(&mut self.untold);
        Tick {
            epoch: self.epoch,
            serial: self.serial,
            at_ms: log_now_ms,
            rooms,
        }
    }

    /// Whether a tick would tell anything.
    pub(crate) fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    fn tell_audience(&mut self, log_now_ms: u64) {
        let people: BTreeMap<RoomCode, u32> =
            self.present.present(log_now_ms).into_iter().collect();
        let mut rooms: BTreeSet<RoomCode> = people.keys().cloned().collect();
        rooms.extend(self.rates.busy(log_now_ms).cloned());
        rooms.extend(self.told.keys().cloned());
        for room in rooms {
            let audience = Audience {
                people: people.get(&room).copied().unwrap_or_default(),
                taps_per_second: self.rates.per_second(&room, log_now_ms),
            };
            if audience
                == (Audience {
                    people: 0,
                    taps_per_second: 0,
                })
            {
                if self.told.remove(&room).is_none() {
                    continue;
                }
            } else {
                self.told.insert(room.clone(), audience);
            }
            self.untold.entry(room).or_default().audience = Some(audience);
        }
    }

    /// Forgets totals that were not needed for long.
    pub(crate) fn forget_unused(&mut self, log_now_ms: u64) {
        self.totals
            .retain(|_, known| known.used_ms + TOTALS_KEPT_MS >= log_now_ms);
    }

    /// What was folded since the last call.
    pub(crate) fn take_counted(&mut self) -> Counted {
        std::mem::take(&mut self.counted)
    }
}

/// Adds taps to the totals of their reactions. Those of one palette are found by comparing inline texts one after the
/// other, which takes a fraction of what the map takes; of whatever more there is, the map takes care.
fn count(taps: &[Tap], totals: &mut Totals) {
    let mut counts: Vec<(&ReactionKey, u64)> = Vec::with_capacity(REACTIONS_MAX);
    for tap in taps {
        if let Some((_, count)) = counts.iter_mut().find(|(key, _)| **key == tap.key) {
            *count += 1;
        } else if counts.len() < REACTIONS_MAX {
            counts.push((&tap.key, 1));
        } else {
            *totals.entry(tap.key.clone()).or_default() += 1;
        }
    }
    for (key, count) in counts {
        *totals.entry(key.clone()).or_default() += count;
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
