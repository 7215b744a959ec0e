//! A small client for Redis Cluster: a watcher that follows the topology, and per master a pool for requests and
//! scripts, a connection for appends and one for subscriptions. It never retries what may have happened: that is
//! for the caller, who knows whether it is safe.

pub mod settings;
pub mod topology;
pub mod client;
pub mod append;
pub mod subscribe;
pub mod scripts;

pub use client::{Cluster, ConnectError, RequestError};
pub use settings::RedisSettings;
