//! Changes that meet: versions, repetitions, two hosts at once, and what the log gets of it.

use crate::support::{Gateway, rig, text};
use redis::{Cmd, Value as RedisValue};
use rig::Rig;
use serde_json::json;
use shared::counting::codec::decode;
use shared::counting::entry::{Entry, RoomChange, RoomChangeKind};
use shared::shards::Shards;
use std::collections::BTreeSet;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_made_for_another_version_is_refused() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let first = gateway
        .patch(&code, &token, &json!({"title": "One", "version": 1}))
        .await;
    assert_eq!((first.status, &first.json()["version"]), (200, &json!(2)));
    let late = gateway
        .patch(&code, &token, &json!({"title": "Two", "version": 1}))
        .await;
    assert_eq!(late.problem(409, "version-conflict")["version"], 2);
    let room = gateway.get(&format!("/v1/rooms/{code}")).await.json();
    assert_eq!(
        (&room["title"], &room["version"]),
        (&json!("One"), &json!(2)),
        "nothing was changed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_change_finds_its_own_work() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let change = json!({"title": "One", "state": "paused", "version": 1});
    for _ in 0..3 {
        let reply = gateway.patch(&code, &token, &change).await;
        assert_eq!((reply.status, &reply.json()["version"]), (200, &json!(2)));
    }
    for body in [json!({}), json!({"title": "One"}), json!({"version": 2})] {
        let reply = gateway.patch(&code, &token, &body).await;
        assert_eq!(
            (reply.status, &reply.json()["version"]),
            (200, &json!(2)),
            "nothing to change: {body}"
        );
    }
    let kinds: Vec<_> = log_of(&code)
        .await
        .iter()
        .map(|change| (change.kind, change.room.version))
        .collect();
    assert_eq!(
        kinds,
        [(RoomChangeKind::Created, 1), (RoomChangeKind::Updated, 2)],
        "the log has each change once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_at_two_gateways_lose_nothing() {
    let one = Gateway::start().await;
    let two = Gateway::start().await;
    let (code, token) = one.room().await;
    let (mut titles, mut cooldowns) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..8 {
        let (title, cooldown) = (format!("Round {round}"), 1000 + round);
        let (title_body, cooldown_body) =
            (json!({"title": title}), json!({"cooldown_ms": cooldown}));
        let (first, second) = tokio::join!(
            one.patch(&code, &token, &title_body),
            two.patch(&code, &token, &cooldown_body),
        );
        assert_eq!(
            (first.status, second.status),
            (200, 200),
            "{} {}",
            first.text,
            second.text
        );
        titles.insert(text(&first.json()["title"]));
        cooldowns.insert(second.json()["cooldown_ms"].as_u64().unwrap());
        let log = log_of(&code).await;
        let last = &log.last().unwrap().room;
        assert_eq!(
            (last.title.as_str(), last.cooldown_ms),
            (title.as_str(), cooldown)
        );
        assert_eq!(last.version, 1 + 2 * u64::from(round + 1));
    }
    assert_eq!((titles.len(), cooldowns.len()), (8, 8));
    let versions: Vec<_> = log_of(&code)
        .await
        .iter()
        .map(|change| change.room.version)
        .collect();
    assert_eq!(
        versions,
        (1..=17).collect::<Vec<_>>(),
        "no version twice, none left out"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_want_a_code_one_gets_it() {
    let gateway = Gateway::start().await;
    let calls = (0..10).map(|number| {
        gateway
            .call("POST", "/v1/rooms")
            .bearer(crate::support::ADMIN_KEY)
            .json(&json!({"title": format!("Room {number}"), "code": "WANTED1"}))
            .send()
    });
    let statuses: Vec<u16> = futures_util::future::join_all(calls)
        .await
        .iter()
        .map(|reply| reply.status)
        .collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 201).count(),
        1,
        "{statuses:?}"
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == 409).count(),
        9,
        "{statuses:?}"
    );
    assert_eq!(log_of("WANTED1").await.len(), 1);
}

/// The changes of a room that stand in its shard's log.
async fn log_of(code: &str) -> Vec<RoomChange> {
    log_on(rig().await, code).await
}

/// As [`log_of`], on any rig.
pub(crate) async fn log_on(rig: &Rig, code: &str) -> Vec<RoomChange> {
    let code = code.parse().unwrap();
    let shards = Shards::new(64);
    let shard = shards.of(&code);
    let master = rig.cluster.master_of(shards.slot(shard)).await.unwrap();
    let client = redis::Client::open(format!("redis://{master}")).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut range = Cmd::new();
    range.arg("XRANGE").arg(shards.log(shard)).arg("-").arg("+");
    let entries: Vec<(String, Vec<(RedisValue, RedisValue)>)> =
        range.query_async(&mut connection).await.unwrap();
    let decoded = entries.into_iter().map(|(_, fields)| {
        let [(RedisValue::BulkString(field), RedisValue::BulkString(value))] = &fields[..] else {
            panic!("an entry has one field: {fields:?}");
        };
        decode(field, value).unwrap()
    });
    decoded
        .filter_map(|entry| match entry {
            Entry::RoomChange(change) if change.room.code == code => Some(change),
            _ => None,
        })
        .collect()
}
