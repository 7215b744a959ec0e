//! Settings: sections `[redis]`, `[postgres]` and `[persister]`.

use crate::database::connection::{self, Timeouts};
use crate::shed::ShedSettings;
use shared::cluster::RedisSettings;
use shared::service::settings::{Reader, read_redis};
use std::net::SocketAddr;
use std::time::Duration;

/// What the persister is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How to reach Redis.
    pub redis: RedisSettings,
    /// How to reach Postgres.
    pub postgres: tokio_postgres::Config,
    /// Where `/livez`, `/readyz` and `/metrics` are served.
    pub operations_listen: SocketAddr,
    /// How often a shard's log is read and stored.
    pub interval: Duration,
    /// Entries read at a time.
    pub read_entries_max: usize,
    /// Taps after which a transaction is committed, give or take one read.
    pub rows_per_transaction_max: usize,
    /// Connections to Postgres, shared by all shards.
    pub connections: usize,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// How long rows of `taps` are kept.
    pub taps_retention: Duration,
    /// How long counts are kept; zero: for ever.
    pub counts_retention: Duration,
    /// For how many days ahead partitions are made.
    pub partitions_ahead_days: u32,
    /// When rows of `taps` are shed.
    pub shed: ShedSettings,
    /// Whether to wait while no replica is electable, where there have been replicas.
    pub hold_without_replicas: bool,
    /// Clients remembered per shard to count people within a second.
    pub tappers_memory_max: usize,
}

/// What [`Settings`] has where nothing is set; each says why.
mod default {
    /// Half a second: analysts see a room nearly live, and a transaction holds enough rows to be cheap.
    pub(super) const INTERVAL_MS: u64 = 500;
    /// At most some 3.5 MB a read with full batches of 7 KB.
    pub(super) const READ_ENTRIES_MAX: u64 = 500;
    /// COPY is within a third of its best rate from some 10,000 rows on; more only makes a failure dearer.
    pub(super) const ROWS_PER_TRANSACTION_MAX: u64 = 50_000;
    /// Two: one transaction can be prepared while another waits for the disk.
    pub(super) const CONNECTIONS: u64 = 2;
}

impl Settings {
    /// Reads them.
    pub fn read(reader: &mut Reader) -> Settings {
        let redis = read_redis(reader);
        let postgres = read_postgres(reader);
        let operations_listen = reader.address(
            "persister.operations_listen",
            "0.0.0.0:9092",
            "where /livez, /readyz and /metrics are served",
        );
        let taps_retention = reader.duration(
            "persister.taps_retention_days",
            90,
            1..=3_650,
            "how long single taps are kept",
        );
        let counts_retention = reader.duration(
            "persister.counts_retention_days",
            0,
            0..=36_500,
            "how long counts per second are kept; 0: for ever",
        );
        let ahead = reader.number(
            "persister.partitions_ahead_days",
            3,
            1..=60,
            "for how many days ahead partitions are made",
        );
        let hold_without_replicas = reader.switch(
            "persister.hold_without_replicas",
            true,
            "wait while no Redis replica could be elected, where there have been replicas",
        );
        let loop_settings = read_loop(reader);
        Settings {
            redis,
            postgres,
            operations_listen,
            interval: loop_settings.interval,
            read_entries_max: loop_settings.read_entries_max,
            rows_per_transaction_max: loop_settings.rows_per_transaction_max,
            connections: loop_settings.connections,
            statement_timeout: loop_settings.statement_timeout,
            tappers_memory_max: loop_settings.tappers_memory_max,
            taps_retention,
            counts_retention,
            partitions_ahead_days: u32::try_from(ahead).expect("within its bounds"),
            shed: read_shed(reader),
            hold_without_replicas,
        }
    }

    /// The server-side bounds of our sessions.
    pub(crate) fn timeouts(&self) -> Timeouts {
        Timeouts {
            statement: self.statement_timeout,
            // Only another persister at the same shard, or an administrator, holds a lock for long: come back later.
            lock: self.statement_timeout.min(Duration::from_secs(5)),
            // Between two statements of a transaction we compute for some milliseconds.
            idle_in_transaction: self.statement_timeout.min(Duration::from_secs(15)),
        }
    }
}

