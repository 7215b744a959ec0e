//! The fallback: the same frames as events, the same taps by POST.

use crate::client::{Client, client_id};
use crate::support::{Gateway, PATIENCE};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

struct Events(BufReader<TcpStream>);

impl Events {
    async fn open(gateway: &Gateway, code: &str, id: u32) -> Events {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let client = client_id(id);
        let request = format!(
            "GET /v1/rooms/{code}/events?client={client}&page={id:08x} HTTP/1.1\r\nHost: uproar\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Events(BufReader::new(stream))
    }

    /// The next event that does not tell the time; none at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            let event = self.any().await?;
            if event.get("time").is_none() {
                return Some(event);
            }
        }
    }

    /// The next event; none at the end.
    async fn any(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(PATIENCE, self.0.read_line(&mut line))
                .await
                .expect("nothing came");
            if read.unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

#[tokio::test]
async fn events_bring_the_room_and_its_ticks() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let mut events = Events::open(&gateway, &code, 1).await;
    assert!(events.next().await.unwrap().get("room").is_some());
    gateway.totals(&code, 1, &[("clap", 3)]).await;
    assert_eq!(
        events.next().await.unwrap(),
        json!({"tick": {"totals": {"clap": 3}}})
    );
    gateway
        .change(&code, &token, json!({"state": "paused"}))
        .await;
    assert_eq!(events.next().await.unwrap()["room"]["state"], "paused");
}

#[tokio::test]
async fn the_time_comes_behind_the_room_and_then_every_ten_seconds() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let mut events = Events::open(&gateway, &code, 1).await;
    assert!(events.any().await.unwrap().get("room").is_some());
    let first = events.any().await.unwrap()["time"].as_u64().unwrap();
    let told = tokio::time::Instant::now();
    let second = events.any().await.unwrap()["time"].as_u64().unwrap();
    assert!(told.elapsed().abs_diff(Duration::from_secs(10)) < Duration::from_secs(3));
    assert!(second.abs_diff(first + 10_000) < 3_000, "{first} {second}");
}

#[tokio::test]
async fn events_end_with_a_bye_when_the_gateway_drains() {
    let mut gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let mut events = Events::open(&gateway, &code, 1).await;
    assert!(events.next().await.unwrap().get("room").is_some());
    let ended = gateway.shut_down();
    assert_eq!(events.next().await.unwrap()["bye"]["why"], "drain");
    assert_eq!(events.next().await, None);
    ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn posted_taps_are_answered_one_by_one_when_they_are_in_the_log() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let post = |taps: Value| {
        let body = json!({"client": client_id(5), "page": "00000005", "taps": taps});
        let path = format!("/v1/rooms/{code}/taps");
        let gateway = &gateway;
        async move { gateway.call("POST", &path, "", &body).await }
    };
    let (status, answer) = post(json!([
        {"key": "clap", "seq": 1, "age_ms": 9000},
        {"key": "no-such", "seq": 2},
        {"key": "clap", "seq": 3, "age_ms": 3000},
        {"key": "clap", "seq": 3, "age_ms": 3000},
    ]))
    .await;
    assert_eq!(status, 200, "{answer}");
    let results = json!([
        {"ack": 1},
        {"refused": {"seq": 2, "why": "unknown_reaction"}},
        {"ack": 3},
        {"refused": {"seq": 3, "why": "seq"}},
    ]);
    assert_eq!(answer["results"], results);
    let (_, again) = post(json!([{"key": "clap", "seq": 3, "age_ms": 4000}])).await;
    assert_eq!(again["results"], json!([{"ack": 3}]), "sent again");
    let taps = gateway.logged_taps(&code).await;
    assert_eq!(
        taps,
        [(5, 1), (5, 3), (5, 3)],
        "readers count the second one once"
    );
    // A socket of the same client shares its cooldown.
    let (_, fresh) = post(json!([{"key": "clap", "seq": 4}])).await;
    assert_eq!(fresh["results"], json!([{"ack": 4}]));
    let (mut phone, _) = Client::phone(&gateway, &code, 5).await;
    phone.tap(5).await;
    assert_eq!(phone.named("refused").await["why"], "cooldown");
}
