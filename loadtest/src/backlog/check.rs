//! Whether the persister stored exactly the rows that were tapped, and counted them rightly: compared in the database
//! with the tables of the bare COPY, row by row.

use serde::Serialize;
use tokio_postgres::Client;

/// What does not fit, summed over all rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Rows in `taps`.
    pub rows: u64,
    /// Tapped, and without a row.
    pub lost: u64,
    /// Rows that nobody tapped, or that stand there twice.
    pub doubled: u64,
    /// The sum of `tap_counts`.
    pub counted: u64,
    /// Rows of `tap_counts` whose taps or tappers are not those of the rows.
    pub wrong_counts: u64,
}

/// Compares all rows of these rooms with those of `tables`, the bare copies.
pub(crate) async fn check(
    client: &Client,
    tables: &[String],
    rooms: &[i32],
) -> anyhow::Result<Found> {
    let copies: Vec<String> = tables
        .iter()
        .map(|table| format!("SELECT * FROM {table}"))
        .collect();
    // Enough to sort two million rows without a hundred files.
    client.batch_execute("SET work_mem = '256MB'").await?;
    client
        .batch_execute(&format!(
            "CREATE TEMP VIEW copied AS {}",
            copies.join(" UNION ALL ")
        ))
        .await?;
    let one = async |sql: &str| -> anyhow::Result<u64> {
        let row = client.query_one(sql, &[&rooms]).await?;
        Ok(u64::try_from(row.get::<_, i64>(0))?)
    };
    Ok(Found {
        rows: one("SELECT count(*) FROM taps WHERE room_id = ANY($1)").await?,
        lost: one("SELECT count(*) FROM (SELECT * FROM copied WHERE room_id = ANY($1) \
                   EXCEPT ALL SELECT * FROM taps) x")
        .await?,
        doubled: one("SELECT count(*) FROM (SELECT * FROM taps WHERE room_id = ANY($1) \
                      EXCEPT ALL SELECT * FROM copied) x")
        .await?,
        counted: one("SELECT coalesce(sum(taps), 0)::bigint FROM tap_counts WHERE room_id = ANY($1)")
            .await?,
        wrong_counts: one(
            "SELECT count(*) FROM (SELECT date_trunc('second', tapped_at) AS second, room_id, reaction_id, \
             count(*)::integer AS taps, count(DISTINCT client)::integer AS tappers FROM copied GROUP BY 1, 2, 3) e \
             FULL JOIN (SELECT * FROM tap_counts WHERE room_id = ANY($1)) c USING (second, room_id, reaction_id) \
             WHERE e.taps IS DISTINCT FROM c.taps OR e.tappers IS DISTINCT FROM c.tappers",
        )
        .await?,
    })
}
