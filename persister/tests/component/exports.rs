//! `uproar-persister export`, the binary itself.

use crate::support::Database;
use std::process::{Command, Output};
use tokio_postgres::Client;

/// A database with two rooms of one code; the label and the key of a reaction would be formulas.
async fn database() -> (Database, Client) {
    let database = Database::new().await;
    let sql = database.sql().await;
    sql.batch_execute(
        "CREATE TABLE tap_counts_2026_05 PARTITION OF tap_counts FOR VALUES FROM ('2026-05-01Z') TO ('2026-06-01Z');
         INSERT INTO rooms (code, created_at, title, state, version, first_tap_at, last_tap_at) VALUES
             ('PARTY7', '2026-05-01 08:00Z', 'The first', 'closed', 1, '2026-05-01 09:00Z', '2026-05-01 09:00:00.4Z'),
             ('PARTY7', '2026-05-12 08:00:00.25Z', 'The second', 'open', 1, '2026-05-12 09:00:00.7Z', '2026-05-12 09:59:59.9Z'),
             ('QUIET4', '2026-05-12 08:00Z', 'Nobody came', 'open', 1, NULL, NULL);
         INSERT INTO reactions VALUES (1, 1, 'clap', '👏', 'Applause', 0), (2, 1, 'clap', '👏', '=HYPERLINK(\"http://evil\")', 0), (2, 2, '-1', NULL, NULL, NULL);
         INSERT INTO tap_counts VALUES ('2026-05-01 09:00Z', 1, 1, 5, 5, 0);
         INSERT INTO tap_counts SELECT '2026-05-12 09:00Z'::timestamptz + s * interval '1 second', 2, 1 + s % 2, 1 + s % 7, 1, s % 2 FROM generate_series(0, 3599) s",
    )
    .await
    .unwrap();
    (database, sql)
}

fn export(url: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_uproar-persister"));
    command
        .arg("export")
        .args(arguments)
        .env_clear()
        .current_dir(folder.path());
    if !url.is_empty() {
        command.env("UPROAR_POSTGRES__URL", url);
    }
    command.output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn csv_has_the_sums_of_the_table_and_is_safe_for_spreadsheets() {
    let (database, sql) = database().await;
    let url = &database.url;
    let output = export(url, &["--room", "party-7", "--csv"]);
    assert!(output.status.success(), "{}", told(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.strip_prefix('\u{feff}').expect("a byte order mark");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = reader
        .headers()
        .unwrap()
        .iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(header[0], "second (UTC)");
    assert_eq!(header[6], "taps (count)");
    let mut sums = [0_i64; 3];
    for record in reader.records() {
        let record = record.unwrap();
        assert_eq!(&record[1], "PARTY7");
        assert_eq!(&record[2], "2026-05-12 08:00:00");
        for cell in &record {
            assert!(
                !cell.starts_with(['=', '+', '-', '@', '\t', '\r']),
                "{cell}"
            );
        }
        for (sum, column) in sums.iter_mut().zip(6..9) {
            *sum += record[column].parse::<i64>().unwrap();
        }
    }
    let query = "SELECT sum(taps)::bigint, sum(tappers)::bigint, sum(unrecorded)::bigint FROM tap_counts WHERE room_id = 2";
    let row = sql.query_one(query, &[]).await.unwrap();
    assert_eq!(sums, [row.get::<_, i64>(0), row.get(1), row.get(2)]);
}

#[tokio::test]
async fn json_holds_the_totals_and_a_range_cuts_them() {
    let (database, _sql) = database().await;
    let url = &database.url;
    let arguments = [
        "--room",
        "PARTY7",
        "--json",
        "--from",
        "2026-05-12T09:30:00Z",
        "--to",
        "2026-05-12T11:30:10+02:00",
    ];
    let output = export(url, &arguments);
    assert!(output.status.success(), "{}", told(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["room"]["title"], "The second");
    let seconds = json["seconds"].as_array().unwrap();
    assert_eq!(seconds.len(), 10);
    assert_eq!(seconds[0]["second"], "2026-05-12T09:30:00Z");
    let sum: i64 = seconds
        .iter()
        .map(|second| second["taps"].as_i64().unwrap())
        .sum();
    let total = |key: &str| json["totals"][key]["taps"].as_i64().unwrap();
    assert_eq!(sum, total("clap") + total("-1"));
}

#[tokio::test]
async fn a_reused_code_is_chosen_by_its_creation() {
    let (database, _sql) = database().await;
    let url = &database.url;
    let first = export(
        url,
        &[
            "--room",
            "PARTY7",
            "--json",
            "--created",
            "2026-05-01T08:00:00Z",
        ],
    );
    let json: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(json["room"]["title"], "The first");
    assert_eq!(json["totals"]["clap"]["taps"], 5);
    let second = export(
        url,
        &[
            "--room",
            "PARTY7",
            "--json",
            "--created",
            "2026-05-12T08:00:00Z",
        ],
    );
    assert!(second.status.success(), "to the second: {}", told(&second));
    let never = export(
        url,
        &["--room", "PARTY7", "--json", "--created", "2026-05-02"],
    );
    assert!(!never.status.success());
    assert!(
        told(&never).contains("2026-05-12T08:00:00.25Z, 2026-05-01T08:00:00Z"),
        "{}",
        told(&never)
    );
}

#[tokio::test]
async fn what_cannot_be_exported_is_told_clearly() {
    let (database, _sql) = database().await;
    let url = &database.url;
    let unknown = export(url, &["--room", "NOSUCH", "--csv"]);
    assert!(!unknown.status.success() && unknown.stdout.is_empty());
    assert!(
        told(&unknown).contains("no room with the code NOSUCH"),
        "{}",
        told(&unknown)
    );
    let quiet = export(url, &["--room", "QUIET4", "--csv"]);
    assert!(quiet.status.success());
    assert_eq!(
        String::from_utf8(quiet.stdout).unwrap().lines().count(),
        1,
        "the header alone"
    );
    let empty = rig::shared().await.create_database().await.unwrap();
    assert!(told(&export(&empty, &["--room", "PARTY7", "--csv"])).contains("holds no rooms"));
    let nobody = "postgres://nobody@127.0.0.1:1/nothing";
    assert!(
        told(&export(nobody, &["--room", "PARTY7", "--csv"])).contains("cannot reach Postgres")
    );
    let missing = export("", &["--room", "PARTY7", "--csv"]);
    assert_eq!(missing.status.code(), Some(78));
    assert!(
        told(&missing).contains("postgres.url is missing"),
        "{}",
        told(&missing)
    );
}
