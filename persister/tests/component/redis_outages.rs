//! Masters and replicas that die. Each test breaks a rig of its own.

use crate::support::{Bench, Gateway, check_books, new_code, stored_taps, until};
use bytes::Bytes;
use rig::{Options, Rig};
use shared::cluster::append::Appender;
use shared::counting::codec::encode_batch;
use shared::counting::outbox::AppendOutcome;
use std::time::{Duration, Instant};

#[tokio::test]
async fn taps_acknowledged_around_a_masters_death_are_stored_once() {
    let rig = Rig::start(Options::default()).await.unwrap();
    let bench = Bench::on(&rig).await;
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    let shard = bench.shard(&code);
    let slot = bench.cluster.shards().slot(shard);
    let start = Instant::now();
    let (mut acknowledged, mut given_up) = (0, 0);
    let mut killed: Option<String> = None;
    let mut is_back = false;
    while start.elapsed() < Duration::from_secs(12) {
        let after = |seconds| start.elapsed() > Duration::from_secs(seconds);
        if killed.is_none() && after(2) {
            let master = rig.cluster.master_of(slot).await.unwrap();
            rig.cluster.kill(&master).unwrap();
            killed = Some(master);
        }
        // It comes back as a replica; without one the persister would hold.
        if let Some(node) = killed.as_ref().filter(|_| !is_back && after(7)) {
            rig.cluster.restart(node).unwrap();
            is_back = true;
        }
        let batch = gateway.batch(&bench, &code, "clap", 0..20);
        let value = Bytes::from(encode_batch(&batch));
        // As a gateway: the same bytes again until they are stable, or until they would be void.
        let stable = loop {
            if bench.cluster.log_now_ms(shard) > batch.void_after_ms {
                break false;
            }
            let topology = bench.cluster.topology();
            let master = topology
                .borrow()
                .master_of(slot)
                .map(|master| master.id.clone());
            if let Some(master) = master {
                let mut appender = Appender::new(bench.cluster.clone(), master);
                let appended = appender.append(&[(shard, value.clone())]).await;
                if matches!(appended[0].outcome, AppendOutcome::Stable(_)) {
                    break true;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        if stable {
            acknowledged += 20;
        } else {
            given_up += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(given_up, 0, "a failover takes less than a batch may wait");
    assert!(acknowledged > 1_000, "{acknowledged}");
    bench.wait_taps(&sql, &code, acknowledged).await;
    check_books(&sql).await;
    persister.end().await.unwrap();
}

#[tokio::test]
async fn without_any_electable_replica_nothing_is_stored_until_one_is_back() {
    let rig = Rig::start(Options::default()).await.unwrap();
    let bench = Bench::on(&rig).await;
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..5))
        .await;
    bench.wait_taps(&sql, &code, 5).await;
    let master = rig
        .cluster
        .master_of(bench.cluster.shards().slot(bench.shard(&code)))
        .await
        .unwrap();
    let replicas = rig.cluster.replicas_of(&master).await.unwrap();
    for replica in &replicas {
        rig.cluster.kill(replica).unwrap();
    }
    let label = format!("shard=\"{}\"", bench.shard(&code).0);
    persister
        .wait_metric("shard_held", &label, |held| held == 1.0)
        .await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..5))
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(stored_taps(&sql, &code).await, Some(5));
    for replica in &replicas {
        rig.cluster.restart(replica).unwrap();
    }
    bench.wait_taps(&sql, &code, 10).await;
    until("the hold to end", async || {
        (persister.metric("shard_held", &label).await == 0.0).then_some(())
    })
    .await;
    check_books(&sql).await;
    persister.end().await.unwrap();
}
