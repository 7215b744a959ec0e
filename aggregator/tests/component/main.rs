//! Component tests of the aggregator: `run()` in this process, against a real Redis Cluster.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;
mod totals;
mod script;
mod sharing;
mod faults;
