//! Exactly-once counting, without I/O and without a clock.
//!
//! An `outbox` (gateway) turns taps into batches, a `reader` (aggregator, persister) turns the log back into
//! counted taps; both hold the rules that make every acknowledged tap count exactly once. Log time is the time
//! in an entry's id, milliseconds since 1970 by the clock of the master that wrote it.

pub mod ids;
pub mod entry;
pub mod codec;
mod wire;
mod open_batch;
pub mod outbox;
pub mod freshness;
pub mod memory;
pub mod producers;
pub mod fold;
pub mod audience;
pub mod reader;
pub mod lease;
