//! What one transaction will store, gathered from the fold: plain data, no ids of the database yet, no I/O.
//!
//! A code can be used again after its room expired, so a step keeps what is tapped by *segment*: a stretch of the log
//! in which a code means one room. A segment that begins with a creation is a new room; any other belongs to the room
//! that the database knows as the latest of that code.

use shared::counting::codec::DecodeError;
use shared::counting::entry::{RoomChange, RoomChangeKind, Tap};
use shared::counting::ids::EntryId;
use shared::counting::reader::RawEntry;
use shared::room::{REACTIONS_MAX, ReactionKey, RoomCode};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Honest taps lie up to 110 s before their entry (90 s old when sealed, 20 s in the outbox). One further away comes from
/// a gateway whose clock is wrong, and gets its entry's time.
const TAP_BEFORE_ENTRY_MAX_MS: i64 = 10 * 60_000;
/// A gateway's estimate of log time may be ahead by a little, never by this.
const TAP_AFTER_ENTRY_MAX_MS: i64 = 60_000;
/// What is kept of a value that could not be read.
const REJECTED_BYTES_MAX: usize = 1 << 20;

/// One tap, in 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TapRow {
    pub(crate) tapped_at_ms: i64,
    pub(crate) client: i64,
    /// Into [`Step::segments`].
    pub(crate) segment: u32,
    /// Into [`Segment::keys`].
    pub(crate) key: u32,
}

/// A stretch of the log in which a code means one room.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) code: RoomCode,
    /// It begins with the room's creation.
    pub(crate) begins: bool,
    /// Log time of what opened it.
    pub(crate) from_ms: i64,
    /// What the host did in it, in order.
    pub(crate) changes: Vec<(EntryId, RoomChange)>,
    /// The reactions tapped in it.
    pub(crate) keys: Vec<ReactionKey>,
    key_index: HashMap<ReactionKey, u32>,
}

/// An entry that could not be read.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub(crate) id: EntryId,
    pub(crate) reason: String,
    pub(crate) field: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) value_bytes: usize,
}

/// What one transaction will store.
#[derive(Debug)]
pub struct Step {
    /// Times outside are brought to its nearer end.
    bounds_ms: RangeInclusive<i64>,
    pub(crate) segments: Vec<Segment>,
    /// The segment that a code means now.
    open: HashMap<RoomCode, u32>,
    pub(crate) taps: Vec<TapRow>,
    /// Phones present, by segment and start of the ten seconds.
    pub(crate) people: HashMap<(u32, i64), u32>,
    pub(crate) rejected: Vec<Rejected>,
    /// Taps whose time was brought within bounds.
    pub(crate) clamped: u64,
}

impl Step {
    /// An empty step; `bounds_ms` are the times for which partitions may be made.
    pub fn new(bounds_ms: RangeInclusive<i64>) -> Self {
        Step {
            bounds_ms,
            segments: Vec::new(),
            open: HashMap::new(),
            taps: Vec::new(),
            people: HashMap::new(),
            rejected: Vec::new(),
            clamped: 0,
        }
    }

    /// Taps that count.
    pub fn taps(&mut self, id: EntryId, room: &RoomCode, taps: &[Tap]) {
        let segment = self.segment(room, id);
        self.taps.reserve(taps.len());
        for tap in taps {
            let tapped_at_ms = self.within_bounds(tap.tapped_at_ms, id);
            let key = self.segments[segment as usize].key(&tap.key);
            let client = tap.id.client.0.cast_signed();
            self.taps.push(TapRow {
                tapped_at_ms,
                client,
                segment,
                key,
            });
        }
    }

    /// A host's change, or an expiry.
    pub fn change(&mut self, id: EntryId, change: &RoomChange) {
        let code = &change.room.code;
        if change.kind == RoomChangeKind::Created {
            self.begin_segment(code, id, true);
        }
        let segment = self.segment(code, id);
        self.segments[segment as usize]
            .changes
            .push((id, change.clone()));
    }

    /// The most phones present in ten seconds; told again, the larger one stays.
    pub fn people(&mut self, id: EntryId, room: &RoomCode, slot_ms: i64, people: u32) {
        let segment = self.segment(room, id);
        let slot_ms = slot_ms.clamp(*self.bounds_ms.start(), *self.bounds_ms.end());
        let most = self.people.entry((segment, slot_ms)).or_default();
        *most = people.max(*most);
    }

    /// An entry that could not be read.
    pub fn rejected(&mut self, raw: &RawEntry, reason: &DecodeError) {
        self.rejected.push(Rejected {
            id: raw.id,
            reason: reason.to_string(),
            field: raw.field.iter().take(REJECTED_BYTES_MAX).copied().collect(),
            value: raw.value.iter().take(REJECTED_BYTES_MAX).copied().collect(),
            value_bytes: raw.value.len(),
        });
    }

    /// From the first to the last tap; none where there is no tap.
    pub(crate) fn tapped_between_ms(&self) -> Option<(i64, i64)> {
        let times = || self.taps.iter().map(|tap| tap.tapped_at_ms);
        Some((times().min()?, times().max()?))
    }

    fn within_bounds(&mut self, tapped_at_ms: u64, entry: EntryId) -> i64 {
        let entry_ms = i64::try_from(entry.ms).unwrap_or(i64::MAX);
        let tapped = i64::try_from(tapped_at_ms).unwrap_or(i64::MAX);
        let earliest = entry_ms.saturating_sub(TAP_BEFORE_ENTRY_MAX_MS);
        let latest = entry_ms.saturating_add(TAP_AFTER_ENTRY_MAX_MS);
        let near = if (earliest..=latest).contains(&tapped) {
            tapped
        } else {
            entry_ms
        };
        let kept = near.clamp(*self.bounds_ms.start(), *self.bounds_ms.end());
        self.clamped += u64::from(kept != tapped);
        kept
    }

