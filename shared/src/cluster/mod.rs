//! A small client for Redis Cluster: a watcher that follows the topology, and per master a pool for requests and
//! scripts, a connection for appends and one for subscriptions. It never retries what may have happened: that is
//! for the caller, who knows whether it is safe.
//!
//! ```text
//!  any node --view (CLUSTER SHARDS)--+
//!  each master --probe (TIME, INFO)--+--> watcher --> Topology --> client (pools) | append | subscribe
//!                                    |       ^
//!                                    |       +-- a hint, when a request saw MOVED or lost its connection
//! ```

pub mod settings;
mod errors;
mod dial;
mod clock;
mod view;
mod view_source;
mod replicas;
mod probe;
mod watcher;
pub mod topology;
mod fitness;
mod stable;
mod pools;
mod connect;
pub mod scripts;
pub mod client;
mod reading;
pub mod append;
pub mod subscribe;
mod feed;
pub mod leases;
pub mod members;
pub mod metrics;

pub use client::Cluster;
pub use errors::{ConnectError, RequestError};
pub use settings::RedisSettings;
