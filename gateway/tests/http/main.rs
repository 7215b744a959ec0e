//! The HTTP front against a real Redis Cluster: every route, every error, every bound.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod support;
mod rooms;
mod changes;
mod script;
mod failover;
mod tokens;
mod errors;
mod openapi;
mod origins;
mod pages;
mod guesses;
mod taking_part;
mod connections;
