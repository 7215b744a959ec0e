//! The real SQL step against a small model of it: random commands by two persisters, with connections that die in the
//! middle of a commit, must leave the database as the model says: all of a step or nothing, and never two of one.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use persister::for_tests::{Connection, Next, Partitions, Shedding, Step, Store, open};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use shared::counting::entry::{RoomChange, RoomChangeKind, Tap};
use shared::counting::ids::{ClientHash, EntryId, PageId, ProducerId, TapId};
use shared::counting::reader::ProducerMark;
use shared::room::{Palette, Room, RoomCode, RoomState};
use shared::shards::ShardId;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// Each seed is a shard with rooms of its own, all in one database.
const SEEDS: u64 = 40;
const COMMANDS: usize = 30;
/// Shortly before midnight, so that steps lie in two days and two months: 2026-05-31T23:59:50Z.
const BASE_MS: u64 = 1_780_271_990_000;

/// A room in the model: its code and which of the rooms of that code.
type RoomName = (String, usize);

/// What a group (room, key, second) holds.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Group {
    taps: i64,
    unrecorded: i64,
    clients: BTreeSet<i64>,
}

/// What the tables should say.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Model {
    offset: (u64, u64),
    version: i64,
    taps: i64,
    groups: BTreeMap<(RoomName, String, u64), Group>,
    people: BTreeMap<(RoomName, i64), u32>,
    producers: BTreeMap<u64, (u64, u64)>,
    /// How many rooms each code has had: none until something of it is stored.
    rooms: BTreeMap<String, usize>,
    changes: usize,
}

/// One thing of a step, for the model and for the real one.
#[derive(Debug, Clone)]
enum Item {
    Taps {
        code: usize,
        key: &'static str,
        taps: Vec<(u64, u64)>,
    },
    Created {
        code: usize,
    },
    People {
        code: usize,
        slot_ms: i64,
        people: u32,
    },
}

#[derive(Debug, Clone)]
struct Plan {
    items: Vec<Item>,
    offset: EntryId,
    changed: Vec<(ProducerId, ProducerMark)>,
    forgotten: Vec<ProducerId>,
    shedding: Shedding,
}

/// A persister: its view of the ledger, while it has one.
struct Persister {
    store: Store,
    connection: Option<Connection>,
    loaded: Option<(u64, u64, i64)>,
}

struct World {
    rng: SmallRng,
    url: String,
    sql: Client,
    shard: ShardId,
    codes: Vec<RoomCode>,
    model: Model,
    persisters: Vec<Persister>,
    partitions: std::sync::Arc<Partitions>,
    clock: u64,
    seq: u32,
}

#[tokio::test]
async fn random_commands_leave_what_the_model_says() {
    let rig = rig::shared().await;
    let url = rig.create_database().await.unwrap();
    drop(open(&url, 1024).await.unwrap());
    let mut outcomes = [0_usize; 3];
    for seed in 0..SEEDS {
        let mut world = World::new(seed, &url).await;
        for _ in 0..COMMANDS {
            world.command(&mut outcomes).await;
        }
        world.compare(seed).await;
    }
    let [committed, refused, killed] = outcomes;
    assert!(
        committed > 200 && refused > 40 && killed > 40,
        "each happened often: {outcomes:?}"
    );
}

impl World {
    async fn new(seed: u64, url: &str) -> World {
        let (sql, socket) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(socket);
        let shard = ShardId(u16::try_from(seed).unwrap());
        let code = |index: u64| format!("M{seed:03}R{index}").parse().unwrap();
        let persister = || Persister {
            // A small memory, so that much of it is read back from the tables.
            store: Store::new(shard, 20),
            connection: None,
            loaded: None,
        };
        World {
            rng: SmallRng::seed_from_u64(seed),
            url: url.to_owned(),
            sql,
            shard,
            codes: (0..2).map(code).collect(),
            model: Model::default(),
            persisters: vec![persister(), persister()],
            partitions: std::sync::Arc::default(),
            clock: BASE_MS,
            seq: 0,
        }
    }

    async fn command(&mut self, outcomes: &mut [usize; 3]) {
        let who = self.rng.random_range(0..2);
        match self.rng.random_range(0..10) {
            0 => self.load(who).await,
            1 => {
                // Somebody else's commit, of which we know only that it was.
                let bump = "UPDATE ledger SET version = version + 1 WHERE shard = $1";
                let shard = i16::try_from(self.shard.0).unwrap();
                self.model.version +=
                    i64::from(self.sql.execute(bump, &[&shard]).await.unwrap() == 1);
            }
            2 | 3 => self.commit(who, true, outcomes).await,
            _ => self.commit(who, false, outcomes).await,
        }
    }

