//! The identities that counting rests on.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The id of a stream entry, `ms-seq`; its order is the order of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId {
    /// Log time, milliseconds since 1970.
    pub ms: u64,
    /// Counts the entries within one millisecond.
    pub seq: u64,
}

impl EntryId {
    /// Before every entry.
    pub const ZERO: EntryId = EntryId { ms: 0, seq: 0 };
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// A text that is no entry id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a stream id has the form ms-seq, not {0:?}")]
pub struct EntryIdError(pub String);

impl FromStr for EntryId {
    type Err = EntryIdError;
    fn from_str(text: &str) -> Result<Self, EntryIdError> {
        let error = || EntryIdError(text.to_owned());
        let (ms, seq) = text.split_once('-').ok_or_else(error)?;
        Ok(EntryId {
            ms: ms.parse().map_err(|_| error())?,
            seq: seq.parse().map_err(|_| error())?,
        })
    }
}

/// Who appends batches: random, new at each start and after each batch given up. Hex in texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProducerId(pub u64);

/// A keyed hash of a phone's client id: the client id itself never leaves the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientHash(pub u64);

/// One load of the page: a random id never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PageId(pub u32);

/// What identifies a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TapId {
    /// Whose.
    pub client: ClientHash,
    /// From which load of the page.
    pub page: PageId,
    /// Grows by one per page, from 1, never used twice.
    pub seq: u32,
}

/// Random, non-zero: one life of one owner of a lease. Zero in a record says "free". Hex in texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(pub u64);
