//! Sockets of which nothing is heard.

use crate::client::{Client, Received, masked};
use crate::support::Gateway;
use serde_json::json;

#[tokio::test]
async fn a_silent_phone_is_pinged_and_one_that_answers_stays() {
    let gateway = Gateway::start_with("ping_after_seconds = 1\nsilence_close_seconds = 3").await;
    let (code, _) = gateway.room().await;
    let (mut alive, _) = Client::phone(&gateway, &code, 1).await;
    for _ in 0..5 {
        assert_eq!(alive.next().await, Received::Ping);
        alive.send_bytes(&masked(0x8A, b"")).await;
    }
    alive.send(&json!({"ping": 1})).await;
    assert_eq!(alive.text().await, json!({"pong": 1}));
}

#[tokio::test]
async fn one_that_answers_nothing_is_closed() {
    let gateway = Gateway::start_with("ping_after_seconds = 1\nsilence_close_seconds = 2").await;
    let (code, _) = gateway.room().await;
    let (mut dead, _) = Client::phone(&gateway, &code, 1).await;
    assert_eq!(dead.next().await, Received::Ping);
    assert_eq!(dead.closed().await.0, 1001);
    assert!(gateway.metric("uproar_gateway_silent_total", "").await >= 1.0);
}
