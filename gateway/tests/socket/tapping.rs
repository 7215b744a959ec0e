//! Taps: taken, refused, acknowledged when they are in the log.

use crate::client::{Client, join};
use crate::support::{Gateway, eventually};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

async fn refused(client: &mut Client) -> Value {
    client.named("refused").await
}

#[tokio::test]
async fn an_acknowledged_tap_is_in_the_log() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let (mut client, _) = Client::phone(&gateway, &code, 0xAB).await;
    client.tap(1).await;
    assert_eq!(client.named("ack").await, 1);
    assert_eq!(gateway.logged_taps(&code).await, [(0xAB, 1)]);
    let batches = gateway.batches(&code).await;
    let (id, tap) = batches
        .iter()
        .find_map(|(id, batch)| Some((id, batch.rooms[0].taps.first()?)))
        .unwrap();
    assert!(id.ms.abs_diff(tap.tapped_at_ms) < 10_000, "log time");
    assert_ne!(tap.id.client.0, 0xAB, "a hash, not the id");
}

#[tokio::test]
async fn refusals_say_why() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let (mut client, _) = Client::phone(&gateway, &code, 1).await;
    client.tap(1).await;
    assert_eq!(client.named("ack").await, 1);
    client.tap(2).await;
    let cooldown = refused(&mut client).await;
    assert_eq!(cooldown["why"], "cooldown");
    assert!((1..=3000).contains(&cooldown["retry_ms"].as_u64().unwrap()));
    client.tap(2).await;
    assert_eq!(refused(&mut client).await, json!({"seq": 2, "why": "seq"}));
    client.tap(1000).await;
    assert_eq!(
        refused(&mut client).await,
        json!({"seq": 1000, "why": "seq"})
    );
    client
        .send(&json!({"tap": {"key": "no-such", "seq": 3}}))
        .await;
    assert_eq!(
        refused(&mut client).await,
        json!({"seq": 3, "why": "unknown_reaction"})
    );
    client
        .send(&json!({"tap": {"key": "clap", "seq": 4, "age_ms": 80_001}}))
        .await;
    assert_eq!(
        refused(&mut client).await,
        json!({"seq": 4, "why": "too_old"})
    );
    gateway
        .change(&code, &token, json!({"state": "paused"}))
        .await;
    assert_eq!(client.named("room").await["state"], "paused");
    client.tap(5).await;
    assert_eq!(
        refused(&mut client).await,
        json!({"seq": 5, "why": "paused"})
    );
    gateway
        .change(&code, &token, json!({"state": "closed"}))
        .await;
    assert_eq!(client.named("room").await["state"], "closed");
    client.tap(6).await;
    assert_eq!(
        refused(&mut client).await,
        json!({"seq": 6, "why": "closed"})
    );
    assert_eq!(gateway.logged_taps(&code).await, [(1, 1)]);
    assert!(
        gateway
            .metric("uproar_gateway_refused_taps_total", "cooldown")
            .await
            >= 1.0
    );
}

#[tokio::test]
async fn a_reaction_taken_off_the_palette_is_refused_and_the_new_palette_comes_with_it() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    gateway.write_total(&code, "clap", 7).await;
    let (mut client, _) = Client::phone(&gateway, &code, 1).await;
    let palette = json!([{"key": "fire", "emoji": "🔥", "label": "Fire"}]);
    gateway
        .change(&code, &token, json!({"palette": palette}))
        .await;
    let room = client.named("room").await;
    assert_eq!(room["palette"], palette);
    assert_eq!(room["totals"]["clap"], 7, "the old totals stay");
    client.tap(1).await;
    assert_eq!(refused(&mut client).await["why"], "unknown_reaction");
}

#[tokio::test]
async fn a_tap_sent_again_on_a_new_connection_is_acknowledged_again() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let (mut client, _) = Client::phone(&gateway, &code, 1).await;
    client.tap(1).await;
    assert_eq!(client.named("ack").await, 1);
    drop(client);
    let (mut client, _) = Client::phone(&gateway, &code, 1).await;
    client
        .send(&json!({"tap": {"key": "clap", "seq": 1, "age_ms": 400}}))
        .await;
    assert_eq!(
        client.named("ack").await,
        1,
        "readers know it; the gateway need not"
    );
}

#[tokio::test]
async fn however_many_tap_there_is_one_entry_a_flush() {
    let gateway = Gateway::start_with("flush_interval_ms = 200").await;
    let (code, _) = gateway
        .room_with(json!({"title": "A room", "cooldown_ms": 250}))
        .await;
    let gateway = Arc::new(gateway);
    let mut phones = tokio::task::JoinSet::new();
    for id in 0..100 {
        let (gateway, code) = (gateway.clone(), code.clone());
        phones.spawn(async move {
            let (mut phone, _) = Client::phone(&gateway, &code, id).await;
            for seq in 1..=4 {
                phone.tap(seq).await;
                assert_eq!(phone.named("ack").await, seq);
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
            phone
        });
    }
    let phones = phones.join_all().await;
    let taps = gateway.logged_taps(&code).await;
    let distinct: BTreeSet<_> = taps.iter().collect();
    assert_eq!((taps.len(), distinct.len()), (400, 400));
    let batches = gateway.batches(&code).await;
    let numbers: BTreeSet<_> = batches
        .iter()
        .map(|(_, batch)| (batch.producer, batch.number))
        .collect();
    assert_eq!(numbers.len(), batches.len(), "no batch twice");
    let span_ms = batches.last().unwrap().0.ms - batches[0].0.ms;
    let flushes = usize::try_from(span_ms / 200).unwrap() + 2;
    assert!(
        batches.len() <= flushes,
        "{} entries in {span_ms} ms",
        batches.len()
    );
    drop(phones);
}

#[tokio::test]
async fn head_counts_ride_in_batches() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let (_first, _) = Client::phone(&gateway, &code, 1).await;
    let (second_tab, _) = Client::phone(&gateway, &code, 1).await;
    let (other, _) = Client::phone(&gateway, &code, 2).await;
    let mut host = Client::open(&gateway, &code).await;
    host.send(&join(3, "host", Some(&token))).await;
    let mut stage = Client::open(&gateway, &code).await;
    stage.send(&join(4, "stage", None)).await;
    let last = || async {
        let batches = gateway.batches(&code).await;
        let rooms = batches.iter().flat_map(|(_, batch)| &batch.rooms);
        rooms
            .filter(|room| room.code.as_str() == code)
            .filter_map(|room| room.people)
            .next_back()
    };
    eventually("two people are told", || async {
        (last().await == Some(2)).then_some(())
    })
    .await;
    drop((second_tab, other));
    eventually("one is told", || async {
        (last().await == Some(1)).then_some(())
    })
    .await;
}
