//! What gateways write to the logs: at most one batch entry per gateway, shard and flush, whatever the number of taps.
#![expect(
    clippy::unwrap_used,
    reason = "clippy sees that functions are tests, not that their helpers are"
)]

use loadtest::api;
use loadtest::crowd::{Crowd, Phase};
use loadtest::smoke::wait_for;
use loadtest::stack::{Stack, StackOptions};
use redis::cmd;
use redis::streams::StreamRangeReply;
use serde_json::json;
use shared::counting::codec;
use shared::counting::entry::Entry;
use shared::counting::ids::{EntryId, ProducerId};
use shared::room::{ReactionKey, RoomCode};
use shared::shards::Shards;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::sleep;

/// Long, so that a slow machine does not blur what is counted.
const FLUSH: Duration = Duration::from_millis(200);
const TAPPING: Duration = Duration::from_secs(5);
const GATEWAYS: usize = 2;

/// The log times, taps and head counts of the batches, by producer.
type Batches = BTreeMap<ProducerId, Vec<(u64, usize, usize)>>;

async fn batches(stack: &Stack, shards: &Shards, room: &RoomCode) -> Batches {
    let shard = shards.of(room);
    let range = cmd("XRANGE")
        .arg(shards.log(shard))
        .arg("-")
        .arg("+")
        .to_owned();
    let log: StreamRangeReply = stack
        .rig
        .cluster
        .request(shards.slot(shard), &range)
        .await
        .unwrap();
    let mut batches = Batches::new();
    for entry in log.ids {
        let id: EntryId = entry.id.parse().unwrap();
        assert_eq!(entry.map.len(), 1, "an entry has one field");
        let (field, value) = entry.map.into_iter().next().unwrap();
        let value: Vec<u8> = redis::from_redis_value(value).unwrap();
        if let Entry::Batch(batch) = codec::decode(field.as_bytes(), &value).unwrap() {
            let taps = batch.rooms.iter().map(|room| room.taps.len()).sum();
            let people = batch
                .rooms
                .iter()
                .filter(|room| room.people.is_some())
                .count();
            batches
                .entry(batch.producer)
                .or_default()
                .push((id.ms, taps, people));
        }
    }
    batches
}

/// Has so many phones tap four times a second for a while; the batches of the room's shard.
async fn tap(stack: &Stack, shards: &Shards, phones: usize) -> (Batches, usize) {
    let room = json!({ "title": "Batches", "cooldown_ms": 250 });
    let front = stack.front.address();
    let room = api::make_room(front, stack.rig.admin_key(), &room)
        .await
        .unwrap()
        .code;
    let shown = api::room(front, &room).await.unwrap();
    let keys: Vec<ReactionKey> = shown
        .palette
        .entries()
        .iter()
        .map(|entry| entry.key.clone())
        .collect();
    let mut crowd = Crowd::new(front);
    for _ in 0..phones {
        crowd.add_phone(&room, keys.clone(), Duration::from_millis(250));
    }
    let everybody = async || Ok(crowd.board.connected.load(Relaxed) == phones);
    wait_for(Duration::from_secs(20), "all phones have joined", everybody)
        .await
        .unwrap();
    crowd.set_phase(Phase::Tap);
    sleep(TAPPING).await;
    crowd.set_phase(Phase::Settle);
    let answered = async || Ok(crowd.board.waiting.load(Relaxed) == 0);
    wait_for(Duration::from_secs(20), "all taps are answered", answered)
        .await
        .unwrap();
    let acknowledged = crowd.board.acknowledged.load(Relaxed);
    crowd.end().await;
    (batches(stack, shards, &room).await, acknowledged)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_makes_at_most_one_entry_whatever_the_number_of_taps() {
    let flush = FLUSH.as_millis().to_string();
    let stack = StackOptions {
        gateways: GATEWAYS,
        settings: vec![("UPROAR_GATEWAY__FLUSH_INTERVAL_MS".to_owned(), flush)],
        ..StackOptions::default()
    };
    let stack = Stack::start(stack, |step| println!("{step}"))
        .await
        .unwrap();
    let shards = Shards::new(64);
    for phones in [4, 120] {
        let (batches, acknowledged) = tap(&stack, &shards, phones).await;
        println!("{phones} phones, {acknowledged} taps: {batches:?}");
        assert!(
            acknowledged > phones * 10,
            "{acknowledged} taps of {phones} phones"
        );
        assert_eq!(batches.len(), GATEWAYS, "each gateway is one producer");
        let (mut taps, mut people) = (0, 0);
        for entries in batches.values() {
            let flush = u64::try_from(FLUSH.as_millis()).unwrap();
            // In any window of time no more entries than flushes: the ends of a window may each hold one more.
            for (first, (start, ..)) in entries.iter().enumerate() {
                for (count, (end, ..)) in (1..).zip(&entries[first..]) {
                    assert!(
                        count <= (end - start) / flush + 2,
                        "{count} in {} ms",
                        end - start
                    );
                }
            }
            taps += entries.iter().map(|(_, taps, _)| taps).sum::<usize>();
            people += entries.iter().map(|(_, _, people)| people).sum::<usize>();
        }
        assert_eq!(
            taps, acknowledged,
            "every acknowledged tap is in the log once"
        );
        assert!(people >= GATEWAYS, "head counts ride in batches");
    }
}
