//! How to reach Redis.

use std::fmt;
use std::time::Duration;

/// Settings of the cluster client, section `[redis]`.
#[derive(Clone)]
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

impl RedisSettings {
    /// The defaults, with these nodes.
    pub fn new(nodes: Vec<String>) -> Self {
        RedisSettings {
            nodes,
            username: None,
            password: None,
            topology_interval: Duration::from_millis(200),
            request_timeout: Duration::from_secs(2),
            wait_timeout: Duration::from_millis(500),
            connections_per_master_max: 8,
            replica_electable: Duration::ZERO,
            shards: 64,
        }
    }

    /// How long a connection waits for an answer: never less than a WAIT in front of it can take.
    pub(super) fn response_timeout(&self) -> Duration {
        self.request_timeout
            .max(self.wait_timeout + Duration::from_millis(500))
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("nodes", &self.nodes)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("topology_interval", &self.topology_interval)
            .field("request_timeout", &self.request_timeout)
            .field("wait_timeout", &self.wait_timeout)
            .field(
                "connections_per_master_max",
                &self.connections_per_master_max,
            )
            .field("replica_electable", &self.replica_electable)
            .field("shards", &self.shards)
            .finish()
    }
}
