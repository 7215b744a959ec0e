//! Connect, requests and scripts.

use super::scripts::Script;
use super::settings::RedisSettings;
use super::topology::Topology;
use crate::counting::ids::EntryId;
use crate::counting::reader::{Barrier, RawEntry};
use crate::shards::{ShardId, Shards};
use redis::{Cmd, Value};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A handle to the cluster; clones share everything.
#[derive(Debug, Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shards: Shards,
    topology: watch::Receiver<Arc<Topology>>,
}

/// Why a service cannot start on this Redis; each says what was found and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No node answered.
    #[error("no Redis node answered: {0}")]
    Unreachable(String),
    /// It is no cluster, asks for a password, evicts, has another layout, …: starting again will not help.
    #[error("{0}")]
    Unfit(String),
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// It was certainly not done: no connection, MOVED, CLUSTERDOWN, TRYAGAIN, LOADING, NOSCRIPT, READONLY, …
    #[error("not done: {0}")]
    NotDone(String),
    /// The answer was lost: it may have been done.
    #[error("no answer: {0}")]
    Unknown(String),
    /// Redis is out of memory.
    #[error("Redis is out of memory")]
    OutOfMemory,
    /// Redis said no, for a reason that lies in the request.
    #[error("refused: {0}")]
    Refused(String),
}

impl Cluster {
    /// Reaches the cluster, checks that it is fit (cluster mode, noeviction, layout, clocks) and starts the watcher on
    /// `tracker`. Waits for a first topology that covers all slots; tries again while nodes do not answer until
    /// `shutdown`.
    ///
    /// # Errors
    /// [`ConnectError::Unfit`] at once; [`ConnectError::Unreachable`] only when shut down while waiting.
    pub async fn connect(
        _settings: RedisSettings,
        _tracker: &TaskTracker,
        _shutdown: CancellationToken,
    ) -> Result<Cluster, ConnectError> {
        todo!()
    }

    /// The table of shards.
    pub fn shards(&self) -> &Shards {
        &self.inner.shards
    }

    /// The topology, and how to be told of changes.
    pub fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.inner.topology.clone()
    }

    /// This process's estimate of the clock of a shard's master, milliseconds since 1970.
    pub fn log_now_ms(&self, _shard: ShardId) -> u64 {
        todo!()
    }

    /// Whether the shard's master is so near its memory limit that new taps must be refused.
    pub fn is_nearly_full(&self, _shard: ShardId) -> bool {
        todo!()
    }

    /// One command to the master of a shard, once.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn request(&self, _shard: ShardId, _command: &Cmd) -> Result<Value, RequestError> {
        todo!()
    }

    /// One script on the master of a shard, once (loaded first where the master lacks it).
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn script(
        &self,
        _shard: ShardId,
        _script: &Script,
        _keys: &[String],
        _arguments: &[Vec<u8>],
    ) -> Result<Value, RequestError> {
        todo!()
    }

    /// As [`Cluster::script`], then WAIT on the same connection: the value, and whether every electable replica has it.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn script_and_wait(
        &self,
        _shard: ShardId,
        _script: &Script,
        _keys: &[String],
        _arguments: &[Vec<u8>],
    ) -> Result<(Value, bool), RequestError> {
        todo!()
    }

    /// The read barrier: `[XRANGE (after +inf COUNT count, renewal of the lease, WAIT]` in one pipeline on one connection.
    /// `lease_key` is the aggregator's or the persister's hash of that shard, `owner` our nonce.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn read_log(
        &self,
        _shard: ShardId,
        _after: EntryId,
        _count: usize,
        _lease_key: &str,
        _owner: crate::counting::ids::Nonce,
    ) -> Result<LogRead, RequestError> {
        todo!()
    }
}

/// What one read of a log brought.
#[derive(Debug)]
pub struct LogRead {
    /// The entries, in order.
    pub entries: Vec<RawEntry>,
    /// Fewer came than were asked for.
    pub reached_end: bool,
    /// Whether they may be folded.
    pub barrier: Barrier,
    /// No replica is electable: `stable` is true without any copy.
    pub unreplicated: bool,
}
