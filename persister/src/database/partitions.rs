//! Partitions: made ahead of time, made on demand for a time that has none, dropped after the retention.
//!
//! There is no default partition: it would have to be searched under an exclusive lock for each new one, and a row in
//! it would keep the right partition from ever being made. Instead every time is brought within bounds before it is
//! stored (see `step`), and what lies within them has its partition made when it comes.

use super::connection::Connection;
use super::migrate::SCHEMA_LOCK;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use tokio_postgres::Error;

/// How long one partition lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Period {
    /// A day, UTC.
    Day,
    /// A month, UTC: for tables that are kept for years, so that planning stays quick.
    Month,
}

/// A partitioned table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) period: Period,
}

pub(crate) const TAPS: Table = Table {
    name: "taps",
    period: Period::Day,
};
pub(crate) const TAP_COUNTS: Table = Table {
    name: "tap_counts",
    period: Period::Month,
};
pub(crate) const AUDIENCE_COUNTS: Table = Table {
    name: "audience_counts",
    period: Period::Month,
};

/// All of them.
pub(crate) const TABLES: [Table; 3] = [TAPS, TAP_COUNTS, AUDIENCE_COUNTS];

/// One partition, by its table and first day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Partition {
    table: Table,
    first: Date,
}

impl Partition {
    /// The partition of a table that a time belongs to.
    pub(crate) fn of(table: Table, ms: i64) -> Self {
        let at = Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        });
        let day = TimeZone::UTC.to_datetime(at).date();
        let first = match table.period {
            Period::Day => day,
            Period::Month => day.first_of_month(),
        };
        Partition { table, first }
    }

    /// From its name, if it is one of ours.
    fn parse(table: Table, name: &str) -> Option<Self> {
        let digits = name.strip_prefix(table.name)?.strip_prefix('_')?;
        let mut parts = digits.split('_');
        let year = parts.next()?.parse().ok()?;
        let month = parts.next()?.parse().ok()?;
        let day = match table.period {
            Period::Day => parts.next()?.parse().ok()?,
            Period::Month => 1,
        };
        let partition = Partition {
            table,
            first: Date::new(year, month, day).ok()?,
        };
        (partition.name() == name).then_some(partition)
    }

    /// Its table's name.
    pub(crate) fn name(&self) -> String {
        let format = match self.table.period {
            Period::Day => "%Y_%m_%d",
            Period::Month => "%Y_%m",
        };
        format!("{}_{}", self.table.name, self.first.strftime(format))
    }

    fn length(table: Table) -> Span {
        match table.period {
            Period::Day => 1.day(),
            Period::Month => 1.month(),
        }
    }

    /// The first day after it.
    fn end(&self) -> Date {
        self.first.saturating_add(Self::length(self.table))
    }

    fn next(&self) -> Self {
        Partition {
            table: self.table,
            first: self.end(),
        }
    }

    pub(crate) fn end_ms(&self) -> i64 {
        let midnight = self.end().to_zoned(TimeZone::UTC);
        midnight.map_or(i64::MAX, |zoned| zoned.timestamp().as_millisecond())
    }
}

/// Which partitions are known to be there.
#[derive(Debug, Default)]
pub struct Partitions {
    known: Mutex<HashSet<Partition>>,
}

impl Partitions {
    /// Makes those of `wanted` that are missing. Free when all are known.
    ///
    /// # Errors
    /// Whatever Postgres says: drop the connection and call [`Partitions::forget`].
    pub(crate) async fn ensure(
        &self,
        connection: &Connection,
        wanted: impl IntoIterator<Item = Partition>,
    ) -> Result<(), Error> {
        let missing: Vec<Partition> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let unknown = wanted
                .into_iter()
                .filter(|partition| !known.contains(partition));
            unknown.collect::<HashSet<_>>().into_iter().collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let client = connection.client();
        client
            .batch_execute(&format!(
                "BEGIN; SELECT pg_advisory_xact_lock({SCHEMA_LOCK})"
            ))
            .await?;
        for partition in &missing {
            if !is_attached(connection, partition).await? {
                make(connection, partition).await?;
            }
        }
        client.batch_execute("COMMIT").await?;
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(missing);
        Ok(())
    }

