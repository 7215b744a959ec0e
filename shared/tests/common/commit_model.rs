//! What the commit script does, as plain functions: the simulation's Redis commits by them, and the differential test
//! holds the real script against them.

use shared::counting::ids::{EntryId, Nonce, ProducerId};
use shared::counting::reader::ProducerMark;
use shared::room::{ReactionKey, RoomCode};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Totals = BTreeMap<ReactionKey, u64>;

/// A key that the script touches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Aggregator,
    Log,
    Producers,
    Activity,
    Totals(RoomCode),
    Room(RoomCode),
}

/// What a shard's keys hold, as far as the script goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CommitModel {
    pub(crate) owner: Option<Nonce>,
    pub(crate) beat: u64,
    pub(crate) offset: EntryId,
    pub(crate) producers: BTreeMap<ProducerId, ProducerMark>,
    /// Log time of each room's last tap or change.
    pub(crate) activity: BTreeMap<RoomCode, u64>,
    pub(crate) totals: BTreeMap<RoomCode, Totals>,
    /// Versions of the rooms that are there.
    pub(crate) rooms: BTreeMap<RoomCode, u64>,
    /// Keys that hold a value of another type.
    pub(crate) strange: BTreeSet<Key>,
}

/// One commit as it is asked for.
#[derive(Debug, Clone)]
pub(crate) struct CommitCommand {
    pub(crate) owner: Nonce,
    pub(crate) expected: EntryId,
    pub(crate) offset: EntryId,
    pub(crate) changed_producers: Vec<(ProducerId, ProducerMark)>,
    pub(crate) forgotten_producers: Vec<ProducerId>,
    pub(crate) rooms: Vec<RoomCommit>,
}

/// One room's part of a commit.
#[derive(Debug, Clone)]
pub(crate) struct RoomCommit {
    pub(crate) code: RoomCode,
    pub(crate) begins: Begins,
    /// For an expired room: which version of it expired.
    pub(crate) version: u64,
    pub(crate) active_ms: Option<u64>,
    pub(crate) totals: Totals,
}

/// What a room's totals begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    Kept,
    Created,
    Expired,
}

/// What the script answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitReply {
    Done,
    /// A key holds a value of another type.
    Type,
    /// The lease is another's.
    Owner,
    /// Another commit came between.
    Offset,
    /// The last entry folded is not in the log.
    Log,
}

impl CommitModel {
    /// Checks all before anything is changed; `is_in_log` tells whether an entry is.
    pub(crate) fn check(
        &self,
        command: &CommitCommand,
        is_in_log: impl Fn(EntryId) -> bool,
    ) -> CommitReply {
        let fixed = [Key::Aggregator, Key::Log, Key::Producers, Key::Activity];
        let of_room =
            |room: &RoomCommit| [Key::Totals(room.code.clone()), Key::Room(room.code.clone())];
        let mut touched = fixed
            .into_iter()
            .chain(command.rooms.iter().flat_map(of_room));
        if touched.any(|key| self.strange.contains(&key)) {
            CommitReply::Type
        } else if self.owner != Some(command.owner) {
            CommitReply::Owner
        } else if self.offset != command.expected {
            CommitReply::Offset
        } else if command.offset != command.expected && !is_in_log(command.offset) {
            CommitReply::Log
        } else {
            CommitReply::Done
        }
    }

    /// Does what was checked.
    pub(crate) fn apply(&mut self, command: &CommitCommand) {
        self.beat += 1;
        self.offset = command.offset;
        self.producers
            .extend(command.changed_producers.iter().copied());
        for producer in &command.forgotten_producers {
            self.producers.remove(producer);
        }
        for room in &command.rooms {
            self.apply_room(room);
        }
    }

    fn apply_room(&mut self, room: &RoomCommit) {
        if room.begins != Begins::Kept {
            self.totals.remove(&room.code);
        }
        if room.begins == Begins::Expired {
            self.activity.remove(&room.code);
            if self.rooms.get(&room.code) == Some(&room.version) {
                self.rooms.remove(&room.code);
            }
        }
        if !room.totals.is_empty() {
            let totals = self.totals.entry(room.code.clone()).or_default();
            totals.extend(room.totals.iter().map(|(key, total)| (key.clone(), *total)));
        }
        if let Some(active_ms) = room.active_ms {
            let active = self.activity.entry(room.code.clone()).or_default();
            *active = active_ms.max(*active);
        }
    }
}
