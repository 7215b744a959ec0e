//! What stands in the log: one field an entry, `b` for a batch (binary, see `codec`), `c` for a room change (JSON).

use super::ids::{ProducerId, TapId};
use crate::room::{ReactionKey, Room, RoomCode};
use serde::{Deserialize, Serialize};

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Taps and head counts from a gateway.
    Batch(Batch),
    /// What a host did to a room, or that it expired.
    RoomChange(RoomChange),
}

/// The taps that a gateway took for one shard since its last flush.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Who appended it.
    pub producer: ProducerId,
    /// Grows by one per producer and shard, from 1.
    pub number: u64,
    /// Log time after which the entry is void: log time at sealing plus [`super::outbox::VOID_AFTER_MS`].
    pub void_after_ms: u64,
    /// The rooms that it has something of, each once.
    pub rooms: Vec<RoomBatch>,
}

/// One room's part of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomBatch {
    /// Which room.
    pub code: RoomCode,
    /// Phones present at this gateway, where it tells (at a change, and every ten seconds).
    pub people: Option<u32>,
    /// The taps, in the order in which they came.
    pub taps: Vec<Tap>,
}

/// One tap in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tap {
    /// Its identity.
    pub id: TapId,
    /// The reaction.
    pub key: ReactionKey,
    /// Log time at which the person tapped (sealing less age), milliseconds since 1970.
    pub tapped_at_ms: u64,
}

/// What happened to a room; the whole room as it is afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomChange {
    /// The form of this record; 1 now.
    pub v: u32,
    /// What happened.
    pub kind: RoomChangeKind,
    /// The room afterwards.
    pub room: Room,
}

/// Kinds of room changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoomChangeKind {
    /// It is new; totals start at nothing.
    Created,
    /// Title, palette, cooldown or state changed.
    Updated,
    /// Its retention is over: totals and room are deleted.
    Expired,
}
