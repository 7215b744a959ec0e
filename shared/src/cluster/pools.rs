//! Per master a pool of plain connections, by deadpool-redis.

use super::dial::{CONNECT_TIMEOUT, Dialer, timeouts};
use super::settings::RedisSettings;
use deadpool_redis::{Manager, Pool, PoolConfig, Runtime, Timeouts};
use redis::ProtocolVersion;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The pools, by the master's address. They never retry.
pub(super) struct Pools {
    dialer: Dialer,
    response_timeout: Duration,
    request_timeout: Duration,
    connections_max: usize,
    pools: Mutex<HashMap<String, Pool>>,
}

impl Pools {
    pub(super) fn new(settings: &RedisSettings, dialer: Dialer) -> Self {
        Pools {
            dialer,
            response_timeout: settings.response_timeout(),
            request_timeout: settings.request_timeout,
            connections_max: settings.connections_per_master_max.max(1),
            pools: Mutex::new(HashMap::new()),
        }
    }

    /// A connection to this master.
    ///
    /// # Errors
    /// Why there is none; nothing was sent.
    pub(super) async fn connection(
        &self,
        address: &str,
    ) -> Result<deadpool_redis::Connection, String> {
        let pool = self.pool(address)?;
        pool.get()
            .await
            .map_err(|error| format!("{address}: {error}"))
    }

    /// Drops the pools of all other addresses, with their idle connections; one in use is closed when it is given back.
    pub(super) fn retain(&self, is_master: impl Fn(&str) -> bool) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|address, pool| {
            let keep = is_master(address);
            if !keep {
                pool.close();
            }
            keep
        });
    }

    fn pool(&self, address: &str) -> Result<Pool, String> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(address) {
            return Ok(pool.clone());
        }
        let pool = self.build(address)?;
        pools.insert(address.to_owned(), pool.clone());
        Ok(pool)
    }

    fn build(&self, address: &str) -> Result<Pool, String> {
        let info = self
            .dialer
            .info(address, ProtocolVersion::RESP2)
            .map_err(|error| format!("{address}: {error}"))?;
        let manager = Manager::new_with_config(info, timeouts(self.response_timeout))
            .map_err(|error| format!("{address}: {error}"))?;
        let mut config = PoolConfig::new(self.connections_max);
        config.timeouts = Timeouts {
            wait: Some(self.request_timeout),
            create: Some(CONNECT_TIMEOUT),
            recycle: Some(self.response_timeout),
        };
        // The connection used last is the one least likely to have died unseen.
        config.queue_mode = deadpool_redis::QueueMode::Lifo;
        Pool::builder(manager)
            .config(config)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| format!("{address}: {error}"))
    }
}
