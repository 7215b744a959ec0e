//! A Redis that dies under the aggregator.

use crate::support::{Client, Instance, PATIENCE, eventually, room_in, taps};
use bytes::Bytes;
use rig::{Options, Rig};
use shared::cluster::append::Appender;
use shared::counting::codec::encode_batch;
use shared::counting::outbox::AppendOutcome;
use shared::room::RoomCode;
use std::time::Duration;

/// Appends a batch until it is stable, as a gateway does.
async fn append_until_stable(client: &Client, room: &RoomCode, number: u64) {
    let shard = client.cluster.shards().of(room);
    let batch = client.batch(1, number, room, taps(number, 1, &["clap", "fire"]));
    let value = Bytes::from(encode_batch(&batch));
    let appending = async {
        loop {
            let slot = client.cluster.shards().slot(shard);
            let master = client
                .cluster
                .topology()
                .borrow()
                .master_of(slot)
                .map(|master| master.id.clone());
            if let Some(master) = master {
                let mut appender = Appender::new(client.cluster.clone(), master);
                let outcome = appender.append(&[(shard, value.clone())]).await[0].outcome;
                if matches!(outcome, AppendOutcome::Stable(_)) {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, appending)
        .await
        .expect("never stable");
}

#[tokio::test]
async fn totals_survive_the_death_of_a_master() {
    let rig = Rig::start(Options {
        postgres: false,
        ..Options::default()
    })
    .await
    .unwrap();
    let client = Client::connect(&rig).await;
    let instance = Instance::start(rig.redis_nodes());
    let code = room_in(50);
    let shard = client.cluster.shards().of(&code);
    for number in 1..=60 {
        if number == 20 {
            // The aggregator is at work, not still on its way to Redis.
            client
                .expect_totals(&code, &[("clap", 19), ("fire", 19)])
                .await;
            let master = rig
                .cluster
                .master_of(client.cluster.shards().slot(shard))
                .await
                .unwrap();
            rig.cluster.kill(&master).unwrap();
        }
        append_until_stable(&client, &code, number).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client
        .expect_totals(&code, &[("clap", 60), ("fire", 60)])
        .await;
    eventually("the death was noticed", async || {
        let reloads = instance.metric("uproar_aggregator_reloads_total", "");
        (reloads.await >= 1.0).then_some(())
    })
    .await;
    let mut feed = client.feed();
    feed.heard(shard).await;
    let first = feed.next(shard).await;
    let second = feed.next(shard).await;
    assert_eq!(
        (second.epoch, second.serial),
        (first.epoch, first.serial + 1),
        "steady again"
    );
}

#[tokio::test]
async fn nothing_is_counted_that_replicas_do_not_have() {
    let rig = Rig::start(Options {
        postgres: false,
        ..Options::default()
    })
    .await
    .unwrap();
    let client = Client::connect(&rig).await;
    let instance = Instance::start(rig.redis_nodes());
    let code = room_in(51);
    let shard = client.cluster.shards().of(&code);
    append_until_stable(&client, &code, 1).await;
    client
        .expect_totals(&code, &[("clap", 1), ("fire", 1)])
        .await;
    let master = rig
        .cluster
        .master_of(client.cluster.shards().slot(shard))
        .await
        .unwrap();
    let replica = rig.cluster.replicas_of(&master).await.unwrap().remove(0);
    rig.cluster.stall(&replica).unwrap();
    client
        .append_batch(&client.batch(1, 2, &code, taps(2, 1, &["clap"])))
        .await;
    eventually("reads that are not stable", async || {
        (instance
            .metric("uproar_aggregator_reads_not_stable_total", "")
            .await
            >= 2.0)
            .then_some(())
    })
    .await;
    assert_eq!(client.totals(&code).await["clap"], 1);
    rig.cluster.resume(&replica).unwrap();
    client
        .expect_totals(&code, &[("clap", 2), ("fire", 1)])
        .await;
}
