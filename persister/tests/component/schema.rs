//! The schema: made once by whoever comes first, refused when it is another's, in order for years.

use crate::support::{Bench, Database, Gateway, connect, new_code, until};
use persister::for_tests::{Partitions, open};
use shared::counting::entry::Tap;
use shared::counting::ids::{ClientHash, EntryId, PageId, TapId};

#[tokio::test]
async fn two_that_start_together_set_up_one_schema() {
    let bench = Bench::new().await;
    let (one, other) = (
        bench.url.clone(),
        bench.rig.create_database().await.unwrap(),
    );
    let (a, b, c) = tokio::join!(open(&one, 64), open(&one, 64), open(&other, 64));
    a.unwrap();
    b.unwrap();
    c.unwrap();
    let versions = "SELECT count(*), max(version) FROM schema_migrations";
    let row = connect(&one).await.query_one(versions, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), i64::from(row.get::<_, i32>(1)));
}

#[tokio::test]
async fn a_newer_schema_and_another_layout_are_refused() {
    let bench = Bench::new().await;
    let sql = bench.sql().await;
    drop(open(&bench.url, 64).await.unwrap());
    let error = format!("{:#}", bench.persister("").await.ended().await.unwrap_err());
    assert!(
        error.contains("64 shards") && error.contains("settings say 8"),
        "{error}"
    );
    sql.batch_execute("UPDATE layout SET shards = 8")
        .await
        .unwrap();
    sql.batch_execute(
        "INSERT INTO schema_migrations (version, name) VALUES (999, 'of the future')",
    )
    .await
    .unwrap();
    let error = format!("{:#}", bench.persister("").await.ended().await.unwrap_err());
    assert!(
        error.contains("schema version 999") && error.contains("newer"),
        "{error}"
    );
}

#[tokio::test]
async fn a_newer_schema_under_a_running_persister_ends_it() {
    let bench = Bench::new().await;
    let persister = bench.persister("").await;
    persister
        .wait_metric("shards_owned", "", |owned| owned == 8.0)
        .await;
    let sql = bench.sql().await;
    sql.batch_execute(
        "INSERT INTO schema_migrations (version, name) VALUES (999, 'of the future')",
    )
    .await
    .unwrap();
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE application_name = 'uproar-persister' AND datname = current_database()";
    sql.batch_execute(kill).await.unwrap();
    let (code, mut gateway) = (new_code(), Gateway::new());
    bench
        .append_batch(&gateway.batch(&bench, &code, "clap", 0..5))
        .await;
    let error = format!("{:#}", persister.ended().await.unwrap_err());
    assert!(error.contains("schema version 999"), "{error}");
}

#[tokio::test]
async fn every_table_view_and_column_says_what_it_is() {
    let database = Database::new().await;
    let silent = database
        .sql()
        .await
        .query(
            "SELECT c.relname || '.' || coalesce(a.attname, '') FROM pg_class c \
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition \
               AND c.relname <> 'schema_migrations' \
               AND (col_description(c.oid, a.attnum) IS NULL OR obj_description(c.oid) IS NULL)",
            &[],
        )
        .await
        .unwrap();
    let silent: Vec<String> = silent.iter().map(|row| row.get(0)).collect();
    assert_eq!(silent, Vec::<String>::new());
}

#[tokio::test]
async fn partitions_are_made_ahead_and_dropped_after_the_retention() {
    let bench = Bench::new().await;
    drop(open(&bench.url, 8).await.unwrap());
    let sql = bench.sql().await;
    sql.batch_execute(
        "CREATE TABLE taps_2020_02_29 PARTITION OF taps FOR VALUES FROM ('2020-02-29Z') TO ('2020-03-01Z'); \
         INSERT INTO taps VALUES ('2020-02-29 12:00Z', 1, 1, 1); \
         CREATE TABLE tap_counts_2020_02 PARTITION OF tap_counts FOR VALUES FROM ('2020-02-01Z') TO ('2020-03-01Z')",
    )
    .await
    .unwrap();
    let persister = bench
        .persister("taps_retention_days = 30\npartitions_ahead_days = 5")
        .await;
    let partitions = async |table: &str| {
        let query = "SELECT c.relname::text FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid \
                     WHERE inhparent = to_regclass($1::text) ORDER BY 1";
        let rows = sql.query(query, &[&table]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    until("a dropped partition", async || {
        (!partitions("taps")
            .await
            .contains(&"taps_2020_02_29".to_owned()))
        .then_some(())
    })
    .await;
    let query = "SELECT to_char(now() + 5 * interval '1 day', '\"taps_\"YYYY_MM_DD')";
    let last: String = sql.query_one(query, &[]).await.unwrap().get(0);
    let taps = partitions("taps").await;
    assert_eq!(taps.last(), Some(&last));
    assert_eq!(taps.len(), 6);
    let counts = partitions("tap_counts").await;
    assert!(
        counts.contains(&"tap_counts_2020_02".to_owned()),
        "counts are kept: {counts:?}"
    );
    persister
        .wait_metric("partitions_dropped_total", "", |dropped| dropped == 1.0)
        .await;
    persister.end().await.unwrap();
}

#[tokio::test]
async fn a_time_without_a_partition_gets_one() {
    use persister::for_tests::{Next, Shedding, Step, Store};
    let database = Database::new().await;
    let mut connection = open(&database.url, 8).await.unwrap();
    let now = 1_780_000_000_000_i64;
    let mut step = Step::new(0..=now + 86_400_000);
    let code = new_code();
    for (seq, at) in [now - 3 * 86_400_000, now, now + 400 * 86_400_000, 5]
        .into_iter()
        .enumerate()
    {
        let at = at.cast_unsigned();
        let id = TapId {
            client: ClientHash(7),
            page: PageId(1),
            seq: u32::try_from(seq).unwrap(),
        };
        let tap = Tap {
            id,
            key: "clap".parse().unwrap(),
            tapped_at_ms: at,
        };
        step.taps(EntryId { ms: at, seq: 1 }, &code, &[tap]);
    }
    let mut store = Store::new(shared::shards::ShardId(0), 1_000);
    store.load(&mut connection).await.unwrap();
    let next = Next {
        offset: EntryId { ms: 9, seq: 9 },
        ..Next::default()
    };
    let partitions = Partitions::default();
    let stored = store
        .commit(&mut connection, &partitions, &step, next, Shedding::Off)
        .await
        .unwrap();
    assert_eq!((stored.taps, stored.rows), (4, 4));
    let sql = database.sql().await;
    let rows = sql
        .query("SELECT tableoid::regclass::text FROM taps ORDER BY 1", &[])
        .await
        .unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        names,
        [
            "taps_1970_01_01",
            "taps_2026_05_25",
            "taps_2026_05_28",
            "taps_2026_05_29"
        ]
    );
}
