//! The end of a gateway.

use crate::client::{Client, Received, UPGRADE};
use crate::support::{Gateway, eventually};
use std::time::Duration;
use tokio::net::TcpStream;

#[tokio::test]
async fn everyone_is_told_when_to_come_back_and_no_tap_is_left() {
    let mut gateway = Gateway::start_with("flush_interval_ms = 300").await;
    let (code, _) = gateway.room().await;
    let mut phones = Vec::new();
    for id in 0..40 {
        phones.push(Client::phone(&gateway, &code, id).await.0);
    }
    for phone in &mut phones {
        phone.tap(1).await;
    }
    eventually("all taps are taken", || async {
        (gateway.metric("uproar_gateway_taps_total", "").await >= 40.0).then_some(())
    })
    .await;
    let ended = gateway.shut_down();
    let mut moments = Vec::new();
    for phone in &mut phones {
        let (mut acked, mut retry_ms) = (false, None);
        loop {
            match phone.next().await {
                Received::Text(frame) => {
                    acked |= frame.get("ack").is_some();
                    if let Some(bye) = frame.get("bye") {
                        assert_eq!(bye["why"], "drain");
                        retry_ms = bye["retry_ms"].as_u64();
                    }
                }
                Received::Close(close, _) => break assert_eq!(close, 1012),
                Received::Ping | Received::Pong(_) => {}
                Received::End => panic!("it is closed properly"),
            }
        }
        assert!(acked, "its tap is acknowledged before it is closed");
        moments.push(retry_ms.expect("a bye comes first"));
    }
    moments.sort_unstable();
    moments.dedup();
    assert!(moments.len() > 20, "not all at once: {moments:?}");
    ended.await.unwrap().unwrap();
    assert!(
        TcpStream::connect(gateway.address).await.is_err(),
        "nobody is let in any more"
    );
}

#[tokio::test]
async fn while_it_drains_it_is_not_ready_and_takes_no_new_sockets() {
    let mut gateway = Gateway::start_with("drain_seconds = 20").await;
    let (code, _) = gateway.room().await;
    // A request that is under way keeps its connection past the end of accepting.
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let (head, _socket) = Client::handshake(gateway.address, &code, UPGRADE, &[]).await;
    assert!(head.starts_with("HTTP/1.1 101 "));
    let ended = gateway.shut_down();
    eventually("it says that it is not ready", || async {
        rig::get(gateway.operations, "/readyz")
            .await
            .map_or(Some(()), |(status, _)| (status == 503).then_some(()))
    })
    .await;
    drop(stream);
    tokio::time::timeout(Duration::from_secs(15), ended)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}