    /// After any error: the database may be another one, or somebody dropped a partition.
    pub fn forget(&self) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Drops the partitions of `table` that ended before `keep_from_ms`, each in a transaction of its own; their names.
    ///
    /// # Errors
    /// Whatever Postgres says, a lock that was not free in time included: the next round tries again.
    pub(crate) async fn drop_before(
        &self,
        connection: &Connection,
        table: Table,
        keep_from_ms: i64,
    ) -> Result<Vec<String>, Error> {
        let mut dropped = Vec::new();
        for partition in list(connection, table).await? {
            if partition.end_ms() > keep_from_ms {
                continue;
            }
            let name = partition.name();
            // A long query on the table holds the lock that DROP needs, and all writers wait behind a DROP that waits:
            // so it waits for a second only.
            let sql = format!(
                "BEGIN; SET LOCAL lock_timeout = '1s'; SELECT pg_advisory_xact_lock({SCHEMA_LOCK}); \
                 DROP TABLE IF EXISTS {name}; COMMIT"
            );
            connection.client().batch_execute(&sql).await?;
            self.known
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&partition);
            dropped.push(name);
        }
        Ok(dropped)
    }
}

/// The partitions of a table from now until `days` ahead.
pub(crate) fn ahead(table: Table, now_ms: i64, days: u32) -> Vec<Partition> {
    let last = Partition::of(table, now_ms.saturating_add(i64::from(days) * 86_400_000));
    let mut partitions = vec![Partition::of(table, now_ms)];
    while let Some(newest) = partitions.last().filter(|newest| newest.first < last.first) {
        partitions.push(newest.next());
    }
    partitions
}

/// The partitions that a table has, the oldest first.
///
/// # Errors
/// Whatever Postgres says.
pub(crate) async fn list(connection: &Connection, table: Table) -> Result<Vec<Partition>, Error> {
    let rows = connection
        .client()
        .query(
            "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
             WHERE i.inhparent = to_regclass($1::text) ORDER BY 1",
            &[&table.name],
        )
        .await?;
    Ok(rows
        .iter()
        .filter_map(|row| Partition::parse(table, row.get(0)))
        .collect())
}

async fn is_attached(connection: &Connection, partition: &Partition) -> Result<bool, Error> {
    let row = connection
        .client()
        .query_one(
            "SELECT EXISTS (SELECT FROM pg_inherits \
             WHERE inhrelid = to_regclass($1::text) AND inhparent = to_regclass($2::text))",
            &[&partition.name(), &partition.table.name],
        )
        .await?;
    Ok(row.get(0))
}

/// CREATE, then ATTACH: that takes a lock beside which others read and write, which `PARTITION OF` does not.
async fn make(connection: &Connection, partition: &Partition) -> Result<(), Error> {
    let (table, name) = (partition.table.name, partition.name());
    let (from, to) = (partition.first, partition.end());
    let sql = format!(
        "CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS); \
         ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{from} 00:00+00') TO ('{to} 00:00+00')"
    );
    connection.client().batch_execute(&sql).await?;
    tracing::info!(partition = name, "partition made");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().expect("a time").as_millisecond()
    }

    #[test]
    fn a_time_belongs_to_its_day_and_its_month_in_utc() {
        let late = ms("2026-05-31T23:59:59.999Z");
        assert_eq!(Partition::of(TAPS, late).name(), "taps_2026_05_31");
        assert_eq!(Partition::of(TAP_COUNTS, late).name(), "tap_counts_2026_05");
        assert_eq!(Partition::of(TAPS, late + 1).name(), "taps_2026_06_01");
        assert_eq!(
            Partition::of(TAP_COUNTS, late + 1).name(),
            "tap_counts_2026_06"
        );
        assert_eq!(Partition::of(TAPS, late).end_ms(), late + 1);
    }

    #[test]
    fn names_read_back_and_foreign_tables_are_left_alone() {
        let day = Partition::of(TAPS, ms("2026-02-28T12:00:00Z"));
        assert_eq!(Partition::parse(TAPS, &day.name()), Some(day));
        for foreign in [
            "taps",
            "taps_old",
            "taps_2026_02",
            "taps_2026_02_30",
            "taps_2026_2_3",
            "tap_counts_2026_02",
        ] {
            assert_eq!(Partition::parse(TAPS, foreign), None, "{foreign}");
        }
    }

    #[test]
    fn partitions_ahead_reach_over_the_end_of_a_month() {
        let now = ms("2026-12-30T08:00:00Z");
        let names = |table| {
            ahead(table, now, 3)
                .iter()
                .map(Partition::name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(TAPS),
            [
                "taps_2026_12_30",
                "taps_2026_12_31",
                "taps_2027_01_01",
                "taps_2027_01_02"
            ]
        );
        assert_eq!(
            names(TAP_COUNTS),
            ["tap_counts_2026_12", "tap_counts_2027_01"]
        );
    }
}
