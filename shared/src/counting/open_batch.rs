//! The batch that a gateway is gathering for a shard. Taking a tap costs a comparison or two of short inline texts
//! and a write to a vector that keeps its place from batch to batch: nothing is formatted, allocated or, in the
//! usual run of taps of one room, hashed.

use super::ids::{ClientHash, PageId, ProducerId, TapId};
use super::wire;
use crate::room::{ReactionKey, RoomCode};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Rooms in the order in which they were first told of.
#[derive(Debug)]
pub(super) struct OpenBatch<T> {
    rooms: Vec<OpenRoom<T>>,
    indexes: HashMap<RoomCode, usize, foldhash::fast::RandomState>,
    /// Where the last tap went.
    last: usize,
    taps: usize,
    /// Whether any head count waits.
    people: bool,
}

#[derive(Debug)]
struct OpenRoom<T> {
    code: RoomCode,
    people: Option<u32>,
    /// The keys that its taps name; mostly those of one palette, which has at most twelve.
    keys: SmallVec<[ReactionKey; 12]>,
    taps: Vec<OpenTap<T>>,
    /// Whether the batch being sealed has something of it.
    in_use: bool,
}

#[derive(Debug)]
struct OpenTap<T> {
    id: TapId,
    key: u32,
    tapped_at_ms: u64,
    ticket: T,
}

/// What became of an open batch.
#[derive(Debug)]
pub(super) struct Sealed<T> {
    pub(super) value: Vec<u8>,
    pub(super) tickets: Vec<T>,
    pub(super) too_old: Vec<T>,
}

impl<T> Default for OpenBatch<T> {
    fn default() -> Self {
        OpenBatch {
            rooms: Vec::new(),
            indexes: HashMap::default(),
            last: 0,
            taps: 0,
            people: false,
        }
    }
}

impl<T> OpenBatch<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.taps == 0 && !self.people
    }

    pub(super) fn taps(&self) -> usize {
        self.taps
    }

    pub(super) fn push(
        &mut self,
        code: &RoomCode,
        id: TapId,
        key: &ReactionKey,
        tapped_at_ms: u64,
        ticket: T,
    ) {
        let room = self.room(code);
        let key = room.key(key);
        room.taps.push(OpenTap {
            id,
            key,
            tapped_at_ms,
            ticket,
        });
        self.taps += 1;
    }

    pub(super) fn set_people(&mut self, code: &RoomCode, people: u32) {
        self.room(code).people = Some(people);
        self.people = true;
    }

    /// Moves all that waits into a batch, but for taps from before `oldest_ms`.
    pub(super) fn seal(
        &mut self,
        oldest_ms: u64,
        producer: ProducerId,
        number: u64,
        void_after_ms: u64,
    ) -> Sealed<T> {
        let mut too_old = Vec::new();
        let mut newest_ms = oldest_ms;
        for room in &mut self.rooms {
            too_old.extend(
                room.taps
                    .extract_if(.., |tap| tap.tapped_at_ms < oldest_ms)
                    .map(|tap| tap.ticket),
            );
            newest_ms = room
                .taps
                .iter()
                .map(|tap| tap.tapped_at_ms)
                .fold(newest_ms, u64::max);
            room.in_use = room.people.is_some() || !room.taps.is_empty();
        }
        let taps = self.taps - too_old.len();
        let mut tickets = Vec::with_capacity(taps);
        let mut writer = wire::Writer::new(newest_ms, taps);
        for room in self.rooms.iter_mut().filter(|room| room.in_use) {
            room.write(&mut writer, &mut tickets);
        }
        self.taps = 0;
        self.people = false;
        self.forget_idle_rooms();
        Sealed {
            value: writer.finish(producer, number, void_after_ms),
            tickets,
            too_old,
        }
    }

    /// Takes out the taps of these pages; their tickets go to `tickets`.
    pub(super) fn discard(
        &mut self,
        mut is_discarded: impl FnMut(ClientHash, PageId) -> bool,
        tickets: &mut Vec<T>,
    ) {
        let before = tickets.len();
        for room in &mut self.rooms {
            tickets.extend(
                room.taps
                    .extract_if(.., |tap| is_discarded(tap.id.client, tap.id.page))
                    .map(|tap| tap.ticket),
            );
        }
        self.taps -= tickets.len() - before;
    }

    fn room(&mut self, code: &RoomCode) -> &mut OpenRoom<T> {
        let is_last = self
            .rooms
            .get(self.last)
            .is_some_and(|room| room.code == *code);
        if !is_last {
            self.last = match self.indexes.get(code) {
                Some(index) => *index,
                None => {
                    self.indexes.insert(code.clone(), self.rooms.len());
                    self.rooms.push(OpenRoom::new(code.clone()));
                    self.rooms.len() - 1
                }
            };
        }
        &mut self.rooms[self.last]
    }

    /// A room that had nothing for this batch gives its place back; the others keep theirs, with its buffers.
    fn forget_idle_rooms(&mut self) {
        let before = self.rooms.len();
        self.rooms.retain(|room| room.in_use);
        if self.rooms.len() != before {
            self.last = 0;
            self.indexes.clear();
            let indexes = self
                .rooms
                .iter()
                .enumerate()
                .map(|(i, room)| (room.code.clone(), i));
            self.indexes.extend(indexes);
        }
    }
}

impl<T> OpenRoom<T> {
    fn new(code: RoomCode) -> Self {
        OpenRoom {
            code,
            people: None,
            keys: SmallVec::new(),
            taps: Vec::new(),
            in_use: false,
        }
    }

    fn key(&mut self, key: &ReactionKey) -> u32 {
        let index = self
            .keys
            .iter()
            .position(|known| known == key)
            .unwrap_or_else(|| {
                self.keys.push(key.clone());
                self.keys.len() - 1
            });
        u32::try_from(index).expect("an open batch has fewer taps than that, and so fewer keys")
    }

    /// Tells the writer all that waits here, and empties it.
    fn write(&mut self, writer: &mut wire::Writer, tickets: &mut Vec<T>) {
        writer.room(&self.code, self.people.take(), self.taps.len());
        let keys: SmallVec<[u64; 12]> = self.keys.drain(..).map(|key| writer.key(key)).collect();
        for tap in self.taps.drain(..) {
            writer.tap(tap.id, keys[tap.key as usize], tap.tapped_at_ms);
            tickets.push(tap.ticket);
        }
    }
}
