//! From entries in the log to totals and ticks. One rig and one aggregator; each test has a shard of its own.

use crate::support::{Client, Instance, PATIENCE, eventually, room, room_in, taps};
use redis::Value;
use shared::counting::entry::RoomChangeKind;
use shared::room::RoomCode;
use shared::shards::ShardId;
use shared::ticks::Audience;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// What is served in this file's rig.
struct Served {
    instance: Instance,
    /// A room whose retention was over when the aggregator started.
    old: RoomCode,
}

static SERVED: OnceCell<Served> = OnceCell::const_new();

async fn served() -> (&'static Served, Client) {
    let rig = rig::shared().await;
    let served = SERVED.get_or_init(|| async {
        let client = Client::connect(rig).await;
        let old = room_in(20);
        let shards = client.cluster.shards();
        let shard = shards.of(&old);
        client.store_room(&room(&old, 4)).await;
        client
            .ask::<Value>(
                shard,
                redis::cmd("HSET")
                    .arg(shards.totals(&old))
                    .arg("clap")
                    .arg(9),
            )
            .await;
        let two_days_ago = client.cluster.log_now_ms(shard) - 2 * 86_400_000;
        client
            .ask::<Value>(
                shard,
                redis::cmd("ZADD")
                    .arg(shards.activity(shard))
                    .arg(two_days_ago)
                    .arg(old.as_str()),
            )
            .await;
        Served {
            instance: Instance::start(rig.redis_nodes()),
            old,
        }
    });
    (served.await, Client::connect(rig).await)
}

#[tokio::test]
async fn batches_become_totals_and_ticks() {
    let (_, client) = served().await;
    let (shard, code) = (ShardId(1), room_in(1));
    let mut feed = client.feed();
    feed.heard(shard).await;
    for number in 1..=3 {
        let first = 10 * u32::try_from(number).unwrap();
        client
            .append_batch(&client.batch(
                1,
                number,
                &code,
                taps(1, first, &["clap", "clap", "heart"]),
            ))
            .await;
        client
            .append_batch(&client.batch(2, number, &code, taps(2, first, &["fire"])))
            .await;
    }
    client
        .expect_totals(&code, &[("clap", 6), ("heart", 3), ("fire", 3)])
        .await;
    let mut merged = BTreeMap::new();
    let mut last = None;
    while merged.values().sum::<u64>() < 12 {
        let tick = feed.next(shard).await;
        if let Some((epoch, serial)) = last {
            assert_eq!(
                (tick.epoch, tick.serial),
                (epoch, serial + 1),
                "no gap and no new epoch without a failure"
            );
        }
        last = Some((tick.epoch, tick.serial));
        for (key, total) in tick
            .rooms
            .get(code.as_str())
            .into_iter()
            .flat_map(|room| &room.totals)
        {
            let known = merged.entry(key.clone()).or_default();
            assert!(
                *total > *known,
                "only what changed is told, and totals grow"
            );
            *known = *total;
        }
    }
    assert_eq!(merged.values().copied().collect::<Vec<_>>(), [6, 3, 3]);
}

