//! What stands in the log is in the tables, once.

use crate::support::{Bench, Gateway, check_books, new_code, room, until};
use shared::counting::codec::{BATCH_FIELD, CHANGE_FIELD, encode_batch};
use shared::counting::entry::RoomChangeKind;
use shared::room::{Palette, RoomState};

#[tokio::test]
async fn batches_become_rows_counts_and_a_ledger() {
    let bench = Bench::new().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    bench
        .append_change(RoomChangeKind::Created, &room(&code, 1_780_000_000_000))
        .await;
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    let mut last = None;
    for round in 0..40_u64 {
        let key = if round % 4 == 0 { "heart" } else { "clap" };
        // The same clients again and again within a second, over many transactions.
        let clients = (0..10).map(|client| client * (1 + round % 3));
        last = Some(
            bench
                .append_batch(&gateway.batch(&bench, &code, key, clients))
                .await,
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    bench.wait_taps(&sql, &code, 400).await;
    check_books(&sql).await;
    let shard = i16::try_from(bench.shard(&code).0).unwrap();
    let ledger = sql
        .query_one(
            "SELECT offset_ms, offset_seq FROM ledger WHERE shard = $1",
            &[&shard],
        )
        .await
        .unwrap();
    let last = last.unwrap();
    assert_eq!(ledger.get::<_, i64>(0).cast_unsigned(), last.ms);
    assert_eq!(ledger.get::<_, i64>(1).cast_unsigned(), last.seq);
    let producers = sql
        .query_one(
            "SELECT number FROM ledger_producers WHERE shard = $1 AND producer = $2",
            &[&shard, &gateway.producer()],
        )
        .await
        .unwrap();
    assert_eq!(producers.get::<_, i64>(0), 40);
    let hearts = "SELECT sum(taps)::bigint FROM room_timeline WHERE code = $1 AND key = 'heart'";
    assert_eq!(
        sql.query_one(hearts, &[&code.as_str()])
            .await
            .unwrap()
            .get::<_, i64>(0),
        100
    );
    persister.end().await.unwrap();
}

#[tokio::test]
async fn duplicates_and_void_batches_do_not_count() {
    let bench = Bench::new().await;
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    let first = gateway.batch(&bench, &code, "clap", 0..5);
    bench.append_batch(&first).await;
    bench.append_batch(&first).await;
    let mut void = gateway.batch(&bench, &code, "clap", 10..20);
    void.void_after_ms -= 60_000;
    bench.append_batch(&void).await;
    // The same taps through another gateway: the phone sent them again after it lost its connection.
    let mut again = first.clone();
    again.producer.0 ^= 1;
    bench.append_batch(&again).await;
    bench.wait_taps(&sql, &code, 5).await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..1))
        .await;
    bench.wait_taps(&sql, &code, 6).await;
    check_books(&sql).await;
    for what in ["VoidEntries", "DuplicateBatches", "DuplicateTaps"] {
        assert!(
            persister.metric("skipped_total", what).await >= 1.0,
            "{what}"
        );
    }
    persister.end().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_read_is_kept_aside_and_the_rest_goes_on() {
    let bench = Bench::new().await;
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    let id = bench.append(&code, BATCH_FIELD, b"\x01nonsense\0").await;
    bench
        .append(&code, "unheard-of", &vec![b'x'; 2 << 20])
        .await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..3))
        .await;
    bench.wait_taps(&sql, &code, 3).await;
    let rejected = sql
        .query(
            "SELECT reason, value, value_bytes FROM rejected_batches WHERE shard = $1 AND log_ms >= $2 ORDER BY log_ms, log_seq",
            &[&i16::try_from(bench.shard(&code).0).unwrap(), &id.ms.cast_signed()],
        )
        .await
        .unwrap();
    assert_eq!(rejected.len(), 2);
    assert!(!rejected[0].get::<_, String>(0).is_empty());
    assert_eq!(rejected[0].get::<_, &[u8]>(1), b"\x01nonsense\0");
    assert_eq!(rejected[1].get::<_, &[u8]>(1).len(), 1 << 20);
    assert_eq!(rejected[1].get::<_, i32>(2), 2 << 20);
    assert!(persister.metric("rejected_entries_total", "").await >= 2.0);
    persister.end().await.unwrap();
}

