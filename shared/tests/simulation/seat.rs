//! A reader in its seat: the real one, or one that keeps its memory when a commit has failed.

use crate::plants::Plant;
use shared::counting::codec::decode;
use shared::counting::fold::{Fold, Folded};
use shared::counting::ids::{EntryId, ProducerId};
use shared::counting::producers::Producers;
use shared::counting::reader::{
    Barrier, Commit, ProducerMark, RawEntry, ReadError, Reader, Skipped,
};
use std::collections::BTreeMap;

pub(crate) enum Seat {
    Right(Reader),
    /// The planted mistake.
    Keeping(KeepingReader),
}

/// Goes back to the offset that was loaded, but remembers what it saw.
#[derive(Default)]
pub(crate) struct KeepingReader {
    offset: EntryId,
    cursor: EntryId,
    fold: Fold,
}

/// What a commit is to write.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) expected: EntryId,
    pub(crate) offset: EntryId,
    pub(crate) changed_producers: Vec<(ProducerId, ProducerMark)>,
    pub(crate) forgotten_producers: Vec<ProducerId>,
}

pub(crate) enum SeatCommit<'a> {
    Right(Commit<'a>),
    Keeping(Plan, &'a mut KeepingReader),
}

impl Seat {
    pub(crate) fn new(plant: Plant) -> Self {
        if plant == Plant::MemoryKept {
            Seat::Keeping(KeepingReader::default())
        } else {
            Seat::Right(Reader::new())
        }
    }

    pub(crate) fn loaded(&mut self, offset: EntryId, marks: BTreeMap<ProducerId, ProducerMark>) {
        match self {
            Seat::Right(reader) => reader.loaded(offset, marks),
            Seat::Keeping(reader) => {
                reader.offset = offset;
                reader.cursor = offset;
                reader.fold.producers = Producers::new(marks);
            }
        }
    }

    pub(crate) fn cursor(&self) -> EntryId {
        match self {
            Seat::Right(reader) => reader.cursor().expect("read only once it is loaded"),
            Seat::Keeping(reader) => reader.cursor,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        match self {
            Seat::Right(reader) => reader.is_live(),
            Seat::Keeping(_) => true,
        }
    }

    pub(crate) fn read(
        &mut self,
        entries: &[RawEntry],
        reached_end: bool,
        barrier: Barrier,
        sink: &mut dyn FnMut(EntryId, Folded<'_>),
    ) -> Result<(), ReadError> {
        match self {
            Seat::Right(reader) => reader.read(entries, reached_end, barrier, sink),
            Seat::Keeping(_) if !barrier.lease_held => Err(ReadError::LeaseLost),
            Seat::Keeping(_) if !barrier.stable => Err(ReadError::NotStable),
            Seat::Keeping(reader) => {
                for raw in entries {
                    let entry = decode(&raw.field, &raw.value).expect("the model writes entries");
                    reader
                        .fold
                        .fold(raw.id, entry, &mut Skipped::default(), sink);
                    reader.cursor = raw.id;
                }
                Ok(())
            }
        }
    }

    pub(crate) fn commit(&mut self) -> SeatCommit<'_> {
        match self {
            Seat::Right(reader) => SeatCommit::Right(reader.commit().expect("loaded")),
            Seat::Keeping(reader) => {
                let offset = reader.cursor.max(reader.offset);
                let (changed_producers, forgotten_producers) =
                    reader.fold.producers.changes(offset.ms);
                let expected = reader.offset;
                let plan = Plan {
                    expected,
                    offset,
                    changed_producers,
                    forgotten_producers,
                };
                SeatCommit::Keeping(plan, reader)
            }
        }
    }
}

impl SeatCommit<'_> {
    pub(crate) fn plan(&self) -> Plan {
        match self {
            SeatCommit::Right(commit) => Plan {
                expected: commit.expected,
                offset: commit.offset,
                changed_producers: commit.changed_producers.clone(),
                forgotten_producers: commit.forgotten_producers.clone(),
            },
            SeatCommit::Keeping(plan, _) => plan.clone(),
        }
    }

    pub(crate) fn succeeded(self) {
        match self {
            SeatCommit::Right(commit) => commit.succeeded(),
            SeatCommit::Keeping(plan, reader) => {
                reader.offset = plan.offset;
                reader.fold.producers.committed(plan.offset.ms);
            }
        }
    }
}
