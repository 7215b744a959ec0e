//! Room changes through the death of a master, on a rig of their own.

use crate::changes::log_on;
use crate::support::{Gateway, text};
use rig::{Options, Rig};
use serde_json::json;
use shared::room::RoomCode;
use shared::shards::Shards;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_host_was_told_is_done_survives_the_death_of_a_master() {
    let rig = Rig::start(Options {
        postgres: false,
        ..Options::default()
    })
    .await
    .unwrap();
    let gateway = Gateway::start_on(&rig, "").await;
    let (code, token) = gateway.room().await;
    let typed: RoomCode = code.parse().unwrap();
    let shards = Shards::new(64);
    let slot = shards.slot(shards.of(&typed));
    let master = rig.cluster.master_of(slot).await.unwrap();
    let mut done = Vec::new();
    let started = Instant::now();
    let (mut died, mut is_back) = (false, false);
    let mut last = usize::MAX;
    for round in 0.. {
        let title = format!("Title {round}");
        // A host's page does the same: try again until it is told that it is done.
        loop {
            let reply = gateway.patch(&code, &token, &json!({"title": title})).await;
            if reply.status == 200 {
                break;
            }
            reply.problem(503, "unavailable");
            assert!(reply.headers.contains_key("retry-after"));
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "the change is never done"
            );
            come_back(&rig, slot, &master, &mut is_back).await;
        }
        done.push(title);
        if round == 5 {
            died = true;
            rig.cluster.kill(&master).unwrap();
        }
        if died && last == usize::MAX && come_back(&rig, slot, &master, &mut is_back).await {
            last = round + 3;
        }
        if round >= last {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    let room = gateway.get(&format!("/v1/rooms/{code}")).await.json();
    assert_eq!(text(&room["title"]), *done.last().unwrap());
    let log = log_on(&rig, &code).await;
    let versions: Vec<_> = log.iter().map(|change| change.room.version).collect();
    let expected: Vec<_> = (1..=versions.len() as u64).collect();
    assert_eq!(versions, expected, "no version twice, none left out");
    let titles: Vec<_> = log
        .iter()
        .skip(1)
        .map(|change| change.room.title.clone())
        .collect();
    assert_eq!(
        titles, done,
        "each change once, in the order in which they were made"
    );
    assert_eq!(room["version"].as_u64().unwrap(), *versions.last().unwrap());
}

/// Once another has become master, the old one comes back as its replica, once; whether it has.
async fn come_back(rig: &Rig, slot: u16, old: &str, is_back: &mut bool) -> bool {
    if !*is_back
        && rig
            .cluster
            .master_of(slot)
            .await
            .is_ok_and(|now| now != old)
    {
        rig.cluster.restart(old).unwrap();
        *is_back = true;
    }
    *is_back
}
