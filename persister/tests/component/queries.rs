//! The worked queries give what the documentation says, to an analyst, and read only the partitions they must.

use crate::support::Database;
use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Beside those that the sample makes for itself: what the queries must not read.
const MAKE_PARTITIONS: &str = "
    CREATE TABLE taps_2026_05_11 PARTITION OF taps FOR VALUES FROM ('2026-05-11Z') TO ('2026-05-12Z');
    CREATE TABLE tap_counts_2026_04 PARTITION OF tap_counts FOR VALUES FROM ('2026-04-01Z') TO ('2026-05-01Z');
    CREATE TABLE tap_counts_2026_06 PARTITION OF tap_counts FOR VALUES FROM ('2026-06-01Z') TO ('2026-07-01Z');";

/// A database with the sample in it, seen as an analyst.
async fn analyst() -> (Database, Client) {
    let database = Database::new().await;
    let sql = database.sql().await;
    sql.batch_execute(MAKE_PARTITIONS).await.unwrap();
    sql.batch_execute(include_str!("../../queries/sample.sql"))
        .await
        .unwrap();
    sql.batch_execute("ANALYZE; SET ROLE uproar_analyst")
        .await
        .unwrap();
    (database, sql)
}

/// The cells of a query's rows, as text.
async fn cells(sql: &Client, query: &str) -> Vec<Vec<String>> {
    let messages = sql.simple_query(query).await.unwrap();
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        (0..row.len())
            .map(|cell| row.get(cell).unwrap_or("").to_owned())
            .collect()
    })
    .collect()
}

/// The same of what psql printed.
fn printed(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().skip(2).filter(|line| !line.trim().is_empty());
    rows.map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// The tables that a query really read.
async fn tables_read(sql: &Client, query: &str) -> Vec<String> {
    fn walk(plan: &Value, tables: &mut Vec<String>) {
        let read = plan["Actual Loops"].as_f64().unwrap_or(0.0) > 0.0;
        if let (Some(table), true) = (plan["Relation Name"].as_str(), read) {
            tables.push(table.to_owned());
        }
        for child in plan["Plans"].as_array().unwrap_or(&Vec::new()) {
            walk(child, tables);
        }
    }
    let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) {query}");
    let plan = cells(sql, &explain).await.concat().concat();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let mut tables = Vec::new();
    walk(&plan[0]["Plan"], &mut tables);
    tables.sort();
    tables.dedup();
    tables
}

#[tokio::test]
async fn the_worked_queries_give_what_they_say_and_prune() {
    let (_database, sql) = analyst().await;
    for (name, query, text, read) in [
        (
            "minutes",
            include_str!("../../queries/minutes.sql"),
            include_str!("../../queries/minutes.txt"),
            &["tap_counts_2026_05"][..],
        ),
        (
            "peaks",
            include_str!("../../queries/peaks.sql"),
            include_str!("../../queries/peaks.txt"),
            &["audience_counts_2026_05", "tap_counts_2026_05"],
        ),
        (
            "people",
            include_str!("../../queries/people.sql"),
            include_str!("../../queries/people.txt"),
            &["taps_2026_05_12"],
        ),
        (
            "rooms",
            include_str!("../../queries/rooms.sql"),
            include_str!("../../queries/rooms.txt"),
            &["audience_counts_2026_05", "tap_counts_2026_05"],
        ),
        (
            "mix",
            include_str!("../../queries/mix.sql"),
            include_str!("../../queries/mix.txt"),
            &["tap_counts_2026_05"],
        ),
    ] {
        assert_eq!(cells(&sql, query).await, printed(text), "{name}");
        let mut partitions = tables_read(&sql, query).await;
        partitions.retain(|table| table.contains("_2026_"));
        assert_eq!(partitions, read, "{name}");
    }
}

#[tokio::test]
async fn the_views_agree_with_the_tables() {
    let (_database, sql) = analyst().await;
    let sums = cells(
        &sql,
        "SELECT (SELECT sum(taps) FROM room_summary), (SELECT sum(taps) FROM room_timeline), \
                (SELECT sum(taps) FROM reaction_mix), (SELECT sum(taps) FROM tap_counts), (SELECT count(*) FROM taps), \
                (SELECT round(sum(share_percent)) FROM reaction_mix WHERE code = 'KX7M2P')",
    )
    .await
    .remove(0);
    assert!(
        sums[..5].iter().all(|sum| *sum == sums[0] && sum != "0"),
        "{sums:?}"
    );
    assert_eq!(sums[5], "100");
    let summary = "SELECT taps, busy_seconds, people_most FROM room_summary WHERE code = 'KX7M2P'";
    assert_eq!(cells(&sql, summary).await, [["5072", "1800", "229"]]);
}

#[tokio::test]
async fn an_analyst_reads_and_cannot_write() {
    let (_database, sql) = analyst().await;
    for table in [
        "rooms",
        "reactions",
        "room_changes",
        "taps",
        "tap_counts",
        "audience_counts",
        "ledger",
        "room_summary",
        "room_timeline",
        "peak_moments",
        "reaction_mix",
    ] {
        sql.simple_query(&format!("SELECT * FROM {table} LIMIT 1"))
            .await
            .unwrap();
        for write in [
            format!("DELETE FROM {table}"),
            format!(
                "DROP {} {table}",
                if table.contains("room_s") {
                    "VIEW"
                } else {
                    "TABLE"
                }
            ),
        ] {
            sql.simple_query(&write).await.expect_err(&write);
        }
    }
    for forbidden in [
        "SELECT * FROM rejected_batches",
        "UPDATE tap_counts SET taps = 0",
        "INSERT INTO taps VALUES (now(), 1, 1, 1)",
        "TRUNCATE taps",
        "CREATE TABLE mine (x integer)",
    ] {
        let error = sql.simple_query(forbidden).await.expect_err(forbidden);
        assert_eq!(
            error.code().unwrap().code(),
            "42501",
            "{forbidden}: {error}"
        );
    }
}

#[test]
fn the_documentation_shows_the_queries_and_their_output() {
    let text = include_str!("../../QUERIES.md");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/queries");
    let mut shown = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.file_stem().is_some_and(|name| name != "sample") {
            let content = std::fs::read_to_string(&path).unwrap();
            assert!(
                text.contains(&content),
                "{} is not in QUERIES.md",
                path.display()
            );
            shown += 1;
        }
    }
    assert_eq!(shown, 10);
}
