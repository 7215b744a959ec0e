//! One shard's reader: a fold over its log. The aggregator and the persister drive it alike:
//!
//! ```text
//!  unloaded --loaded(offset, producers)--> rebuilding --read ...--> live --read, commit().succeeded()--> live
//!      ^-------------- discard(), a failed read, a Commit that is dropped: from anywhere ---------------|
//! ```
//!
//! Rules:
//! - Rebuilding reads from before the offset to fill the memory of seen taps; what lies after the offset is folded.
//! - Nothing is folded that a failover could take back: a read counts only with its [`Barrier`] satisfied. A read that
//!   is not stable changes nothing; any other error discards.
//! - Nothing of a fold may be shown or stored but by a [`Commit`]. While one is under way nothing can be read, and one
//!   that is not known to have succeeded discards everything, memory included: what was folded in vain would
//!   otherwise look seen when it is read again.
//! - The entry at the offset must still be in the log, or the log is not the one that was folded.

use super::codec::{self, DecodeError};
use super::fold::Fold;
use super::ids::{EntryId, ProducerId};
use super::memory;
use super::producers::Producers;

pub use super::fold::Folded;

/// The log is kept this long before the smaller of both readers' offsets. A rebuild reads up to
/// four epochs (200 s) before the offset; the rest is slack.
pub const TRIM_BEHIND_MS: u64 = 240_000;
/// Producers are forgotten after this much log time: many times what a batch can still reach the log in
/// ([`super::outbox::VOID_AFTER_MS`]), and short enough that dead gateways leave nothing.
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

/// Why nothing was folded. All but [`ReadError::NotStable`] leave the reader unloaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Another owner holds the lease; let go.
    #[error("the lease is not ours any more")]
    LeaseLost,
    /// What was read could be taken back by a failover; read again.
    #[error("what was read is not on every electable replica")]
    NotStable,
    /// An entry of a newer codec version: stop this shard and alert. Entries before it were folded by the read before.
    #[error("entry {id} has codec version {version}, newer than this service reads")]
    NewerVersion {
        /// Where.
        id: EntryId,
        /// Its version.
        version: u32,
    },
    /// The entry at the committed offset is not in the log: what was committed and the log do not belong together.
    /// Stop this shard and alert.
    #[error("the log has no entry at the committed offset {0}")]
    OffsetMissing(EntryId),
    /// Not read from the cursor on, or not loaded: a mistake of the caller.
    #[error("entries came out of order: {0}")]
    OutOfOrder(EntryId),
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
pub struct Reader {
    state: Option<Loaded>,
    skipped: Skipped,
}

#[derive(Debug)]
struct Loaded {
    /// The last commit.
    offset: EntryId,
    /// The last entry taken; from the offset on, the last one folded.
    cursor: EntryId,
    /// The entry at the offset was met.
    offset_met: bool,
    fold: Fold,
}

impl Reader {
    /// A reader that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The committed state was loaded.
    pub fn loaded(
        &mut self,
        offset: EntryId,
        producers: impl IntoIterator<Item = (ProducerId, ProducerMark)>,
    ) {
        let before_rebuild = match memory::rebuild_from_ms(offset.ms) {
            0 => EntryId::ZERO,
            from_ms => EntryId {
                ms: from_ms - 1,
                seq: u64::MAX,
            },
        };
        self.state = Some(Loaded {
            offset,
            cursor: before_rebuild,
            offset_met: offset == EntryId::ZERO,
            fold: Fold {
                producers: Producers::new(producers),
                ..Fold::default()
            },
        });
    }

    /// Where to read next (exclusive); none while unloaded.
    pub fn cursor(&self) -> Option<EntryId> {
        self.state.as_ref().map(|loaded| loaded.cursor)
    }

    /// Whether the cursor has reached the offset that was loaded, so that reads bring what is new.
    pub fn is_live(&self) -> bool {
        self.state.as_ref().is_some_and(|loaded| loaded.offset_met)
    }

