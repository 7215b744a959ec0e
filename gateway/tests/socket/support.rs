//! A gateway in this process on the binary's one rig, and what stands in Redis.

use gateway::settings::Settings;
use gateway::{Listeners, run};
use redis::{Cmd, cmd};
use rig::Rig;
use serde_json::{Value, json};
use shared::counting::codec::decode;
use shared::counting::entry::{Batch, Entry};
use shared::counting::ids::EntryId;
use shared::room::{ReactionKey, RoomCode};
use shared::shards::Shards;
use shared::ticks::{FeedMessage, RoomTick, Tick};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const ADMIN_KEY: &str = "an admin key for tests";

/// However slow the machine is, what is waited for has happened by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

static RIG: OnceCell<Rig> = OnceCell::const_new();

/// Redis without Postgres, which the gateway does not know.
pub(crate) async fn rig() -> &'static Rig {
    RIG.get_or_try_init(start_rig).await.unwrap()
}

/// A rig for a test that breaks it.
pub(crate) async fn start_rig() -> anyhow::Result<Rig> {
    Rig::start(rig::Options {
        postgres: false,
        ..rig::Options::default()
    })
    .await
}

/// A gateway that runs in this process; it is told to end when it is dropped.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) operations: SocketAddr,
    rig: &'static Rig,
    shards: Shards,
    shutdown: CancellationToken,
    task: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// With further lines for the section `[gateway]`.
    pub(crate) async fn start_with(lines: &str) -> Self {
        Self::start_on(rig().await, lines).await
    }

    pub(crate) async fn start_on(rig: &'static Rig, lines: &str) -> Self {
        let toml = format!(
            r#"
[redis]
nodes = {nodes:?}
[gateway]
listen = "127.0.0.1:0"
operations_listen = "127.0.0.1:0"
admin_key = "{ADMIN_KEY}"
client_hash_key = "0123456789abcdef"
host_token_keys = {{ first = "the first key, of 32 bytes or more" }}
{lines}
"#,
            nodes = rig.redis_nodes(),
        );
        let settings = shared::service::main::settings_from_toml(&toml, Settings::read).unwrap();
        let listeners = Listeners::bind(&settings).await.unwrap();
        let (address, operations) = (
            listeners.public.local_addr().unwrap(),
            listeners.operations.local_addr().unwrap(),
        );
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(settings, listeners, shutdown.clone()));
        let shards = Shards::new(64);
        let gateway = Gateway {
            address,
            operations,
            rig,
            shards,
            shutdown,
            task: Some(task),
        };
        eventually("the gateway is ready", || async {
            gateway.is_ready().await.then_some(())
        })
        .await;
        gateway
    }

    pub(crate) async fn is_ready(&self) -> bool {
        rig::get(self.operations, "/readyz")
            .await
            .is_ok_and(|(status, _)| status == 200)
    }

    /// Has it drain; how that ended comes from the returned task.
    pub(crate) fn shut_down(&mut self) -> JoinHandle<anyhow::Result<()>> {
        self.shutdown.cancel();
        self.task.take().expect("shut down once")
    }

    /// The sum of a metric's lines that hold `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> f64 {
        let (_, text) = rig::get(self.operations, "/metrics").await.unwrap();
        let lines = text.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with([' ', '{'])) && line.contains(labels)
        });
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// A request with a JSON body; status and body of the answer.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: uproar\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// A new room of the standard palette; its code and host token.
    pub(crate) async fn room(&self) -> (String, String) {
        self.room_with(json!({"title": "A room"})).await
    }

    pub(crate) async fn room_with(&self, body: Value) -> (String, String) {
        let (status, made) = self.call("POST", "/v1/rooms", ADMIN_KEY, &body).await;
        assert_eq!(status, 201, "{made}");
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("code"), text("host_token"))
    }

    pub(crate) async fn change(&self, code: &str, token: &str, body: Value) {
        let (status, changed) = self
            .call("PATCH", &format!("/v1/rooms/{code}"), token, &body)
            .await;
        assert_eq!(status, 200, "{changed}");
    }

    /// Publishes a tick for one room, as the aggregator would.
    pub(crate) async fn tick(&self, code: &str, serial: u64, room: RoomTick) {
        let code: RoomCode = code.parse().unwrap();
        let shard = self.shards.of(&code);
        let tick = Tick {
            epoch: 7,
            serial,
            at_ms: 0,
            rooms: BTreeMap::from([(code, room)]),
        };
        let mut publish = cmd("SPUBLISH");
        publish
            .arg(self.shards.ticks(shard))
            .arg(serde_json::to_vec(&FeedMessage::Tick(tick)).unwrap());
        let _: i64 = self.redis(shard.0, &publish).await;
    }

    /// Publishes new totals of one room.
    pub(crate) async fn totals(&self, code: &str, serial: u64, totals: &[(&str, u64)]) {
        let key = |key: &str| key.parse::<ReactionKey>().unwrap();
        let totals = totals
            .iter()
            .map(|(name, total)| (key(name), *total))
            .collect();
        self.tick(
            code,
            serial,
            RoomTick {
                totals,
                ..RoomTick::default()
            },
        )
        .await;
    }

    /// Writes a total as a commit would, without a tick.
    pub(crate) async fn write_total(&self, code: &str, key: &str, total: u64) {
        let code: RoomCode = code.parse().unwrap();
        let mut set = cmd("HSET");
        set.arg(self.shards.totals(&code)).arg(key).arg(total);
        let _: i64 = self.redis(self.shards.of(&code).0, &set).await;
    }

    /// All batches in a room's log.
    pub(crate) async fn batches(&self, code: &str) -> Vec<(EntryId, Batch)> {
        let code: RoomCode = code.parse().unwrap();
        let shard = self.shards.of(&code);
        let mut range = cmd("XRANGE");
        range.arg(self.shards.log(shard)).arg("-").arg("+");
        let entries: Vec<RawEntry> = self.redis(shard.0, &range).await;
        let batch = |(id, mut fields): RawEntry| {
            let (field, value) = fields.remove(0);
            match decode(field.as_bytes(), &value).unwrap() {
                Entry::Batch(batch) => Some((id.parse().unwrap(), batch)),
                Entry::RoomChange(_) => None,
            }
        };
        entries.into_iter().filter_map(batch).collect()
    }

    /// All taps of a room in its log, in order: page and seq.
    pub(crate) async fn logged_taps(&self, code: &str) -> Vec<(u32, u32)> {
        let batches = self.batches(code).await;
        let rooms = batches.iter().flat_map(|(_, batch)| &batch.rooms);
        let taps = rooms
            .filter(|room| room.code.as_str() == code)
            .flat_map(|room| &room.taps);
        taps.map(|tap| (tap.id.page.0, tap.id.seq)).collect()
    }

    /// The slot of a room.
    pub(crate) fn slot(&self, code: &str) -> u16 {
        self.shards.slot(self.shards.of(&code.parse().unwrap()))
    }

    async fn redis<T: redis::FromRedisValue>(&self, shard: u16, command: &Cmd) -> T {
        let slot = self.shards.slot(shared::shards::ShardId(shard));
        self.rig.cluster.request(slot, command).await.unwrap()
    }
}

/// An entry as XRANGE gives it: its id, its fields.
type RawEntry = (String, Vec<(String, Vec<u8>)>);

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shutdown.cancel();
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
