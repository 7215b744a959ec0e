//! A few connections for all shards. A connection comes back only after work that succeeded; whatever else happens to
//! it, it is closed, since only a new one can tell what became of an open COMMIT.

use super::connection::{Connection, OpenError, Timeouts};
use super::migrate;
use crate::metrics::{Failure, Metrics};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio_postgres::Config;

/// A restarting server is back within a second or two: try often for that long, so that nobody waits for us...
const RETRY_SOON: Duration = Duration::from_millis(50);
const RETRY_SOON_TIMES: u32 = 40;
/// ...then ever more slowly up to this, so that a server that is down for long is left in peace.
const RETRY_LATE: Duration = Duration::from_secs(5);

/// The server says that it will not do: the service has to end.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unfit(pub(crate) String);

/// Hands out connections.
#[derive(Debug)]
pub(crate) struct Pool {
    config: Config,
    timeouts: Timeouts,
    shards: u16,
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
    trouble: Mutex<Trouble>,
    reachable: watch::Sender<bool>,
    clock_offset_ms: std::sync::atomic::AtomicI64,
    metrics: Arc<Metrics>,
}

/// The state of reaching Postgres, shared by all that try: one log line per change of it.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    told: Option<String>,
    granted: bool,
}

impl Pool {
    /// A pool of at most `connections`, none of which is open yet.
    pub(crate) fn new(
        config: Config,
        timeouts: Timeouts,
        connections: usize,
        shards: u16,
        metrics: Arc<Metrics>,
    ) -> Self {
        Pool {
            config,
            timeouts,
            shards,
            permits: Semaphore::new(connections),
            idle: Mutex::default(),
            trouble: Mutex::default(),
            reachable: watch::Sender::new(false),
            clock_offset_ms: 0.into(),
            metrics,
        }
    }

    /// Whether the last attempt reached Postgres: while it does not, no shard is claimed.
    pub(crate) fn reachable(&self) -> watch::Receiver<bool> {
        self.reachable.subscribe()
    }

    /// The server's clock, milliseconds since 1970: it decides what is too old to be kept.
    pub(crate) fn now_ms(&self) -> i64 {
        let offset = self
            .clock_offset_ms
            .load(std::sync::atomic::Ordering::Relaxed);
        jiff::Timestamp::now().as_millisecond() + offset
    }

    /// A connection, as soon as one is free and Postgres can be reached.
    ///
    /// # Errors
    /// [`Unfit`]: the server will never do. All else is waited for.
    ///
    /// # Cancel safety
    /// Safe: a connection that was being opened is closed.
    pub(crate) async fn get(&self) -> Result<Checkout<'_>, Unfit> {
        let permit = self
            .permits
            .acquire()
            .await
            .expect("the semaphore is never closed");
        loop {
            if let Some(connection) = self.take_idle() {
                return Ok(Checkout {
                    pool: self,
                    connection: Some(connection),
                    _permit: permit,
                });
            }
            match self.open().await {
                Ok(connection) => {
                    self.note_success();
                    return Ok(Checkout {
                        pool: self,
                        connection: Some(connection),
                        _permit: permit,
                    });
                }
                Err(OpenError::Unfit(why)) => return Err(Unfit(why)),
                Err(OpenError::NotYet(why)) => {
                    let delay = self.note_failure(why);
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }

    async fn open(&self) -> Result<Connection, OpenError> {
        let mut connection = Connection::open(&self.config, self.timeouts).await?;
        migrate::prepare(&mut connection, self.shards).await?;
        if !self.lock_trouble().granted {
            migrate::grant_analyst(&connection).await?;
            self.lock_trouble().granted = true;
        }
        self.clock_offset_ms.store(
            connection.clock_offset_ms,
            std::sync::atomic::Ordering::Relaxed,
        );
        Ok(connection)
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    fn lock_trouble(&self) -> std::sync::MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_success(&self) {
        let mut trouble = self.lock_trouble();
        if trouble.told.take().is_some() {
            tracing::info!(attempts = trouble.failures, "Postgres is back");
        }
        trouble.failures = 0;
        self.metrics.postgres_reachable.set(1);
        self.reachable.send_replace(true);
    }

    fn note_failure(&self, why: String) -> Duration {
        let mut trouble = self.lock_trouble();
        trouble.failures = trouble.failures.saturating_add(1);
        if trouble.told.as_ref() != Some(&why) {
            tracing::warn!(%why, "waiting for Postgres");
            trouble.told = Some(why);
        }
        self.metrics.failed(Failure::Connection);
        self.metrics.postgres_reachable.set(0);
        self.reachable.send_replace(false);
        retry_delay(trouble.failures)
    }
}

fn retry_delay(failures: u32) -> Duration {
    if failures <= RETRY_SOON_TIMES {
        return RETRY_SOON;
    }
    let doublings = (failures - RETRY_SOON_TIMES).min(10);
    RETRY_LATE.min(RETRY_SOON * (1 << doublings))
}

/// A connection on loan. Dropped without [`Checkout::give_back`], it is closed.
#[derive(Debug)]
pub(crate) struct Checkout<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
    _permit: SemaphorePermit<'a>,
}

impl Checkout<'_> {
    /// Only after all that was asked of it succeeded.
    pub(crate) fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
        }
    }
}

impl Deref for Checkout<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection
            .as_ref()
            .expect("taken only by give_back, which consumes self")
    }
}

impl DerefMut for Checkout<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection
            .as_mut()
            .expect("taken only by give_back, which consumes self")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_come_soon_at_first_and_never_later_than_five_seconds() {
        assert_eq!(retry_delay(1), RETRY_SOON);
        assert_eq!(retry_delay(RETRY_SOON_TIMES), RETRY_SOON);
        assert_eq!(retry_delay(RETRY_SOON_TIMES + 1), RETRY_SOON * 2);
        assert_eq!(retry_delay(u32::MAX), RETRY_LATE);
    }
}