    /// Takes what one read brought, in order. `reached_end`: the read was not cut short by its COUNT. Entries may be left
    /// over (before one of a newer version): always read on from [`Reader::cursor`].
    ///
    /// # Errors
    /// See [`ReadError`]; nothing of this read was folded or told to `sink`.
    pub fn read(
        &mut self,
        entries: &[RawEntry],
        reached_end: bool,
        barrier: Barrier,
        sink: &mut dyn FnMut(EntryId, Folded<'_>),
    ) -> Result<(), ReadError> {
        if barrier.lease_held && !barrier.stable {
            return Err(ReadError::NotStable);
        }
        // Out of place until it has gone well: whatever returns before leaves the reader unloaded.
        let state = self.state.take();
        if !barrier.lease_held {
            return Err(ReadError::LeaseLost);
        }
        let mut loaded = state.ok_or(ReadError::OutOfOrder(EntryId::ZERO))?;
        loaded.check(entries, reached_end)?;
        loaded.take(entries, &mut self.skipped, sink)?;
        self.state = Some(loaded);
        Ok(())
    }

    /// The offset of the last commit (or load); before every entry while unloaded.
    pub fn committed_offset(&self) -> EntryId {
        self.state
            .as_ref()
            .map_or(EntryId::ZERO, |loaded| loaded.offset)
    }

    /// The last entry folded: what the next commit makes the offset.
    pub fn folded_offset(&self) -> EntryId {
        self.state.as_ref().map_or(EntryId::ZERO, Loaded::folded)
    }

    /// Begins to commit all that was folded; none while unloaded.
    pub fn commit(&mut self) -> Option<Commit<'_>> {
        let loaded = self.state.as_ref()?;
        let folded = loaded.folded();
        let (changed_producers, forgotten_producers) = loaded.fold.producers.changes(folded.ms);
        Some(Commit {
            expected: loaded.offset,
            offset: folded,
            changed_producers,
            forgotten_producers,
            reader: self,
            has_succeeded: false,
        })
    }

    /// Anything failed: forget everything; load again.
    pub fn discard(&mut self) {
        self.state = None;
    }

    /// What was skipped so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }
}

impl Loaded {
    fn folded(&self) -> EntryId {
        self.cursor.max(self.offset)
    }

    /// What must hold before anything is folded.
    fn check(&self, entries: &[RawEntry], reached_end: bool) -> Result<(), ReadError> {
        let mut before = self.cursor;
        for entry in entries {
            if entry.id <= before {
                return Err(ReadError::OutOfOrder(entry.id));
            }
            before = entry.id;
        }
        if !self.offset_met
            && (before > self.offset || reached_end)
            && !entries.iter().any(|entry| entry.id == self.offset)
        {
            return Err(ReadError::OffsetMissing(self.offset));
        }
        Ok(())
    }

    fn take(
        &mut self,
        entries: &[RawEntry],
        skipped: &mut Skipped,
        sink: &mut dyn FnMut(EntryId, Folded<'_>),
    ) -> Result<(), ReadError> {
        for (position, raw) in entries.iter().enumerate() {
            match codec::decode(&raw.field, &raw.value) {
                Ok(entry) if raw.id > self.offset => self.fold.fold(raw.id, entry, skipped, sink),
                Ok(entry) => self.fold.recall(raw.id, entry, sink),
                Err(DecodeError::NewerVersion(version)) if position == 0 => {
                    return Err(ReadError::NewerVersion {
                        id: raw.id,
                        version,
                    });
                }
                // What stands before it is folded and can be committed; the next read begins with it.
                Err(DecodeError::NewerVersion(_)) => return Ok(()),
                Err(reason) if raw.id > self.offset => {
                    sink(raw.id, Folded::Rejected { raw, reason });
                }
                Err(_) => {}
            }
            self.offset_met |= raw.id == self.offset;
            self.cursor = raw.id;
        }
        Ok(())
    }
}

/// A commit under way. Dropped without [`Commit::succeeded`], also by an error or a cancelled task, it discards all that
/// the reader holds.
#[derive(Debug)]
#[must_use = "dropped at once, it discards the reader's state"]
pub struct Commit<'a> {
    /// The offset that must stand there now.
    pub expected: EntryId,
    /// The offset to put there: the last entry folded.
    pub offset: EntryId,
    /// Producers whose mark changed, with the new mark; in order.
    pub changed_producers: Vec<(ProducerId, ProducerMark)>,
    /// Producers to be forgotten; in order.
    pub forgotten_producers: Vec<ProducerId>,
    reader: &'a mut Reader,
    has_succeeded: bool,
}

impl Commit<'_> {
    /// It was done: the store said so. An answer that was lost is none.
    pub fn succeeded(mut self) {
        self.has_succeeded = true;
        if let Some(loaded) = &mut self.reader.state {
            loaded.offset = self.offset;
            loaded.fold.producers.committed(self.offset.ms);
        }
    }
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        if !self.has_succeeded {
            self.reader.discard();
        }
    }
}

/// The log time up to which a shard's log may be trimmed, given both offsets; none if nothing may go.
pub fn trim_before_ms(aggregator: EntryId, persister: EntryId) -> Option<u64> {
    aggregator
        .min(persister)
        .ms
        .checked_sub(TRIM_BEHIND_MS)
        .filter(|before_ms| *before_ms > 0)
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