#[tokio::test]
async fn an_entry_of_newer_software_stops_its_shard_and_only_that() {
    let bench = Bench::new().await;
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    let id = bench
        .append(
            &code,
            CHANGE_FIELD,
            br#"{"v":99,"kind":"created","more":"than we know"}"#,
        )
        .await;
    let shard = format!("shard=\"{}\"", bench.shard(&code).0);
    persister
        .wait_metric("shard_stopped", &shard, |stopped| stopped == 1.0)
        .await;
    let (status, text) = persister.get("/readyz").await;
    assert_eq!(status, 503);
    assert!(text.contains("newer than this service reads"), "{text}");
    let other = std::iter::repeat_with(new_code)
        .find(|other| bench.shard(other) != bench.shard(&code))
        .unwrap();
    bench
        .append_batch(&gateway.batch(&bench, &other, "clap", 0..3))
        .await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..3))
        .await;
    bench.wait_taps(&sql, &other, 3).await;
    let log = bench.cluster.shards().log(bench.shard(&code));
    bench.redis(&code, &["XDEL", &log, &id.to_string()]).await;
    bench.wait_taps(&sql, &code, 3).await;
    persister
        .wait_metric("shard_stopped", &shard, |stopped| stopped == 0.0)
        .await;
    assert_eq!(persister.get("/readyz").await.0, 200);
    persister.end().await.unwrap();
}

#[tokio::test]
async fn a_hosts_changes_and_a_reused_code_are_told_apart() {
    let bench = Bench::new().await;
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    let created = 1_780_000_000_123;
    let mut host = room(&code, created);
    host.title = "First\0, '; DROP TABLE taps".to_owned();
    bench.append_change(RoomChangeKind::Created, &host).await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..4))
        .await;
    // A tap that the old palette allowed, after a change that took its reaction away.
    let fewer = Palette::standard().entries()[1..3].to_vec();
    host.palette = Palette::new(fewer).unwrap();
    (host.version, host.state) = (2, RoomState::Paused);
    bench.append_change(RoomChangeKind::Updated, &host).await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 4..5))
        .await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "never-in-a-palette", 5..7))
        .await;
    bench.append_change(RoomChangeKind::Expired, &host).await;
    let mut second = room(&code, created + 5_000);
    second.title = "Second".to_owned();
    bench.append_change(RoomChangeKind::Created, &second).await;
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..9))
        .await;
    bench.wait_taps(&sql, &code, 16).await;
    check_books(&sql).await;

    let summary = sql
        .query(
            "SELECT title, state, taps, expired_at IS NOT NULL, (extract(epoch FROM created_at) * 1000)::bigint \
             FROM room_summary WHERE code = $1 ORDER BY created_at",
            &[&code.as_str()],
        )
        .await
        .unwrap();
    let of = |index: usize| {
        let row = &summary[index];
        (
            row.get::<_, String>(0),
            row.get::<_, String>(1),
            row.get::<_, i64>(2),
            row.get::<_, bool>(3),
            row.get::<_, i64>(4),
        )
    };
    assert_eq!(summary.len(), 2);
    let first_title = "First\u{fffd}, '; DROP TABLE taps".to_owned();
    assert_eq!(
        of(0),
        (
            first_title,
            "paused".to_owned(),
            7,
            true,
            created.cast_signed()
        )
    );
    assert_eq!(
        of(1),
        (
            "Second".to_owned(),
            "open".to_owned(),
            9,
            false,
            created.cast_signed() + 5_000
        )
    );

    let reactions = sql
        .query(
            "SELECT x.key, x.emoji, x.position FROM reactions x JOIN rooms r USING (room_id) \
             WHERE r.code = $1 AND r.title <> 'Second' ORDER BY x.position NULLS LAST, x.reaction_id",
            &[&code.as_str()],
        )
        .await
        .unwrap();
    let palette = host.palette.entries();
    assert_eq!(reactions[0].get::<_, &str>(0), palette[0].key.as_str());
    assert_eq!(reactions[0].get::<_, Option<i16>>(2), Some(0));
    let clap = reactions
        .iter()
        .find(|row| row.get::<_, &str>(0) == "clap")
        .unwrap();
    assert_eq!(
        clap.get::<_, Option<i16>>(2),
        None,
        "no more in the palette"
    );
    assert_eq!(
        clap.get::<_, Option<&str>>(1),
        Some("👏"),
        "but known from it"
    );
    let foreign = reactions
        .iter()
        .find(|row| row.get::<_, &str>(0) == "never-in-a-palette")
        .unwrap();
    assert_eq!(foreign.get::<_, Option<&str>>(1), None);
    let changes = sql
        .query(
            "SELECT c.kind, jsonb_array_length(c.palette) FROM room_changes c JOIN rooms r USING (room_id) \
             WHERE r.code = $1 ORDER BY c.log_ms, c.log_seq",
            &[&code.as_str()],
        )
        .await
        .unwrap();
    let kinds: Vec<(&str, i32)> = changes.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(
        kinds,
        [
            ("created", 6),
            ("updated", 2),
            ("expired", 2),
            ("created", 6)
        ]
    );
    persister.end().await.unwrap();
}

