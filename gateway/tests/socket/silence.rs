//! Sockets of which nothing is heard.

use crate::client::{Client, Received};
use crate::support::Gateway;
use serde_json::json;
use shared::counting::freshness::TRANSIT_MAX_MS;
use std::time::Duration;
use tokio::time::Instant;

#[tokio::test]
async fn a_silent_phone_is_pinged_and_one_that_answers_stays() {
    let gateway = Gateway::start_with("ping_after_seconds = 1\nsilence_close_seconds = 3").await;
    let (code, _) = gateway.room().await;
    let (mut alive, _) = Client::phone(&gateway, &code, 1).await;
    for _ in 0..5 {
        assert_eq!(alive.next().await, Received::Ping);
    }
    alive.send(&json!({"ping": 1})).await;
    assert_eq!(alive.text().await, json!({"pong": 1}));
}

#[tokio::test]
async fn one_that_answers_nothing_is_closed() {
    let gateway = Gateway::start_with("ping_after_seconds = 1\nsilence_close_seconds = 2").await;
    let (code, _) = gateway.room().await;
    let (mut dead, _) = Client::phone(&gateway, &code, 1).await;
    dead.answers_pings = false;
    assert_eq!(dead.closed().await.0, 1001);
    assert!(gateway.metric("uproar_gateway_silent_total", "").await >= 1.0);
}

#[tokio::test]
async fn a_tap_that_may_have_been_under_way_for_long_is_not_taken() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let (mut honest, _) = Client::phone(&gateway, &code, 1).await;
    let (mut stalled, _) = Client::phone(&gateway, &code, 2).await;
    stalled.answers_pings = false;
    let over = Instant::now() + Duration::from_millis(TRANSIT_MAX_MS + 500);
    while Instant::now() < over {
        // Whoever reads answers pings on the way.
        let _ = tokio::time::timeout_at(over, honest.stream_next()).await;
    }
    stalled.tap(1).await;
    let bye = stalled.named("bye").await;
    assert_eq!(bye["why"], "stale");
    assert!(
        bye["retry_ms"]
            .as_u64()
            .is_some_and(|retry_ms| retry_ms < 1000)
    );
    assert_eq!(stalled.closed().await.0, 1013);
    honest.tap(1).await;
    assert_eq!(honest.named("ack").await, 1);
    assert_eq!(gateway.logged_taps(&code).await, [(1, 1)]);
    let (mut back, _) = Client::phone(&gateway, &code, 2).await;
    back.send(&json!({"tap": {"key": "clap", "seq": 1, "age_ms": 500}}))
        .await;
    assert_eq!(back.named("ack").await, 1, "it comes back with it");
}
