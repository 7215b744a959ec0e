//! Whatever happens to Postgres, rows equal the ledger, and nothing is lost or stored twice.

use crate::support::{
    Bench, Gateway, PATIENCE, Persister, check_books, connect, new_code, stored_taps, until,
};
use shared::room::RoomCode;
use std::time::{Duration, Instant};

/// Appends to three rooms for a while, and does something to the database meanwhile; all that was appended, by room.
async fn append_while(
    bench: &Bench<'_>,
    lasting: Duration,
    mut disturb: impl AsyncFnMut(u32),
) -> Vec<(RoomCode, i64)> {
    let mut gateway = Gateway::new();
    let mut rooms: Vec<(RoomCode, i64)> = (0..3).map(|_| (new_code(), 0)).collect();
    let start = Instant::now();
    let mut round = 0;
    while start.elapsed() < lasting {
        for (code, taps) in &mut rooms {
            let clients = 0..20_u64;
            bench
                .append_batch(&gateway.batch(bench, code, "clap", clients))
                .await;
            *taps += 20;
        }
        round += 1;
        disturb(round).await;
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    rooms
}

async fn all_stored(bench: &Bench<'_>, rooms: &[(RoomCode, i64)]) {
    let sql = bench.sql().await;
    for (code, taps) in rooms {
        bench.wait_taps(&sql, code, *taps).await;
    }
    check_books(&sql).await;
}

#[tokio::test]
async fn backends_killed_in_the_middle() {
    let bench = Bench::new().await;
    let persister = bench.persister("rows_per_transaction_max = 200").await;
    let sql = bench.sql().await;
    // Only those in the middle of a transaction: an idle one is replaced before anything is asked of it.
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                WHERE application_name = 'uproar-persister' AND datname = current_database() AND xact_start IS NOT NULL";
    let mut killed = 0;
    let rooms = append_while(&bench, Duration::from_secs(8), async |_| {
        for _ in 0..5 {
            killed += sql.query_one(kill, &[]).await.unwrap().get::<_, i64>(0);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    })
    .await;
    assert!(killed >= 10, "only {killed} were killed");
    all_stored(&bench, &rooms).await;
    let failures = persister.metric("failures_total", "Postgres").await
        + persister.metric("failures_total", "Connection").await;
    assert!(failures >= 5.0, "{killed} killed, {failures} failures");
    persister.end().await.unwrap();
}

#[tokio::test]
async fn a_server_restarted_in_the_middle() {
    let bench = Bench::new().await;
    let persister = bench.persister("").await;
    let rooms = append_while(&bench, Duration::from_secs(6), async |round| match round {
        20 | 60 => {
            bench.rig.postgres.stop().await.unwrap();
            bench.rig.postgres.start_again().await.unwrap();
        }
        100 => {
            bench.rig.postgres.kill().unwrap();
            bench.rig.postgres.start_again().await.unwrap();
        }
        _ => {}
    })
    .await;
    all_stored(&bench, &rooms).await;
    persister.end().await.unwrap();
}

#[tokio::test]
async fn down_at_the_start_and_then_for_a_while() {
    let bench = Bench::new().await;
    bench.rig.postgres.stop().await.unwrap();
    let persister = bench.persister("").await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..10))
        .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(persister.get("/livez").await.0, 200);
    assert_eq!(
        persister.get("/readyz").await.0,
        200,
        "it is not this instance that is ill"
    );
    assert_eq!(persister.metric("postgres_reachable", "").await, 0.0);
    bench.rig.postgres.start_again().await.unwrap();
    let sql = until("the schema", async || {
        let sql = connect(&bench.url).await;
        sql.query_one("SELECT 1 FROM ledger LIMIT 1", &[])
            .await
            .ok()
            .map(|_| sql)
    })
    .await;
    bench.wait_taps(&sql, &code, 10).await;
    assert_eq!(persister.metric("postgres_reachable", "").await, 1.0);

    bench.rig.postgres.stop().await.unwrap();
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..10))
        .await;
    persister
        .wait_metric("postgres_reachable", "", |reachable| reachable == 0.0)
        .await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..10))
        .await;
    bench.rig.postgres.start_again().await.unwrap();
    all_stored(&bench, &[(code, 30)]).await;
    persister.end().await.unwrap();
}

#[tokio::test]
async fn ends_in_time_while_the_server_is_down() {
    let bench = Bench::new().await;
    let persister = bench.persister("").await;
    persister
        .wait_metric("shards_owned", "", |owned| owned == 8.0)
        .await;
    bench.rig.postgres.stop().await.unwrap();
    let (code, mut gateway) = (new_code(), Gateway::new());
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..10))
        .await;
    persister
        .wait_metric("postgres_reachable", "", |reachable| reachable == 0.0)
        .await;
    let start = Instant::now();
    persister.end().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    bench.rig.postgres.start_again().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_cut_or_stalls() {
    let bench = Bench::new().await;
    let proxy = rig::Proxy::start(bench.rig.postgres.address().unwrap())
        .await
        .unwrap();
    let direct = bench.rig.postgres.address().unwrap().to_string();
    let url = bench.url.replace(&direct, &proxy.address().to_string());
    let persister = Persister::start(&bench.settings_on(&url, "statement_timeout_ms = 2000")).await;
    let rooms = append_while(&bench, Duration::from_secs(5), async |round| {
        if round % 12 == 0 {
            proxy.cut();
        }
        if round == 100 {
            proxy.stall();
            tokio::time::sleep(Duration::from_millis(300)).await;
            proxy.cut();
            proxy.resume();
        }
    })
    .await;
    all_stored(&bench, &rooms).await;
    persister.end().await.unwrap();
}

#[tokio::test]
async fn a_server_that_became_read_only_is_waited_for() {
    let bench = Bench::new().await;
    let sql = bench.sql().await;
    let database: String = sql
        .query_one("SELECT current_database()::text", &[])
        .await
        .unwrap()
        .get(0);
    sql.batch_execute(&format!(
        "ALTER DATABASE {database} SET default_transaction_read_only = on"
    ))
    .await
    .unwrap();
    let persister = bench.persister("").await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..10))
        .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(persister.metric("postgres_reachable", "").await, 0.0);
    sql.batch_execute(&format!(
        "ALTER DATABASE {database} RESET default_transaction_read_only"
    ))
    .await
    .unwrap();
    let start = Instant::now();
    while stored_taps(&sql, &code).await != Some(10) {
        assert!(
            start.elapsed() < PATIENCE,
            "not stored after the server was writable again"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    persister.end().await.unwrap();
}
