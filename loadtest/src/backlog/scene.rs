//! What a backlog run takes place on: the whole system, with rooms that live on and rooms whose log fills up.

use super::plan::Part;
use super::{Options, bare_copy::Numbers};
use crate::api;
use crate::crowd::{Crowd, Seen};
use crate::evidence::{self, Reader};
use crate::giant_room::people;
use crate::smoke::wait_for;
use anyhow::Context;
use redis::aio::MultiplexedConnection;
use rig::{Rig, Service};
use serde_json::json;
use shared::counting::codec::{CHANGE_FIELD, CHANGE_VERSION, encode_change};
use shared::counting::entry::{RoomChange, RoomChangeKind};
use shared::counting::ids::EntryId;
use shared::room::{COOLDOWN_MS_STANDARD, Palette, Room, RoomCode, RoomState};
use shared::shards::{ShardId, Shards};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Rooms in which real phones tap through a real gateway all the time.
const LIVE_ROOMS: usize = 3;
/// How often each of these phones taps: also the rooms' cooldown.
const LIVE_EVERY: Duration = Duration::from_millis(500);
/// The default of the services.
const SHARDS: u16 = 64;

/// The running system.
pub(crate) struct Scene {
    pub(crate) shards: Shards,
    /// Rooms whose log fills up, each in a shard of its own.
    pub(crate) rooms: Vec<RoomCode>,
    pub(crate) parts: Vec<Part>,
    pub(crate) live_rooms: Vec<RoomCode>,
    /// One observer for each live room.
    pub(crate) seen: Vec<Arc<Seen>>,
    pub(crate) gateway: Service,
    _aggregator: Service,
    pub(crate) postgres: tokio_postgres::Client,
    /// Where the next round's backlog begins, in log time.
    pub(crate) from_ms: u64,
    masters: HashMap<u16, MultiplexedConnection>,
    /// Last: the services end before it.
    pub(crate) rig: Rig,
}

impl Scene {
    /// Starts all but the persister, with the schema in place and the rooms known to the database.
    pub(crate) async fn start(
        options: &Options,
        progress: &impl Fn(&str),
    ) -> anyhow::Result<Scene> {
        for kind in ["gateway", "aggregator", "persister"] {
            rig::binary(kind)?;
        }
        progress("starting a Redis Cluster of six nodes, Postgres, a gateway and an aggregator");
        let rig = Rig::start(rig::Options::default()).await?;
        let gateway = rig.service("gateway", &[])?;
        let aggregator = rig.service("aggregator", &[])?;
        gateway.wait_ready().await?;
        aggregator.wait_ready().await?;
        let shards = Shards::new(SHARDS);
        let rooms = choose_rooms(&shards, options.rooms + LIVE_ROOMS);
        let (rooms, live_rooms) = rooms.split_at(options.rooms);
        let (rooms, live_rooms) = (rooms.to_vec(), live_rooms.to_vec());
        let count = u64::try_from(rooms.len())?;
        let part = |(index, code): (usize, &RoomCode)| {
            Part::new(&options.size, count, index, code.clone())
        };
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let all_rounds_ms = u64::from(options.rounds) * options.size.span_ms;
        let (client, connection) =
            tokio_postgres::connect(&rig.postgres_url(), tokio_postgres::NoTls).await?;
        // Its error reaches whoever waits for an answer on the client.
        tokio::spawn(connection);
        let mut scene = Scene {
            parts: rooms.iter().enumerate().map(part).collect(),
            from_ms: u64::try_from(now_ms)? - all_rounds_ms,
            masters: HashMap::new(),
            postgres: client,
            seen: Vec::new(),
            shards,
            rooms,
            live_rooms,
            gateway,
            _aggregator: aggregator,
            rig,
        };
        scene.make_rooms().await?;
        scene.introduce(progress).await?;
        Ok(scene)
    }

    /// Live rooms as hosts make them, the others as hosts had made them before the backlog begins.
    async fn make_rooms(&mut self) -> anyhow::Result<()> {
        for (number, code) in self.live_rooms.iter().enumerate() {
            let cooldown_ms = u64::try_from(LIVE_EVERY.as_millis())?;
            let title = format!("Live {number}");
            let room = json!({ "title": title, "code": code, "cooldown_ms": cooldown_ms });
            api::make_room(self.gateway.listen(), self.rig.admin_key(), &room).await?;
        }
        for code in self.rooms.clone() {
            let room = Room {
                code: code.clone(),
                title: "A room with a backlog".to_owned(),
                palette: Palette::standard(),
                cooldown_ms: COOLDOWN_MS_STANDARD,
                state: RoomState::Open,
                version: 1,
                created_at_ms: self.from_ms,
            };
            let change = encode_change(&RoomChange {
                v: CHANGE_VERSION,
                kind: RoomChangeKind::Created,
                room,
            });
            let id = EntryId {
                ms: self.from_ms,
                seq: 0,
            };
            let shard = self.shards.of(&code);
            let mut add = redis::cmd("XADD");
            add.arg(self.shards.log(shard)).arg(id.to_string());
            add.arg(CHANGE_FIELD).arg(change);
            let master = self.master(shard).await?;
            add.query_async::<()>(master).await?;
        }
        Ok(())
    }

