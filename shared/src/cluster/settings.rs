//! How to reach Redis.

use std::time::Duration;

/// Settings of the cluster client, section `[redis]`.
#[derive(Debug, Clone)]
pub struct RedisSettings {
    /// `host:port` of some nodes to learn the others from.
    pub nodes: Vec<String>,
    /// User name, where Redis asks for one.
    pub username: Option<String>,
    /// Password, where Redis asks for one. Never printed.
    pub password: Option<String>,
    /// How often the topology is polled (200 ms by default).
    pub topology_interval: Duration,
    /// How long a request may take (2 s by default).
    pub request_timeout: Duration,
    /// How long a WAIT may take (500 ms by default).
    pub wait_timeout: Duration,
    /// Connections per master for requests and scripts (8 by default).
    pub connections_per_master_max: usize,
    /// After how long without any electable replica entries count as stable without one. Zero: derived from the
    /// masters' configuration, or, where that cannot be read, 15 s.
    pub replica_electable: Duration,
    /// How many shards there are (64 by default); fixed for the life of the data.
    pub shards: u16,
}
