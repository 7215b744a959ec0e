//! Opens connections to single nodes, all in the same way.

use super::settings::RedisSettings;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, RedisError, RedisResult,
};
use std::time::Duration;

/// How long the opening of a connection may take, log-in included. Within a data centre it takes a millisecond; a
/// host that is gone does not answer at all, and nothing is served from its master meanwhile.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Names ourselves in CLIENT LIST.
const LIBRARY_NAME: &str = "uproar";

/// How connections are opened.
#[derive(Clone)]
pub(super) struct Dialer {
    username: Option<String>,
    password: Option<String>,
}

impl Dialer {
    pub(super) fn new(settings: &RedisSettings) -> Self {
        Dialer {
            username: settings.username.clone(),
            password: settings.password.clone(),
        }
    }

    /// How to reach a node, for those that open connections themselves.
    pub(super) fn info(
        &self,
        address: &str,
        protocol: ProtocolVersion,
    ) -> RedisResult<ConnectionInfo> {
        let (host, port) = split_address(address).ok_or_else(|| {
            RedisError::from((
                redis::ErrorKind::InvalidClientConfig,
                "a node's address has the form host:port",
                address.to_owned(),
            ))
        })?;
        let mut redis = RedisConnectionInfo::default()
            .set_protocol(protocol)
            .set_lib_name(LIBRARY_NAME, env!("CARGO_PKG_VERSION"));
        if let Some(username) = &self.username {
            redis = redis.set_username(username);
        }
        if let Some(password) = &self.password {
            redis = redis.set_password(password);
        }
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(10))
            .with_interval(Duration::from_secs(5))
            .with_retries(2);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive);
        let info = ConnectionAddr::Tcp(host.to_owned(), port).into_connection_info()?;
        Ok(info.set_redis_settings(redis).set_tcp_settings(tcp))
    }

    /// Opens a connection of our own.
    ///
    /// # Cancel safety
    /// Dropping it drops the half-open connection.
    pub(super) async fn open(
        &self,
        address: &str,
        response_timeout: Duration,
    ) -> RedisResult<MultiplexedConnection> {
        let client = Client::open(self.info(address, ProtocolVersion::RESP2)?)?;
        client
            .get_multiplexed_async_connection_with_config(&timeouts(response_timeout))
            .await
    }

    /// Opens a RESP3 connection whose pushes go to `push`.
    pub(super) async fn open_with_pushes(
        &self,
        address: &str,
        response_timeout: Duration,
        push: impl redis::aio::AsyncPushSender,
    ) -> RedisResult<MultiplexedConnection> {
        let client = Client::open(self.info(address, ProtocolVersion::RESP3)?)?;
        let config = timeouts(response_timeout).set_push_sender(push);
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }
}

/// The timeouts of a connection.
pub(super) fn timeouts(response_timeout: Duration) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(response_timeout))
}

/// Host and port of `host:port`; an IPv6 host may stand in brackets.
pub(super) fn split_address(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    (!host.is_empty()).then_some(())?;
    Some((host, port.parse().ok().filter(|port| *port != 0)?))
}

#[cfg(test)]
mod tests {
    use super::split_address;

    #[test]
    fn addresses_are_split_at_their_port() {
        assert_eq!(split_address("127.0.0.1:6379"), Some(("127.0.0.1", 6379)));
        assert_eq!(split_address("[::1]:6379"), Some(("::1", 6379)));
        assert_eq!(split_address("::1:6379"), Some(("::1", 6379)));
        assert_eq!(
            split_address("redis.example.com:7000"),
            Some(("redis.example.com", 7000))
        );
        for wrong in [
            "",
            "redis",
            ":6379",
            "redis:",
            "redis:0",
            "redis:70000",
            "redis:x",
        ] {
            assert_eq!(split_address(wrong), None, "{wrong}");
        }
    }
}
