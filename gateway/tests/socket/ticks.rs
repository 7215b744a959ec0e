//! Ticks in, frames out.

use crate::client::{Client, join};
use crate::support::{Gateway, eventually};
use serde_json::json;
use shared::ticks::{Audience, RoomTick};

#[tokio::test]
async fn new_totals_reach_everyone_and_go_up_only() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let (mut phone, _) = Client::phone(&gateway, &code, 1).await;
    let mut stage = Client::open(&gateway, &code).await;
    stage.send(&join(2, "stage", None)).await;
    assert!(stage.text().await.get("room").is_some());
    gateway.totals(&code, 1, &[("clap", 5), ("heart", 2)]).await;
    for viewer in [&mut phone, &mut stage] {
        assert_eq!(
            viewer.text().await,
            json!({"tick": {"totals": {"clap": 5, "heart": 2}}})
        );
    }
    gateway.totals(&code, 2, &[("clap", 4), ("heart", 3)]).await;
    for viewer in [&mut phone, &mut stage] {
        assert_eq!(
            viewer.text().await,
            json!({"tick": {"totals": {"heart": 3}}})
        );
    }
    let (_late, room) = Client::phone(&gateway, &code, 3).await;
    assert_eq!(room["room"]["totals"], json!({"clap": 5, "heart": 3}));
}

#[tokio::test]
async fn a_gap_makes_the_gateway_read_its_rooms_again() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let (mut phone, _) = Client::phone(&gateway, &code, 1).await;
    gateway.totals(&code, 1, &[("clap", 1)]).await;
    assert_eq!(phone.text().await["tick"]["totals"]["clap"], 1);
    // Ticks 2 to 8 are lost; what they told stands in Redis.
    gateway.write_total(&code, "heart", 40).await;
    gateway.tick(&code, 9, RoomTick::default()).await;
    let frame = phone.text().await;
    assert_eq!(
        frame
            .pointer("/room/totals/heart")
            .or(frame.pointer("/tick/totals/heart")),
        Some(&json!(40))
    );
}

#[tokio::test]
async fn only_hosts_get_the_audience() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let (mut phone, _) = Client::phone(&gateway, &code, 1).await;
    let mut host = Client::open(&gateway, &code).await;
    host.send(&join(2, "host", Some(&token))).await;
    assert!(host.text().await.get("room").is_some());
    let audience = Some(Audience {
        people: 812,
        taps_per_second: 97,
    });
    gateway
        .tick(
            &code,
            1,
            RoomTick {
                audience,
                ..RoomTick::default()
            },
        )
        .await;
    assert_eq!(
        host.named("audience").await,
        json!({"people": 812, "taps_per_second": 97})
    );
    gateway.totals(&code, 2, &[("clap", 1)]).await;
    assert!(
        phone.text().await.get("tick").is_some(),
        "the first thing that a phone hears of"
    );
}

#[tokio::test]
async fn a_room_that_expires_is_closed() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let (mut phone, _) = Client::phone(&gateway, &code, 1).await;
    gateway
        .tick(
            &code,
            1,
            RoomTick {
                expired: true,
                ..RoomTick::default()
            },
        )
        .await;
    assert_eq!(phone.closed().await.0, 4404);
}

#[tokio::test]
async fn a_change_by_another_gateway_arrives() {
    let here = Gateway::start().await;
    let there = Gateway::start().await;
    let (code, token) = here.room().await;
    let (mut phone, _) = Client::phone(&there, &code, 1).await;
    here.change(&code, &token, json!({"title": "Another title"}))
        .await;
    // No aggregator runs here that would carry it: the test does.
    let room = serde_json::from_value(json!({
        "code": code, "title": "Another title", "palette": [{"key": "clap", "emoji": "👏", "label": "Applause"}],
        "cooldown_ms": 3000, "state": "open", "version": 2, "created_at_ms": u64::MAX
    }));
    there
        .tick(
            &code,
            1,
            RoomTick {
                room: Some(room.unwrap()),
                ..RoomTick::default()
            },
        )
        .await;
    assert_eq!(phone.named("room").await["title"], "Another title");
}

#[tokio::test]
async fn a_silent_feed_is_probed_and_stays_ready_while_it_brings_the_probe() {
    let gateway = Gateway::start().await;
    eventually("probes are published on silent channels", || async {
        (gateway.metric("uproar_gateway_shards_late", "").await >= 1.0).then_some(())
    })
    .await;
    assert!(gateway.is_ready().await, "all gateways would fail together");
    assert!(gateway.metric("uproar_gateway_shards_deaf", "").await < 1.0);
}
