//! The cluster client against a real Redis Cluster: well, then broken in every way that it must survive.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;
mod healthy;
mod faults;
mod appends;
mod feeds;
mod replication;
mod fitness;
