//! The commit script against its model: the same random commands on a real Redis Cluster and in memory must give the same
//! answers and leave the same state. The simulation commits by that model.

#[path = "common/mod.rs"]
#[expect(dead_code, reason = "the simulation uses more of it")]
mod common;

use common::commit_model::{
    Begins, CommitCommand, CommitModel, CommitReply, Key, RoomCommit, Totals,
};
use common::random::Random;
use redis::{FromRedisValue, Value};
use shared::cluster::scripts::COMMIT;
use shared::cluster::{Cluster, RedisSettings};
use shared::counting::ids::{EntryId, Nonce, ProducerId};
use shared::counting::reader::ProducerMark;
use shared::room::{ReactionKey, RoomCode};
use shared::shards::ShardId;
use std::collections::{BTreeMap, BTreeSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Any shard will do; its keys get names that no service uses.
const SHARD: ShardId = ShardId(11);
const SEQUENCES: u64 = 10;
const STEPS: usize = 200;

/// A shard's keys in Redis, and what the model says they hold.
struct Both {
    cluster: Cluster,
    base: String,
    random: Random,
    model: CommitModel,
    log: BTreeSet<EntryId>,
    /// The largest id ever added to it.
    last: EntryId,
    codes: Vec<RoomCode>,
    reactions: Vec<ReactionKey>,
}

#[tokio::test]
async fn the_script_does_what_the_model_says() {
    let rig = rig::shared().await;
    let (tracker, shutdown) = (TaskTracker::new(), CancellationToken::new());
    let settings = RedisSettings::new(rig.redis_nodes());
    let cluster = Cluster::connect(settings, &tracker, shutdown.clone())
        .await
        .expect("the rig's cluster is fit");
    let mut answers: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..SEQUENCES {
        let mut both = Both::new(cluster.clone(), seed);
        for step in 0..STEPS {
            let told = both.step().await.unwrap_or_else(|error| {
                panic!("seed {seed}, step {step}: {error}");
            });
            *answers.entry(told).or_default() += 1;
            if step % 5 == 4 {
                let state = both.state().await;
                assert_eq!(state, both.model, "seed {seed}, step {step}");
            }
        }
    }
    println!("{answers:?}");
    for reply in ["Done", "Type", "Owner", "Offset", "Log"] {
        let count = answers.get(reply).copied().unwrap_or(0);
        assert!(
            count >= 10,
            "{reply} was told only {count} times: {answers:?}"
        );
    }
    shutdown.cancel();
}

impl Both {
    fn new(cluster: Cluster, seed: u64) -> Self {
        let base = format!("{}:model:{seed}", cluster.shards().log(SHARD));
        Both {
            cluster,
            base,
            random: Random::new(seed),
            model: CommitModel::default(),
            log: BTreeSet::new(),
            last: EntryId::ZERO,
            codes: ["ROOMA", "ROOMB", "ROOMC"]
                .map(|code| code.parse().expect("a code"))
                .into(),
            reactions: ["clap", "fire", "heart"]
                .map(|key| key.parse().expect("a key"))
                .into(),
        }
    }

    /// One random command on both; what it was, or how they differ.
    async fn step(&mut self) -> Result<String, String> {
        match self.random.range(0, 100) {
            0..55 => return self.commit().await,
            55..75 => self.add().await,
            75..79 => self.delete().await,
            79..87 => self.change_owner().await,
            87..92 => self.change_room().await,
            92..95 => self.replace(true).await,
            _ => self.replace(false).await,
        }
        Ok("other".to_owned())
    }

    async fn commit(&mut self) -> Result<String, String> {
        let command = self.draw_commit();
        let log = &self.log;
        let expected = self.model.check(&command, |id| log.contains(&id));
        if expected == CommitReply::Done {
            self.model.apply(&command);
        }
        let (keys, arguments) = self.encode(&command);
        let answer = self.cluster.script(SHARD, &COMMIT, &keys, &arguments).await;
        let answer = answer.map_err(|error| format!("{command:?}: {error}"))?;
        let answer = String::from_redis_value(answer).map_err(|error| error.to_string())?;
        if answer == format!("{expected:?}").to_lowercase() {
            Ok(format!("{expected:?}"))
        } else {
            Err(format!(
                "the script says {answer}, the model {expected:?} to {command:?}"
            ))
        }
    }

    /// Mostly a right one; each part is wrong now and then.
    fn draw_commit(&mut self) -> CommitCommand {
        let owner = match self.model.owner {
            Some(owner) if !self.random.per_mille(100) => owner,
            _ => self.draw_owner(),
        };
        let expected = if self.random.per_mille(80) {
            self.draw_id()
        } else {
            self.model.offset
        };
        let later: Vec<EntryId> = self.log.range(expected..).copied().collect();
        let offset = match self.random.range(0, 10) {
            0 => expected,
            1 => self.draw_id(),
            _ if later.is_empty() => expected,
            _ => *self.random.pick(&later),
        };
        let producers = |random: &mut Random| random.range(0, 4);
        let changed_producers = (0..producers(&mut self.random))
            .map(|producer| {
                let number = self.random.range(1, 1 << 40);
                let log_ms = self.random.range(0, 1 << 41);
                (ProducerId(producer), ProducerMark { number, log_ms })
            })
            .collect();
        let forgotten_producers = (0..producers(&mut self.random))
            .map(|producer| ProducerId(producer + 2))
            .collect();
        let codes = self.codes.clone();
        let rooms = codes
            .into_iter()
            .filter(|_| self.random.per_mille(500))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|code| self.draw_room(code))
            .collect();
        CommitCommand {
            owner,
            expected,
            offset,
            changed_producers,
            forgotten_producers,
            rooms,
        }
    }

    fn draw_room(&mut self, code: RoomCode) -> RoomCommit {
        let begins = *self.random.pick(&[
            Begins::Kept,
            Begins::Kept,
            Begins::Kept,
            Begins::Created,
            Begins::Expired,
        ]);
        let version = match self.model.rooms.get(&code) {
            Some(version) if self.random.per_mille(600) => *version,
            _ => self.random.range(1, 5),
        };
        let active_ms = self
            .random
            .per_mille(600)
            .then(|| self.random.range(0, 1 << 41));
        let totals: Totals = self
            .reactions
            .clone()
            .into_iter()
            .filter(|_| self.random.per_mille(500))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|key| (key, self.random.range(0, u64::MAX)))
            .collect();
        RoomCommit {
            code,
            begins,
            version,
            active_ms,
            totals,
        }
    }

    fn draw_owner(&mut self) -> Nonce {
        Nonce(self.random.range(1, 4))
    }

    fn draw_id(&mut self) -> EntryId {
        EntryId {
            ms: self.random.range(0, 200),
            seq: self.random.range(0, 2),
        }
    }

    /// Keys and arguments as the head of the script says.
    fn encode(&self, command: &CommitCommand) -> (Vec<String>, Vec<Vec<u8>>) {
        let fixed = [Key::Aggregator, Key::Log, Key::Producers, Key::Activity];
        let mut keys: Vec<String> = fixed.iter().map(|key| self.name(key)).collect();
        keys.push(format!("{}:ticks", self.base));
        let mut arguments = vec![
            hex(command.owner.0),
            command.expected.to_string(),
            command.offset.to_string(),
            "a tick".to_owned(),
            command.changed_producers.len().to_string(),
        ];
        for (producer, mark) in &command.changed_producers {
            arguments.push(hex(producer.0));
            arguments.push(format!("{} {}", mark.number, mark.log_ms));
        }
        arguments.push(command.forgotten_producers.len().to_string());
        arguments.extend(
            command
                .forgotten_producers
                .iter()
                .map(|producer| hex(producer.0)),
        );
        arguments.push(command.rooms.len().to_string());
        for room in &command.rooms {
            keys.push(self.name(&Key::Totals(room.code.clone())));
            keys.push(self.name(&Key::Room(room.code.clone())));
            arguments.extend([
                room.code.to_string(),
                format!("{:?}", room.begins).to_lowercase(),
                room.version.to_string(),
                room.active_ms
                    .map_or_else(String::new, |active_ms| active_ms.to_string()),
                room.totals.len().to_string(),
            ]);
            for (key, total) in &room.totals {
                arguments.extend([key.to_string(), total.to_string()]);
            }
        }
        (
            keys,
            arguments.into_iter().map(String::into_bytes).collect(),
        )
    }

    async fn add(&mut self) {
        let ms = self.last.ms + self.random.range(1, 4);
        let seq = self.random.range(0, 2);
        let id = EntryId { ms, seq };
        if !self.model.strange.contains(&Key::Log) {
            self.run("XADD", &Key::Log, &[&id.to_string(), "b", "x"])
                .await;
            self.log.insert(id);
            self.last = id;
        }
    }

    async fn delete(&mut self) {
        let ids: Vec<EntryId> = self.log.iter().copied().collect();
        if !ids.is_empty() {
            let id = *self.random.pick(&ids);
            self.run("XDEL", &Key::Log, &[&id.to_string()]).await;
            self.log.remove(&id);
        }
    }

    async fn change_owner(&mut self) {
        if self.model.strange.contains(&Key::Aggregator) {
            return;
        }
        self.model.owner = (!self.random.per_mille(100)).then(|| self.draw_owner());
        let owner = self
            .model
            .owner
            .map_or_else(String::new, |owner| hex(owner.0));
        self.run("HSET", &Key::Aggregator, &["owner", &owner]).await;
    }

    async fn change_room(&mut self) {
        let code = self.random.pick(&self.codes).clone();
        let key = Key::Room(code.clone());
        if !self.model.strange.contains(&key) {
            let version = self.random.range(1, 5);
            self.run(
                "HSET",
                &key,
                &["version", &version.to_string(), "room", "{}"],
            )
            .await;
            self.model.rooms.insert(code, version);
        }
    }

    /// A key comes to hold a string, or, if it did, nothing.
    async fn replace(&mut self, by_a_string: bool) {
        let key = if by_a_string {
            self.draw_key()
        } else {
            let Some(key) = self.model.strange.first().cloned() else {
                return;
            };
            key
        };
        self.run("DEL", &key, &[]).await;
        self.model.strange.remove(&key);
        if by_a_string {
            self.run("SET", &key, &["of another type"]).await;
            self.model.strange.insert(key.clone());
        }
        match key {
            Key::Aggregator => {
                self.model.owner = None;
                self.model.beat = 0;
                self.model.offset = EntryId::ZERO;
            }
            Key::Log => {
                self.log.clear();
                self.last = EntryId::ZERO;
            }
            Key::Producers => self.model.producers.clear(),
            Key::Activity => self.model.activity.clear(),
            Key::Totals(code) => drop(self.model.totals.remove(&code)),
            Key::Room(code) => drop(self.model.rooms.remove(&code)),
        }
    }

    fn draw_key(&mut self) -> Key {
        let code = self.random.pick(&self.codes).clone();
        match self.random.range(0, 6) {
            0 => Key::Aggregator,
            1 => Key::Log,
            2 => Key::Producers,
            3 => Key::Activity,
            4 => Key::Totals(code),
            _ => Key::Room(code),
        }
    }

    fn name(&self, key: &Key) -> String {
        match key {
            Key::Totals(code) => format!("{}:totals:{code}", self.base),
            Key::Room(code) => format!("{}:room:{code}", self.base),
            fixed => format!("{}:{fixed:?}", self.base),
        }
    }

    async fn run(&self, command: &str, key: &Key, arguments: &[&str]) -> Value {
        let command = redis::cmd(command)
            .arg(self.name(key))
            .arg(arguments)
            .to_owned();
        self.cluster
            .request(SHARD, &command)
            .await
            .expect("the rig's cluster answers")
    }

    /// A hash, empty if the key holds something else.
    async fn hash(&self, key: &Key) -> BTreeMap<String, String> {
        if self.model.strange.contains(key) {
            return BTreeMap::new();
        }
        let value = self.run("HGETALL", key, &[]).await;
        BTreeMap::from_redis_value(value).expect("a hash")
    }

    /// What Redis holds, as the model would say it.
    async fn state(&self) -> CommitModel {
        let aggregator = self.hash(&Key::Aggregator).await;
        let field = |name: &str| aggregator.get(name).map_or("", String::as_str);
        let mut state = CommitModel {
            owner: u64::from_str_radix(field("owner"), 16).ok().map(Nonce),
            beat: field("beat").parse().unwrap_or(0),
            offset: field("offset").parse().unwrap_or_default(),
            strange: self.model.strange.clone(),
            ..CommitModel::default()
        };
        for (producer, mark) in self.hash(&Key::Producers).await {
            let producer = ProducerId(u64::from_str_radix(&producer, 16).expect("hex"));
            let (number, log_ms) = mark.split_once(' ').expect("two numbers");
            let parse = |text: &str| text.parse().expect("a number");
            let mark = ProducerMark {
                number: parse(number),
                log_ms: parse(log_ms),
            };
            state.producers.insert(producer, mark);
        }
        if !self.model.strange.contains(&Key::Activity) {
            let value = self
                .run("ZRANGE", &Key::Activity, &["0", "-1", "WITHSCORES"])
                .await;
            let pairs: Vec<(String, String)> = Vec::from_redis_value(value).expect("pairs");
            for (code, active_ms) in pairs {
                let active_ms = active_ms.parse().expect("whole milliseconds");
                state
                    .activity
                    .insert(code.parse().expect("a code"), active_ms);
            }
        }
        for code in &self.codes {
            let totals = self.hash(&Key::Totals(code.clone())).await;
            let parsed = totals
                .into_iter()
                .map(|(key, total)| (key.parse().expect("a key"), total.parse().expect("a total")));
            let totals: Totals = parsed.collect();
            if !totals.is_empty() {
                state.totals.insert(code.clone(), totals);
            }
            if let Some(version) = self.hash(&Key::Room(code.clone())).await.get("version") {
                state
                    .rooms
                    .insert(code.clone(), version.parse().expect("a version"));
            }
        }
        state
    }
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}