#[tokio::test]
async fn head_counts_are_the_most_present_in_ten_seconds() {
    let bench = Bench::new().await;
    let code = new_code();
    let (mut one, mut other) = (Gateway::new(), Gateway::new());
    // The log of this shard goes on from what other tests left in it, so the times lie ahead of it.
    let log = bench.cluster.shards().log(bench.shard(&code));
    bench.redis(&code, &["DEL", &log]).await;
    let base = (bench.cluster.log_now_ms(bench.shard(&code)) / 10_000 - 8) * 10_000;
    let tells = [
        (1_000, 0, 5),
        (2_000, 1, 7),
        (11_000, 0, 3),
        (12_000, 1, 7),
        (34_000, 0, 4),
    ];
    for (after, who, people) in tells {
        let gateway = if who == 0 { &mut one } else { &mut other };
        let mut batch = gateway.batch_at(&bench, &code, "clap", [], base + after);
        batch.rooms[0].people = Some(people);
        let id = format!("{}-1", base + after);
        bench
            .append_as(&code, &id, BATCH_FIELD, &encode_batch(&batch))
            .await;
    }
    let persister = bench.persister("").await;
    let sql = bench.sql().await;
    let rows = until("all slots", async || {
        let query = "SELECT (extract(epoch FROM a.slot) * 1000)::bigint, a.people FROM audience_counts a \
                     JOIN rooms r USING (room_id) WHERE r.code = $1 ORDER BY 1";
        let rows = sql.query(query, &[&code.as_str()]).await.ok()?;
        (rows.len() == 4).then_some(rows)
    })
    .await;
    let slots: Vec<(i64, i32)> = rows
        .iter()
        .map(|row| (row.get::<_, i64>(0) - base.cast_signed(), row.get(1)))
        .collect();
    // Those present when a slot begins are in it: 12 at the start of the second, 10 at that of the third.
    assert_eq!(slots, [(0, 12), (10_000, 12), (20_000, 10), (30_000, 11)]);
    persister.end().await.unwrap();
}

#[tokio::test]
async fn a_backlog_is_stored_in_few_large_transactions() {
    let bench = Bench::new().await;
    let (code, mut gateway) = (new_code(), Gateway::new());
    for batch in 0..250_u64 {
        let clients = batch * 7..batch * 7 + 400;
        bench
            .append_batch(&gateway.batch(&bench, &code, "clap", clients))
            .await;
    }
    let start = std::time::Instant::now();
    let persister = bench.persister("rows_per_transaction_max = 20000").await;
    let sql = bench.sql().await;
    until("the schema", async || {
        sql.query_one("SELECT count(*) FROM tap_counts", &[])
            .await
            .ok()
            .map(drop)
    })
    .await;
    bench.wait_taps(&sql, &code, 100_000).await;
    println!("100,000 taps in {:?}, the start included", start.elapsed());
    check_books(&sql).await;
    let commits = persister.metric("commits_total", "").await;
    assert!(commits < 30.0, "{commits} transactions for five of work");
    persister.end().await.unwrap();
}
