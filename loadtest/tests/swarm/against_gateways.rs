//! Against the whole system: what the generator counted is what Redis counted, and no frame is missing.

use crate::scenario;
use loadtest::api;
use loadtest::evidence;
use loadtest::scenario::{Distribution, Sizes, Stage, Tapping};
use loadtest::smoke::wait_for;
use loadtest::stack::{Stack, StackOptions};
use loadtest::swarm::Swarm;
use loadtest::swarm::assignment::{Assignment, RoomPlan};
use loadtest::swarm::evaluate::Evaluation;
use loadtest::swarm::harvest::{Harvest, TapFate};
use serde_json::json;
use shared::room::{ReactionKey, RoomCode};
use shared::shards::Shards;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const PHONES: u32 = 200;

async fn rooms(stack: &Stack, count: u32) -> Vec<RoomPlan> {
    let front = stack.front.address();
    let mut rooms = Vec::new();
    for _ in 0..count {
        let room = json!({ "title": "Swarm", "cooldown_ms": 500 });
        let made = api::make_room(front, stack.rig.admin_key(), &room)
            .await
            .unwrap();
        let shown = api::room(front, &made.code).await.unwrap();
        let keys = shown
            .palette
            .entries()
            .iter()
            .map(|entry| entry.key.clone());
        rooms.push(RoomPlan {
            code: made.code,
            keys: keys.collect(),
        });
    }
    rooms
}

/// What the phones know to be counted.
fn acknowledged(harvest: &Harvest, rooms: &[RoomPlan]) -> BTreeMap<(RoomCode, ReactionKey), u64> {
    let mut counts = BTreeMap::new();
    for phone in &harvest.phones {
        let room = &rooms[usize::try_from(phone.room).unwrap()];
        for tap in &phone.taps {
            assert!(matches!(tap.fate, TapFate::Acknowledged(_)), "{tap:?}");
            let key = room.keys[usize::from(tap.key)].clone();
            *counts.entry((room.code.clone(), key)).or_default() += 1;
        }
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_counts_is_what_redis_counts_and_every_frame_came() {
    let stack = Stack::start(StackOptions::default(), |step| println!("{step}"))
        .await
        .unwrap();
    let mut scenario = scenario(PHONES, None);
    scenario.rooms.count = 2;
    scenario.rooms.sizes = Sizes::Uneven;
    scenario.rooms.cooldown_ms = 500;
    scenario.rooms.reactions = 6;
    scenario.arrive = vec![Stage {
        percent: 100.0,
        over_seconds: 2.0,
        after_seconds: 0.0,
    }];
    scenario.tap = Some(Tapping {
        every_seconds: [0.6, 3.0],
        distribution: Distribution::Uniform,
    });
    scenario.seconds = 5.0;
    let rooms = rooms(&stack, 2).await;
    let front = stack.front.address();
    let assignment = Assignment {
        seed: 3,
        phones: 0..PHONES,
        targets: vec![front],
        host: front.to_string(),
        rooms: rooms.clone(),
        threads: 2,
        sources: Vec::new(),
        scenario,
    };
    let times = assignment.scenario.times();
    let swarm = Swarm::start(assignment, Instant::now()).unwrap();
    sleep(times.until).await;
    swarm.stop_tapping();
    wait_for(Duration::from_secs(30), "all is answered", async || {
        Ok(swarm.snapshot().waiting == 0)
    })
    .await
    .unwrap();
    let shards = Shards::new(64);
    let codes: Vec<RoomCode> = rooms.iter().map(|room| room.code.clone()).collect();
    let caught_up = async || evidence::caught_up(&stack.rig, &shards, &codes).await;
    wait_for(
        Duration::from_secs(30),
        "the readers have caught up",
        caught_up,
    )
    .await
    .unwrap();
    let snapshot = swarm.snapshot();
    println!("{snapshot:?}");
    let harvest = tokio::task::spawn_blocking(move || swarm.finish())
        .await
        .unwrap();

    assert_eq!(
        (snapshot.phones, snapshot.joined, snapshot.refused),
        (200, 200, 0)
    );
    assert_eq!(harvest.errors, []);
    let totals = evidence::totals(&stack.rig, &shards, &codes).await.unwrap();
    assert_eq!(acknowledged(&harvest, &rooms), totals);
    assert!(totals.values().sum::<u64>() > 300, "{totals:?}");

    let evaluation = Evaluation::new(std::slice::from_ref(&harvest), 2);
    println!("{:?}", evaluation.rooms);
    for room in &evaluation.rooms {
        assert_eq!(room.expected, room.delivered);
        assert!(room.expected > 500, "{room:?}");
    }
    let gateways: BTreeSet<&str> = harvest
        .frames
        .iter()
        .map(|log| log.gateway.as_str())
        .collect();
    assert_eq!(
        gateways.len(),
        2,
        "each phone knows which gateway serves it: {gateways:?}"
    );
    // The last total of each reaction was seen by somebody.
    for (index, room) in (0..).zip(&rooms) {
        for (key, name) in (0..).zip(&room.keys) {
            if let Some(total) = totals.get(&(room.code.clone(), name.clone())) {
                let seen = evaluation.first_seen(index, key, *total, u32::MAX);
                assert!(seen.is_some(), "{name} {total}");
                assert_eq!(evaluation.first_seen(index, key, total + 1, u32::MAX), None);
            }
        }
    }
}
