//! The log keeps what readers may need, and no more; rows are shed before Redis is full.

use crate::support::{Bench, Gateway, check_books, new_code, until};
use redis::Value;
use shared::counting::codec::{BATCH_FIELD, encode_batch};
use shared::counting::reader::TRIM_BEHIND_MS;
use shared::room::RoomCode;

/// A fresh log with one tap at each of these ages, in milliseconds; the ages' log times.
async fn log_of_ages(bench: &Bench<'_>, code: &RoomCode, ages: &[u64]) -> Vec<u64> {
    let mut gateway = Gateway::new();
    let shard = bench.shard(code);
    bench
        .redis(code, &["DEL", &bench.cluster.shards().log(shard)])
        .await;
    bench
        .redis(code, &["DEL", &bench.cluster.shards().persister(shard)])
        .await;
    let now = bench.cluster.log_now_ms(shard);
    let mut times = Vec::new();
    for age in ages {
        let at = now - age;
        let batch = gateway.batch_at(bench, code, "clap", [*age], at);
        bench
            .append_as(code, &format!("{at}-1"), BATCH_FIELD, &encode_batch(&batch))
            .await;
        times.push(at);
    }
    times
}

async fn entries(bench: &Bench<'_>, code: &RoomCode) -> i64 {
    let log = bench.cluster.shards().log(bench.shard(code));
    let Value::Int(entries) = bench.redis(code, &["XLEN", &log]).await else {
        panic!("a number")
    };
    entries
}

#[tokio::test]
async fn the_log_is_trimmed_behind_the_slower_reader() {
    let bench = Bench::new().await;
    let code = new_code();
    let ages = [900_000, 500_000, 299_000, 301_000 - TRIM_BEHIND_MS, 50_000];
    let times = log_of_ages(&bench, &code, &ages).await;
    let aggregator = bench.cluster.shards().aggregator(bench.shard(&code));
    bench.redis(&code, &["DEL", &aggregator]).await;
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    bench.wait_taps(&sql, &code, 5).await;
    let hash = bench.cluster.shards().persister(bench.shard(&code));
    until("the offset in Redis", async || {
        let offset = bench.redis(&code, &["HGET", &hash, "offset"]).await;
        (offset == Value::BulkString(format!("{}-1", times[4]).into_bytes())).then_some(())
    })
    .await;
    assert_eq!(
        entries(&bench, &code).await,
        5,
        "nothing goes before an aggregator has committed"
    );

    // An aggregator that is behind: its offset decides.
    let behind = format!("{}-1", times[3]);
    bench
        .redis(&code, &["HSET", &aggregator, "offset", &behind])
        .await;
    let mut gateway = Gateway::new();
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..1))
        .await;
    until("a trimmed log", async || {
        (entries(&bench, &code).await == 4).then_some(())
    })
    .await;
    let log = bench.cluster.shards().log(bench.shard(&code));
    let first = bench
        .redis(&code, &["XRANGE", &log, "-", "+", "COUNT", "1"])
        .await;
    let text = format!("{first:?}");
    assert!(
        text.contains(&times[2].to_string()),
        "the entry just within what is kept stays: {text}"
    );
    assert!(persister.metric("trimmed_entries_total", "").await >= 2.0);
    bench.redis(&code, &["DEL", &aggregator]).await;
    check_books(&sql).await;
    persister.end().await.unwrap();
}

#[tokio::test]
async fn far_behind_rows_are_shed_and_counts_are_not() {
    let bench = Bench::new().await;
    let code = new_code();
    log_of_ages(&bench, &code, &[150_000, 149_000, 1_000]).await;
    // One entry a transaction, so that the first two are stored while far behind and the last is not.
    let shedding = "read_entries_max = 1\nrows_per_transaction_max = 1\nshed_behind_minutes = 1\nshed_keep_percent = 0";
    let persister = bench.persister(shedding).await;
    let sql = bench.sql().await;
    bench.wait_taps(&sql, &code, 3).await;
    let query = "SELECT sum(c.taps)::bigint, sum(c.unrecorded)::bigint, sum(c.tappers)::bigint, \
                 (SELECT count(*) FROM taps t WHERE t.room_id = r.room_id) \
                 FROM tap_counts c JOIN rooms r USING (room_id) WHERE r.code = $1 GROUP BY r.room_id";
    let row = sql.query_one(query, &[&code.as_str()]).await.unwrap();
    let sums: Vec<i64> = (0..4).map(|column| row.get(column)).collect();
    assert_eq!(sums, [3, 2, 3, 1]);
    assert!(persister.metric("rows_shed_total", "").await >= 2.0);
    check_books(&sql).await;
    persister.end().await.unwrap();
}
