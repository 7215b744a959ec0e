//! Requests and scripts.

use super::clock::local_ms;
use super::dial::Dialer;
use super::errors::{RequestError, answered, tells_of_change};
use super::metrics::{ClusterMetrics, Outcome};
use super::pools::Pools;
use super::scripts::Script;
use super::settings::RedisSettings;
use super::topology::{Master, Topology};
use crate::shards::{ShardId, Shards};
use deadpool_redis::Connection;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, ServerError, ServerErrorKind, Value};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

pub use super::reading::LogRead;

/// A master whose memory is fuller than this takes no new taps: the rest is for what must go on (commits, leases,
/// room changes, and the replicas' buffers).
const NEARLY_FULL_RATIO: f64 = 0.9;

/// A shard's log as a tap meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogState {
    /// This process's estimate of the clock of the shard's master, milliseconds since 1970.
    pub now_ms: u64,
    /// Whether that master is so near its memory limit that new taps must be refused.
    pub is_nearly_full: bool,
}

/// A handle to the cluster; clones share everything.
#[derive(Clone)]
pub struct Cluster {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) settings: RedisSettings,
    pub(super) shards: Shards,
    pub(super) topology: watch::Receiver<Arc<Topology>>,
    pub(super) dialer: Dialer,
    pub(super) pools: Arc<Pools>,
    pub(super) hint: Arc<Notify>,
    /// Told after each poll of the topology, changed or not.
    pub(super) polled: Arc<Notify>,
    pub(super) metrics: ClusterMetrics,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("settings", &self.inner.settings)
            .finish_non_exhaustive()
    }
}

/// The master a request goes to, as it was when the request was made.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) slot: u16,
    pub(super) id: String,
    pub(super) address: String,
    pub(super) electable_replicas: usize,
}

impl Cluster {
    /// The table of shards.
    pub fn shards(&self) -> &Shards {
        &self.inner.shards
    }

    /// The topology, and how to be told of changes of masters, slots and electable replicas.
    pub fn topology(&self) -> watch::Receiver<Arc<Topology>> {
        self.inner.topology.clone()
    }

    /// What this client counts.
    pub fn metrics(&self) -> &ClusterMetrics {
        &self.inner.metrics
    }

    /// This process's estimate of the clock of a shard's master, milliseconds since 1970.
    pub fn log_now_ms(&self, shard: ShardId) -> u64 {
        self.log_state(shard, Instant::now()).now_ms
    }

    /// What a tap that comes at this moment has to know of its shard's log.
    pub fn log_state(&self, shard: ShardId, at: Instant) -> LogState {
        let topology = self.inner.topology.borrow();
        let master = topology.master_of(self.inner.shards.slot(shard));
        let offset_ms = master.map_or(0, |master| master.clock_offset_ms);
        LogState {
            now_ms: u64::try_from(local_ms(at).saturating_add(offset_ms)).unwrap_or(0),
            is_nearly_full: master
                .is_some_and(|master| master.memory_used_ratio >= NEARLY_FULL_RATIO),
        }
    }

    /// Has the topology polled at once, because the caller saw that it has changed. Many such wishes make one poll.
    pub fn poll_topology(&self) {
        self.inner.hint.notify_one();
    }

    /// One command to the master of a shard, once.
    ///
    /// # Errors
    /// See [`RequestError`].
    ///
    /// # Cancel safety
    /// When dropped, the command may or may not have been done.
    pub async fn request(&self, shard: ShardId, command: &Cmd) -> Result<Value, RequestError> {
        let result = self
            .request_at(self.inner.shards.slot(shard), command)
            .await;
        self.count(result)
    }

    /// One script on the master of a shard, once (loaded first where the master lacks it).
    ///
    /// # Errors
    /// See [`RequestError`].
    ///
    /// # Cancel safety
    /// When dropped, the script may or may not have been run.
    pub async fn script(
        &self,
        shard: ShardId,
        script: &Script,
        keys: &[String],
        arguments: &[Vec<u8>],
    ) -> Result<Value, RequestError> {
        let result = self
            .script_at(self.inner.shards.slot(shard), script, keys, arguments)
            .await;
        self.count(result)
    }

    /// As [`Cluster::script`], then WAIT on the same connection: the value, and whether every electable replica has it.
    ///
    /// # Errors
    /// See [`RequestError`].
    ///
    /// # Cancel safety
    /// When dropped, the script may or may not have been run.
    pub async fn script_and_wait(
        &self,
        shard: ShardId,
        script: &Script,
        keys: &[String],
        arguments: &[Vec<u8>],
    ) -> Result<(Value, bool), RequestError> {
        let result = self
            .script_and_wait_at(shard, script, keys, arguments)
            .await;
        self.count(result)
    }

    async fn script_and_wait_at(
        &self,
        shard: ShardId,
        script: &Script,
        keys: &[String],
        arguments: &[Vec<u8>],
    ) -> Result<(Value, bool), RequestError> {
        let target = self.target(self.inner.shards.slot(shard))?;
        let mut pipeline = redis::pipe();
        pipeline.add_command(script.call(keys, arguments));
        add_wait(
            &mut pipeline,
            target.electable_replicas,
            self.inner.settings.wait_timeout,
        );
        let mut answers = self
            .pipeline_with_script(&target, &pipeline, script, 0)
            .await?;
        let answered = Instant::now();
        let value = self.first(&mut answers)?;
        let waited = self
            .waited(&target, answers.next().as_ref(), answered)
            .await;
        Ok((value, waited.stable))
    }

