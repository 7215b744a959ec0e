//! `commit.lua` by itself: what it refuses, and that it then writes nothing. On keys of its own, beside the aggregator's.

use crate::support::Client;
use redis::Value;
use shared::cluster::scripts::COMMIT;
use shared::shards::ShardId;
use std::collections::BTreeMap;

const SHARD: ShardId = ShardId(30);

/// A shard of which only this test knows.
struct Shard {
    client: Client,
    keys: Vec<String>,
}

impl Shard {
    async fn new(name: &str) -> Shard {
        let client = Client::connect(rig::shared().await).await;
        let base = format!("{}:{name}", client.cluster.shards().log(SHARD));
        let keys = [
            "lease",
            "log",
            "producers",
            "activity",
            "ticks",
            "totals:ROOM",
            "room:ROOM",
        ];
        let shard = Shard {
            client,
            keys: keys.iter().map(|key| format!("{base}:{key}")).collect(),
        };
        shard
            .run("HSET", 0, &["owner", "a", "beat", "5", "offset", "1-0"])
            .await;
        shard.run("XADD", 1, &["1-0", "b", "x"]).await;
        shard.run("XADD", 1, &["2-0", "b", "x"]).await;
        shard.run("HSET", 5, &["clap", "10"]).await;
        shard.run("HSET", 6, &["room", "{}", "version", "3"]).await;
        shard
    }

    async fn run(&self, command: &str, key: usize, arguments: &[&str]) -> Value {
        self.client
            .ask(
                SHARD,
                redis::cmd(command).arg(&self.keys[key]).arg(arguments),
            )
            .await
    }

    async fn commit(&self, text: &str) -> String {
        let answer = self
            .client
            .cluster
            .script(SHARD, &COMMIT, &self.keys, &arguments(text))
            .await
            .unwrap();
        redis::from_redis_value(answer).unwrap()
    }

    async fn hash(&self, key: usize) -> BTreeMap<String, String> {
        redis::from_redis_value(self.run("HGETALL", key, &[]).await).unwrap()
    }

    /// All that a commit could change.
    async fn all(&self) -> (Vec<BTreeMap<String, String>>, Value) {
        let mut hashes = Vec::new();
        for key in [0, 2, 5, 6] {
            hashes.push(self.hash(key).await);
        }
        (
            hashes,
            self.run("ZRANGE", 3, &["0", "-1", "WITHSCORES"]).await,
        )
    }
}

/// Arguments, written with bars between them.
fn arguments(text: &str) -> Vec<Vec<u8>> {
    text.split('|')
        .map(|argument| argument.as_bytes().to_vec())
        .collect()
}

fn text(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

const RIGHT: &str = "a|1-0|2-0||1|p1|7 2|1|p0|1|ROOM|kept|0|2|2|clap|12|fire|1";

#[tokio::test]
async fn a_commit_writes_it_all() {
    let shard = Shard::new("right").await;
    shard.run("HSET", 2, &["p0", "1 1"]).await;
    assert_eq!(shard.commit(RIGHT).await, "done");
    assert_eq!(
        shard.hash(0).await,
        text(&[("owner", "a"), ("beat", "6"), ("offset", "2-0")])
    );
    assert_eq!(shard.hash(2).await, text(&[("p1", "7 2")]));
    assert_eq!(shard.hash(5).await, text(&[("clap", "12"), ("fire", "1")]));
    assert_eq!(shard.commit(RIGHT).await, "offset", "not a second time");
    let pulse = arguments("a|2-0|2-0|{}|0|0|0");
    let cluster = &shard.client.cluster;
    let answer = cluster
        .script(SHARD, &COMMIT, &shard.keys[..5], &pulse)
        .await;
    assert_eq!(answer.unwrap(), Value::BulkString(b"done".to_vec()));
}

#[tokio::test]
async fn what_is_refused_writes_nothing() {
    let shard = Shard::new("refused").await;
    let before = shard.all().await;
    for (arguments, why) in [
        (RIGHT.replacen("a|", "b|", 1), "owner"),
        (RIGHT.replacen("|1-0|", "|0-0|", 1), "offset"),
        (RIGHT.replacen("|2-0|", "|3-0|", 1), "log"),
        (RIGHT.replacen("|kept|", "|kapt|", 1), "shape"),
        (RIGHT.replacen("|2|clap", "|3|clap", 1), "shape"),
        (RIGHT.replacen("|1|p1|", "|x|p1|", 1), "shape"),
        (RIGHT.replacen("|1|ROOM|", "|2|ROOM|", 1), "shape"),
        (RIGHT.replacen("|1|p1|", "|-1|p1|", 1), "shape"),
        (format!("{RIGHT}|more"), "shape"),
        ("a|1-0|2-0|".to_owned(), "shape"),
    ] {
        assert_eq!(shard.commit(&arguments).await, why, "{arguments}");
    }
    assert_eq!(shard.all().await, before);
    shard.run("DEL", 3, &[]).await;
    shard.run("SET", 3, &["no sorted set"]).await;
    assert_eq!(shard.commit(RIGHT).await, "type");
    assert_eq!(shard.hash(5).await, text(&[("clap", "10")]));
}

#[tokio::test]
async fn an_expired_room_goes_unless_it_was_changed_since() {
    let shard = Shard::new("expired").await;
    shard.run("ZADD", 3, &["1", "ROOM"]).await;
    assert_eq!(
        shard.commit("a|1-0|2-0||0|0|1|ROOM|expired|2||0").await,
        "done"
    );
    assert!(shard.hash(5).await.is_empty(), "its totals go in any case");
    assert_eq!(
        shard.hash(6).await["version"],
        "3",
        "it has another version than the one that expired"
    );
    shard.run("XADD", 1, &["3-0", "b", "x"]).await;
    assert_eq!(
        shard
            .commit("a|2-0|3-0||0|0|1|ROOM|expired|3||1|clap|1")
            .await,
        "done"
    );
    assert!(shard.hash(6).await.is_empty());
    assert_eq!(
        shard.hash(5).await,
        text(&[("clap", "1")]),
        "a tap after the expiry"
    );
}

#[tokio::test]
async fn a_new_room_begins_with_nothing_and_long_lists_fit() {
    let shard = Shard::new("created").await;
    let many: Vec<String> = (0..3_000).map(|n| format!("|k{n}|{n}")).collect();
    let marks: Vec<String> = (0..3_000).map(|n| format!("|p{n}|1 2")).collect();
    let arguments = format!(
        "a|1-0|2-0||3000{}|0|1|ROOM|created|0|2|3000{}",
        marks.concat(),
        many.concat()
    );
    assert_eq!(shard.commit(&arguments).await, "done");
    let totals = shard.hash(5).await;
    assert_eq!((totals.len(), totals.get("clap")), (3_000, None));
    assert_eq!(shard.hash(2).await.len(), 3_000);
    let forgotten: Vec<String> = (0..3_000).map(|n| format!("|p{n}")).collect();
    shard.run("XADD", 1, &["3-0", "b", "x"]).await;
    assert_eq!(
        shard
            .commit(&format!(
                "a|2-0|3-0||0|3000{}|1|ROOM|kept|0||0",
                forgotten.concat()
            ))
            .await,
        "done"
    );
    assert!(shard.hash(2).await.is_empty());
}
