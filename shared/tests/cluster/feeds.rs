//! Subscriptions: they come back after every fault, and no gap goes untold.

use crate::faults::{Fault, inflict, redis_rig};
use crate::support::{Client, PATIENCE, eventually};
use shared::cluster::subscribe::{FeedEvent, subscribe_to_ticks};
use shared::cluster::{Cluster, RedisSettings};
use shared::shards::ShardId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Shards that are published to: in the first third of the slots, which suffers, and elsewhere.
const PUBLISHED: [ShardId; 4] = [ShardId(3), ShardId(10), ShardId(32), ShardId(60)];

/// The longest that a subscription may be behind the first message that could be published again.
const GAP_MAX: Duration = Duration::from_secs(2);

/// What happened on one channel, in order.
#[derive(Debug, Default)]
struct Heard {
    last: Option<u64>,
    /// Whether a (re)subscription was told since `last`.
    told: bool,
    at: Option<Instant>,
}

/// Numbers that were certainly published, with their time.
type Published = Arc<Mutex<BTreeMap<(ShardId, u64), Instant>>>;

async fn publish(cluster: Cluster, published: Published, stop: CancellationToken) {
    for number in 0.. {
        for shard in PUBLISHED {
            let mut command = redis::cmd("SPUBLISH");
            command.arg(cluster.shards().ticks(shard)).arg(number);
            let (cluster, published) = (cluster.clone(), published.clone());
            let publish = async move {
                if cluster.request(shard, &command).await.is_ok() {
                    published
                        .lock()
                        .unwrap()
                        .insert((shard, number), Instant::now());
                }
            };
            tokio::spawn(publish);
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
    }
}

/// Takes events until `done` says that they are enough.
async fn listen(
    events: &mut mpsc::Receiver<FeedEvent>,
    heard: &mut BTreeMap<ShardId, Heard>,
    skipped: &mut BTreeSet<(ShardId, u64)>,
    mut done: impl FnMut(&BTreeMap<ShardId, Heard>) -> bool,
) {
    let listening = async {
        while !done(heard) {
            match events.recv().await.unwrap() {
                FeedEvent::Subscribed(shard) => heard.entry(shard).or_default().told = true,
                FeedEvent::Lost(_) => {}
                FeedEvent::Message(shard, payload) => {
                    let number: u64 = std::str::from_utf8(&payload).unwrap().parse().unwrap();
                    let heard = heard.entry(shard).or_default();
                    let last = heard.last.unwrap_or(number);
                    if !heard.told {
                        // Requests race each other, so neighbours can change places: not a gap yet.
                        skipped.extend((last + 1..number).map(|number| (shard, number)));
                    }
                    skipped.remove(&(shard, number));
                    heard.told = false;
                    heard.last = Some(last.max(number));
                    heard.at = Some(Instant::now());
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, listening)
        .await
        .expect("not all channels are heard");
}

async fn survives(fault: Fault) {
    let rig = redis_rig(&[]).await;
    let client = Client::connect(RedisSettings::new(rig.redis_nodes())).await;
    let (mut events, _resubscribe) =
        subscribe_to_ticks(&client.cluster, &client.tracker, client.shutdown.clone());
    let mut heard = BTreeMap::new();
    let mut skipped = BTreeSet::new();
    let all = usize::from(client.cluster.shards().count());
    listen(&mut events, &mut heard, &mut skipped, |heard| {
        heard.len() == all
    })
    .await;

    let published = Published::default();
    let stop = CancellationToken::new();
    let publisher = tokio::spawn(publish(
        client.cluster.clone(),
        published.clone(),
        stop.clone(),
    ));
    let heard_since = |since: Instant| {
        move |heard: &BTreeMap<ShardId, Heard>| {
            PUBLISHED
                .iter()
                .all(|shard| heard[shard].at.is_some_and(|at| at > since))
        }
    };
    listen(
        &mut events,
        &mut heard,
        &mut skipped,
        heard_since(Instant::now()),
    )
    .await;
    let slot = client.cluster.shards().slot(PUBLISHED[0]);
    let before = rig.cluster.master_of(slot).await.unwrap();
    inflict(fault, &rig, slot).await;
    if matches!(fault, Fault::Kill | Fault::Stall) {
        eventually("another master", || async {
            (rig.cluster.master_of(slot).await.ok()? != before).then_some(())
        })
        .await;
    }
    let first = first_published_after(&published, Instant::now()).await;
    listen(&mut events, &mut heard, &mut skipped, heard_since(first)).await;
    let gap = first.elapsed();
    println!("{fault:?}: heard again {gap:?} after the first message that could be published");
    assert!(gap < GAP_MAX, "{gap:?}");
    // Then all is heard, for a while.
    listen(
        &mut events,
        &mut heard,
        &mut skipped,
        heard_since(Instant::now() + GAP_MAX / 4),
    )
    .await;
    stop.cancel();
    publisher.await.unwrap();
    let published = published.lock().unwrap();
    let untold: Vec<_> = skipped
        .iter()
        .filter(|skip| published.contains_key(skip))
        .collect();
    assert!(untold.is_empty(), "missed without being told: {untold:?}");
}

/// When each channel had a message published again.
async fn first_published_after(published: &Published, since: Instant) -> Instant {
    eventually("messages published again", || async {
        let published = published.lock().unwrap();
        let first = |shard: &ShardId| {
            let of = published.range((*shard, 0)..=(*shard, u64::MAX));
            of.map(|(_, at)| *at).filter(|at| *at > since).min()
        };
        PUBLISHED
            .iter()
            .map(first)
            .collect::<Option<Vec<_>>>()?
            .into_iter()
            .max()
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_survive_the_death_of_a_master() {
    survives(Fault::Kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_survive_a_stalled_master() {
    survives(Fault::Stall).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_survive_an_ordered_failover() {
    survives(Fault::Failover).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_survive_the_migration_of_their_slot() {
    survives(Fault::Migration).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_survive_cut_connections() {
    survives(Fault::CutConnections).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_found_dead_is_subscribed_on_a_new_connection() {
    let rig = redis_rig(&[]).await;
    let client = Client::connect(RedisSettings::new(rig.redis_nodes())).await;
    let (mut events, resubscribe) =
        subscribe_to_ticks(&client.cluster, &client.tracker, client.shutdown.clone());
    let (mut heard, mut skipped) = (BTreeMap::new(), BTreeSet::new());
    let all = usize::from(client.cluster.shards().count());
    listen(&mut events, &mut heard, &mut skipped, |heard| {
        heard.len() == all
    })
    .await;
    resubscribe.send(PUBLISHED[0]).await.unwrap();
    let mut lost = false;
    let told = async {
        loop {
            match events.recv().await.unwrap() {
                FeedEvent::Lost(shard) if shard == PUBLISHED[0] => lost = true,
                FeedEvent::Subscribed(shard) if shard == PUBLISHED[0] => break,
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert!(lost, "it was told as lost first");
}
