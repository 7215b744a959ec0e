//! The schema: applied by whichever persister comes first, under an advisory lock, one transaction a time.

use super::connection::{Connection, OpenError};
use tokio_postgres::Error;

/// The advisory lock of everything that changes the schema: migrations and partitions. The number is arbitrary and must
/// stay the same in all versions.
pub(crate) const SCHEMA_LOCK: i64 = 0x7570_726f_6172;

/// The version of the rule that assigns rooms to shards (`shared::shards`).
const LAYOUT_VERSION: i32 = 1;

struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: [Migration; 2] = [
    Migration {
        version: 1,
        name: "tables",
        sql: include_str!("../../migrations/0001_tables.sql"),
    },
    Migration {
        version: 2,
        name: "views",
        sql: include_str!("../../migrations/0002_views.sql"),
    },
];

/// What is granted to analysts, at each start.
const ANALYST: &str = include_str!("../../migrations/analyst.sql");

/// The newest schema this build knows.
pub(crate) fn latest() -> i32 {
    MIGRATIONS[MIGRATIONS.len() - 1].version
}

/// Brings the schema up to date and compares the layout. Cheap when there is nothing to do: every new connection goes
/// through it, so that a database that was replaced under a running persister is set up, or refused, like a first one.
///
/// # Errors
/// [`OpenError::Unfit`] for a newer schema or another layout; [`OpenError::NotYet`] for all else.
pub(crate) async fn prepare(connection: &mut Connection, shards: u16) -> Result<(), OpenError> {
    let found = schema_version(connection).await?;
    refuse_newer(found)?;
    if found < latest() {
        migrate(connection).await?;
    }
    compare_layout(connection, shards).await
}

/// Makes the analysts' role if that is allowed, and grants it what it may read.
///
/// # Errors
/// Whatever Postgres says.
pub(crate) async fn grant_analyst(connection: &Connection) -> Result<(), Error> {
    // Under the lock, as two sessions that grant on one table at once fail with "tuple concurrently updated".
    let sql = format!("BEGIN; SELECT pg_advisory_xact_lock({SCHEMA_LOCK}); {ANALYST} COMMIT");
    connection.client().batch_execute(&sql).await
}

async fn schema_version(connection: &Connection) -> Result<i32, Error> {
    let client = connection.client();
    let there = client
        .query_one("SELECT to_regclass('schema_migrations') IS NOT NULL", &[])
        .await?
        .get::<_, bool>(0);
    if !there {
        return Ok(0);
    }
    let row = client
        .query_one(
            "SELECT coalesce(max(version), 0) FROM schema_migrations",
            &[],
        )
        .await?;
    Ok(row.get(0))
}

fn refuse_newer(found: i32) -> Result<(), OpenError> {
    if found > latest() {
        return Err(OpenError::Unfit(format!(
            "the database has schema version {found}, newer than version {} of this build: \
             run the newer persister",
            latest()
        )));
    }
    Ok(())
}

async fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    let client = connection.client();
    // Another persister may migrate at this moment: waiting for it is not an error.
    client
        .batch_execute(&format!(
            "BEGIN; SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0; \
             SELECT pg_advisory_xact_lock({SCHEMA_LOCK}); \
             CREATE TABLE IF NOT EXISTS schema_migrations ( \
                 version integer PRIMARY KEY, name text NOT NULL, \
                 applied_at timestamptz NOT NULL DEFAULT now())"
        ))
        .await?;
    let found = schema_version(connection).await?;
    refuse_newer(found)?;
    for migration in MIGRATIONS
        .iter()
        .filter(|migration| migration.version > found)
    {
        client.batch_execute(migration.sql).await?;
        client
            .execute(
                "INSERT INTO schema_migrations (version, name) VALUES ($1, $2)",
                &[&migration.version, &migration.name],
            )
            .await?;
        tracing::info!(
            version = migration.version,
            name = migration.name,
            "schema migrated"
        );
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}

async fn compare_layout(connection: &Connection, shards: u16) -> Result<(), OpenError> {
    let client = connection.client();
    let ours = (i32::from(shards), LAYOUT_VERSION);
    client
        .execute(
            "INSERT INTO layout (shards, layout_version) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            &[&ours.0, &ours.1],
        )
        .await?;
    let row = client
        .query_one("SELECT shards, layout_version FROM layout", &[])
        .await?;
    let found: (i32, i32) = (row.get(0), row.get(1));
    if found != ours {
        return Err(OpenError::Unfit(format!(
            "the database was laid out with {} shards (layout version {}), the settings say {} \
             (layout version {}): set redis.shards to {}, or use another database",
            found.0, found.1, ours.0, ours.1, found.0
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_a_gap() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(
                usize::try_from(migration.version).expect("small"),
                index + 1
            );
        }
    }
}
