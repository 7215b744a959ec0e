//! One shard's reader: a fold over its log. The aggregator and the persister drive it alike:
//!
//! ```text
//!  unloaded --loaded(offset, producers)--> rebuilding --read ...--> live --read / committed--> live
//!      ^------------------------- discard() on ANY failure, from anywhere -----------------------|
//! ```
//!
//! Rebuilding reads from before the offset to fill the memory of seen taps; what lies after the offset is folded.
//! Nothing of a fold may be shown or stored but by a commit; a failed one is followed by `discard`.

use super::codec::DecodeError;
use super::entry::{RoomChange, Tap};
use super::ids::{EntryId, ProducerId};
use crate::room::RoomCode;

/// The log is kept this long before the smaller of both readers' offsets.
pub const TRIM_BEHIND_MS: u64 = 200_000;
/// Producers are forgotten after this much log time.
pub const PRODUCER_FORGOTTEN_AFTER_MS: u64 = 600_000;

/// The last batch of a producer, as committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerMark {
    /// The batch's number.
    pub number: u64,
    /// Log time of its entry.
    pub log_ms: u64,
}

/// An entry as it came from the log.
#[derive(Debug, Clone)]
pub struct RawEntry {
    /// Its id.
    pub id: EntryId,
    /// Its first field's name.
    pub field: Vec<u8>,
    /// Its first field's value.
    pub value: Vec<u8>,
}

/// What the pipeline `[XRANGE, lease renewal, WAIT]` told beside the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Barrier {
    /// The renewal wrote: the lease is ours.
    pub lease_held: bool,
    /// The WAIT was satisfied: every electable replica has all that was read.
    pub stable: bool,
}

/// Why nothing was folded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Another owner holds the lease; discard and let go.
    #[error("the lease is not ours any more")]
    LeaseLost,
    /// What was read could be taken back by a failover; read again.
    #[error("what was read is not on every electable replica")]
    NotStable,
    /// An entry of a newer codec version: stop this shard and alert.
    #[error("entry {id} has codec version {version}, newer than this service reads")]
    NewerVersion {
        /// Where.
        id: EntryId,
        /// Its version.
        version: u32,
    },
    /// Loaded, but not read from the right place, or not loaded: a mistake of the caller.
    #[error("entries came out of order: {0}")]
    OutOfOrder(EntryId),
}

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

/// Counts of what a reader skipped, for metrics; they only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Entries that were void when they reached the log.
    pub void_entries: u64,
    /// Batches whose number had been seen.
    pub duplicate_batches: u64,
    /// Taps that had been seen.
    pub duplicate_taps: u64,
}

/// One shard's reader.
#[derive(Debug, Default)]
pub struct Reader {}

impl Reader {
    /// A reader that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The committed state was loaded.
    pub fn loaded(
        &mut self,
        _offset: EntryId,
        _producers: impl IntoIterator<Item = (ProducerId, ProducerMark)>,
    ) {
        todo!()
    }

    /// Where to read next (exclusive); none while unloaded.
    pub fn cursor(&self) -> Option<EntryId> {
        todo!()
    }

    /// Whether the cursor has passed the offset that was loaded, so that reads bring what is new.
    pub fn is_live(&self) -> bool {
        todo!()
    }

    /// Takes what one read brought, in order. `reached_end`: the read was not cut short by its COUNT.
    ///
    /// # Errors
    /// See [`ReadError`]; nothing was folded from this read on.
    pub fn read(
        &mut self,
        _entries: &[RawEntry],
        _reached_end: bool,
        _barrier: Barrier,
        _sink: &mut dyn FnMut(EntryId, Folded<'_>),
    ) -> Result<(), ReadError> {
        todo!()
    }

    /// The offset of the last commit (or load).
    pub fn committed_offset(&self) -> EntryId {
        todo!()
    }

    /// The last entry folded: what the next commit makes the offset.
    pub fn folded_offset(&self) -> EntryId {
        todo!()
    }

    /// Producers whose mark changed since the last commit, with the new mark; and those to be forgotten.
    pub fn changed_producers(&self) -> (Vec<(ProducerId, ProducerMark)>, Vec<ProducerId>) {
        todo!()
    }

    /// The commit of all that was folded succeeded.
    pub fn committed(&mut self) {
        todo!()
    }

    /// Anything failed: forget everything; load again.
    pub fn discard(&mut self) {
        todo!()
    }

    /// What was skipped so far.
    pub fn skipped(&self) -> Skipped {
        todo!()
    }
}

/// The log time up to which a shard's log may be trimmed, given both offsets; none if nothing may go.
pub fn trim_before_ms(_aggregator: EntryId, _persister: EntryId) -> Option<u64> {
    todo!()
}
