//! The persister in this process, on the rig's Redis Cluster and Postgres.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;
mod storing;
mod trimming;
mod outages;
mod redis_outages;
mod sharing;
mod schema;
mod queries;
mod exports;
