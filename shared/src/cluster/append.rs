//! Appends with WAIT: per master one connection of its own, since a WAIT blocks all that stands behind it.

use super::client::{Cluster, Target, add_wait};
use super::errors::{RequestError, answered};
use super::metrics::Outcome;
use crate::counting::codec::BATCH_FIELD;
use crate::counting::ids::EntryId;
use crate::counting::outbox::AppendOutcome;
use crate::shards::ShardId;
use bytes::Bytes;
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::time::{Duration, Instant};

/// The pause after a first failed connection; it doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(20);

/// The longest pause: a failover takes seconds, and when it is over the appends should go on at once.
const BACKOFF_MAX: Duration = Duration::from_millis(320);

/// The connection for appends to one master. One owner; re-made by itself after an error.
#[derive(Debug)]
pub struct Appender {
    cluster: Cluster,
    master_id: String,
    connection: Option<(String, MultiplexedConnection)>,
    was_connected: bool,
    backoff: Duration,
    not_before: Option<Instant>,
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

impl Appended {
    fn failed(error: impl Into<String>) -> Self {
        Appended {
            outcome: AppendOutcome::Unknown,
            unreplicated: false,
            error: Some(error.into()),
            out_of_memory: false,
        }
    }
}

impl Appender {
    /// For the master with this node id.
    pub fn new(cluster: Cluster, master_id: String) -> Self {
        Appender {
            cluster,
            master_id,
            connection: None,
            was_connected: false,
            backoff: BACKOFF_MIN,
            not_before: None,
        }
    }

    /// `[XADD …, XADD …, WAIT]` in one pipeline, once: one result per append, in order. Never fails as a whole.
    ///
    /// A batch of a shard that is not this master's any more is not sent, and its result is unknown with an error; the
    /// caller takes it to the master that the topology names. It takes at most a connection's and an answer's timeout;
    /// but a failure can come at once, so the caller paces its attempts.
    ///
    /// # Cancel safety
    /// When dropped, the batches may or may not be in the log; the connection is made anew.
    pub async fn append(&mut self, batches: &[(ShardId, Bytes)]) -> Vec<Appended> {
        let targets: Vec<Result<Target, String>> = batches
            .iter()
            .map(|(shard, _)| self.target(*shard))
            .collect();
        let own = || {
            targets
                .iter()
                .zip(batches)
                .filter_map(|(t, batch)| Some((t.as_ref().ok()?, batch)))
        };
        let mut answers = match own().next() {
            Some((target, _)) => self.send(target, own().map(|(_, batch)| batch)).await,
            None => Ok(Vec::new().into_iter()),
        };
        // Answers stand in the order of the appends that were sent; the WAIT's is the last one.
        let appends = own().count();
        let waited = answers.as_mut().ok().and_then(|answers| {
            (answers.len() > appends)
                .then(|| answers.next_back())
                .flatten()
        });
        let answered_at = Instant::now();
        let mut results = Vec::with_capacity(targets.len());
        for target in &targets {
            results.push(match (target, &mut answers) {
                (Err(error), _) => Appended::failed(error.clone()),
                (Ok(_), Err(error)) => Appended::failed(error.to_string()),
                (Ok(target), Ok(answers)) => {
                    let answer = answers.next();
                    self.judge(target, answer, waited.as_ref(), answered_at)
                        .await
                }
            });
        }
        self.count(&results);
        results
    }

    /// This master, if the shard is its own.
    fn target(&self, shard: ShardId) -> Result<Target, String> {
        let target = self
            .cluster
            .target(self.cluster.shards().slot(shard))
            .map_err(|e| e.to_string())?;
        if target.id == self.master_id {
            Ok(target)
        } else {
            Err(format!("shard {} is {}'s now", shard.0, target.address))
        }
    }

    async fn send<'a>(
        &mut self,
        target: &Target,
        batches: impl Iterator<Item = &'a (ShardId, Bytes)>,
    ) -> Result<std::vec::IntoIter<Value>, RequestError> {
        let mut pipeline = redis::pipe();
        for (shard, value) in batches {
            pipeline
                .cmd("XADD")
                .arg(self.cluster.shards().log(*shard))
                .arg("*")
                .arg(BATCH_FIELD)
                .arg(value.as_ref());
        }
        let wait_timeout = self.cluster.inner.settings.wait_timeout;
        add_wait(&mut pipeline, target.electable_replicas, wait_timeout);
        // Taken out for the time of the request: when this future is dropped midway, so is the connection, and
        // no answer of an older pipeline can be taken for one of a newer.
        let mut connection = self.connect(&target.address).await?;
        match self.cluster.send(target, &mut connection, &pipeline).await {
            Ok(answers) => {
                self.connection = Some((target.address.clone(), connection));
                Ok(answers.into_iter())
            }
            Err(error) => {
                self.cluster.poll_topology();
                Err(RequestError::of_transport(&error))
            }
        }
    }

    async fn connect(&mut self, address: &str) -> Result<MultiplexedConnection, RequestError> {
        if let Some((of, connection)) = self.connection.take()
            && of == address
        {
            return Ok(connection);
        }
        if let Some(not_before) = self.not_before {
            tokio::time::sleep_until(not_before.into()).await;
        }
        if self.was_connected {
            self.cluster.inner.metrics.reconnects.inc();
        }
        let timeout = self.cluster.inner.settings.response_timeout();
        match self.cluster.inner.dialer.open(address, timeout).await {
            Ok(connection) => {
                self.was_connected = true;
                self.backoff = BACKOFF_MIN;
                self.not_before = None;
                Ok(connection)
            }
            Err(error) => {
                self.not_before = Some(Instant::now() + self.backoff);
                self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
                self.cluster.poll_topology();
                Err(RequestError::NotDone(error.to_string()))
            }
        }
    }

    /// The WAIT counts for an append only if that append itself succeeded: behind one that was rejected it is satisfied
    /// by what was written before.
    async fn judge(
        &self,
        target: &Target,
        answer: Option<Value>,
        waited: Option<&Value>,
        answered_at: Instant,
    ) -> Appended {
        let Some(answer) = answer else {
            return Appended::failed("no answer came");
        };
        let id = match answered(answer) {
            Ok(value) => super::view::text(&value).parse::<EntryId>(),
            Err(error) => {
                let error = self.cluster.error(&error);
                return Appended {
                    out_of_memory: error == RequestError::OutOfMemory,
                    ..Appended::failed(error.to_string())
                };
            }
        };
        let id = match id {
            Ok(id) => id,
            Err(error) => return Appended::failed(error.to_string()),
        };
        let acknowledged = waited.map(super::view::text);
        let waited = self.cluster.waited(target, waited, answered_at).await;
        if !waited.stable {
            let acknowledged = acknowledged.as_deref().unwrap_or("none");
            return Appended::failed(format!(
                "entry {id} is not on every electable replica ({acknowledged} of {})",
                target.electable_replicas
            ));
        }
        Appended {
            outcome: AppendOutcome::Stable(id),
            unreplicated: waited.unreplicated,
            error: None,
            out_of_memory: false,
        }
    }

    fn count(&self, results: &[Appended]) {
        for result in results {
            let outcome = match (&result.outcome, result.out_of_memory) {
                (AppendOutcome::Stable(_), _) => Outcome::of::<()>(&Ok(())),
                (_, true) => Outcome::of::<()>(&Err(RequestError::OutOfMemory)),
                _ => Outcome::not_stable(),
            };
            self.cluster
                .inner
                .metrics
                .appends
                .get_or_create(&outcome)
                .inc();
        }
    }
}
