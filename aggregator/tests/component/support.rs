//! What the component tests share: an aggregator in this process, and a gateway's part of the work.

use aggregator::{Listeners, Settings, run};
use redis::{FromRedisValue, Value};
use rig::Rig;
use shared::cluster::subscribe::{FeedEvent, subscribe_to_ticks};
use shared::cluster::{Cluster, RedisSettings};
use shared::counting::codec::{BATCH_FIELD, CHANGE_FIELD, encode_batch, encode_change};
use shared::counting::entry::{Batch, RoomBatch, RoomChange, RoomChangeKind, Tap};
use shared::counting::ids::{ClientHash, EntryId, PageId, ProducerId, TapId};
use shared::counting::outbox::VOID_AFTER_MS;
use shared::room::{Palette, ReactionKey, Room, RoomCode, RoomState};
use shared::shards::{ShardId, Shards};
use shared::ticks::{FeedMessage, RoomTick, Tick};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// How long anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// An aggregator on a runtime of its own, so that it can be torn out of its work.
pub(crate) struct Instance {
    runtime: Option<tokio::runtime::Runtime>,
    running: tokio::task::JoinHandle<anyhow::Result<()>>,
    shutdown: CancellationToken,
    pub(crate) operations: SocketAddr,
}

impl Instance {
    pub(crate) fn start(nodes: Vec<String>) -> Instance {
        let settings = Settings {
            redis: RedisSettings::new(nodes),
            operations_listen: "127.0.0.1:0".parse().unwrap(),
            tick_interval: Duration::from_millis(250),
            room_retention: Duration::from_secs(86_400),
            read_entries_max: 50,
            shutdown_timeout: Duration::from_secs(10),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let shutdown = CancellationToken::new();
        let listeners = {
            let _entered = runtime.enter();
            Listeners::bind(&settings).unwrap()
        };
        let operations = listeners.operations.local_addr().unwrap();
        let running = runtime.spawn(run(settings, listeners, shutdown.clone()));
        Instance {
            runtime: Some(runtime),
            running,
            shutdown,
            operations,
        }
    }

    /// Ends it as kill -9 would: nothing it holds is let go, nothing under way is finished.
    pub(crate) fn kill(mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }

    /// Ends it in good order.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, &mut self.running)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        self.runtime.take().unwrap().shutdown_background();
    }

    /// The sum of a metric over the label sets that contain `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> f64 {
        let (_, text) = rig::get(self.operations, "/metrics")
            .await
            .unwrap_or_default();
        let matching = text
            .lines()
            .filter(|line| line.starts_with(name) && line.contains(labels));
        matching
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A client of Redis as a gateway has one. It ends with its test.
pub(crate) struct Client {
    pub(crate) cluster: Cluster,
    tracker: TaskTracker,
    shutdown: CancellationToken,
    _stop: DropGuard,
}

impl Client {
    pub(crate) async fn connect(rig: &Rig) -> Client {
        let tracker = TaskTracker::new();
        let shutdown = CancellationToken::new();
        let settings = RedisSettings::new(rig.redis_nodes());
        let connecting = Cluster::connect(settings, &tracker, shutdown.clone());
        let cluster = tokio::time::timeout(PATIENCE, connecting)
            .await
            .unwrap()
            .unwrap();
        Client {
            cluster,
            tracker,
            _stop: shutdown.clone().drop_guard(),
            shutdown,
        }
    }

    pub(crate) fn feed(&self) -> Feed {
        let (events, _resubscribe) =
            subscribe_to_ticks(&self.cluster, &self.tracker, self.shutdown.clone());
        Feed {
            events,
            _resubscribe,
        }
    }

    /// A command to a shard's master, until it is answered.
    pub(crate) async fn ask<T: FromRedisValue>(&self, shard: ShardId, command: &redis::Cmd) -> T {
        let answer = eventually("an answer", async || {
            self.cluster.request(shard, command).await.ok()
        })
        .await;
        T::from_redis_value(answer).unwrap()
    }

    async fn append(&self, shard: ShardId, field: &str, value: Vec<u8>) -> EntryId {
        let mut command = redis::cmd("XADD");
        command
            .arg(self.cluster.shards().log(shard))
            .arg("*")
            .arg(field)
            .arg(value);
        self.ask::<String>(shard, &command).await.parse().unwrap()
    }

    pub(crate) async fn append_batch(&self, batch: &Batch) -> EntryId {
        let shard = self.cluster.shards().of(&batch.rooms[0].code);
        self.append(shard, BATCH_FIELD, encode_batch(batch)).await
    }

    /// Of one room, in one request.
    pub(crate) async fn append_batches(&self, batches: &[Batch]) {
        let shard = self.cluster.shards().of(&batches[0].rooms[0].code);
        let mut command = redis::cmd("EVAL");
        command
            .arg("for i = 2, #ARGV do redis.call('XADD', KEYS[1], '*', ARGV[1], ARGV[i]) end")
            .arg(1)
            .arg(self.cluster.shards().log(shard))
            .arg(BATCH_FIELD);
        for batch in batches {
            command.arg(encode_batch(batch));
        }
        self.ask::<Value>(shard, &command).await;
    }

    pub(crate) async fn append_raw(&self, shard: ShardId, field: &str, value: &[u8]) {
        self.append(shard, field, value.to_vec()).await;
    }

