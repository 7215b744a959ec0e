//! The gateway's side: taps in, sealed batches out, one in flight per shard.

use super::entry::RoomBatch;
use super::ids::{EntryId, ProducerId, TapId};
use crate::room::{ReactionKey, RoomCode};
use bytes::Bytes;

/// How long after its sealing a batch may reach the log, in log time.
pub const VOID_AFTER_MS: u64 = 20_000;
/// The oldest tap that is sealed.
pub const TAP_AGE_MAX_MS: u64 = 90_000;

/// One shard's outbox. `T` is handed back when a tap's fate is known.
#[derive(Debug)]
pub struct Outbox<T> {
    _producer: ProducerId,
    _tickets: Vec<T>,
    _rooms: Vec<RoomBatch>,
}

/// Bounds of an outbox.
#[derive(Debug, Clone, Copy)]
pub struct OutboxLimits {
    /// Taps waiting in the open batch; beyond it a tap is refused as `busy`.
    pub open_taps_max: usize,
}

/// The open batch is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the open batch is full")]
pub struct Full;

/// What to do for a shard now.
#[derive(Debug)]
pub enum Step<T> {
    /// Nothing to append.
    Idle,
    /// Append these bytes (again, if they were appended before), then call [`Outbox::resolve`].
    /// `too_old` were left out at sealing: refuse them.
    Append {
        /// For logs.
        number: u64,
        /// The value of the entry's batch field; immutable once sealed.
        value: Bytes,
        /// Tickets of taps older than [`TAP_AGE_MAX_MS`] at sealing.
        too_old: Vec<T>,
    },
    /// The batch in flight is past its `void_after_ms`: close the connections of all these, acknowledge none.
    /// A new producer id has begun.
    GaveUp(Vec<T>),
}

/// How one append ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOutcome {
    /// XADD returned this id, and every electable replica has it (or none has been electable for long enough).
    Stable(EntryId),
    /// Anything else: refused, unanswered, or not known to be replicated. It may be in the log.
    Unknown,
}

/// What follows from it.
#[derive(Debug)]
pub enum Resolution<T> {
    /// These taps count: acknowledge them.
    Acknowledge(Vec<T>),
    /// Call [`Outbox::step`] again: the same batch is to be appended again.
    Retry,
    /// As [`Step::GaveUp`]: the id that XADD returned makes the entry void.
    GaveUp(Vec<T>),
}

impl<T> Outbox<T> {
    /// An empty outbox of a new producer.
    pub fn new(producer: ProducerId, _limits: OutboxLimits) -> Self {
        Outbox { _producer: producer, _tickets: Vec::new(), _rooms: Vec::new() }
    }

    /// Adds a tap to the open batch. `tapped_at_ms` is log time less the tap's age.
    ///
    /// # Errors
    /// [`Full`], and the ticket with it: the tap was not taken.
    pub fn push(
        &mut self,
        _room: &RoomCode,
        _id: TapId,
        _key: &ReactionKey,
        _tapped_at_ms: u64,
        _ticket: T,
    ) -> Result<(), (Full, T)> {
        todo!()
    }

    /// Has the next batch carry this head count.
    pub fn set_people(&mut self, _room: &RoomCode, _people: u32) {
        todo!()
    }

    /// What to do now; `log_now_ms` is this gateway's estimate of log time. `new_producer` is used only when
    /// the batch in flight is given up.
    pub fn step(&mut self, _log_now_ms: u64, _new_producer: impl FnOnce() -> ProducerId) -> Step<T> {
        todo!()
    }

    /// Tells how the append of the batch in flight ended.
    pub fn resolve(
        &mut self,
        _outcome: AppendOutcome,
        _new_producer: impl FnOnce() -> ProducerId,
    ) -> Resolution<T> {
        todo!()
    }

    /// Whether nothing is open and nothing in flight (a drain waits for it).
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// Taps in the open batch and in flight.
    pub fn taps(&self) -> usize {
        todo!()
    }
}