    fn segment(&mut self, code: &RoomCode, id: EntryId) -> u32 {
        match self.open.get(code) {
            Some(segment) => *segment,
            None => self.begin_segment(code, id, false),
        }
    }

    fn begin_segment(&mut self, code: &RoomCode, id: EntryId, begins: bool) -> u32 {
        let index = u32::try_from(self.segments.len()).expect("fewer segments than entries");
        let from_ms = i64::try_from(id.ms).unwrap_or(i64::MAX);
        self.segments.push(Segment {
            code: code.clone(),
            begins,
            from_ms: from_ms.clamp(*self.bounds_ms.start(), *self.bounds_ms.end()),
            changes: Vec::new(),
            keys: Vec::new(),
            key_index: HashMap::new(),
        });
        self.open.insert(code.clone(), index);
        index
    }
}

impl Segment {
    fn key(&mut self, key: &ReactionKey) -> u32 {
        // Those of one palette are found by comparing inline texts, in a fraction of what the map takes.
        let palette = self.keys.iter().take(REACTIONS_MAX);
        if let Some(index) = (0..)
            .zip(palette)
            .find_map(|(index, of)| (of == key).then_some(index))
        {
            return index;
        }
        if let Some(index) = self.key_index.get(key) {
            return *index;
        }
        let index = u32::try_from(self.keys.len()).expect("fewer keys than taps in memory");
        self.keys.push(key.clone());
        self.key_index.insert(key.clone(), index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::counting::ids::{ClientHash, PageId, TapId};
    use shared::room::{Palette, Room, RoomState};

    const NOW: i64 = 1_780_000_000_000;
    const DAY: i64 = 86_400_000;

    fn entry(ms: i64) -> EntryId {
        EntryId {
            ms: ms.cast_unsigned(),
            seq: 0,
        }
    }

    fn tap(key: &str, tapped_at_ms: i64) -> Tap {
        Tap {
            id: TapId {
                client: ClientHash(u64::MAX),
                page: PageId(1),
                seq: 1,
            },
            key: key.parse().expect("a key"),
            tapped_at_ms: tapped_at_ms.cast_unsigned(),
        }
    }

    fn created(code: &RoomCode, ms: i64) -> RoomChange {
        let room = Room {
            code: code.clone(),
            title: "A room".to_owned(),
            palette: Palette::standard(),
            cooldown_ms: 1_000,
            state: RoomState::Open,
            version: 1,
            created_at_ms: ms.cast_unsigned(),
        };
        RoomChange {
            v: 1,
            kind: RoomChangeKind::Created,
            room,
        }
    }

    fn step() -> Step {
        Step::new(NOW - 90 * DAY..=NOW + DAY)
    }

    #[test]
    fn a_reused_code_begins_a_segment_of_its_own() {
        let code: RoomCode = "PARTY7".parse().expect("a code");
        let mut step = step();
        step.taps(entry(NOW), &code, &[tap("clap", NOW)]);
        step.change(entry(NOW + 1), &created(&code, NOW + 1));
        step.taps(
            entry(NOW + 2),
            &code,
            &[tap("clap", NOW + 2), tap("heart", NOW + 2)],
        );
        assert_eq!(step.segments.len(), 2);
        assert!(!step.segments[0].begins && step.segments[1].begins);
        let of = step
            .taps
            .iter()
            .map(|tap| (tap.segment, tap.key))
            .collect::<Vec<_>>();
        assert_eq!(of, [(0, 0), (1, 0), (1, 1)]);
        assert_eq!(step.taps[0].client, -1, "the hash's bits are kept");
    }

    #[test]
    fn times_of_odd_clocks_are_brought_within_bounds_and_counted() {
        let code: RoomCode = "PARTY7".parse().expect("a code");
        let mut step = step();
        let honest = [tap("clap", NOW - 110_000), tap("clap", NOW + 500)];
        step.taps(entry(NOW), &code, &honest);
        assert_eq!(step.clamped, 0);
        step.taps(
            entry(NOW),
            &code,
            &[tap("clap", NOW - DAY), tap("clap", i64::MAX)],
        );
        assert_eq!(
            step.taps[2..]
                .iter()
                .map(|tap| tap.tapped_at_ms)
                .collect::<Vec<_>>(),
            [NOW, NOW]
        );
        step.taps(entry(5), &code, &[tap("clap", 5)]);
        step.taps(
            entry(NOW + 400 * DAY),
            &code,
            &[tap("clap", NOW + 400 * DAY)],
        );
        assert_eq!(step.taps[4].tapped_at_ms, NOW - 90 * DAY);
        assert_eq!(step.taps[5].tapped_at_ms, NOW + DAY);
        assert_eq!(step.clamped, 4);
        assert_eq!(step.tapped_between_ms(), Some((NOW - 90 * DAY, NOW + DAY)));
    }

    #[test]
    fn the_largest_head_count_of_ten_seconds_stays() {
        let code: RoomCode = "PARTY7".parse().expect("a code");
        let mut step = step();
        for people in [3, 9, 4] {
            step.people(entry(NOW), &code, NOW, people);
        }
        assert_eq!(step.people.values().copied().collect::<Vec<_>>(), [9]);
    }
}
