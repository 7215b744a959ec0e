//! The fold over a shard's log: which of its taps count. One function for both readers.
//!
//! Rules, in this order:
//! 1. An entry whose log time is past its own `void_after_ms` is void, as if it were not there.
//! 2. All taps of a batch are marked as seen. Those that had been are skipped.
//! 3. A batch whose number its producer has had is a repetition: none of its taps counts.
//! 4. What is left counts, whatever the palette says: a gateway accepted it, and the phone may hold an acknowledgement.
//!
//! The fold sees only decoded entries, their ids and what it saw before: it cannot depend on when or by whom it is run.

use super::codec::DecodeError;
use super::entry::{Batch, Entry, RoomChange, Tap};
use super::ids::{EntryId, ProducerId};
use super::memory::Memory;
use super::producers::Producers;
use super::reader::{RawEntry, Skipped};
use crate::room::RoomCode;

/// One thing folded, in the order of the log.
#[derive(Debug)]
pub enum Folded<'a> {
    /// Taps that count, of one room in one entry (never empty).
    Taps {
        /// The room.
        room: &'a RoomCode,
        /// Only the taps that count.
        taps: &'a [Tap],
    },
    /// A head count (also told while rebuilding).
    People {
        /// The room.
        room: &'a RoomCode,
        /// Which gateway.
        producer: ProducerId,
        /// Phones present there.
        people: u32,
    },
    /// A host's change, or an expiry.
    Change(&'a RoomChange),
    /// An entry that cannot be read: keep it aside.
    Rejected {
        /// As it came.
        raw: &'a RawEntry,
        /// Why.
        reason: DecodeError,
    },
}

/// What the fold has seen.
#[derive(Debug, Default)]
pub struct Fold {
    /// Taps.
    pub memory: Memory,
    /// Batches.
    pub producers: Producers,
}

impl Fold {
    /// Takes an entry from before the offset: its taps were decided about, and are only to be remembered.
    pub fn recall(&mut self, id: EntryId, entry: Entry, sink: &mut dyn FnMut(EntryId, Folded<'_>)) {
        if let Entry::Batch(batch) = entry
            && id.ms <= batch.void_after_ms
        {
            self.memory.advance(id.ms);
            tell_people(id, &batch, sink);
            for room in &batch.rooms {
                self.memory.see_all(&room.taps, |_| {});
            }
        }
    }

    /// Takes the next entry and tells what of it counts.
    pub fn fold(
        &mut self,
        id: EntryId,
        entry: Entry,
        skipped: &mut Skipped,
        sink: &mut dyn FnMut(EntryId, Folded<'_>),
    ) {
        match entry {
            Entry::RoomChange(change) => sink(id, Folded::Change(&change)),
            Entry::Batch(batch) if id.ms > batch.void_after_ms => skipped.void_entries += 1,
            Entry::Batch(batch) => self.fold_batch(id, batch, skipped, sink),
        }
    }

    fn fold_batch(
        &mut self,
        id: EntryId,
        mut batch: Batch,
        skipped: &mut Skipped,
        sink: &mut dyn FnMut(EntryId, Folded<'_>),
    ) {
        self.memory.advance(id.ms);
        tell_people(id, &batch, sink);
        let is_new = self.producers.mark(batch.producer, batch.number, id.ms);
        for room in &mut batch.rooms {
            let before = room.taps.len();
            self.memory.retain_new(&mut room.taps);
            if is_new {
                skipped.duplicate_taps += (before - room.taps.len()) as u64;
                if !room.taps.is_empty() {
                    sink(
                        id,
                        Folded::Taps {
                            room: &room.code,
                            taps: &room.taps,
                        },
                    );
                }
            }
        }
        skipped.duplicate_batches += u64::from(!is_new);
    }
}

/// Also of a repetition: it says nothing but what it said before.
fn tell_people(id: EntryId, batch: &Batch, sink: &mut dyn FnMut(EntryId, Folded<'_>)) {
    for room in &batch.rooms {
        if let Some(people) = room.people {
            sink(
                id,
                Folded::People {
                    room: &room.code,
                    producer: batch.producer,
                    people,
                },
            );
        }
    }
}
