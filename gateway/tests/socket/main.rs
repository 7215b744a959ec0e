//! Sockets against a real Redis Cluster: a gateway in this process, clients that send bytes as they like.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod support;
mod client;
mod joining;
mod bad_input;
mod tapping;
mod ticks;
mod slow_readers;
mod silence;
mod fallback;
mod draining;
mod failover;
