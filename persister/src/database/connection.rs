//! One connection to Postgres, set up so that no query, lock or dead peer can hold it for ever.

use anyhow::Context;
use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, NoTls, Row, Statement};

/// How long a connection attempt may take: a busy server answers well within, a black hole never.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sent data may stay without an acknowledgement before the peer counts as dead.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
/// A silent connection is probed after this, then three times, [`KEEPALIVE_INTERVAL`] apart: dead within 25 s.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// `date_bin` and the locks of ATTACH PARTITION as they are used here came with 14.
const SERVER_VERSION_MIN: i32 = 140_000;

/// How long the server lets us work; each is a bound for a persister that died or hangs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) statement: Duration,
    pub(crate) lock: Duration,
    pub(crate) idle_in_transaction: Duration,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// It may come right by itself: try again.
    #[error("{0}")]
    NotYet(String),
    /// Trying again will not help: the service must not run on this database.
    #[error("{0}")]
    Unfit(String),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        OpenError::NotYet(told(&error))
    }
}

/// What an error says, with the server's own words and hint: tokio-postgres's `Display` says "db error".
pub(crate) fn told(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        return match db.detail().or(db.hint()) {
            Some(more) => format!("{} ({more}; SQLSTATE {})", db.message(), db.code().code()),
            None => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        };
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// A connection's settings from a URL, with what makes a dead peer known in bounded time.
///
/// # Errors
/// It is no URL of a Postgres database, or asks for TLS, which this build cannot speak.
pub(crate) fn config(url: &str) -> anyhow::Result<Config> {
    let mut config = Config::from_str(url).context("not a Postgres URL")?;
    anyhow::ensure!(
        config.get_ssl_mode() != SslMode::Require,
        "sslmode=require: this build speaks to Postgres without TLS"
    );
    anyhow::ensure!(config.get_dbname().is_some(), "the URL names no database");
    config
        .application_name("uproar-persister")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_user_timeout(TCP_USER_TIMEOUT)
        .keepalives(true)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_RETRIES);
    Ok(config)
}

/// An open connection and the statements prepared on it. Dropping it closes the socket at once, so that the server
/// rolls back what was open: after any error that is what its holder does.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    driver: JoinHandle<()>,
    /// The server's clock less ours, in milliseconds, when the connection was opened.
    pub(crate) clock_offset_ms: i64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects, sets the timeouts and checks that the server is new enough and can be written to.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub(crate) async fn open(config: &Config, timeouts: Timeouts) -> Result<Self, OpenError> {
        let (client, socket) = config.connect(NoTls).await?;
        let driver = tokio::spawn(async move {
            // Its error reaches whoever waits for an answer on the client.
            let _ended = socket.await;
        });
        let mut connection = Connection {
            client,
            statements: HashMap::new(),
            driver,
            clock_offset_ms: 0,
        };
        connection.set_up(timeouts).await?;
        Ok(connection)
    }

    async fn set_up(&mut self, timeouts: Timeouts) -> Result<(), OpenError> {
        // synchronous_commit: a transaction lost in a crash after its answer, with the log trimmed behind it, is lost
        // data. Stronger settings than `on` stay.
        let session = format!(
            "SET TIME ZONE 'UTC'; SET client_min_messages = warning; \
             SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') = 'off'",
            timeouts.statement.as_millis(),
            timeouts.lock.as_millis(),
            timeouts.idle_in_transaction.as_millis()
        );
        self.client.batch_execute(&session).await?;
        let server = self
            .client
            .query_one(
                "SELECT current_setting('server_version_num')::integer, \
                 pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean, \
                 (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                &[],
            )
            .await?;
        let version: i32 = server.get(0);
        if version < SERVER_VERSION_MIN {
            return Err(OpenError::Unfit(format!(
                "the Postgres server is version {}, older than 14",
                version / 10_000
            )));
        }
        if server.get(1) {
            return Err(OpenError::NotYet(
                "the Postgres server is read-only (a standby, or default_transaction_read_only); \
                 it must be the primary"
                    .to_owned(),
            ));
        }
        let server_ms: i64 = server.get(2);
        self.clock_offset_ms = server_ms - jiff::Timestamp::now().as_millisecond();
        Ok(())
    }

    /// The client itself, for COPY and for statements that are sent once.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the server has closed it meanwhile.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Rows of a statement that is prepared at its first use on this connection.
    ///
    /// # Errors
    /// Whatever Postgres says: drop the connection.
    pub(crate) async fn query(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let statement = self.prepared(sql).await?;
        self.client.query(&statement, parameters).await
    }

    /// As [`Connection::query`]; how many rows were touched.
    ///
    /// # Errors
    /// Whatever Postgres says: drop the connection.
    pub(crate) async fn execute(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, Error> {
        let statement = self.prepared(sql).await?;
        self.client.execute(&statement, parameters).await
    }

    async fn prepared(&mut self, sql: &'static str) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }
}
