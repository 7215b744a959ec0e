//! A database and a persister for each test, on one rig.
//!
//! All tests read the same logs, so each sees the entries of those before it too (in its own, empty database): they keep
//! apart by room. Those that run a persister run one after the other, as two would share the shards.

use persister::for_tests::open;
use persister::{Listeners, Settings};
use redis::Value;
use rig::Rig;
use shared::cluster::{Cluster, RedisSettings};
use shared::counting::codec::{BATCH_FIELD, CHANGE_FIELD, encode_batch, encode_change};
use shared::counting::entry::{Batch, RoomBatch, RoomChange, RoomChangeKind, Tap};
use shared::counting::ids::{ClientHash, EntryId, PageId, ProducerId, TapId};
use shared::room::{Palette, Room, RoomCode, RoomState};
use shared::service::main::settings_from_toml;
use shared::shards::ShardId;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Few, so that a test's persister has little to do besides.
pub(crate) const SHARDS: u16 = 8;
/// Generous: the machine may be busy with other tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

static ALONE: Mutex<()> = Mutex::const_new(());

/// A database that is set up, for tests that need no persister. They too run one after the other: some restart Postgres.
pub(crate) struct Database {
    pub(crate) url: String,
    _alone: MutexGuard<'static, ()>,
}

impl Database {
    pub(crate) async fn new() -> Database {
        let alone = ALONE.lock().await;
        let url = rig::shared().await.create_database().await.unwrap();
        drop(open(&url, SHARDS).await.unwrap());
        Database { url, _alone: alone }
    }

    pub(crate) async fn sql(&self) -> Client {
        connect(&self.url).await
    }
}

/// One test's surroundings.
pub(crate) struct Bench<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) url: String,
    pub(crate) cluster: Cluster,
    stop: CancellationToken,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Bench<'_> {
    /// On the rig that all tests share, with a database of its own.
    pub(crate) async fn new() -> Bench<'static> {
        Bench::on(rig::shared().await).await
    }

    /// On a rig that the test may break.
    pub(crate) async fn on(rig: &Rig) -> Bench<'_> {
        let alone = ALONE.lock().await;
        let url = rig.create_database().await.unwrap();
        let stop = CancellationToken::new();
        let mut redis = RedisSettings::new(rig.redis_nodes());
        redis.shards = SHARDS;
        let cluster = Cluster::connect(redis, &TaskTracker::new(), stop.clone())
            .await
            .unwrap();
        Bench {
            rig,
            url,
            cluster,
            stop,
            _alone: alone,
        }
    }

    /// A persister on this database; `more` are lines of its section.
    pub(crate) async fn persister(&self, more: &str) -> Persister {
        Persister::start(&self.settings(more)).await
    }

    pub(crate) fn settings(&self, more: &str) -> Settings {
        self.settings_on(&self.url, more)
    }

    pub(crate) fn settings_on(&self, url: &str, more: &str) -> Settings {
        let nodes: Vec<String> = self
            .rig
            .redis_nodes()
            .iter()
            .map(|node| format!("{node:?}"))
            .collect();
        let toml = format!(
            "[redis]\nnodes = [{}]\nshards = {SHARDS}\n[postgres]\nurl = {url:?}\n\
             [persister]\noperations_listen = \"127.0.0.1:0\"\ninterval_ms = 50\n{more}",
            nodes.join(",")
        );
        settings_from_toml(&toml, Settings::read).unwrap()
    }

    /// A connection of the test's own.
    pub(crate) async fn sql(&self) -> Client {
        connect(&self.url).await
    }

    pub(crate) fn shard(&self, code: &RoomCode) -> ShardId {
        self.cluster.shards().of(code)
    }

    /// Appends an entry; its id.
    pub(crate) async fn append(&self, code: &RoomCode, field: &str, value: &[u8]) -> EntryId {
        self.append_as(code, "*", field, value).await
    }

    /// Appends an entry with this id.
    pub(crate) async fn append_as(
        &self,
        code: &RoomCode,
        id: &str,
        field: &str,
        value: &[u8],
    ) -> EntryId {
        let shard = self.shard(code);
        let mut add = redis::cmd("XADD");
        add.arg(self.cluster.shards().log(shard))
            .arg(id)
            .arg(field)
            .arg(value);
        let Value::BulkString(id) = self.cluster.request(shard, &add).await.unwrap() else {
            panic!("XADD answers with an id")
        };
        String::from_utf8(id).unwrap().parse().unwrap()
    }

    pub(crate) async fn append_batch(&self, batch: &Batch) -> EntryId {
        self.append(&batch.rooms[0].code, BATCH_FIELD, &encode_batch(batch))
            .await
    }

    pub(crate) async fn append_change(&self, kind: RoomChangeKind, room: &Room) -> EntryId {
        let change = RoomChange {
            v: 1,
            kind,
            room: room.clone(),
        };
        self.append(&room.code, CHANGE_FIELD, &encode_change(&change))
            .await
    }

    /// One command to the master of a room's shard.
    pub(crate) async fn redis(&self, code: &RoomCode, arguments: &[&str]) -> Value {
        let mut command = redis::cmd(arguments[0]);
        for argument in &arguments[1..] {
            command.arg(*argument);
        }
        self.cluster
            .request(self.shard(code), &command)
            .await
            .unwrap()
    }

    /// Waits until a room has this many taps in the counts.
    pub(crate) async fn wait_taps(&self, sql: &Client, code: &RoomCode, taps: i64) {
        let what = format!("{taps} taps of {code}");
        until(&what, async || {
            let found = stored_taps(sql, code).await?;
            assert!(found <= taps, "{code} has {found} taps, more than {taps}");
            (found == taps).then_some(())
        })
        .await;
    }
}

