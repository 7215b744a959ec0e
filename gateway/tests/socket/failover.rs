//! Redis breaks under the gateway: what was acknowledged is in the log, and what was not is known to the phone.

use crate::client::{Client, Received};
use crate::support::{Gateway, eventually, start_rig};
use rig::Rig;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Taps until `until`, then waits for the last acks; all seqs that were acknowledged.
async fn tap_until(mut phone: Client, until: Instant) -> BTreeSet<u64> {
    let mut acked = BTreeSet::new();
    let mut seq = 0;
    while Instant::now() < until {
        seq += 1;
        phone.tap(seq).await;
        // No wait for the ack: taps go on through the outage.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    while acked.len() < usize::try_from(seq).unwrap() {
        let ack = phone.named("ack").await;
        assert!(acked.insert(ack.as_u64().unwrap()), "each once");
    }
    acked
}

#[tokio::test]
async fn through_the_death_of_a_master_nothing_acknowledged_is_lost() {
    static RIG: OnceCell<Rig> = OnceCell::const_new();
    let rig = RIG.get_or_try_init(start_rig).await.unwrap();
    let gateway = Arc::new(Gateway::start_on(rig, "").await);
    let (code, _) = gateway
        .room_with(json!({"title": "A room", "cooldown_ms": 250}))
        .await;
    let until = Instant::now() + Duration::from_secs(12);
    let mut phones = JoinSet::new();
    for id in 1..=20 {
        let (gateway, code) = (gateway.clone(), code.clone());
        phones.spawn(async move {
            (
                id,
                tap_until(Client::phone(&gateway, &code, id).await.0, until).await,
            )
        });
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let master = rig.cluster.master_of(gateway.slot(&code)).await.unwrap();
    rig.cluster.kill(&master).unwrap();
    let phones = phones.join_all().await;
    let logged: BTreeSet<_> = gateway.logged_taps(&code).await.into_iter().collect();
    let mut taps = 0;
    for (id, acked) in phones {
        taps += acked.len();
        for seq in acked {
            let seq = u32::try_from(seq).unwrap();
            assert!(
                logged.contains(&(id, seq)),
                "tap {seq} of phone {id} was acknowledged"
            );
        }
    }
    assert!(taps >= 200, "they tapped all the time: {taps}");
    assert!(
        gateway
            .metric("uproar_gateway_appends_unsettled_total", "")
            .await
            >= 1.0,
        "there was an outage"
    );

    // The feed has come back by itself too.
    let (mut phone, _) = Client::phone(&gateway, &code, 77).await;
    for serial in 1.. {
        gateway.totals(&code, serial, &[("clap", serial)]).await;
        let frame = tokio::time::timeout(Duration::from_millis(500), phone.next()).await;
        if let Ok(Received::Text(_)) = frame {
            break;
        }
        assert!(serial < 40, "no tick arrives after the failover");
    }
}

#[tokio::test]
async fn a_batch_that_does_not_get_through_is_given_up_and_its_phones_come_back() {
    static RIG: OnceCell<Rig> = OnceCell::const_new();
    let rig = RIG.get_or_try_init(start_rig).await.unwrap();
    let gateway = Gateway::start_on(rig, "").await;
    let (code, _) = gateway.room().await;
    let (mut phone, _) = Client::phone(&gateway, &code, 1).await;
    let (mut idle, _) = Client::phone(&gateway, &code, 2).await;
    let mut ending = Gateway::start_on(rig, "drain_seconds = 2").await;
    let (mut elsewhere, _) = Client::phone(&ending, &code, 3).await;
    let master = rig.cluster.master_of(gateway.slot(&code)).await.unwrap();
    let mut nodes = rig.cluster.replicas_of(&master).await.unwrap();
    nodes.push(master);
    for node in &nodes {
        rig.cluster.stall(node).unwrap();
    }
    let tapped = Instant::now();
    phone.tap(1).await;
    elsewhere.tap(1).await;
    assert_unfinished(&mut ending).await;
    let waiting = tokio::time::timeout(Duration::from_secs(45), async {
        loop {
            match phone.stream_next().await {
                Received::Text(frame) => {
                    assert_eq!(frame["bye"]["why"], "overload", "no ack, but a farewell");
                    assert!(frame["bye"]["retry_ms"].as_u64().is_some());
                }
                Received::Close(close, _) => return close,
                Received::Ping | Received::Pong(_) => {}
                Received::End => panic!("it is told"),
            }
        }
    });
    assert_eq!(waiting.await.expect("it is given up after 20 s"), 1013);
    assert!(
        tapped.elapsed() >= Duration::from_secs(15),
        "not before its time"
    );
    for node in &nodes {
        rig.cluster.resume(node).unwrap();
    }
    idle.send(&json!({"ping": 1})).await;
    assert_eq!(
        idle.text().await,
        json!({"pong": 1}),
        "whoever had no tap in it stays"
    );
    // It comes back and sends its tap again, as the protocol says.
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        let (mut phone, _) = Client::phone(&gateway, &code, 1).await;
        let age_ms = u64::try_from(tapped.elapsed().as_millis()).unwrap();
        phone
            .send(&json!({"tap": {"key": "clap", "seq": 1, "age_ms": age_ms}}))
            .await;
        if let Ok(Received::Text(frame)) =
            tokio::time::timeout(Duration::from_secs(8), phone.stream_next()).await
        {
            assert_eq!(frame, json!({"ack": 1}));
            break;
        }
        assert!(Instant::now() < deadline, "it is never taken");
    }
    // Stable copies that are not void: exactly one, whatever the stalled master did with the first.
    let batches = gateway.batches(&code).await;
    let counted = batches.iter().filter(|(id, batch)| {
        id.ms <= batch.void_after_ms
            && batch
                .rooms
                .iter()
                .any(|room| room.taps.iter().any(|tap| tap.id.page.0 == 1))
    });
    assert!(counted.count() >= 1);
}

/// A gateway whose taps cannot be settled ends all the same, and says what it leaves.
async fn assert_unfinished(gateway: &mut Gateway) {
    let is_taken =
        || async { (gateway.metric("uproar_gateway_taps_total", "").await >= 1.0).then_some(()) };
    eventually("the tap is taken", is_taken).await;
    let error = gateway.shut_down().await.unwrap().unwrap_err().to_string();
    assert!(
        error.contains("the drain took too long") && error.contains("1 taps not settled"),
        "{error}"
    );
}
