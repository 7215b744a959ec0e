//! What is stable, when a replica stalls, and when it has for so long that it cannot be elected any more.

use crate::faults::redis_rig;
use crate::support::{Appenders, Client, PATIENCE, ask, eventually};
use bytes::Bytes;
use redis::Value;
use shared::cluster::scripts::{RENEW, Script};
use shared::cluster::{RedisSettings, RequestError};
use shared::counting::ids::{EntryId, Nonce};
use shared::counting::lease::LeaseRecord;
use shared::counting::outbox::AppendOutcome;
use shared::shards::ShardId;
use std::time::{Duration, Instant};

const SHARD: ShardId = ShardId(4);
const OWNER: Nonce = Nonce(77);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stable_while_a_stalled_replica_could_be_elected() {
    let rig = redis_rig(&[]).await;
    let client = Client::connect(RedisSettings::new(rig.redis_nodes())).await;
    let cluster = &client.cluster;
    let slot = cluster.shards().slot(SHARD);
    let lease = cluster.shards().aggregator(SHARD);
    assert!(
        cluster
            .claim_lease(SHARD, &lease, LeaseRecord::default(), OWNER)
            .await
            .unwrap()
    );
    let script = Script::new("return redis.call('INCR', KEYS[1])");
    let key = [format!("{}:test", cluster.shards().activity(SHARD))];
    let mut appenders = Appenders::new(cluster.clone());
    let value = Bytes::from_static(b"value");
    assert!(!appenders.until_stable(SHARD, &value).await.1.unreplicated);

    let master = rig.cluster.master_of(slot).await.unwrap();
    let replica = rig.cluster.replicas_of(&master).await.unwrap().remove(0);
    rig.cluster.stall(&replica).unwrap();
    let stalled = Instant::now();
    // node timeout 1 s, validity factor 2, ping period 1 s, and a second for Redis's rounding.
    let electable = Duration::from_secs(5);
    loop {
        // What began before the time had passed must not be stable.
        let began = stalled.elapsed();
        let appended = appenders.append(SHARD, &value).await;
        if let AppendOutcome::Stable(_) = appended.outcome {
            assert!(
                began + Duration::from_secs(1) > electable,
                "stable after {began:?}"
            );
            assert!(appended.unreplicated, "{appended:?}");
            break;
        }
        assert!(appended.error.unwrap().contains("electable"));
        let read = cluster
            .read_log(SHARD, EntryId::ZERO, 1, &lease, OWNER)
            .await
            .unwrap();
        let (_, written) = cluster
            .script_and_wait(SHARD, &script, &key, &[])
            .await
            .unwrap();
        assert!(read.barrier.lease_held);
        assert!(!(read.barrier.stable || written) || stalled.elapsed() > electable);
        assert!(stalled.elapsed() < PATIENCE, "never given up on");
    }
    assert!(stalled.elapsed() >= electable, "{:?}", stalled.elapsed());
    let read = cluster
        .read_log(SHARD, EntryId::ZERO, 1, &lease, OWNER)
        .await
        .unwrap();
    assert!(read.barrier.stable && read.unreplicated);
    let topology = cluster.topology().borrow().clone();
    assert_eq!(topology.master_of(slot).unwrap().electable_replicas, 0);

    rig.cluster.resume(&replica).unwrap();
    eventually("replicated again", || async {
        let read = cluster
            .read_log(SHARD, EntryId::ZERO, 1, &lease, OWNER)
            .await
            .ok()?;
        (read.barrier.stable && !read.unreplicated).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_electable_time_can_be_set() {
    let rig = redis_rig(&[]).await;
    let mut settings = RedisSettings::new(rig.redis_nodes());
    settings.replica_electable = Duration::from_secs(3_600);
    let client = Client::connect(settings).await;
    let slot = client.cluster.shards().slot(SHARD);
    let master = rig.cluster.master_of(slot).await.unwrap();
    let replica = rig.cluster.replicas_of(&master).await.unwrap().remove(0);
    rig.cluster.kill(&replica).unwrap();
    let killed = Instant::now();
    let mut appenders = Appenders::new(client.cluster.clone());
    // Longer than Redis's own configuration would have it.
    while killed.elapsed() < Duration::from_secs(7) {
        let appended = appenders.append(SHARD, &Bytes::from_static(b"value")).await;
        assert_eq!(appended.outcome, AppendOutcome::Unknown);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_loaded_again_after_a_failover() {
    let rig = redis_rig(&[]).await;
    let client = Client::connect(RedisSettings::new(rig.redis_nodes())).await;
    let cluster = &client.cluster;
    let slot = cluster.shards().slot(SHARD);
    let lease = cluster.shards().persister(SHARD);
    assert!(
        cluster
            .claim_lease(SHARD, &lease, LeaseRecord::default(), OWNER)
            .await
            .unwrap()
    );
    assert!(cluster.renew_lease(SHARD, &lease, OWNER).await.unwrap());
    let old = rig.cluster.master_of(slot).await.unwrap();
    let new = rig.cluster.failover(&old).await.unwrap();
    let mut exists = redis::cmd("SCRIPT");
    exists.arg("EXISTS").arg(RENEW.sha());
    assert_eq!(ask(&new, &exists).await, Value::Array(vec![Value::Int(0)]));
    let renewed = eventually("an answer from the new master", || async {
        match cluster.renew_lease(SHARD, &lease, OWNER).await {
            Ok(renewed) => Some(renewed),
            Err(RequestError::NotDone(_) | RequestError::Unknown(_)) => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    assert!(renewed);
    assert_eq!(ask(&new, &exists).await, Value::Array(vec![Value::Int(1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_master_gives_no_answer_and_the_request_ends() {
    let rig = redis_rig(&[]).await;
    let mut settings = RedisSettings::new(rig.redis_nodes());
    settings.request_timeout = Duration::from_millis(700);
    settings.wait_timeout = Duration::from_millis(200);
    let client = Client::connect(settings).await;
    let cluster = &client.cluster;
    let mut command = redis::cmd("INCR");
    command.arg(format!("{}:test", cluster.shards().activity(SHARD)));
    cluster.request(SHARD, &command).await.unwrap();
    let master = rig
        .cluster
        .master_of(cluster.shards().slot(SHARD))
        .await
        .unwrap();
    // Stalled between the check of the connection and the command, a request's fate is unknown; before it, nothing was
    // sent. Which it is depends on the moment, so many are on their way.
    let mut requests = tokio::task::JoinSet::new();
    for i in 0..200 {
        let (cluster, command) = (cluster.clone(), command.clone());
        requests.spawn(async move {
            tokio::time::sleep(Duration::from_micros(500 * i)).await;
            cluster.request(SHARD, &command).await
        });
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    rig.cluster.stall(&master).unwrap();
    let (mut done, mut errors) = (0, 0);
    let ended = async {
        while let Some(result) = requests.join_next().await {
            match result.unwrap() {
                Ok(_) => done += 1,
                Err(RequestError::NotDone(_) | RequestError::Unknown(_)) => errors += 1,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended)
        .await
        .expect("requests that do not end");
    assert!(errors > 0 && done > 0, "{done} done, {errors} not");
    eventually("the replica has taken over", || async {
        cluster.request(SHARD, &command).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_watched_and_leases_live_without_it() {
    let rig = redis_rig(&[]).await;
    let client = Client::connect(RedisSettings::new(rig.redis_nodes())).await;
    let cluster = &client.cluster;
    let lease = cluster.shards().aggregator(SHARD);
    let master = rig
        .cluster
        .master_of(cluster.shards().slot(SHARD))
        .await
        .unwrap();
    let limit = |bytes: u64| {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg("maxmemory").arg(bytes);
        command
    };
    let mut appenders = Appenders::new(cluster.clone());
    let value = Bytes::from(vec![0; 100_000]);
    ask(&master, &limit(1_000_000_000)).await;
    appenders.until_stable(SHARD, &value).await;
    assert!(!cluster.log_state(SHARD, Instant::now()).is_nearly_full);
    ask(&master, &limit(1)).await;
    eventually("nearly full", || async {
        cluster
            .log_state(SHARD, Instant::now())
            .is_nearly_full
            .then_some(())
    })
    .await;
    assert!(
        !cluster
            .log_state(ShardId(63), Instant::now())
            .is_nearly_full,
        "that is another master's"
    );

    let appended = appenders.append(SHARD, &value).await;
    assert!(
        appended.out_of_memory && appended.outcome == AppendOutcome::Unknown,
        "{appended:?}"
    );
    let mut set = redis::cmd("SET");
    set.arg(format!("{}:test", cluster.shards().activity(SHARD)))
        .arg("x");
    assert_eq!(
        cluster.request(SHARD, &set).await.unwrap_err(),
        RequestError::OutOfMemory
    );
    let script = Script::new("return redis.call('SET', KEYS[1], 'x')");
    let key = [format!("{}:test", cluster.shards().activity(SHARD))];
    let refused = cluster.script(SHARD, &script, &key, &[]).await.unwrap_err();
    assert_eq!(refused, RequestError::OutOfMemory);
    assert!(
        cluster
            .claim_lease(SHARD, &lease, LeaseRecord::default(), OWNER)
            .await
            .unwrap()
    );
    let read = cluster
        .read_log(SHARD, EntryId::ZERO, 10, &lease, OWNER)
        .await
        .unwrap();
    assert!(
        read.barrier.lease_held && read.entries.len() == 1,
        "{read:?}"
    );
    assert!(cluster.release_lease(SHARD, &lease, OWNER).await.unwrap());

    ask(&master, &limit(0)).await;
    eventually("room again", || async {
        (!cluster.log_state(SHARD, Instant::now()).is_nearly_full).then_some(())
    })
    .await;
    appenders.until_stable(SHARD, &value).await;
}
