//! Postgres: connections and their pool, the schema and its migrations, partitions.

pub(crate) mod connection;
pub(crate) mod migrate;
pub(crate) mod pool;
pub(crate) mod partitions;

/// A time in SQL from a parameter in milliseconds since 1970: exact, where `to_timestamp(ms / 1000.0)` is not.
macro_rules! from_ms {
    ($parameter:literal) => {
        concat!(
            "(timestamptz 'epoch' + ",
            $parameter,
            " * interval '1 millisecond')"
        )
    };
}
pub(crate) use from_ms;

/// A connection to a database that is set up if it was not, for tests.
///
/// # Errors
/// It cannot be reached, or will not do.
pub async fn open(url: &str, shards: u16) -> anyhow::Result<connection::Connection> {
    let timeout = std::time::Duration::from_secs(10);
    let timeouts = connection::Timeouts {
        statement: timeout,
        lock: timeout,
        idle_in_transaction: timeout,
    };
    let mut connection = connection::Connection::open(&connection::config(url)?, timeouts).await?;
    migrate::prepare(&mut connection, shards).await?;
    migrate::grant_analyst(&connection).await?;
    Ok(connection)
}