#[tokio::test]
async fn nothing_counts_twice_and_nothing_void_counts() {
    let (served, client) = served().await;
    let code = room_in(2);
    let first = client.batch(1, 1, &code, taps(1, 1, &["clap", "fire"]));
    client.append_batch(&first).await;
    // The same batch again: its answer was lost.
    client.append_batch(&first).await;
    // A tap again through another gateway, beside a new one.
    client
        .append_batch(&client.batch(2, 1, &code, taps(1, 2, &["fire", "heart"])))
        .await;
    // A batch that came too late, and must not even mark its taps as seen.
    let mut late = client.batch(3, 1, &code, taps(3, 1, &["wow"]));
    late.void_after_ms = client.cluster.log_now_ms(ShardId(2)) - 10_000;
    client.append_batch(&late).await;
    client
        .append_batch(&client.batch(4, 1, &code, taps(3, 1, &["wow"])))
        .await;
    client
        .expect_totals(&code, &[("clap", 1), ("fire", 1), ("heart", 1), ("wow", 1)])
        .await;
    for kind in ["void_entry", "duplicate_batch", "duplicate_tap"] {
        let skipped = served
            .instance
            .metric("uproar_aggregator_skipped_total", kind)
            .await;
        assert!(skipped >= 1.0, "{kind}: {skipped}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_left_out_and_counted() {
    let (served, client) = served().await;
    let code = room_in(3);
    client.append_raw(ShardId(3), "b", b"\x01garbage").await;
    client.append_raw(ShardId(3), "unknown", b"").await;
    client
        .append_batch(&client.batch(1, 1, &code, taps(1, 1, &["clap"])))
        .await;
    client.expect_totals(&code, &[("clap", 1)]).await;
    assert!(
        served
            .instance
            .metric("uproar_aggregator_rejected_entries_total", "")
            .await
            >= 2.0
    );
}

#[tokio::test]
async fn a_backlog_is_worked_off_in_steps() {
    let (_, client) = served().await;
    let code = room_in(4);
    // Eight times what is read at once.
    for number in 1..=400 {
        let batch = client.batch(1, number, &code, taps(number, 1, &["clap"; 5]));
        client.append_batch(&batch).await;
    }
    client.expect_totals(&code, &[("clap", 2_000)]).await;
}

#[tokio::test]
async fn a_busy_shard_folds_between_its_ticks() {
    let (served, client) = served().await;
    let code = room_in(12);
    let deadline = Instant::now() + PATIENCE;
    let (mut number, mut taps_made) = (0, 0);
    // Some 6,000 entries a second, until a tick's interval was busy.
    while served
        .instance
        .metric("uproar_aggregator_early_reads_total", "")
        .await
        < 3.0
    {
        assert!(Instant::now() < deadline, "nothing is read between ticks");
        let batches = (0..300).map(|_| {
            number += 1;
            taps_made += 2;
            client.batch(1, number, &code, taps(number, 1, &["clap"; 2]))
        });
        client.append_batches(&batches.collect::<Vec<_>>()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    client.expect_totals(&code, &[("clap", taps_made)]).await;
}

#[tokio::test]
async fn a_change_of_a_room_travels() {
    let (_, client) = served().await;
    let (shard, code) = (ShardId(5), room_in(5));
    let mut feed = client.feed();
    feed.heard(shard).await;
    client
        .change_room(RoomChangeKind::Created, &room(&code, 1))
        .await;
    client
        .append_batch(&client.batch(1, 1, &code, taps(1, 1, &["clap"])))
        .await;
    client
        .change_room(RoomChangeKind::Updated, &room(&code, 2))
        .await;
    let told = feed
        .room(shard, &code, |told| {
            told.room.as_ref().is_some_and(|room| room.version == 2)
        })
        .await;
    assert_eq!(told.room, Some(room(&code, 2)));
    client.expect_totals(&code, &[("clap", 1)]).await;
    let shards = client.cluster.shards();
    let active: Option<f64> = client
        .ask(
            shard,
            redis::cmd("ZSCORE")
                .arg(shards.activity(shard))
                .arg(code.as_str()),
        )
        .await;
    assert!(active.is_some());
}

#[tokio::test]
async fn an_idle_shard_pulses() {
    let (_, client) = served().await;
    let mut feed = client.feed();
    feed.heard(ShardId(6)).await;
    let first = feed.next(ShardId(6)).await;
    let began = tokio::time::Instant::now();
    for serial in first.serial + 1..first.serial + 4 {
        let tick = feed.next(ShardId(6)).await;
        assert_eq!(
            (tick.epoch, tick.serial, tick.rooms.len()),
            (first.epoch, serial, 0)
        );
    }
    let three = began.elapsed().as_secs_f64();
    assert!((2.0..6.0).contains(&three), "three pulses in {three} s");
}

#[tokio::test]
async fn hosts_get_head_counts_and_rates() {
    let (_, client) = served().await;
    let (shard, code) = (ShardId(7), room_in(7));
    let mut feed = client.feed();
    feed.heard(shard).await;
    for producer in [1, 2] {
        let mut batch = client.batch(producer, 1, &code, taps(producer, 1, &["clap"; 30]));
        batch.rooms[0].people = Some(400);
        client.append_batch(&batch).await;
    }
    let has = |people, rate| {
        move |told: &shared::ticks::RoomTick| {
            told.audience
                == Some(Audience {
                    people,
                    taps_per_second: rate,
                })
        }
    };
    feed.room(shard, &code, has(800, 12)).await;
    feed.room(shard, &code, has(800, 0)).await;
}

#[tokio::test]
async fn a_room_that_nobody_used_expires_through_the_log() {
    let (served, client) = served().await;
    let shards = client.cluster.shards();
    let (shard, old) = (shards.of(&served.old), &served.old);
    eventually("the room is gone", async || {
        let mut command = redis::cmd("EXISTS");
        command.arg(shards.room(old)).arg(shards.totals(old));
        (client.ask::<u64>(shard, &command).await == 0).then_some(())
    })
    .await;
    let score: Option<f64> = client
        .ask(
            shard,
            redis::cmd("ZSCORE")
                .arg(shards.activity(shard))
                .arg(old.as_str()),
        )
        .await;
    assert_eq!(score, None);
    let mut command = redis::cmd("XRANGE");
    command.arg(shards.log(shard)).arg("-").arg("+");
    let entries: Vec<(String, Vec<(String, String)>)> = client.ask(shard, &command).await;
    let expiries = entries
        .iter()
        .filter(|(_, fields)| fields[0].1.contains("\"expired\""))
        .count();
    assert_eq!(expiries, 1);
    assert!(
        served
            .instance
            .metric("uproar_aggregator_expired_rooms_total", "")
            .await
            >= 1.0
    );
}

#[tokio::test]
async fn a_commit_of_another_makes_it_load_again() {
    let (served, client) = served().await;
    let (shard, code) = (ShardId(8), room_in(8));
    client
        .append_batch(&client.batch(1, 1, &code, taps(1, 1, &["clap"])))
        .await;
    client.expect_totals(&code, &[("clap", 1)]).await;
    // As if another owner had folded and committed an entry in between; our aggregator folds it too, and must not count it.
    let shards = client.cluster.shards();
    let batch = client.batch(1, 2, &code, taps(1, 2, &["clap"]));
    let lua = "local id = redis.call('XADD', KEYS[1], '*', 'b', ARGV[1])
        redis.call('HINCRBY', KEYS[2], 'clap', 1)
        redis.call('HSET', KEYS[3], 'offset', id)
        return id";
    let mut command = redis::cmd("EVAL");
    command
        .arg(lua)
        .arg(3)
        .arg(shards.log(shard))
        .arg(shards.totals(&code))
        .arg(shards.aggregator(shard));
    command.arg(shared::counting::codec::encode_batch(&batch));
    client.ask::<String>(shard, &command).await;
    client
        .append_batch(&client.batch(1, 3, &code, taps(1, 3, &["fire"])))
        .await;
    client
        .expect_totals(&code, &[("clap", 2), ("fire", 1)])
        .await;
    let refused = served
        .instance
        .metric("uproar_aggregator_commits_total", "offset")
        .await;
    assert!(refused >= 1.0, "{refused}");
}

#[tokio::test]
async fn an_entry_of_newer_software_stops_its_shard_only() {
    let (served, client) = served().await;
    let (code, other) = (room_in(9), room_in(10));
    client
        .append_batch(&client.batch(1, 1, &code, taps(1, 1, &["clap"])))
        .await;
    client.append_raw(ShardId(9), "b", &[200, 1, 2, 3]).await;
    client
        .append_batch(&client.batch(1, 2, &code, taps(1, 2, &["clap"])))
        .await;
    eventually("an alert", async || {
        let (status, text) = rig::get(served.instance.operations, "/readyz").await.ok()?;
        (status == 503
            && text.contains("shard 9: entry")
            && text.contains("newer than this service reads"))
        .then_some(())
    })
    .await;
    assert_eq!(
        served
            .instance
            .metric("uproar_aggregator_shards_stopped", "")
            .await,
        1.0
    );
    client.expect_totals(&code, &[("clap", 1)]).await;
    client
        .append_batch(&client.batch(1, 1, &other, taps(1, 1, &["clap"])))
        .await;
    client.expect_totals(&other, &[("clap", 1)]).await;
}

#[tokio::test]
async fn metrics_say_what_they_are() {
    let (served, client) = served().await;
    let code = room_in(11);
    client
        .append_batch(&client.batch(1, 1, &code, taps(1, 1, &["clap"])))
        .await;
    client.expect_totals(&code, &[("clap", 1)]).await;
    let (_, text) = rig::get(served.instance.operations, "/metrics")
        .await
        .unwrap();
    for line in [
        "# HELP uproar_aggregator_folded_taps Taps that count, committed.",
        "# UNIT uproar_aggregator_tick_interval_seconds seconds",
        "# TYPE uproar_aggregator_shards_held gauge",
        "uproar_aggregator_commits_total{outcome=\"done\"}",
        "uproar_aggregator_redis_requests_total",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    let (status, _) = rig::get(served.instance.operations, "/livez")
        .await
        .unwrap();
    assert_eq!(status, 200);
}
