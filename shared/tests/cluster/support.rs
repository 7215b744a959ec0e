//! What the tests of the cluster client share.

use bytes::Bytes;
use redis::Value;
use shared::cluster::append::{Appended, Appender};
use shared::cluster::{Cluster, RedisSettings};
use shared::counting::outbox::AppendOutcome;
use shared::shards::ShardId;
use std::collections::HashMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// A connected client that stops with its test.
pub(crate) struct Client {
    pub(crate) cluster: Cluster,
    pub(crate) tracker: TaskTracker,
    pub(crate) shutdown: CancellationToken,
    _stop: tokio_util::sync::DropGuard,
}

impl Client {
    pub(crate) async fn connect(settings: RedisSettings) -> Client {
        let tracker = TaskTracker::new();
        let shutdown = CancellationToken::new();
        let connecting = Cluster::connect(settings, &tracker, shutdown.clone());
        let cluster = tokio::time::timeout(PATIENCE, connecting)
            .await
            .unwrap()
            .unwrap();
        let _stop = shutdown.clone().drop_guard();
        Client {
            cluster,
            tracker,
            shutdown,
            _stop,
        }
    }
}

/// Waits until `condition` gives something.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut condition: impl FnMut() -> F,
) -> T {
    let waiting = async {
        loop {
            if let Some(found) = condition().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"))
}

/// Appenders for all masters, made as they appear; a batch goes to the master that the topology names.
pub(crate) struct Appenders {
    cluster: Cluster,
    by_master: HashMap<String, Appender>,
}

impl Appenders {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Appenders {
            cluster,
            by_master: HashMap::new(),
        }
    }

    /// One attempt.
    pub(crate) async fn append(&mut self, shard: ShardId, value: &Bytes) -> Appended {
        let slot = self.cluster.shards().slot(shard);
        let master = self
            .cluster
            .topology()
            .borrow()
            .master_of(slot)
            .map(|m| m.id.clone());
        let Some(master) = master else {
            return Appended {
                outcome: AppendOutcome::Unknown,
                unreplicated: false,
                error: Some("no master".to_owned()),
                out_of_memory: false,
            };
        };
        let cluster = &self.cluster;
        let new = || Appender::new(cluster.clone(), master.clone());
        let appender = self.by_master.entry(master.clone()).or_insert_with(new);
        appender.append(&[(shard, value.clone())]).await.remove(0)
    }

    /// Attempts until it is stable, as an outbox does; how many it took, and how it ended.
    pub(crate) async fn until_stable(
        &mut self,
        shard: ShardId,
        value: &Bytes,
    ) -> (usize, Appended) {
        let trying = async {
            for attempt in 1.. {
                let appended = self.append(shard, value).await;
                if matches!(appended.outcome, AppendOutcome::Stable(_)) {
                    return (attempt, appended);
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
            unreachable!("attempts do not end")
        };
        tokio::time::timeout(PATIENCE, trying)
            .await
            .expect("never stable")
    }
}

/// All values in a shard's log, in order.
pub(crate) async fn log(cluster: &Cluster, shard: ShardId) -> Vec<Vec<u8>> {
    let mut command = redis::cmd("XRANGE");
    command.arg(cluster.shards().log(shard)).arg("-").arg("+");
    let answer = eventually("a log that can be read", || async {
        cluster.request(shard, &command).await.ok()
    })
    .await;
    let Value::Array(entries) = answer else {
        panic!("no entries: {answer:?}")
    };
    let value = |entry: Value| -> Vec<u8> {
        let (_, mut fields): (String, Vec<(String, Vec<u8>)>) =
            redis::from_redis_value(entry).unwrap();
        fields.remove(0).1
    };
    entries.into_iter().map(value).collect()
}

/// One command to one node.
pub(crate) async fn ask(address: &str, command: &redis::Cmd) -> Value {
    let client = redis::Client::open(format!("redis://{address}/")).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    command.query_async(&mut connection).await.unwrap()
}
