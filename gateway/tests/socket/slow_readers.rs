//! Phones that do not read: they cost nobody else anything, and get all totals once they read again.

use crate::client::{Client, Received, join};
use crate::support::{Gateway, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// Enough ticks of this size to fill what both kernels take.
const TICKS: u64 = 600;

fn totals(total: u64) -> Vec<(&'static str, u64)> {
    const KEYS: [&str; 6] = [
        "a-key-of-24-characters-1",
        "a-key-of-24-characters-2",
        "a-key-of-24-characters-3",
        "a-key-of-24-characters-4",
        "a-key-of-24-characters-5",
        "a-key-of-24-characters-6",
    ];
    KEYS.map(|key| (key, total)).to_vec()
}

/// The highest total seen so far, over room and tick frames.
fn seen(frame: &Value) -> Option<u64> {
    let totals = frame
        .pointer("/room/totals")
        .or(frame.pointer("/tick/totals"))?;
    totals.get("a-key-of-24-characters-1")?.as_u64()
}

async fn until(client: &mut Client, total: u64) -> usize {
    let mut frames = 0;
    loop {
        frames += 1;
        if seen(&client.text().await) == Some(total) {
            return frames;
        }
    }
}

#[tokio::test]
async fn a_stalled_phone_delays_nobody_and_catches_up_with_all_totals() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let mut stalled = Client::open_narrow(&gateway, &code).await;
    stalled.send(&join(1, "phone", None)).await;
    assert!(stalled.text().await.get("room").is_some());
    let (mut brisk, _) = Client::phone(&gateway, &code, 2).await;
    for serial in 1..=TICKS {
        gateway.totals(&code, serial, &totals(serial)).await;
        until(&mut brisk, serial).await;
    }
    assert!(
        gateway
            .metric("uproar_gateway_frames_behind_total", "")
            .await
            > 0.0,
        "the stalled one fell behind"
    );
    // It taps all the same, and its ack waits for it behind what it has not read.
    stalled.tap(1).await;
    let frames = until(&mut stalled, TICKS).await;
    assert!(
        frames < usize::try_from(TICKS).unwrap(),
        "it skipped what it was too slow for, {frames}"
    );
    assert_eq!(stalled.named("ack").await, 1);
    gateway.totals(&code, TICKS + 1, &totals(TICKS + 1)).await;
    assert_eq!(
        seen(&stalled.text().await),
        Some(TICKS + 1),
        "and is served as before"
    );
}

#[tokio::test]
async fn one_that_takes_nothing_for_too_long_is_closed() {
    let gateway = Gateway::start_with("stalled_close_seconds = 1").await;
    let (code, _) = gateway.room().await;
    let mut stalled = Client::open_narrow(&gateway, &code).await;
    stalled.send(&join(1, "phone", None)).await;
    for serial in 1..=TICKS {
        gateway.totals(&code, serial, &totals(serial)).await;
    }
    eventually("the stalled phone is closed", || async {
        (gateway.metric("uproar_gateway_stalled_total", "").await >= 1.0).then_some(())
    })
    .await;
    eventually("nothing of it is left", || async {
        (gateway.metric("uproar_gateway_sockets", "").await < 1.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn one_that_asks_and_does_not_read_the_answers_is_closed() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let mut client = Client::open_narrow(&gateway, &code).await;
    client.send(&join(1, "phone", None)).await;
    assert!(client.text().await.get("room").is_some());
    // Pings of a WebSocket, 125 bytes each, below the bound on frames a second.
    let ping = crate::client::masked(0x89, &[b'x'; 125]);
    let flood = async {
        loop {
            client.send_bytes(&ping).await;
            tokio::time::sleep(Duration::from_millis(21)).await;
        }
    };
    let overflow = eventually("the phone is closed", || async {
        (gateway.metric("uproar_gateway_overflows_total", "").await >= 1.0).then_some(())
    });
    tokio::select! {
        () = flood => unreachable!("it does not end by itself"),
        () = overflow => {}
    }
    loop {
        match client.next().await {
            Received::Pong(_) | Received::Ping => {}
            Received::Text(bye) => assert_eq!(bye.pointer("/bye/why"), Some(&json!("overload"))),
            Received::Close(code, _) => return assert_eq!(code, 1013),
            Received::End => panic!("it is told"),
        }
    }
}
