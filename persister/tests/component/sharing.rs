//! Several persisters at the same logs, and others who touch the ledger.

use crate::support::{Bench, Gateway, Persister, check_books, new_code, until};
use shared::counting::ids::Nonce;
use shared::room::RoomCode;
use std::time::Duration;

async fn owned(persister: &Persister) -> f64 {
    persister.metric("shards_owned", "").await
}

#[tokio::test]
async fn two_share_and_one_takes_over_from_the_other() {
    let bench = Bench::new().await;
    let first = bench.persister("").await;
    first
        .wait_metric("shards_owned", "", |shards| shards == 8.0)
        .await;
    let second = bench.persister("").await;
    until("an even share", async || {
        (owned(&first).await == 4.0 && owned(&second).await == 4.0).then_some(())
    })
    .await;
    let sql = bench.sql().await;
    let mut gateway = Gateway::new();
    let rooms: Vec<RoomCode> = (0..12).map(|_| new_code()).collect();
    let mut tap_all = async || {
        for code in &rooms {
            bench
                .append_batch(&gateway.batch(&bench, code, "clap", 0..5))
                .await;
        }
    };
    tap_all().await;
    for code in &rooms {
        bench.wait_taps(&sql, code, 5).await;
    }
    // One dies without letting go: the other waits two seconds for each lease, then has all.
    second.kill();
    tap_all().await;
    first
        .wait_metric("shards_owned", "", |shards| shards == 8.0)
        .await;
    for code in &rooms {
        bench.wait_taps(&sql, code, 10).await;
    }
    check_books(&sql).await;
    first.end().await.unwrap();
}

#[tokio::test]
async fn one_that_ends_lets_go_at_once() {
    let bench = Bench::new().await;
    let first = bench.persister("").await;
    first
        .wait_metric("shards_owned", "", |shards| shards == 8.0)
        .await;
    let (sql, code) = (bench.sql().await, new_code());
    let last = bench
        .append_batch(&Gateway::new().batch(&bench, &code, "clap", 0..5))
        .await;
    bench.wait_taps(&sql, &code, 5).await;
    first.end().await.unwrap();
    let key = bench.cluster.shards().persister(bench.shard(&code));
    let told = bench
        .cluster
        .read_lease(bench.shard(&code), &key)
        .await
        .unwrap()
        .offset;
    assert_eq!(
        told,
        Some(last),
        "the last offset is told before the lease is let go"
    );
    for shard in bench.cluster.shards().all() {
        let key = bench.cluster.shards().persister(shard);
        let lease = bench.cluster.read_lease(shard, &key).await.unwrap();
        assert_eq!(lease.record.owner, None, "shard {}", shard.0);
    }
}

#[tokio::test]
async fn a_foreign_change_of_the_ledger_is_noticed_and_read_again() {
    let bench = Bench::new().await;
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    let shard = i16::try_from(bench.shard(&code).0).unwrap();
    for round in 1..=5_i64 {
        bench
            .append_batch(&gateway.batch(&bench, &code, "clap", 0..5))
            .await;
        bench.wait_taps(&sql, &code, 5 * round).await;
        // As if another persister had committed something that it found nothing to write for.
        sql.execute(
            "UPDATE ledger SET version = version + 1 WHERE shard = $1",
            &[&shard],
        )
        .await
        .unwrap();
    }
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..5))
        .await;
    bench.wait_taps(&sql, &code, 30).await;
    assert!(persister.metric("failures_total", "ForeignLedger").await >= 4.0);
    check_books(&sql).await;
    persister.end().await.unwrap();
}

#[tokio::test]
async fn a_stolen_lease_ends_the_work_on_that_shard() {
    let bench = Bench::new().await;
    let persister = bench.persister("").await;
    persister
        .wait_metric("shards_owned", "", |shards| shards == 8.0)
        .await;
    let code = new_code();
    let (shard, key) = (
        bench.shard(&code),
        bench.cluster.shards().persister(bench.shard(&code)),
    );
    // It changes with each renewal: try until nothing came between.
    let thief = Nonce(0xbad);
    until("a stolen lease", async || {
        let seen = bench.cluster.read_lease(shard, &key).await.ok()?.record;
        bench
            .cluster
            .claim_lease(shard, &key, seen, thief)
            .await
            .ok()?
            .then_some(())
    })
    .await;
    persister
        .wait_metric("failures_total", "LeaseLost", |lost| lost >= 1.0)
        .await;
    // The thief never renews: the persister takes the shard back, and stores what came meanwhile.
    let (sql, mut gateway) = (bench.sql().await, Gateway::new());
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..5))
        .await;
    bench.wait_taps(&sql, &code, 5).await;
    check_books(&sql).await;
    persister.end().await.unwrap();
}

#[tokio::test]
async fn a_log_that_lost_the_ledgers_offset_stops_the_shard() {
    let bench = Bench::new().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    let sql = bench.sql().await;
    let persister = bench.persister("").await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..5))
        .await;
    bench.wait_taps(&sql, &code, 5).await;
    persister.end().await.unwrap();

    let log = bench.cluster.shards().log(bench.shard(&code));
    bench.redis(&code, &["DEL", &log]).await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..5))
        .await;
    let persister = bench.persister("").await;
    let label = format!("shard=\"{}\"", bench.shard(&code).0);
    persister
        .wait_metric("shard_stopped", &label, |stopped| stopped == 1.0)
        .await;
    let (status, text) = persister.get("/readyz").await;
    assert!(
        status == 503 && text.contains("no entry at the committed offset"),
        "{text}"
    );
    tokio::time::sleep(Duration::from_millis(300)).await;
    bench.wait_taps(&sql, &code, 5).await;

    // The way out that the message names.
    let statement = text
        .split("beginning: ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    sql.batch_execute(statement).await.unwrap();
    bench.wait_taps(&sql, &code, 10).await;
    persister
        .wait_metric("shard_stopped", &label, |stopped| stopped == 0.0)
        .await;
    check_books(&sql).await;
    persister.end().await.unwrap();
}