/// What `export` is told: `[postgres]`, and the sections that the file may hold for the service beside it.
pub(crate) fn read_postgres(reader: &mut Reader) -> tokio_postgres::Config {
    let url = reader.secret(
        "postgres.url",
        "the database: postgres://user:password@host:5432/database",
    );
    let url = url.as_ref().map_or("", |url| url.reveal());
    match connection::config(url) {
        Ok(config) => config,
        Err(error) => {
            let right = if url.is_empty() {
                "postgres://user:password@host:5432/database".to_owned()
            } else {
                format!("postgres://user:password@host:5432/database ({error:#})")
            };
            reader.wrong("postgres.url", url, &right);
            tokio_postgres::Config::new()
        }
    }
}

struct Loop {
    interval: Duration,
    read_entries_max: usize,
    rows_per_transaction_max: usize,
    connections: usize,
    statement_timeout: Duration,
    tappers_memory_max: usize,
}

fn read_loop(reader: &mut Reader) -> Loop {
    let mut size = |name, value, bounds, doc| {
        usize::try_from(reader.number(name, value, bounds, doc)).expect("within its bounds")
    };
    let read_entries_max = size(
        "persister.read_entries_max",
        default::READ_ENTRIES_MAX,
        1..=10_000,
        "entries read at a time",
    );
    let rows_per_transaction_max = size(
        "persister.rows_per_transaction_max",
        default::ROWS_PER_TRANSACTION_MAX,
        1..=1_000_000,
        "taps after which a transaction is committed, give or take one read",
    );
    let connections = size(
        "persister.connections",
        default::CONNECTIONS,
        1..=32,
        "connections to Postgres, shared by all shards",
    );
    let tappers_memory_max = size(
        "persister.tappers_memory_max",
        2_000_000,
        1_000..=100_000_000,
        "clients remembered per shard, to count people within a second without asking the database",
    );
    Loop {
        interval: reader.duration(
            "persister.interval_ms",
            default::INTERVAL_MS,
            10..=10_000,
            "how often a shard's log is read and stored",
        ),
        read_entries_max,
        rows_per_transaction_max,
        connections,
        statement_timeout: reader.duration(
            "persister.statement_timeout_ms",
            30_000,
            100..=600_000,
            "how long a statement may take in Postgres",
        ),
        tappers_memory_max,
    }
}

fn read_shed(reader: &mut Reader) -> ShedSettings {
    let behind_max = reader.duration(
        "persister.shed_behind_minutes",
        120,
        1..=100_000,
        "rows of single taps are shed (counts never) when this far behind",
    );
    let mut percent = |name, value, doc| {
        u8::try_from(reader.number(name, value, 0..=100, doc)).expect("within its bounds")
    };
    ShedSettings {
        behind_max,
        memory_percent: percent(
            "persister.shed_memory_percent",
            70,
            "rows are shed too when behind and a Redis master's memory is used to this part",
        ),
        keep_percent: percent(
            "persister.shed_keep_percent",
            10,
            "the part of the clients whose rows are kept while shedding",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::service::main::settings_from_toml;

    #[test]
    fn a_missing_or_wrong_url_is_told_without_showing_the_password() {
        let missing = settings_from_toml("", Settings::read).expect_err("no url");
        assert!(
            missing.to_string().contains("postgres.url is missing"),
            "{missing}"
        );
        for (url, said) in [
            ("http://user:hunter2@db/uproar", "not a Postgres URL"),
            ("postgres://user:hunter2@db", "names no database"),
            (
                "postgres://user:hunter2@db/uproar?sslmode=require",
                "without TLS",
            ),
        ] {
            let toml = format!("[postgres]\nurl = \"{url}\"");
            let wrong = settings_from_toml(&toml, Settings::read)
                .expect_err(url)
                .to_string();
            assert!(wrong.contains(said), "{wrong}");
            assert!(!wrong.contains("hunter2"), "{wrong}");
        }
    }

    #[test]
    fn the_defaults_are_right() {
        let toml = "[postgres]\nurl = \"postgres://uproar@db/uproar\"";
        let settings = settings_from_toml(toml, Settings::read).expect("right");
        assert_eq!(settings.interval, Duration::from_millis(500));
        assert_eq!(settings.timeouts().lock, Duration::from_secs(5));
    }
}
