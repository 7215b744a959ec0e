//! What the aggregator is told, and the ports it opens before anything else.

use anyhow::Context;
use shared::cluster::RedisSettings;
use shared::service::settings::{Reader, read_redis};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// Sections `[redis]` and `[aggregator]`.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How to reach Redis.
    pub redis: RedisSettings,
    /// Where probes and scrapers connect.
    pub operations_listen: SocketAddr,
    /// How often each shard's changes are told.
    pub tick_interval: Duration,
    /// After how long without a tap or a change a room is deleted.
    pub room_retention: Duration,
    /// Entries read, folded and committed at once.
    pub read_entries_max: usize,
    /// How long the shards may take to be let go at the end.
    pub shutdown_timeout: Duration,
}

impl Settings {
    /// Reads them all; what is wrong is kept in the reader.
    pub fn read(reader: &mut Reader) -> Settings {
        Settings {
            redis: read_redis(reader),
            operations_listen: reader.address(
                "aggregator.operations_listen",
                "0.0.0.0:9091",
                "where /livez, /readyz and /metrics are served",
            ),
            tick_interval: reader.duration(
                "aggregator.tick_interval_ms",
                250,
                20..=5_000,
                "how often new totals are published",
            ),
            room_retention: reader.duration(
                "aggregator.room_retention_days",
                90,
                1..=3_650,
                "after how many days without a tap or a change a room and its totals are deleted from Redis",
            ),
            read_entries_max: usize::try_from(reader.number(
                "aggregator.read_entries_max",
                1_000,
                1..=20_000,
                "entries of a log that are read, folded and committed at once",
            ))
            .unwrap_or(1_000),
            shutdown_timeout: reader.duration(
                "aggregator.shutdown_seconds",
                10,
                1..=300,
                "how long the shards may take to be handed over at the end",
            ),
        }
    }
}

/// The aggregator's ports, open.
#[derive(Debug)]
pub struct Listeners {
    /// The operations port.
    pub operations: TcpListener,
}

impl Listeners {
    /// Opens them. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A port is in use, or may not be opened; the message says which setting names it.
    pub fn bind(settings: &Settings) -> anyhow::Result<Listeners> {
        let address = settings.operations_listen;
        let bind = || {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        let operations = bind().with_context(|| {
            format!("cannot listen on {address}, which aggregator.operations_listen names")
        })?;
        Ok(Listeners { operations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::service::main::settings_from_toml;

    #[test]
    fn defaults() {
        let settings = settings_from_toml("", Settings::read).unwrap();
        assert_eq!(settings.tick_interval, Duration::from_millis(250));
        assert_eq!(settings.room_retention, Duration::from_secs(90 * 86_400));
        assert_eq!(settings.operations_listen.port(), 9091);
    }

    #[test]
    fn bounds() {
        let wrong = settings_from_toml(
            "[aggregator]\ntick_interval_ms = 1\nroom_retention_days = 0",
            Settings::read,
        );
        assert_eq!(wrong.unwrap_err().0.len(), 2);
    }

    #[tokio::test]
    async fn a_port_in_use_is_told_by_its_setting() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let toml = format!(
            "[aggregator]\noperations_listen = '{}'",
            taken.local_addr().unwrap()
        );
        let settings = settings_from_toml(&toml, Settings::read).unwrap();
        let error = format!("{:#}", Listeners::bind(&settings).unwrap_err());
        assert!(
            error.contains("aggregator.operations_listen") && error.contains("in use"),
            "{error}"
        );
    }
}