    async fn load(&mut self, who: usize) {
        let persister = &mut self.persisters[who];
        if persister.connection.is_none() {
            persister.connection = Some(open(&self.url, 1024).await.unwrap());
        }
        let connection = persister.connection.as_mut().unwrap();
        let producers = persister.store.load(connection).await.unwrap();
        let loaded: BTreeMap<u64, (u64, u64)> = producers
            .iter()
            .map(|(id, mark)| (id.0, (mark.number, mark.log_ms)))
            .collect();
        assert_eq!(loaded, self.model.producers);
        let offset = persister.store.offset();
        assert_eq!((offset.ms, offset.seq), self.model.offset);
        persister.loaded = Some((self.model.offset.0, self.model.offset.1, self.model.version));
    }

    async fn commit(&mut self, who: usize, killed: bool, outcomes: &mut [usize; 3]) {
        if self.persisters[who].loaded.is_none() {
            self.load(who).await;
        }
        let plan = self.plan();
        let step = self.step(&plan);
        let after = self.after(&plan);
        let (offset, version) = (self.model.offset, self.model.version);
        let fits = self.persisters[who].loaded == Some((offset.0, offset.1, version));
        let next = Next {
            offset: plan.offset,
            changed: plan.changed.clone(),
            forgotten: plan.forgotten.clone(),
        };
        let kill_after = killed.then(|| Duration::from_micros(self.rng.random_range(0..9_000)));
        let persister = &mut self.persisters[who];
        let mut connection = persister.connection.take().unwrap();
        let committing = persister.store.commit(
            &mut connection,
            &self.partitions,
            &step,
            next,
            plan.shedding,
        );
        // Dropping it midway is what happens to a persister that dies; the server may or may not have committed.
        let ended = match kill_after {
            Some(after) => tokio::time::timeout(after, committing).await.ok(),
            None => Some(committing.await),
        };
        let certain = match ended {
            Some(Ok(_)) => {
                assert!(fits, "a commit went through on a ledger that had moved on");
                outcomes[0] += 1;
                Some(true)
            }
            Some(Err(error)) => {
                assert!(
                    !fits,
                    "a commit was refused on a ledger that had not moved: {error}"
                );
                outcomes[1] += 1;
                Some(false)
            }
            None => None,
        };
        if certain == Some(true) {
            persister.connection = Some(connection);
            persister.loaded = Some((after.offset.0, after.offset.1, after.version));
            self.model = after;
            return;
        }
        drop(connection);
        persister.store.discard();
        persister.loaded = None;
        self.partitions.forget();
        if certain.is_none() {
            outcomes[2] += 1;
            self.settle().await;
            let ledger = self.ledger().await;
            if ledger == (after.offset.0, after.offset.1, after.version) {
                assert!(fits);
                self.model = after;
            }
        }
    }