/// Taps of a room in the counts; none while they cannot be read.
pub(crate) async fn stored_taps(sql: &Client, code: &RoomCode) -> Option<i64> {
    let query = "SELECT coalesce(sum(c.taps), 0)::bigint FROM tap_counts c JOIN rooms r USING (room_id) WHERE r.code = $1";
    Some(sql.query_one(query, &[&code.as_str()]).await.ok()?.get(0))
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("SET TIME ZONE 'UTC'").await.unwrap();
    client
}

/// Waits for a condition.
pub(crate) async fn until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A persister at work.
pub(crate) struct Persister {
    shutdown: CancellationToken,
    operations: SocketAddr,
    work: JoinHandle<anyhow::Result<()>>,
}

impl Persister {
    pub(crate) async fn start(settings: &Settings) -> Persister {
        let listeners = Listeners::bind(settings).await.unwrap();
        let operations = listeners.operations.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let work = tokio::spawn(persister::run(
            settings.clone(),
            listeners,
            shutdown.clone(),
        ));
        Persister {
            shutdown,
            operations,
            work,
        }
    }

    /// Shuts it down; how it ended.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        self.ended().await
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(self) -> anyhow::Result<()> {
        tokio::time::timeout(PATIENCE, self.work)
            .await
            .expect("it ends")
            .unwrap()
    }

    /// As kill -9: nothing is let go.
    pub(crate) fn kill(self) {
        self.work.abort();
    }

    /// The sum of a metric over all label sets that contain `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> f64 {
        let (_, text) = rig::get(self.operations, "/metrics").await.unwrap();
        let name = format!("uproar_persister_{name}");
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name.as_str())?;
            let (of, value) = rest.rsplit_once(' ')?;
            let fits = (of.is_empty() || of.starts_with('{')) && of.contains(labels);
            if fits {
                value.parse::<f64>().ok()
            } else {
                None
            }
        });
        values.sum()
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        rig::get(self.operations, path).await.unwrap()
    }

    pub(crate) async fn wait_metric(&self, name: &str, labels: &str, right: impl Fn(f64) -> bool) {
        until(name, async || {
            right(self.metric(name, labels).await).then_some(())
        })
        .await;
    }
}

/// A gateway as the log sees it.
pub(crate) struct Gateway {
    producer: u64,
    numbers: HashMap<ShardId, u64>,
    seq: u32,
}

