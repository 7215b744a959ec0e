//! Entries to bytes and back.

use super::entry::{Batch, Entry, RoomChange};

/// The field of a batch entry.
pub const BATCH_FIELD: &str = "b";
/// The field of a room-change entry.
pub const CHANGE_FIELD: &str = "c";

/// Why bytes are no entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by newer software: the reader must stop, not skip.
    #[error("the entry has version {0}, newer than this service reads")]
    NewerVersion(u32),
    /// Not an entry: kept aside and counted.
    #[error("the entry cannot be read: {0}")]
    Malformed(String),
}

/// A batch as the value of [`BATCH_FIELD`].
pub fn encode_batch(_batch: &Batch) -> Vec<u8> {
    todo!()
}

/// A room change as the value of [`CHANGE_FIELD`].
pub fn encode_change(_change: &RoomChange) -> Vec<u8> {
    todo!()
}

/// An entry from its one field.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(_field: &[u8], _value: &[u8]) -> Result<Entry, DecodeError> {
    todo!()
}
