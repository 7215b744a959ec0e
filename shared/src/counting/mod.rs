//! Exactly-once counting, without I/O and without a clock.
//!
//! An `outbox` (gateway) turns taps into batches, a `reader` (aggregator, persister) turns the log back into
//! counted taps; both hold the rules that make every acknowledged tap count exactly once. Log time is the time
//! in an entry's id, milliseconds since 1970 by the clock of the master that wrote it.
//!
//! Each module states its rules at its top. They lean on each other in one place, the span of log time within which one
//! tap can stand in the log: `freshness` bounds how long it was under way, `outbox` how old it may be when it is sealed
//! and how late its batch may come, `memory` remembers for longer than all of these together, and the trim keeps what a
//! rebuilt memory has to read. A test adds the bounds up.
//!
//! What the phones owe: a `seq` is used once; what is not settled is sent again, in order and with its age; and no tap is
//! sent whose seq is [`memory::WINDOW`] or more past that of the oldest unsettled one, since readers take what lies so far
//! behind for seen. `shared/tests/simulation` breaks each of these rules in turn.

pub mod ids;
pub mod entry;
pub mod codec;
mod wire;
mod open_batch;
pub mod outbox;
pub mod freshness;
mod table;
mod window;
pub mod memory;
pub mod producers;
pub mod fold;
pub mod audience;
pub mod reader;
pub mod lease;