    /// Changes a room as a gateway does: its hash, then the entry.
    pub(crate) async fn change_room(&self, kind: RoomChangeKind, room: &Room) {
        let shard = self.cluster.shards().of(&room.code);
        self.store_room(room).await;
        let change = RoomChange {
            v: 1,
            kind,
            room: room.clone(),
        };
        self.append(shard, CHANGE_FIELD, encode_change(&change))
            .await;
    }

    pub(crate) async fn store_room(&self, room: &Room) {
        let shard = self.cluster.shards().of(&room.code);
        let mut command = redis::cmd("HSET");
        command.arg(self.cluster.shards().room(&room.code));
        command
            .arg("room")
            .arg(serde_json::to_string(room).unwrap())
            .arg("version")
            .arg(room.version);
        self.ask::<Value>(shard, &command).await;
    }

    /// A batch of one room, good for the next 20 s.
    pub(crate) fn batch(
        &self,
        producer: u64,
        number: u64,
        room: &RoomCode,
        taps: Vec<Tap>,
    ) -> Batch {
        let shard = self.cluster.shards().of(room);
        Batch {
            producer: ProducerId(producer),
            number,
            void_after_ms: self.cluster.log_now_ms(shard) + VOID_AFTER_MS,
            rooms: vec![RoomBatch {
                code: room.clone(),
                people: None,
                taps,
            }],
        }
    }

    pub(crate) async fn totals(&self, room: &RoomCode) -> BTreeMap<String, u64> {
        let shard = self.cluster.shards().of(room);
        self.ask(
            shard,
            redis::cmd("HGETALL").arg(self.cluster.shards().totals(room)),
        )
        .await
    }

    /// Waits until a room has these totals, and no others.
    pub(crate) async fn expect_totals(&self, room: &RoomCode, expected: &[(&str, u64)]) {
        let expected: BTreeMap<String, u64> = expected
            .iter()
            .map(|(key, total)| ((*key).to_owned(), *total))
            .collect();
        let got = eventually_or_last(async || {
            let totals = self.totals(room).await;
            (totals == expected, totals)
        });
        assert_eq!(got.await, expected, "totals of {room}");
    }

    /// Owners of all leases, in the order of the shards.
    pub(crate) async fn owners(&self) -> Vec<Option<u64>> {
        let mut owners = Vec::new();
        for shard in self.cluster.shards().all() {
            let key = self.cluster.shards().aggregator(shard);
            let lease = self.cluster.read_lease(shard, &key).await;
            owners.push(lease.ok().and_then(|lease| Some(lease.record.owner?.0)));
        }
        owners
    }
}

/// The ticks channels of all shards.
pub(crate) struct Feed {
    events: mpsc::Receiver<FeedEvent>,
    _resubscribe: mpsc::Sender<ShardId>,
}

impl Feed {
    /// The next tick of a shard.
    pub(crate) async fn next(&mut self, shard: ShardId) -> Tick {
        let next = async {
            loop {
                let event = self.events.recv().await.expect("the feed does not end");
                if let FeedEvent::Message(of, bytes) = event
                    && of == shard
                    && let Ok(FeedMessage::Tick(tick)) = FeedMessage::decode(&bytes)
                {
                    return tick;
                }
            }
        };
        tokio::time::timeout(PATIENCE, next)
            .await
            .expect("no tick came")
    }

    /// What a tick tells of a room, once it tells something that `wanted` takes.
    pub(crate) async fn room(
        &mut self,
        shard: ShardId,
        room: &RoomCode,
        wanted: impl Fn(&RoomTick) -> bool,
    ) -> RoomTick {
        loop {
            let mut tick = self.next(shard).await;
            if let Some(told) = tick.rooms.remove(room.as_str()).filter(&wanted) {
                return told;
            }
        }
    }

    /// Waits until a shard's channel is heard.
    pub(crate) async fn heard(&mut self, shard: ShardId) {
        self.next(shard).await;
    }
}

/// Waits until `condition` gives something.
pub(crate) async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until `look` says that it is right; what it saw last.
pub(crate) async fn eventually_or_last<T>(mut look: impl AsyncFnMut() -> (bool, T)) -> T {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let (is_right, seen) = look().await;
        if is_right || tokio::time::Instant::now() > deadline {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A room that lives in a given shard, so that tests do not meet.
pub(crate) fn room_in(shard: u16) -> RoomCode {
    let shards = Shards::new(64);
    let codes = (0..).map(|n| format!("T{shard}X{n}").parse::<RoomCode>().unwrap());
    codes
        .into_iter()
        .find(|code| shards.of(code) == ShardId(shard))
        .unwrap()
}

/// Taps of one page, `seq` from `first` on.
pub(crate) fn taps(client: u64, first: u32, keys: &[&str]) -> Vec<Tap> {
    let tap = |(seq, key): (u32, &&str)| Tap {
        id: TapId {
            client: ClientHash(client),
            page: PageId(7),
            seq,
        },
        key: key.parse::<ReactionKey>().unwrap(),
        tapped_at_ms: 1_780_000_000_000,
    };
    (first..).zip(keys).map(tap).collect()
}

/// A room's settings.
pub(crate) fn room(code: &RoomCode, version: u64) -> Room {
    Room {
        code: code.clone(),
        title: format!("Version {version}"),
        palette: Palette::standard(),
        cooldown_ms: 1_000,
        state: RoomState::Open,
        version,
        created_at_ms: 1_780_000_000_000,
    }
}
