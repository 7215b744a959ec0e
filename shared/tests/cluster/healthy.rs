//! The cluster client on a cluster that is well.

use crate::support::{Appenders, Client, PATIENCE, ask, eventually, log};
use bytes::Bytes;
use redis::Value;
use shared::cluster::append::Appender;
use shared::cluster::leases::LeaseState;
use shared::cluster::members::Members;
use shared::cluster::scripts::{RENEW, Script};
use shared::cluster::subscribe::{FeedEvent, subscribe_to_ticks};
use shared::cluster::{RedisSettings, RequestError};
use shared::counting::ids::{EntryId, Nonce};
use shared::counting::lease::LeaseRecord;
use shared::counting::outbox::AppendOutcome;
use shared::shards::ShardId;
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A shard whose log one of the tests spoils.
const BROKEN: ShardId = ShardId(63);

async fn client() -> Client {
    let rig = rig::shared().await;
    Client::connect(RedisSettings::new(rig.redis_nodes())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_topology_tells_masters_replicas_clocks_and_memory() {
    let client = client().await;
    let topology = client.cluster.topology().borrow().clone();
    assert!(topology.is_whole());
    assert_eq!(topology.masters.len(), 3);
    for master in &topology.masters {
        assert_eq!(master.electable_replicas, 1, "{master:?}");
        assert!(
            master.memory_used_ratio.abs() < 1e-9,
            "no limit is set: {master:?}"
        );
    }
    eventually("log time is the servers' time", || async {
        let now_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis();
        let log_now_ms = u128::from(client.cluster.log_now_ms(ShardId(5)));
        (log_now_ms.abs_diff(now_ms) < 50).then_some(())
    })
    .await;
    assert!(
        !client
            .cluster
            .log_state(ShardId(5), Instant::now())
            .is_nearly_full
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_scripts_are_answered_and_refused() {
    let client = client().await;
    let (cluster, shard) = (&client.cluster, ShardId(1));
    let key = format!("{}:test", cluster.shards().activity(shard));
    let mut set = redis::cmd("SET");
    set.arg(&key).arg("x");
    assert_eq!(cluster.request(shard, &set).await.unwrap(), Value::Okay);
    let mut wrong = redis::cmd("XLEN");
    wrong.arg(&key);
    let refused = cluster.request(shard, &wrong).await.unwrap_err();
    assert!(
        matches!(&refused, RequestError::Refused(why) if why.contains("WRONGTYPE")),
        "{refused}"
    );

    // A script that no server has seen before is loaded; one that is there already is just called.
    let lua = format!(
        "return redis.call('APPEND', KEYS[1], ARGV[1]) -- {}",
        rand::random::<u64>()
    );
    let script = Script::new(&lua);
    for length in 2..5 {
        let arguments = [b"y".to_vec()];
        let answer = cluster
            .script(shard, &script, std::slice::from_ref(&key), &arguments)
            .await;
        assert_eq!(answer.unwrap(), Value::Int(length));
    }
    let arguments = [b"z".to_vec()];
    let (answer, stable) = cluster
        .script_and_wait(shard, &script, std::slice::from_ref(&key), &arguments)
        .await
        .unwrap();
    assert_eq!((answer, stable), (Value::Int(5), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_goes_to_the_wrong_master_was_not_done() {
    let client = client().await;
    let mut get = redis::cmd("GET");
    get.arg(client.cluster.shards().log(ShardId(60)));
    let error = client.cluster.request(ShardId(2), &get).await.unwrap_err();
    assert!(
        matches!(&error, RequestError::NotDone(why) if why.contains("MOVED")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_of_many_shards_share_a_pipeline() {
    let client = client().await;
    let cluster = &client.cluster;
    let topology = cluster.topology().borrow().clone();
    let master = topology
        .master_of(cluster.shards().slot(ShardId(0)))
        .unwrap();
    let mut appender = Appender::new(cluster.clone(), master.id.clone());
    let value = |shard: ShardId| Bytes::from(format!("many {}", shard.0));
    let sound = cluster.shards().all().filter(|shard| *shard != BROKEN);
    let batches: Vec<(ShardId, Bytes)> = sound.map(|shard| (shard, value(shard))).collect();
    let results = appender.append(&batches).await;
    assert_eq!(results.len(), batches.len());
    let mut own = 0;
    for ((shard, value), result) in batches.iter().zip(&results) {
        let slot = cluster.shards().slot(*shard);
        let is_own = topology.master_of(slot).unwrap().id == master.id;
        let is_stable = matches!(result.outcome, AppendOutcome::Stable(_));
        assert_eq!(is_stable, is_own, "{shard:?}: {result:?}");
        assert_eq!(result.error.is_none(), is_own, "{shard:?}: {result:?}");
        assert!(!result.unreplicated && !result.out_of_memory);
        let found = log(cluster, *shard)
            .await
            .iter()
            .filter(|v| ***v == **value)
            .count();
        assert_eq!(found, usize::from(is_own));
        own += usize::from(is_own);
    }
    assert!(own > 10, "{own}");
    assert_eq!(appender.append(&[]).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_is_rejected_is_not_stable_by_the_wait_of_its_neighbours() {
    let client = client().await;
    let (cluster, wrong, right) = (&client.cluster, BROKEN, ShardId(62));
    let mut set = redis::cmd("SET");
    set.arg(cluster.shards().log(wrong)).arg("no stream");
    cluster.request(wrong, &set).await.unwrap();
    let topology = cluster.topology().borrow().clone();
    let master = topology.master_of(cluster.shards().slot(wrong)).unwrap();
    let mut appender = Appender::new(cluster.clone(), master.id.clone());
    let value = Bytes::from_static(b"rejected");
    let results = appender
        .append(&[(right, value.clone()), (wrong, value)])
        .await;
    assert!(
        matches!(results[0].outcome, AppendOutcome::Stable(_)),
        "{results:?}"
    );
    assert_eq!(results[1].outcome, AppendOutcome::Unknown);
    assert!(
        results[1].error.as_ref().unwrap().contains("WRONGTYPE"),
        "{results:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_read_behind_the_barrier() {
    let client = client().await;
    let (cluster, shard) = (&client.cluster, ShardId(7));
    let lease = cluster.shards().aggregator(shard);
    let (owner, other) = (Nonce(0xabc), Nonce(0xdef));
    let mut appenders = Appenders::new(cluster.clone());
    for i in 0..5 {
        appenders
            .until_stable(shard, &Bytes::from(format!("entry {i}")))
            .await;
    }
    let read = cluster
        .read_log(shard, EntryId::ZERO, 3, &lease, owner)
        .await
        .unwrap();
    assert_eq!(read.entries.len(), 3);
    assert!(!read.reached_end);
    assert!(
        !read.barrier.lease_held && !read.barrier.stable,
        "nobody holds the lease"
    );

    assert_eq!(
        cluster.read_lease(shard, &lease).await.unwrap(),
        LeaseState::default()
    );
    let free = LeaseRecord::default();
    assert!(
        cluster
            .claim_lease(shard, &lease, free, owner)
            .await
            .unwrap()
    );
    assert!(
        !cluster
            .claim_lease(shard, &lease, free, other)
            .await
            .unwrap(),
        "it has changed"
    );
    let read = cluster
        .read_log(shard, EntryId::ZERO, 3, &lease, owner)
        .await
        .unwrap();
    assert!(read.barrier.lease_held && read.barrier.stable && !read.unreplicated);
    assert_eq!(read.entries[0].value, b"entry 0");
    assert_eq!(read.entries[0].field, b"b");
    let rest = cluster
        .read_log(shard, read.entries[2].id, 3, &lease, owner)
        .await
        .unwrap();
    assert_eq!(rest.entries.len(), 2);
    assert!(rest.reached_end);
    assert_eq!(rest.entries[1].value, b"entry 4");

    // One claim and two reads.
    let held = cluster.read_lease(shard, &lease).await.unwrap().record;
    assert_eq!(
        held,
        LeaseRecord {
            owner: Some(owner),
            beat: 3
        }
    );
    assert!(!cluster.release_lease(shard, &lease, other).await.unwrap());
    assert!(cluster.renew_lease(shard, &lease, owner).await.unwrap());
    assert!(cluster.release_lease(shard, &lease, owner).await.unwrap());
    assert!(!cluster.renew_lease(shard, &lease, owner).await.unwrap());
    let freed = cluster.read_lease(shard, &lease).await.unwrap().record;
    assert_eq!(
        freed,
        LeaseRecord {
            owner: None,
            beat: 5
        }
    );
    assert!(
        cluster
            .claim_lease(shard, &lease, freed, other)
            .await
            .unwrap()
    );
    let read = cluster
        .read_log(shard, EntryId::ZERO, 3, &lease, owner)
        .await
        .unwrap();
    assert!(
        !read.barrier.lease_held && !read.barrier.stable,
        "it is another's"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_flushed_from_the_server_is_loaded_again() {
    let client = client().await;
    let (cluster, shard) = (&client.cluster, ShardId(8));
    let lease = cluster.shards().persister(shard);
    let topology = cluster.topology().borrow().clone();
    let master = topology.master_of(cluster.shards().slot(shard)).unwrap();
    for _ in 0..2 {
        let mut flush = redis::cmd("SCRIPT");
        flush.arg("FLUSH");
        ask(&master.address, &flush).await;
        assert!(!cluster.renew_lease(shard, &lease, Nonce(1)).await.unwrap());
        let mut exists = redis::cmd("SCRIPT");
        exists.arg("EXISTS").arg(RENEW.sha());
        let exists = ask(&master.address, &exists).await;
        assert_eq!(exists, Value::Array(vec![Value::Int(1)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_channels_are_heard() {
    let client = client().await;
    let cluster = &client.cluster;
    let (mut events, _resubscribe) =
        subscribe_to_ticks(cluster, &client.tracker, client.shutdown.clone());
    let mut missing: BTreeSet<ShardId> = cluster.shards().all().collect();
    while !missing.is_empty() {
        match next(&mut events).await {
            FeedEvent::Subscribed(shard) => assert!(missing.remove(&shard), "{shard:?} twice"),
            event => panic!("{event:?}"),
        }
    }
    for shard in cluster.shards().all() {
        let mut publish = redis::cmd("SPUBLISH");
        publish
            .arg(cluster.shards().ticks(shard))
            .arg(format!("tick {}", shard.0));
        cluster.request(shard, &publish).await.unwrap();
        loop {
            if let FeedEvent::Message(of, payload) = next(&mut events).await {
                assert_eq!(
                    (of, payload),
                    (shard, Bytes::from(format!("tick {}", shard.0)))
                );
                break;
            }
        }
    }
    client.shutdown.cancel();
    client.tracker.close();
    tokio::time::timeout(PATIENCE, client.tracker.wait())
        .await
        .unwrap();
}

async fn next(events: &mut tokio::sync::mpsc::Receiver<FeedEvent>) -> FeedEvent {
    tokio::time::timeout(PATIENCE, events.recv())
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn members_see_each_other_and_leave() {
    let client = client().await;
    let mut one = Members::new(client.cluster.clone(), "tests", Nonce(1));
    let mut two = Members::new(client.cluster.clone(), "tests", Nonce(2));
    assert_eq!(one.beat().await.unwrap(), 1);
    two.beat().await.unwrap();
    one.beat().await.unwrap();
    two.beat().await.unwrap();
    assert_eq!(one.beat().await.unwrap(), 2);
    assert_eq!(two.beat().await.unwrap(), 2);
    two.leave().await.unwrap();
    assert_eq!(one.beat().await.unwrap(), 1);
    // One that dies without leaving is not counted when its counter has stood still for three seconds.
    two.beat().await.unwrap();
    one.beat().await.unwrap();
    two.beat().await.unwrap();
    assert_eq!(one.beat().await.unwrap(), 2);
    eventually("the dead is not counted", || async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        (one.live() == 1).then_some(())
    })
    .await;
}
