//! The gateway's side: taps in, sealed batches out, one in flight per shard.
//!
//! Rules:
//! - Taps gather in the *open* batch while another is in flight. Sealing gives it the next number and a deadline, and
//!   from then on it is immutable: an append whose fate is unknown is done again with the very same bytes.
//! - One batch is in flight at a time. Readers skip numbers that are not newer, so an older batch that arrived
//!   behind a newer one would be lost.
//! - A tap older than [`TAP_AGE_MAX_MS`] at sealing is left out: with the deadline, this bounds the span of log time
//!   within which one tap can be in the log, and so the memory that readers need.
//! - Its taps are acknowledged when the entry is stable, and its id is not past the deadline.
//! - Past the deadline the batch is given up: nobody knows whether it counts. Its phones must send again elsewhere, in
//!   order, so what they have in the open batch is discarded too: otherwise a later tap could overtake an earlier one by
//!   more than the window of seen numbers. A new producer id begins, as the number may or may not be in the log.

use super::codec;
use super::entry::Entry;
use super::ids::{ClientHash, EntryId, PageId, ProducerId, TapId};
use super::open_batch::{OpenBatch, Sealed};
use crate::room::{ReactionKey, RoomCode};
use bytes::Bytes;

/// How long after its sealing a batch may reach the log, in log time: longer than a failover of Redis takes (8.4 s at
/// a node timeout of 5 s), short enough for a phone's patience.
pub const VOID_AFTER_MS: u64 = 20_000;
/// The oldest tap that is sealed. Gateways refuse re-sends from 80 s on; this leaves them ten to wait for the batch
/// before theirs.
pub const TAP_AGE_MAX_MS: u64 = 90_000;

/// One shard's outbox. `T` is handed back when a tap's fate is known.
#[derive(Debug)]
pub struct Outbox<T> {
    producer: ProducerId,
    /// The number of the batch sealed last.
    number: u64,
    limits: OutboxLimits,
    open: OpenBatch<T>,
    in_flight: Option<InFlight<T>>,
}

#[derive(Debug)]
struct InFlight<T> {
    value: Bytes,
    void_after_ms: u64,
    tickets: Vec<T>,
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
    /// The batch in flight is past its `void_after_ms`: close the connections of all these, acknowledge none. They
    /// are the batch's own tickets, and those of the same pages that waited in the open batch. No tap may be pushed
    /// by any of these connections from here on: mark them closed before the outbox is let go of.
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
    pub fn new(producer: ProducerId, limits: OutboxLimits) -> Self {
        Outbox {
            producer,
            number: 0,
            limits,
            open: OpenBatch::default(),
            in_flight: None,
        }
    }

    /// Adds a tap to the open batch. `tapped_at_ms` is log time less the tap's age.
    ///
    /// # Errors
    /// [`Full`], and the ticket with it: the tap was not taken.
    pub fn push(
        &mut self,
        room: &RoomCode,
        id: TapId,
        key: &ReactionKey,
        tapped_at_ms: u64,
        ticket: T,
    ) -> Result<(), (Full, T)> {
        if self.open.taps() >= self.limits.open_taps_max {
            return Err((Full, ticket));
        }
        self.open.push(room, id, key, tapped_at_ms, ticket);
        Ok(())
    }

    /// Has the next batch carry this head count.
    pub fn set_people(&mut self, room: &RoomCode, people: u32) {
        self.open.set_people(room, people);
    }

    /// What to do now; `log_now_ms` is this gateway's estimate of log time. `new_producer` is used only when
    /// the batch in flight is given up.
    pub fn step(&mut self, log_now_ms: u64, new_producer: impl FnOnce() -> ProducerId) -> Step<T> {
        match &self.in_flight {
            Some(sealed) if log_now_ms > sealed.void_after_ms => {
                Step::GaveUp(self.give_up(new_producer()))
            }
            Some(sealed) => Step::Append {
                number: self.number,
                value: sealed.value.clone(),
                too_old: Vec::new(),
            },
            None if self.open.is_empty() => Step::Idle,
            None => self.seal(log_now_ms),
        }
    }

    /// Tells how the append of the batch in flight ended.
    pub fn resolve(
        &mut self,
        outcome: AppendOutcome,
        new_producer: impl FnOnce() -> ProducerId,
    ) -> Resolution<T> {
        let AppendOutcome::Stable(id) = outcome else {
            return Resolution::Retry;
        };
        match self
            .in_flight
            .take_if(|sealed| id.ms <= sealed.void_after_ms)
        {
            Some(sealed) => Resolution::Acknowledge(sealed.tickets),
            None => Resolution::GaveUp(self.give_up(new_producer())),
        }
    }

    /// Whether nothing is open and nothing in flight (a drain waits for it).
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.in_flight.is_none()
    }

    /// Taps in the open batch and in flight.
    pub fn taps(&self) -> usize {
        self.open.taps()
            + self
                .in_flight
                .as_ref()
                .map_or(0, |sealed| sealed.tickets.len())
    }

    fn seal(&mut self, log_now_ms: u64) -> Step<T> {
        self.number += 1;
        let void_after_ms = log_now_ms.saturating_add(VOID_AFTER_MS);
        let oldest_ms = log_now_ms.saturating_sub(TAP_AGE_MAX_MS);
        let Sealed {
            value,
            tickets,
            too_old,
        } = self
            .open
            .seal(oldest_ms, self.producer, self.number, void_after_ms);
        let value = Bytes::from(value);
        self.in_flight = Some(InFlight {
            value: value.clone(),
            void_after_ms,
            tickets,
        });
        Step::Append {
            number: self.number,
            value,
            too_old,
        }
    }

    fn give_up(&mut self, new_producer: ProducerId) -> Vec<T> {
        self.producer = new_producer;
        self.number = 0;
        let Some(sealed) = self.in_flight.take() else {
            return Vec::new();
        };
        // Seldom needed, so the pages are not kept beside the bytes, which have them.
        let pages = pages_of(&sealed.value);
        let mut tickets = sealed.tickets;
        self.open
            .discard(|client, page| pages.contains(&(client, page)), &mut tickets);
        tickets
    }
}

fn pages_of(value: &[u8]) -> hashbrown::HashSet<(ClientHash, PageId)> {
    match codec::decode(codec::BATCH_FIELD.as_bytes(), value) {
        Ok(Entry::Batch(batch)) => batch
            .rooms
            .iter()
            .flat_map(|room| &room.taps)
            .map(|tap| (tap.id.client, tap.id.page))
            .collect(),
        other => unreachable!("this outbox encoded it as a batch: {other:?}"),
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