    /// Waits until the server has noticed that a connection is gone: what becomes of its transaction is then decided.
    async fn settle(&self) {
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'uproar-persister' \
                    AND datname = current_database() AND xact_start IS NOT NULL";
        while self
            .sql
            .query_one(busy, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
            > 0
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn plan(&mut self) -> Plan {
        const KEYS: [&str; 3] = ["clap", "heart", "x"];
        self.clock += self.rng.random_range(1..800);
        let mut items = Vec::new();
        for _ in 0..self.rng.random_range(0..5) {
            let code = self.rng.random_range(0..2);
            items.push(match self.rng.random_range(0..8) {
                0 => Item::Created { code },
                1 => Item::People {
                    code,
                    slot_ms: (self.clock / 10_000 * 10_000).cast_signed(),
                    people: self.rng.random_range(0..50),
                },
                _ => {
                    let count = self.rng.random_range(1..9);
                    let tap = |_| {
                        (
                            self.rng.random_range(0..6),
                            self.clock - self.rng.random_range(0..1_500),
                        )
                    };
                    Item::Taps {
                        code,
                        key: KEYS[0],
                        taps: (0..count).map(tap).collect(),
                    }
                }
            });
            if let Some(Item::Taps { key, .. }) = items.last_mut() {
                *key = KEYS[self.rng.random_range(0..3)];
            }
        }
        let mark = ProducerMark {
            number: self.rng.random_range(1..99),
            log_ms: self.clock,
        };
        let changed = (0..self.rng.random_range(0..3)).map(|id| (ProducerId(u64::MAX - id), mark));
        let changed: Vec<_> = changed.collect();
        let shedding = match self.rng.random_range(0..4) {
            0 => Shedding::Keep { percent: 0 },
            1 => Shedding::Keep { percent: 3 },
            _ => Shedding::Off,
        };
        let forgotten = if changed.len() < 2 && self.rng.random_range(0..3) == 0 {
            vec![ProducerId(u64::MAX - 1)]
        } else {
            Vec::new()
        };
        let offset = EntryId {
            ms: self.clock,
            seq: self.rng.random_range(0..3),
        };
        Plan {
            items,
            offset,
            changed,
            forgotten,
            shedding,
        }
    }

    fn step(&mut self, plan: &Plan) -> Step {
        let mut step = Step::new(0..=i64::MAX / 2);
        for (index, item) in plan.items.iter().enumerate() {
            let id = EntryId {
                ms: self.clock,
                seq: 10 + index as u64,
            };
            match item {
                Item::Taps { code, key, taps } => {
                    let taps = taps.iter().map(|(client, at)| {
                        self.seq += 1;
                        let id = TapId {
                            client: ClientHash(*client),
                            page: PageId(1),
                            seq: self.seq,
                        };
                        Tap {
                            id,
                            key: key.parse().unwrap(),
                            tapped_at_ms: *at,
                        }
                    });
                    let taps: Vec<Tap> = taps.collect();
                    step.taps(id, &self.codes[*code], &taps);
                }
                Item::Created { code } => {
                    let room = Room {
                        code: self.codes[*code].clone(),
                        title: "A room".to_owned(),
                        palette: Palette::standard(),
                        cooldown_ms: 1_000,
                        state: RoomState::Open,
                        version: 1,
                        // Different for each creation.
                        created_at_ms: id.ms * 10 + index as u64,
                    };
                    step.change(
                        id,
                        &RoomChange {
                            v: 1,
                            kind: RoomChangeKind::Created,
                            room,
                        },
                    );
                }
                Item::People {
                    code,
                    slot_ms,
                    people,
                } => {
                    step.people(id, &self.codes[*code], *slot_ms, *people);
                }
            }
        }
        step
    }

    /// The model after the plan.
    fn after(&self, plan: &Plan) -> Model {
        let mut model = self.model.clone();
        (model.offset, model.version) = ((plan.offset.ms, plan.offset.seq), model.version + 1);
        for item in &plan.items {
            match item {
                Item::Created { code } => {
                    *model
                        .rooms
                        .entry(self.codes[*code].to_string())
                        .or_default() += 1;
                    model.changes += 1;
                }
                Item::Taps { code, key, taps } => {
                    let room = model.room(&self.codes[*code]);
                    for (client, at) in taps {
                        let client = client.cast_signed();
                        let group = (room.clone(), (*key).to_owned(), at / 1_000);
                        let group = model.groups.entry(group).or_default();
                        group.taps += 1;
                        group.unrecorded += i64::from(!plan.shedding.keeps(client));
                        group.clients.insert(client);
                        model.taps += 1;
                    }
                }
                Item::People {
                    code,
                    slot_ms,
                    people,
                } => {
                    let room = model.room(&self.codes[*code]);
                    let most = model.people.entry((room, *slot_ms)).or_default();
                    *most = (*people).max(*most);
                }
            }
        }
        for (id, mark) in &plan.changed {
            model.producers.insert(id.0, (mark.number, mark.log_ms));
        }
        for id in &plan.forgotten {
            model.producers.remove(&id.0);
        }
        model
    }

    async fn ledger(&self) -> (u64, u64, i64) {
        let query = "SELECT offset_ms, offset_seq, version FROM ledger WHERE shard = $1";
        let shard = i16::try_from(self.shard.0).unwrap();
        let row = self.sql.query_one(query, &[&shard]).await.unwrap();
        (
            row.get::<_, i64>(0).cast_unsigned(),
            row.get::<_, i64>(1).cast_unsigned(),
            row.get(2),
        )
    }

    async fn compare(&self, seed: u64) {
        let model = &self.model;
        if model.version > 0 {
            let (ms, seq, version) = self.ledger().await;
            assert_eq!(
                ((ms, seq), version),
                (model.offset, model.version),
                "seed {seed}"
            );
        }
        let codes: Vec<&str> = self.codes.iter().map(RoomCode::as_str).collect();
        let names: BTreeMap<i32, RoomName> = self.room_names(&codes).await;
        assert_eq!(
            names.len(),
            model.rooms.values().sum::<usize>(),
            "seed {seed}: rooms"
        );
        self.compare_groups(seed, &names).await;
        let query = "SELECT a.room_id, (extract(epoch FROM a.slot) * 1000)::bigint, a.people FROM audience_counts a \
                     JOIN rooms r USING (room_id) WHERE r.code = ANY($1)";
        let rows = self.sql.query(query, &[&codes]).await.unwrap();
        let people: BTreeMap<(RoomName, i64), u32> = rows
            .iter()
            .map(|row| {
                (
                    (names[&row.get(0)].clone(), row.get(1)),
                    row.get::<_, i32>(2).cast_unsigned(),
                )
            })
            .collect();
        assert_eq!(people, model.people, "seed {seed}: people");
        let query =
            "SELECT count(*) FROM room_changes JOIN rooms USING (room_id) WHERE code = ANY($1)";
        let changes: i64 = self.sql.query_one(query, &[&codes]).await.unwrap().get(0);
        assert_eq!(
            usize::try_from(changes).unwrap(),
            model.changes,
            "seed {seed}: changes"
        );
        let taps = "SELECT taps FROM ledger WHERE shard = $1";
        let shard = i16::try_from(self.shard.0).unwrap();
        if let Some(row) = self.sql.query_opt(taps, &[&shard]).await.unwrap() {
            assert_eq!(
                row.get::<_, i64>(0),
                model.taps,
                "seed {seed}: the ledger's taps"
            );
        }
    }

    async fn room_names(&self, codes: &[&str]) -> BTreeMap<i32, RoomName> {
        let query = "SELECT room_id, code, row_number() OVER (PARTITION BY code ORDER BY room_id) \
                     FROM rooms WHERE code = ANY($1)";
        let rows = self.sql.query(query, &[&codes]).await.unwrap();
        let name = |row: &tokio_postgres::Row| {
            (
                row.get(0),
                (row.get(1), usize::try_from(row.get::<_, i64>(2)).unwrap()),
            )
        };
        rows.iter().map(name).collect()
    }

    async fn compare_groups(&self, seed: u64, names: &BTreeMap<i32, RoomName>) {
        let ids: Vec<i32> = names.keys().copied().collect();
        let query = "SELECT c.room_id, x.key, extract(epoch FROM c.second)::bigint, c.taps::bigint, \
                     c.unrecorded::bigint, c.tappers::bigint FROM tap_counts c \
                     JOIN reactions x USING (room_id, reaction_id) WHERE c.room_id = ANY($1)";
        let counts = self.sql.query(query, &[&ids]).await.unwrap();
        assert_eq!(counts.len(), self.model.groups.len(), "seed {seed}: groups");
        let query = "SELECT t.room_id, x.key, extract(epoch FROM date_trunc('second', t.tapped_at))::bigint, t.client \
                     FROM taps t JOIN reactions x USING (room_id, reaction_id) WHERE t.room_id = ANY($1)";
        let mut rows: BTreeMap<(RoomName, String, u64), Vec<i64>> = BTreeMap::new();
        let group = |row: &tokio_postgres::Row| -> (RoomName, String, u64) {
            (
                names[&row.get(0)].clone(),
                row.get(1),
                row.get::<_, i64>(2).cast_unsigned(),
            )
        };
        for row in self.sql.query(query, &[&ids]).await.unwrap() {
            rows.entry(group(&row)).or_default().push(row.get(3));
        }
        for row in &counts {
            let name = group(row);
            let expected = &self.model.groups[&name];
            let (taps, unrecorded, tappers): (i64, i64, i64) = (row.get(3), row.get(4), row.get(5));
            assert_eq!(
                (taps, unrecorded),
                (expected.taps, expected.unrecorded),
                "seed {seed}: {name:?}"
            );
            let recorded = rows.get(&name).map_or(&[][..], Vec::as_slice);
            assert_eq!(
                recorded.len(),
                usize::try_from(taps - unrecorded).unwrap(),
                "seed {seed}: {name:?}"
            );
            let clients: HashSet<i64> = recorded.iter().copied().collect();
            assert!(
                clients
                    .iter()
                    .all(|client| expected.clients.contains(client)),
                "seed {seed}: {name:?}"
            );
            let people = i64::try_from(expected.clients.len()).unwrap();
            // Where rows were shed and the memory was lost, a client can count twice; see the column's comment.
            let right = if unrecorded == 0 {
                tappers == people
            } else {
                (people..=taps).contains(&tappers)
            };
            assert!(
                right,
                "seed {seed}: {name:?} has {tappers} tappers, not {people}"
            );
        }
    }
}

impl Model {
    /// The room that a code means now; the first that is heard of makes one.
    fn room(&mut self, code: &RoomCode) -> RoomName {
        let rooms = self.rooms.entry(code.to_string()).or_insert(0);
        *rooms = (*rooms).max(1);
        (code.to_string(), *rooms)
    }
}
