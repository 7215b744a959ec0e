//! Whatever one client sends: it gets one clear close, and a phone beside it in the same room notices nothing.

use crate::client::{Client, Received, TEXT, join, masked, unmasked};
use crate::support::Gateway;
use serde_json::json;

/// Sends bytes on a socket that has joined (or not); how it is closed.
async fn closed_by(gateway: &Gateway, code: &str, joined: bool, bytes: &[u8]) -> (u16, String) {
    let mut client = if joined {
        Client::phone(gateway, code, 99).await.0
    } else {
        Client::open(gateway, code).await
    };
    client.send_bytes(bytes).await;
    let closed = client.closed().await;
    assert!(!closed.1.is_empty(), "a reason for people: {closed:?}");
    closed
}

fn text(text: &str) -> Vec<u8> {
    masked(TEXT, text.as_bytes())
}

#[tokio::test]
async fn each_gets_its_close_code_and_harms_nobody_else() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway
        .room_with(json!({"title": "A room", "cooldown_ms": 250}))
        .await;
    let (mut witness, _) = Client::phone(&gateway, &code, 1).await;
    let fragment = |first, length: usize| masked(first, &vec![b' '; length]);
    let cases: Vec<(&str, bool, Vec<u8>, u16)> = vec![
        (
            "a tap before the join",
            false,
            text(r#"{"tap":{"key":"clap","seq":1}}"#),
            1008,
        ),
        ("a ping before the join", false, text(r#"{"ping":1}"#), 1008),
        (
            "a second join",
            true,
            text(&join(1, "phone", None).to_string()),
            1008,
        ),
        (
            "ids that are none",
            false,
            text(r#"{"join":{"client":"me","page":"1","role":"phone"}}"#),
            1008,
        ),
        ("not JSON", true, text("hello"), 1008),
        ("no object", true, text("[1]"), 1008),
        ("an empty message", true, text(""), 1008),
        (
            "a tap of another shape",
            true,
            text(r#"{"tap":{"key":7}}"#),
            1008,
        ),
        ("binary", true, masked(0x82, b"x"), 1003),
        ("unmasked", true, unmasked(TEXT, br#"{"ping":1}"#), 1002),
        (
            "unmasked before the join",
            false,
            unmasked(TEXT, b"x"),
            1002,
        ),
        ("reserved bits", true, masked(0xC1, b"x"), 1002),
        ("a reserved kind of frame", true, masked(0x83, b"x"), 1002),
        (
            "a ping of 126 bytes",
            true,
            masked(0x89, &[b'x'; 126]),
            1002,
        ),
        (
            "a close of 126 bytes",
            true,
            masked(0x88, &[3, 232].repeat(63)),
            1002,
        ),
        ("a fragmented ping", true, masked(0x09, b"x"), 1002),
        ("a continuation of nothing", true, masked(0x80, b"x"), 1002),
        ("half a close code", true, masked(0x88, &[3]), 1002),
        (
            "a close code that may not be sent",
            true,
            masked(0x88, &1005u16.to_be_bytes()),
            1002,
        ),
        ("not UTF-8", true, masked(TEXT, b"{\"ping\":\xFF}"), 1007),
        (
            "not UTF-8 in a fragment",
            true,
            [masked(0x01, b"\xFF"), masked(0x80, b"x")].concat(),
            1007,
        ),
        (
            "a message of 1025 bytes",
            true,
            masked(TEXT, &[b' '; 1025]),
            1009,
        ),
        (
            "fragments of 1025 bytes in all",
            true,
            [fragment(0x01, 600), fragment(0x80, 425)].concat(),
            1009,
        ),
        ("a megabyte", true, masked(TEXT, &vec![b'x'; 1 << 20]), 1009),
    ];
    for (seq, (name, joined, bytes, expected)) in (1..).zip(cases) {
        let (close, reason) = closed_by(&gateway, &code, joined, &bytes).await;
        assert_eq!(close, expected, "{name}: {reason}");
        witness
            .send(&json!({"tap": {"key": "no-such", "seq": seq}}))
            .await;
        let refused = witness.named("refused").await;
        assert_eq!(refused["seq"], seq, "the witness is served, after {name}");
    }
}

#[tokio::test]
async fn a_fragmented_message_within_the_bound_is_a_message() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let mut client = Client::open(&gateway, &code).await;
    let message = join(1, "phone", None).to_string().into_bytes();
    client.send_bytes(&masked(0x01, &message[..10])).await;
    client.send_bytes(&masked(0x89, b"between")).await;
    client.send_bytes(&masked(0x00, &message[10..60])).await;
    client.send_bytes(&masked(0x80, &message[60..])).await;
    assert_eq!(client.next().await, Received::Pong(b"between".to_vec()));
    assert!(client.text().await.get("room").is_some());
    client.tap(1).await;
    assert_eq!(
        client.named("ack").await,
        1,
        "short messages go on after a fragmented one"
    );
    assert!(gateway.metric("uproar_gateway_slow_path_total", "").await >= 1.0);
}

#[tokio::test]
async fn a_message_of_exactly_one_kibibyte_is_taken() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let (mut client, _) = Client::phone(&gateway, &code, 1).await;
    let mut message = br#"{"ping":1}"#.to_vec();
    message.resize(1024, b' ');
    client.send_bytes(&masked(TEXT, &message)).await;
    assert_eq!(client.text().await, json!({"pong": 1}));
}

#[tokio::test]
async fn control_frames_are_answered() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let (mut client, _) = Client::phone(&gateway, &code, 1).await;
    client.send_bytes(&masked(0x89, b"payload")).await;
    assert_eq!(client.next().await, Received::Pong(b"payload".to_vec()));
    client.send_bytes(&masked(0x8A, b"unasked")).await;
    client
        .send_bytes(&masked(
            0x88,
            &[&4000u16.to_be_bytes()[..], b"bye"].concat(),
        ))
        .await;
    assert_eq!(client.closed().await, (4000, String::new()));
    let (mut client, _) = Client::phone(&gateway, &code, 1).await;
    client.send_bytes(&masked(0x88, b"")).await;
    assert_eq!(client.closed().await.0, 1000);
}

#[tokio::test]
async fn a_flood_of_frames_is_closed() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let (mut client, _) = Client::phone(&gateway, &code, 1).await;
    let flood = text(r#"{"wave":1}"#).repeat(2000);
    client.send_bytes(&flood).await;
    assert_eq!(client.closed().await.0, 1008);
    // Answers to pings that nobody sent.
    let (mut client, _) = Client::phone(&gateway, &code, 2).await;
    client.send_bytes(&masked(0x8A, b"").repeat(2000)).await;
    assert_eq!(client.closed().await.0, 1008);
    // One message of empty fragments, without an end.
    let (mut client, _) = Client::phone(&gateway, &code, 3).await;
    client.send_bytes(&masked(0x01, b"")).await;
    client.send_bytes(&masked(0x00, b"").repeat(2000)).await;
    assert_eq!(client.closed().await.0, 1008);
}