    pub(super) async fn request_at(&self, slot: u16, command: &Cmd) -> Result<Value, RequestError> {
        let target = self.target(slot)?;
        let mut pipeline = redis::pipe();
        pipeline.add_command(command.clone());
        let mut answers = self.pipeline(&target, &pipeline).await?;
        self.first(&mut answers)
    }

    pub(super) async fn script_at<A: redis::ToRedisArgs>(
        &self,
        slot: u16,
        script: &Script,
        keys: &[String],
        arguments: &[A],
    ) -> Result<Value, RequestError> {
        let target = self.target(slot)?;
        let mut pipeline = redis::pipe();
        pipeline.add_command(script.call(keys, arguments));
        let mut answers = self
            .pipeline_with_script(&target, &pipeline, script, 0)
            .await?;
        self.first(&mut answers)
    }

    /// The master of a slot now.
    pub(super) fn target(&self, slot: u16) -> Result<Target, RequestError> {
        let topology = self.inner.topology.borrow();
        let Some(Master {
            id,
            address,
            electable_replicas,
            ..
        }) = topology.master_of(slot)
        else {
            self.poll_topology();
            return Err(RequestError::NotDone(format!(
                "no master is known for slot {slot}"
            )));
        };
        Ok(Target {
            slot,
            id: id.clone(),
            address: address.clone(),
            electable_replicas: *electable_replicas,
        })
    }

    /// Sends a pipeline to a master, once: one answer per command.
    async fn pipeline(
        &self,
        target: &Target,
        pipeline: &Pipeline,
    ) -> Result<Answers, RequestError> {
        let mut connection = self.connection(target).await?;
        let sent = connection
            .req_packed_commands(pipeline, 0, pipeline.len())
            .await;
        self.settle(connection, sent)
    }

    /// As [`Cluster::pipeline`]; where the command at `index`, a call of `script`, finds no such script, it is loaded and
    /// the whole pipeline sent again. That is safe only because nothing else in it writes.
    pub(super) async fn pipeline_with_script(
        &self,
        target: &Target,
        pipeline: &Pipeline,
        script: &Script,
        index: usize,
    ) -> Result<Answers, RequestError> {
        let mut connection = self.connection(target).await?;
        let mut sent = self.send(target, &mut connection, pipeline).await;
        if sent
            .as_ref()
            .is_ok_and(|answers| is_no_script(answers.get(index)))
        {
            // A failed load shows again as NOSCRIPT.
            let load = connection.req_packed_command(&script.load()).await;
            if load.is_ok() {
                sent = self.send(target, &mut connection, pipeline).await;
            }
        }
        self.settle(connection, sent)
    }

    /// Sends a pipeline on a connection, and waits for its answers no longer than the node is a master: one that
    /// stalled and was replaced would keep the caller from its successor.
    ///
    /// # Errors
    /// No answer: all or part of it may have been done. The connection must not be used again.
    pub(super) async fn send(
        &self,
        target: &Target,
        connection: &mut impl ConnectionLike,
        pipeline: &Pipeline,
    ) -> redis::RedisResult<Vec<Value>> {
        let mut topology = self.inner.topology.clone();
        let deposed = topology.wait_for(|topology| {
            topology
                .master(&target.id)
                .is_none_or(|master| master.address != target.address)
        });
        tokio::select! {
            biased;
            answers = connection.req_packed_commands(pipeline, 0, pipeline.len()) => answers,
            Ok(_) = deposed => {
                let error = std::io::Error::other(format!("{} is no master any more", target.address));
                Err(error.into())
            }
        }
    }

    async fn connection(&self, target: &Target) -> Result<Connection, RequestError> {
        self.inner
            .pools
            .connection(&target.address)
            .await
            .map_err(|why| {
                self.poll_topology();
                RequestError::NotDone(why)
            })
    }

    /// The answers, if they came; a connection that failed is not given back to its pool.
    fn settle(
        &self,
        connection: Connection,
        sent: redis::RedisResult<Vec<Value>>,
    ) -> Result<Answers, RequestError> {
        sent.map(Vec::into_iter).map_err(|error| {
            drop(Connection::take(connection));
            self.poll_topology();
            RequestError::of_transport(&error)
        })
    }

    /// The first of the answers, which is the request's own.
    pub(super) fn first(&self, answers: &mut Answers) -> Result<Value, RequestError> {
        let answer = answers
            .next()
            .ok_or_else(|| RequestError::Unknown("no answer came".to_owned()))?;
        answered(answer).map_err(|error| self.error(&error))
    }

    /// An error that the server answered; asks for a poll if it tells of a change.
    pub(super) fn error(&self, error: &ServerError) -> RequestError {
        if tells_of_change(error) {
            self.poll_topology();
        }
        RequestError::of_answer(error)
    }

    pub(super) fn count<T>(&self, result: Result<T, RequestError>) -> Result<T, RequestError> {
        self.inner
            .metrics
            .requests
            .get_or_create(&Outcome::of(&result))
            .inc();
        result
    }
}

/// The answers to a pipeline, one per command.
pub(super) type Answers = std::vec::IntoIter<Value>;

/// Adds a WAIT for this many replicas; none for none, where it would say nothing.
pub(super) fn add_wait(pipeline: &mut Pipeline, replicas: usize, timeout: Duration) {
    if replicas > 0 {
        // Zero would wait for ever.
        let timeout_ms = u64::try_from(timeout.as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        pipeline.cmd("WAIT").arg(replicas).arg(timeout_ms);
    }
}

fn is_no_script(answer: Option<&Value>) -> bool {
    matches!(answer, Some(Value::ServerError(error)) if error.kind() == Some(ServerErrorKind::NoScript))
}
