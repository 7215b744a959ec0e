//! Joining: what one gets, and who does not get in.

use crate::client::{Client, Received, TEXT, UPGRADE, join, masked};
use crate::support::{Gateway, eventually};
use serde_json::json;

#[tokio::test]
async fn a_join_is_answered_with_the_room() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway
        .room_with(json!({"title": "Ünïcode 👏", "cooldown_ms": 1000}))
        .await;
    gateway.write_total(&code, "clap", 512).await;
    let (_client, room) = Client::phone(&gateway, &code, 1).await;
    let room = &room["room"];
    assert_eq!(room["title"], "Ünïcode 👏");
    assert_eq!(room["cooldown_ms"], 1000);
    assert_eq!(room["state"], "open");
    assert_eq!(room["totals"], json!({"clap": 512}));
    assert!(
        room["palette"]
            .as_array()
            .is_some_and(|palette| !palette.is_empty())
    );
}

#[tokio::test]
async fn frames_that_come_with_the_handshake_are_read() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let mut first = masked(TEXT, join(1, "phone", None).to_string().as_bytes());
    let tap = masked(TEXT, br#"{"tap":{"key":"clap","seq":1}}"#);
    let (now, later) = tap.split_at(9);
    first.extend_from_slice(now);
    let mut client = Client::open_with(&gateway, &code.to_lowercase(), &first).await;
    client.send_bytes(later).await;
    assert!(client.text().await.get("room").is_some());
    assert_eq!(client.named("ack").await, 1);
}

#[tokio::test]
async fn an_unknown_room_is_told_on_the_socket_and_guessing_is_slowed() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    for _ in 0..20 {
        assert_eq!(
            Client::open(&gateway, "NOSUCH9").await.closed().await.0,
            4404
        );
    }
    assert_eq!(
        Client::open(&gateway, "NOSUCH9").await.closed().await.0,
        1008
    );
    Client::phone(&gateway, &code, 1).await;
}

#[tokio::test]
async fn a_handshake_that_is_wrong_is_answered_over_http() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let protocol = "Sec-WebSocket-Protocol: uproar.v1\r\n";
    for (headers, status) in [
        (UPGRADE.replace(protocol, ""), "400"),
        (UPGRADE.replace("uproar.v1", "uproar.v0, chat"), "400"),
        (UPGRADE.replace("Version: 13", "Version: 8"), "400"),
        (
            UPGRADE.replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""),
            "400",
        ),
        (UPGRADE.replace("Upgrade: websocket\r\n", ""), "426"),
    ] {
        let (head, _) = Client::handshake(gateway.address, &code, &headers, &[]).await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{headers}: {head}"
        );
    }
    let (head, _) = Client::handshake(
        gateway.address,
        &code,
        &UPGRADE.replace("uproar.v1", "chat, uproar.v1"),
        &[],
    )
    .await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let (again, _) = Client::handshake(gateway.address, &code, UPGRADE, &[]).await;
    assert_eq!(gateway_id(&head), gateway_id(&again));
    let other = Gateway::start().await;
    let (elsewhere, _) = Client::handshake(other.address, &code, UPGRADE, &[]).await;
    assert_ne!(gateway_id(&head), gateway_id(&elsewhere));
}

/// The gateway that an answer names.
fn gateway_id(head: &str) -> &str {
    let mut headers = head.lines().filter_map(|line| line.split_once(": "));
    let (_, id) = headers
        .find(|(name, _)| name.eq_ignore_ascii_case("uproar-gateway"))
        .unwrap();
    assert!(
        id.len() == 8 && id.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{id}"
    );
    id
}

#[tokio::test]
async fn a_host_shows_a_token_for_this_room() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let (_, foreign) = gateway.room().await;
    for wrong in [None, Some(""), Some("nonsense"), Some(foreign.as_str())] {
        let mut client = Client::open(&gateway, &code).await;
        client.send(&join(1, "host", wrong)).await;
        let (close, reason) = client.closed().await;
        assert_eq!(close, 1008, "{wrong:?}");
        assert!(!reason.is_empty());
    }
    let mut host = Client::open(&gateway, &code).await;
    host.send(&join(1, "host", Some(&token))).await;
    assert!(host.text().await.get("room").is_some());
}

#[tokio::test]
async fn without_a_join_in_time_a_socket_is_closed() {
    let gateway = Gateway::start_with("join_timeout_seconds = 1").await;
    let (code, _) = gateway.room().await;
    let (mut joined, _) = Client::phone(&gateway, &code, 1).await;
    let mut idle = Client::open(&gateway, &code).await;
    assert_eq!(idle.closed().await.0, 1008);
    joined.send(&json!({"ping": 1})).await;
    assert_eq!(joined.next().await, Received::Text(json!({"pong": 1})));
}

#[tokio::test]
async fn at_the_cap_a_socket_is_turned_away_and_a_place_is_free_again_afterwards() {
    let gateway = Gateway::start_with("connections_max = 1").await;
    let (code, _) = gateway.room().await;
    let (first, _) = Client::phone(&gateway, &code, 1).await;
    let (head, _) = Client::handshake(gateway.address, &code, UPGRADE, &[]).await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    eventually("a full gateway is not ready", || async {
        (!gateway.is_ready().await).then_some(())
    })
    .await;
    drop(first);
    eventually("the place is free", || async {
        let (head, _) = Client::handshake(gateway.address, &code, UPGRADE, &[]).await;
        head.starts_with("HTTP/1.1 101 ").then_some(())
    })
    .await;
}

#[tokio::test]
async fn five_hundred_from_one_address_are_let_in() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let mut joins = tokio::task::JoinSet::new();
    let gateway = std::sync::Arc::new(gateway);
    for id in 0..500 {
        let (gateway, code) = (gateway.clone(), code.clone());
        joins.spawn(async move { Client::phone(&gateway, &code, id).await.0 });
    }
    assert_eq!(joins.join_all().await.len(), 500);
}
