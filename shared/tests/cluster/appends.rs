//! Appends: what was told to be stable is in the log, once, and in order, whatever happens to the cluster.

use crate::faults::{Fault, inflict, redis_rig};
use crate::support::{Appenders, Client, eventually, log};
use bytes::Bytes;
use rig::Rig;
use shared::cluster::{Cluster, RedisSettings};
use shared::shards::ShardId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Shards that are written to: two of each third of the slots.
const WRITTEN: [ShardId; 6] = [
    ShardId(2),
    ShardId(9),
    ShardId(30),
    ShardId(35),
    ShardId(50),
    ShardId(63),
];

/// Appends `0`, `1`, `2`, … one after the other, each until it is stable; how many attempts each took.
async fn write(
    cluster: Cluster,
    shard: ShardId,
    stable: Arc<AtomicUsize>,
    stop: CancellationToken,
) -> (ShardId, Vec<usize>) {
    let mut appenders = Appenders::new(cluster);
    let mut attempts = Vec::new();
    while !stop.is_cancelled() {
        let value = Bytes::from(attempts.len().to_string());
        let (tries, appended) = appenders.until_stable(shard, &value).await;
        assert!(appended.error.is_none(), "{appended:?}");
        attempts.push(tries);
        stable.fetch_add(1, Ordering::Relaxed);
    }
    (shard, attempts)
}

/// Writes through a fault, and compares what was told with what is there.
async fn survives(fault: Fault) {
    let rig = redis_rig(&[]).await;
    let client = Client::connect(RedisSettings::new(rig.redis_nodes())).await;
    let stop = CancellationToken::new();
    let mut writers = JoinSet::new();
    let mut counters = Vec::new();
    for shard in WRITTEN {
        let stable = Arc::new(AtomicUsize::new(0));
        counters.push(stable.clone());
        writers.spawn(write(client.cluster.clone(), shard, stable, stop.clone()));
    }
    all_go_on(&counters, 100).await;
    inflict(fault, &rig, client.cluster.shards().slot(WRITTEN[0])).await;
    all_go_on(&counters, 100).await;
    stop.cancel();
    let mut retried = 0;
    while let Some(written) = writers.join_next().await {
        let (shard, attempts) = written.unwrap();
        retried += attempts.iter().filter(|tries| **tries > 1).count();
        compare(&client.cluster, shard, &attempts).await;
    }
    println!("{fault:?}: {retried} appends needed more than one attempt");
    recovers(&rig, &client, fault).await;
}

/// Waits until each has grown by `more`.
async fn all_go_on(counters: &[Arc<AtomicUsize>], more: usize) {
    let before: Vec<usize> = counters.iter().map(|c| c.load(Ordering::Relaxed)).collect();
    eventually("all shards are written to", || async {
        let mut pairs = counters.iter().zip(&before);
        pairs
            .all(|(c, before)| c.load(Ordering::Relaxed) >= before + more)
            .then_some(())
    })
    .await;
}

/// Each value is there, for the first time in its place, and again only if it took more than one attempt.
async fn compare(cluster: &Cluster, shard: ShardId, attempts: &[usize]) {
    let mut times = vec![0; attempts.len()];
    let mut next = 0;
    for value in log(cluster, shard).await {
        let number: usize = std::str::from_utf8(&value).unwrap().parse().unwrap();
        assert!(number <= next, "{shard:?}: {number} came before {next}");
        next = next.max(number + 1);
        times[number] += 1;
    }
    for (number, (times, tries)) in times.iter().zip(attempts).enumerate() {
        assert!(*times > 0, "{shard:?}: {number} was stable and is lost");
        assert!(
            times <= tries,
            "{shard:?}: {number} is there {times} times by {tries} attempts"
        );
    }
}

/// When what was broken is whole again, appends are replicated again.
async fn recovers(rig: &Rig, client: &Client, fault: Fault) {
    let running = rig.cluster.addresses();
    for address in running {
        match fault {
            Fault::Kill if rig.cluster.pid(&address).is_err() => {
                rig.cluster.restart(&address).unwrap();
            }
            Fault::Stall => rig.cluster.resume(&address).unwrap(),
            _ => {}
        }
    }
    rig.cluster.wait_healthy().await.unwrap();
    let mut appenders = Appenders::new(client.cluster.clone());
    for shard in WRITTEN {
        for attempt in 0.. {
            let (_, appended) = appenders
                .until_stable(shard, &Bytes::from_static(b"0"))
                .await;
            if !appended.unreplicated {
                break;
            }
            assert!(attempt < 1_000, "{shard:?} has no replica still");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_survive_the_death_of_a_master() {
    survives(Fault::Kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_survive_a_stalled_master() {
    survives(Fault::Stall).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_survive_an_ordered_failover() {
    survives(Fault::Failover).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_survive_the_migration_of_their_slot() {
    survives(Fault::Migration).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_survive_cut_connections() {
    survives(Fault::CutConnections).await;
}
