//! Section `[redis]`, which all services read.

use super::Reader;
use crate::cluster::RedisSettings;
use crate::shards::{SHARDS_MAX, Shards};

/// Section `[redis]`, used by all services.
pub fn read_redis(reader: &mut Reader) -> RedisSettings {
    let nodes = reader.list(
        "redis.nodes",
        &["127.0.0.1:6379"],
        "some nodes of the Redis Cluster, to learn the others from: host:port each",
    );
    if nodes.is_empty() {
        reader.wrong("redis.nodes", "[]", "at least one host:port");
    }
    for node in &nodes {
        if !is_host_and_port(node) {
            reader.wrong("redis.nodes", node, "host:port, such as redis-0.redis:6379");
        }
    }
    let settings = RedisSettings {
        nodes,
        username: reader.optional_text("redis.username", "user name, where Redis asks for one"),
        password: reader
            .secret("redis.password", "password, where Redis asks for one")
            .map(|secret| secret.reveal().to_owned()),
        topology_interval: reader.duration(
            "redis.topology_interval_ms",
            200,
            50..=10_000,
            "how often the cluster is asked who is master of what",
        ),
        request_timeout: reader.duration(
            "redis.request_timeout_ms",
            2_000,
            100..=60_000,
            "how long a request may take",
        ),
        wait_timeout: reader.duration(
            "redis.wait_timeout_ms",
            500,
            10..=10_000,
            "how long the replicas may take to confirm what was written",
        ),
        connections_per_master_max: bounded(reader.number(
            "redis.connections_per_master_max",
            8,
            1..=1_000,
            "connections to each master, for requests and scripts",
        )),
        replica_electable: reader.duration(
            "redis.replica_electable_ms",
            0,
            0..=3_600_000,
            "after how long without any replica that could be elected taps count without a copy; 0: as Redis itself decides it",
        ),
        shards: u16::try_from(reader.number(
            "redis.shards",
            64,
            1..=u64::from(SHARDS_MAX),
            "how many logs the rooms are spread over; a power of two, fixed for the life of the data",
        ))
        .unwrap_or(SHARDS_MAX),
    };
    if !Shards::is_count(settings.shards) {
        reader.wrong(
            "redis.shards",
            &settings.shards.to_string(),
            "a power of two, such as 64",
        );
    }
    if settings.username.is_some() && settings.password.is_none() {
        reader.wrong("redis.password", "", "set where redis.username is");
    }
    settings
}

/// A number that its bounds keep far below what a `usize` holds.
fn bounded(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn is_host_and_port(node: &str) -> bool {
    node.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !host.contains(['/', ' ', '@'])
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}
