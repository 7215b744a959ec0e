//! What the commit script does, as a plain function: the simulation's Redis commits by it, and the differential test
//! holds the real script against it.

use shared::counting::ids::{EntryId, Nonce, ProducerId};
use shared::counting::reader::ProducerMark;
use shared::room::{ReactionKey, RoomCode};
use std::collections::{BTreeMap, BTreeSet};

/// A key that the script touches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Aggregator,
    Log,
    Producers,
    Activity,
    Totals(RoomCode),
}

/// What a shard's keys hold, as far as the script goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CommitModel {
    pub(crate) owner: Option<Nonce>,
    pub(crate) beat: u64,
    pub(crate) offset: EntryId,
    pub(crate) producers: BTreeMap<ProducerId, ProducerMark>,
    pub(crate) totals: BTreeMap<(RoomCode, ReactionKey), u64>,
    /// Keys that hold a value of another type.
    pub(crate) strange: BTreeSet<Key>,
}

/// One commit as it is asked for.
#[derive(Debug, Clone)]
pub(crate) struct CommitCommand {
    pub(crate) owner: Nonce,
    pub(crate) expected: EntryId,
    pub(crate) offset: EntryId,
    pub(crate) totals: BTreeMap<(RoomCode, ReactionKey), u64>,
    pub(crate) changed_producers: Vec<(ProducerId, ProducerMark)>,
    pub(crate) forgotten_producers: Vec<ProducerId>,
}

/// What the script answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitReply {
    Done,
    NotOwner,
    OtherOffset,
    /// The last entry folded is not in the log.
    EntryMissing,
    /// A key holds a value of another type.
    StrangeKey,
}

impl CommitModel {
    /// Checks all before it changes anything; `is_in_log` tells whether an entry is.
    pub(crate) fn check(
        &self,
        command: &CommitCommand,
        is_in_log: impl Fn(EntryId) -> bool,
    ) -> CommitReply {
        let totals = command
            .totals
            .keys()
            .map(|(room, _)| Key::Totals(room.clone()));
        let fixed = [Key::Aggregator, Key::Log, Key::Producers, Key::Activity];
        if fixed
            .into_iter()
            .chain(totals)
            .any(|key| self.strange.contains(&key))
        {
            CommitReply::StrangeKey
        } else if self.owner != Some(command.owner) {
            CommitReply::NotOwner
        } else if self.offset != command.expected {
            CommitReply::OtherOffset
        } else if command.offset != EntryId::ZERO && !is_in_log(command.offset) {
            CommitReply::EntryMissing
        } else {
            CommitReply::Done
        }
    }

    /// Does what was checked.
    pub(crate) fn apply(&mut self, command: &CommitCommand) {
        self.beat += 1;
        self.offset = command.offset;
        for (key, total) in &command.totals {
            self.totals.insert(key.clone(), *total);
        }
        self.producers
            .extend(command.changed_producers.iter().copied());
        for producer in &command.forgotten_producers {
            self.producers.remove(producer);
        }
    }
}
