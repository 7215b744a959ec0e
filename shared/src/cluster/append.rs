//! Appends with WAIT: per master one connection of its own, since a WAIT blocks all that stands behind it.

use super::client::Cluster;
use crate::counting::outbox::AppendOutcome;
use crate::shards::ShardId;
use bytes::Bytes;

/// The connection for appends to one master. One owner; re-made by itself after an error.
#[derive(Debug)]
pub struct Appender {
    _cluster: Cluster,
    _master: String,
}

/// How one append of a pipeline ended.
#[derive(Debug, Clone)]
pub struct Appended {
    /// For the outbox.
    pub outcome: AppendOutcome,
    /// Stable without any replica.
    pub unreplicated: bool,
    /// What went wrong, if anything, for logs and metrics.
    pub error: Option<String>,
    /// Redis is out of memory.
    pub out_of_memory: bool,
}

impl Appender {
    /// For the master with this node id.
    pub fn new(cluster: Cluster, master_id: String) -> Self {
        Appender { _cluster: cluster, _master: master_id }
    }

    /// `[XADD …, XADD …, WAIT]` in one pipeline, once: one result per append, in order. Never fails as a whole.
    pub async fn append(&mut self, _batches: &[(ShardId, Bytes)]) -> Vec<Appended> {
        todo!()
    }
}
