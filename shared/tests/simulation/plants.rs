//! The mistakes that can be planted, all of them around the production code, none in it.

use crate::executor::Shared;
use crate::redis::Waited;
use crate::rooms::{Rooms, sleep};
use shared::counting::codec::{self, BATCH_FIELD, encode_batch};
use shared::counting::entry::{Batch, Entry};
use shared::counting::ids::{ClientHash, EntryId, PageId};
use shared::counting::reader::{Barrier, RawEntry, TRIM_BEHIND_MS};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plant {
    /// As it should be.
    Nothing,
    /// Readers fold what a failover can take back.
    NoReadBarrier,
    /// A reader keeps its memory of seen taps when a commit has failed.
    MemoryKept,
    /// Batches never get void.
    NoVoidAfter,
    /// A gateway acknowledges what its WAIT did not confirm.
    UnsatisfiedWait,
    /// A gateway waits only for replicas that are attached at the moment.
    NoReplicaAttached,
    /// Readers skip what is not newer than the newest tap of its page.
    Maximum,
    /// Readers do not count what the palette does not have.
    ReadersApplyPalette,
    /// Gateways take whatever comes out of their sockets, however long it was under way.
    FramesOfAnyAge,
    /// Phones let any number of seqs come between their oldest unsettled tap and their newest.
    PhonesRunAhead,
    /// The log is trimmed close behind the readers.
    TrimTooClose,
    /// What is electable is judged by a topology from before the append.
    TopologyFromBefore,
}

impl Plant {
    /// The id by which a gateway judges whether its batch is void.
    pub(crate) fn id(self, id: EntryId) -> EntryId {
        if self == Plant::NoVoidAfter {
            EntryId::ZERO
        } else {
            id
        }
    }
}

/// Whether all that was written or read is on every copy that could be elected. A copy is left out of account only by a
/// topology observed after the answer: an older one may not know of a replica that has come back meanwhile.
async fn is_stable(world: &Shared, waited: Waited) -> bool {
    if waited.replicas < waited.needed {
        return false;
    }
    if waited.replicas >= waited.all || world.borrow().plant == Plant::TopologyFromBefore {
        return true;
    }
    let wait_ms = world.borrow_mut().random.range(1, 400);
    sleep(world, wait_ms).await;
    world.borrow().confirms(waited)
}

/// Whether an append is stable, as a gateway sees it.
pub(crate) async fn is_append_stable(world: &Shared, waited: Waited) -> bool {
    let plant = world.borrow().plant;
    match plant {
        Plant::UnsatisfiedWait => true,
        Plant::NoReplicaAttached => waited.replicas >= waited.attached,
        _ => is_stable(world, waited).await,
    }
}

/// The barrier of a read, as a reader sees it.
pub(crate) async fn barrier(world: &Shared, lease_held: bool, waited: Waited) -> Barrier {
    let plant = world.borrow().plant;
    match plant {
        Plant::NoReadBarrier => Barrier {
            lease_held: true,
            stable: true,
        },
        _ => Barrier {
            lease_held,
            stable: is_stable(world, waited).await,
        },
    }
}

impl Plant {
    /// The log time before which a trim takes everything.
    pub(crate) fn trim_before_ms(self, right_ms: u64) -> u64 {
        if self == Plant::TrimTooClose {
            right_ms + TRIM_BEHIND_MS - 5_000
        } else {
            right_ms
        }
    }
}

/// What a planted mistake makes of the entries before the reader sees them.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    newest: BTreeMap<(ClientHash, PageId), u32>,
}

impl Filter {
    pub(crate) fn filter(
        &mut self,
        plant: Plant,
        palettes: &Palettes,
        entries: Vec<RawEntry>,
    ) -> Vec<RawEntry> {
        match plant {
            Plant::NoVoidAfter => rewrite(entries, |_, batch| batch.void_after_ms = u64::MAX),
            Plant::Maximum => rewrite(entries, |_, batch| self.keep_newer(batch)),
            Plant::ReadersApplyPalette => rewrite(entries, |id, batch| palettes.apply(id, batch)),
            _ => entries,
        }
    }

    fn keep_newer(&mut self, batch: &mut Batch) {
        for room in &mut batch.rooms {
            room.taps.retain(|tap| {
                let newest = self.newest.entry((tap.id.client, tap.id.page)).or_default();
                let is_newer = tap.id.seq > *newest;
                *newest = tap.id.seq.max(*newest);
                is_newer
            });
        }
    }
}

fn rewrite(
    mut entries: Vec<RawEntry>,
    mut change: impl FnMut(EntryId, &mut Batch),
) -> Vec<RawEntry> {
    for entry in &mut entries {
        if let Ok(Entry::Batch(mut batch)) = codec::decode(&entry.field, &entry.value) {
            change(entry.id, &mut batch);
            entry.field = BATCH_FIELD.as_bytes().to_vec();
            entry.value = encode_batch(&batch);
        }
    }
    entries
}

/// What each room's palette was at each place of a log.
#[derive(Debug, Default)]
pub(crate) struct Palettes {
    changes: BTreeMap<EntryId, (usize, BTreeSet<usize>)>,
}

impl Palettes {
    pub(crate) fn observe(&mut self, rooms: &Rooms, entries: &[RawEntry]) {
        for entry in entries {
            if let Ok(Entry::RoomChange(change)) = codec::decode(&entry.field, &entry.value) {
                let keys = change.room.palette.entries().iter();
                let keys = keys.map(|entry| rooms.key_index(&entry.key)).collect();
                self.changes
                    .insert(entry.id, (rooms.index(&change.room.code), keys));
            }
        }
    }

    fn apply(&self, id: EntryId, batch: &mut Batch) {
        let rooms = Rooms::default();
        for part in &mut batch.rooms {
            let digit = part
                .code
                .as_str()
                .chars()
                .last()
                .and_then(|digit| digit.to_digit(10));
            let room = usize::try_from(digit.expect("ROOM and a digit")).expect("small");
            let last = self
                .changes
                .range(..id)
                .rev()
                .find(|(_, (of, _))| *of == room);
            if let Some((_, (_, keys))) = last {
                part.taps
                    .retain(|tap| keys.contains(&rooms.key_index(&tap.key)));
            }
        }
    }
}
