//! What the services of Uproar share, in the order in which data flows through it.
//!
//! `room`, `protocol`, `shards`, `ticks` and `counting` are plain logic: they import neither tokio nor
//! redis nor the two modules behind them, `cluster` and `service`; a test checks it.

pub mod room;
pub mod protocol;
pub mod shards;
pub mod counting;
pub mod ticks;
pub mod cluster;
pub mod service;