    /// Has a persister make the schema and learn of the rooms, and ends it.
    async fn introduce(&mut self, progress: &impl Fn(&str)) -> anyhow::Result<()> {
        progress("a first persister makes the tables and learns of the rooms");
        let persister = self.rig.service("persister", &[])?;
        persister.wait_ready().await?;
        let rooms: Vec<&str> = self.all_rooms().map(RoomCode::as_str).collect();
        let postgres = &self.postgres;
        wait_for(
            Duration::from_secs(30),
            "all rooms are stored",
            async || {
                let sql = "SELECT count(*) FROM rooms WHERE code = ANY($1)";
                // The table is not there before the persister has made it.
                let stored = postgres.query_one(sql, &[&rooms]).await;
                let all = i64::try_from(rooms.len())?;
                Ok(stored.is_ok_and(|stored| stored.get::<_, i64>(0) == all))
            },
        )
        .await?;
        persister.terminate();
        persister.wait(Duration::from_secs(15)).await?;
        Ok(())
    }

    /// Rooms with a backlog, and live ones.
    pub(crate) fn all_rooms(&self) -> impl Iterator<Item = &RoomCode> {
        self.rooms.iter().chain(&self.live_rooms)
    }

    /// Phones join the live rooms.
    pub(crate) async fn crowd(&mut self, phones: usize) -> anyhow::Result<Crowd> {
        let mut crowd = Crowd::new(self.gateway.listen());
        let keys: Vec<_> = Palette::standard()
            .entries()
            .iter()
            .map(|entry| entry.key.clone())
            .collect();
        for room in &self.live_rooms {
            self.seen.push(crowd.add_observer(room));
        }
        for phone in 0..phones {
            let room = &self.live_rooms[phone % LIVE_ROOMS];
            crowd.add_phone(room, keys.clone(), LIVE_EVERY);
        }
        wait_for(
            Duration::from_secs(30),
            "all phones have joined",
            async || Ok(crowd.board.connected.load(Relaxed) == crowd.len()),
        )
        .await?;
        Ok(crowd)
    }

    /// What names the rooms and reactions in the tables.
    pub(crate) async fn numbers(&self) -> anyhow::Result<Vec<Numbers>> {
        let codes: Vec<&str> = self.rooms.iter().map(RoomCode::as_str).collect();
        let sql = "SELECT r.code, r.room_id, x.key, x.reaction_id FROM rooms r JOIN reactions x USING (room_id) \
                   WHERE r.code = ANY($1)";
        let mut room_ids = HashMap::new();
        let mut reactions: BTreeMap<(String, String), i16> = BTreeMap::new();
        for row in self.postgres.query(sql, &[&codes]).await? {
            room_ids.insert(row.get::<_, String>(0), row.get(1));
            reactions.insert((row.get(0), row.get(2)), row.get(3));
        }
        let numbers = |code: &&str| -> anyhow::Result<Numbers> {
            let code = (*code).to_owned();
            let room_id = *room_ids.get(&code).context("a room is not stored")?;
            let number = |key: &shared::room::ReactionKey| {
                let number = reactions.get(&(code.clone(), key.as_str().to_owned()));
                number
                    .copied()
                    .with_context(|| format!("{key:?} is not stored"))
            };
            Ok(Numbers {
                room_id,
                reactions: people::keys()
                    .iter()
                    .map(number)
                    .collect::<Result<_, _>>()?,
            })
        };
        codes.iter().map(numbers).collect()
    }

    /// A connection to a shard's master.
    pub(crate) async fn master(
        &mut self,
        shard: ShardId,
    ) -> anyhow::Result<&mut MultiplexedConnection> {
        let slot = self.shards.slot(shard);
        if !self.masters.contains_key(&slot) {
            let address = self.rig.cluster.master_of(slot).await?;
            let client = redis::Client::open(format!("redis://{address}/"))?;
            let connection = client.get_multiplexed_async_connection().await?;
            self.masters.insert(slot, connection);
        }
        self.masters.get_mut(&slot).context("it was just made")
    }

    /// Waits until the aggregator has folded what these rooms' logs hold.
    pub(crate) async fn wait_until_folded(&self) -> anyhow::Result<()> {
        let (rig, shards) = (&self.rig, &self.shards);
        let folded =
            async || evidence::have_read(rig, shards, &self.rooms, &[Reader::Aggregator]).await;
        wait_for(
            Duration::from_secs(120),
            "the aggregator has folded it",
            folded,
        )
        .await
    }
}

/// Rooms that live in shards of their own.
fn choose_rooms(shards: &Shards, count: usize) -> Vec<RoomCode> {
    let mut taken = BTreeSet::new();
    let mut rooms = Vec::new();
    while rooms.len() < count {
        let code = RoomCode::generate(&mut rand::rng());
        if taken.insert(shards.of(&code)) {
            rooms.push(code);
        }
    }
    rooms
}