impl Gateway {
    pub(crate) fn new() -> Gateway {
        Gateway {
            producer: rand::random(),
            numbers: HashMap::new(),
            seq: 0,
        }
    }

    pub(crate) fn producer(&self) -> i64 {
        self.producer.cast_signed()
    }

    /// A batch of one tap of each of these clients, now.
    pub(crate) fn batch(
        &mut self,
        bench: &Bench<'_>,
        code: &RoomCode,
        key: &str,
        clients: impl IntoIterator<Item = u64>,
    ) -> Batch {
        let now = bench.cluster.log_now_ms(bench.shard(code));
        self.batch_at(bench, code, key, clients, now)
    }

    pub(crate) fn batch_at(
        &mut self,
        bench: &Bench<'_>,
        code: &RoomCode,
        key: &str,
        clients: impl IntoIterator<Item = u64>,
        now: u64,
    ) -> Batch {
        let number = self.numbers.entry(bench.shard(code)).or_default();
        *number += 1;
        let taps = clients.into_iter().map(|client| {
            self.seq += 1;
            // The page is the gateway's, so that two gateways may have the same client.
            let page = PageId((self.producer & 0xffff_ffff) as u32);
            let id = TapId {
                client: ClientHash(client),
                page,
                seq: self.seq,
            };
            Tap {
                id,
                key: key.parse().unwrap(),
                tapped_at_ms: now,
            }
        });
        let room = RoomBatch {
            code: code.clone(),
            people: None,
            taps: taps.collect(),
        };
        Batch {
            producer: ProducerId(self.producer),
            number: *number,
            void_after_ms: now + 20_000,
            rooms: vec![room],
        }
    }
}

/// A code that no other test has.
pub(crate) fn new_code() -> RoomCode {
    RoomCode::generate(&mut rand::rng())
}

pub(crate) fn room(code: &RoomCode, created_at_ms: u64) -> Room {
    Room {
        code: code.clone(),
        title: "A room".to_owned(),
        palette: Palette::standard(),
        cooldown_ms: 1_000,
        state: RoomState::Open,
        version: 1,
        created_at_ms,
    }
}

/// That rows, counts and ledger agree, second by second.
pub(crate) async fn check_books(sql: &Client) {
    let row = sql
        .query_one(
            "SELECT (SELECT coalesce(sum(taps), 0)::bigint FROM ledger), \
                    (SELECT coalesce(sum(taps), 0)::bigint FROM tap_counts), \
                    (SELECT coalesce(sum(unrecorded), 0)::bigint FROM tap_counts), \
                    (SELECT count(*) FROM taps)",
            &[],
        )
        .await
        .unwrap();
    let (ledger, counts, unrecorded, rows): (i64, i64, i64, i64) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!(ledger, counts, "ledger and counts");
    assert_eq!(rows + unrecorded, counts, "rows and counts");
    let wrong = sql
        .query(
            "SELECT c::text, t::text FROM tap_counts c FULL JOIN ( \
                 SELECT room_id, reaction_id, date_trunc('second', tapped_at) AS second, count(*) AS taps, \
                        count(DISTINCT client) AS tappers FROM taps GROUP BY 1, 2, 3) t \
             ON t.room_id = c.room_id AND t.reaction_id = c.reaction_id AND t.second = c.second \
             WHERE c.taps - c.unrecorded IS DISTINCT FROM coalesce(t.taps, 0) \
                OR (c.unrecorded = 0 AND c.tappers IS DISTINCT FROM t.tappers)",
            &[],
        )
        .await
        .unwrap();
    let wrong: Vec<(Option<String>, Option<String>)> =
        wrong.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(wrong, [], "counts and the rows they stand for");
    let outside = "SELECT count(*) FROM rooms r WHERE EXISTS (SELECT FROM tap_counts c WHERE c.room_id = r.room_id \
         AND (c.second <= r.first_tap_at - interval '1 second' OR c.second > r.last_tap_at))";
    let outside: i64 = sql.query_one(outside, &[]).await.unwrap().get(0);
    assert_eq!(
        outside, 0,
        "rooms with taps before their first or after their last"
    );
}
