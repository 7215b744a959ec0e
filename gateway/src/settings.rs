//! Settings of the gateway: section `[gateway]`, and `[redis]` as every service reads it.

use crate::http::address::TrustedProxies;
use crate::http::origins::Origins;
use shared::cluster::RedisSettings;
use shared::counting::freshness::PING_INTERVAL_MS;
use shared::service::settings::{Reader, Secret, read_redis};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// All that can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How to reach Redis.
    pub redis: RedisSettings,
    /// Where browsers connect.
    pub listen: SocketAddr,
    /// Where probes and Prometheus connect.
    pub operations_listen: SocketAddr,
    /// What links and QR codes begin with, without a slash at the end.
    pub public_url: String,
    /// Opens `POST /v1/rooms`; without it rooms cannot be made.
    pub admin_key: Option<Secret>,
    /// Keys the hash of client ids.
    pub client_hash_key: Secret,
    /// Signing keys of host tokens by id.
    pub host_token_keys: BTreeMap<String, Secret>,
    /// The key that signs; the others only verify.
    pub host_token_key_id: String,
    /// How long a host token is good for.
    pub host_token_hours: Duration,
    /// Pages of which sites may connect.
    pub origins: Origins,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: TrustedProxies,
    /// Hosts whose slides the stage may show.
    pub slides_hosts: Vec<String>,
    /// How often taps are appended.
    pub flush_interval: Duration,
    /// A drain ends after this long, done or not.
    pub drain: Duration,
    /// Open connections, of any kind.
    pub connections_max: usize,
    /// Bytes of memory above which the gateway is not ready for more; 0: no limit.
    pub memory_max: usize,
    /// Taps waiting for an append, per shard.
    pub open_taps_max: usize,
    /// How often a socket is pinged, whatever comes from it.
    pub ping_after: Duration,
    /// Silence after which a socket is closed.
    pub silence_close: Duration,
    /// A socket that takes nothing for this long is closed.
    pub stalled_close: Duration,
    /// The first frame must be there by then.
    pub join_timeout: Duration,
    /// How much earlier than the cooldown allows a tap may come.
    pub cooldown_tolerance: Duration,
    /// Threads of the runtime; 0: one per core.
    pub worker_threads: usize,
}

impl Settings {
    /// Reads the sections `[gateway]` and `[redis]`.
    pub fn read(reader: &mut Reader) -> Self {
        let client_hash_key = read_client_hash_key(reader);
        let (host_token_keys, host_token_key_id) = read_host_token_keys(reader);
        let public_url = read_public_url(reader);
        Settings {
            redis: read_redis(reader),
            listen: reader.address("gateway.listen", "0.0.0.0:8080", "where browsers connect"),
            operations_listen: reader.address(
                "gateway.operations_listen",
                "0.0.0.0:9090",
                "where probes and Prometheus connect",
            ),
            admin_key: reader.secret("gateway.admin_key", "opens POST /v1/rooms; without it rooms cannot be made"),
            client_hash_key,
            host_token_keys,
            host_token_key_id,
            host_token_hours: reader.duration(
                "gateway.host_token_hours",
                72,
                1..=8760,
                "how long a host token is good for",
            ),
            origins: read_origins(reader, &public_url),
            trusted_proxies: read_trusted_proxies(reader),
            public_url,
            slides_hosts: reader.list("gateway.slides_hosts", &[], "hosts whose slides the stage may show"),
            flush_interval: reader.duration(
                "gateway.flush_interval_ms",
                25,
                1..=1000,
                "how often taps are appended to the log at the most",
            ),
            drain: reader.duration(
                "gateway.drain_seconds",
                30,
                1..=600,
                "how long a drain may take; less than the orchestrator's grace period",
            ),
            connections_max: count(reader.number(
                "gateway.connections_max",
                60_000,
                1..=4_000_000,
                "open connections; beyond it new ones are turned away",
            )),
            memory_max: count(reader.number(
                "gateway.memory_max_mb",
                0,
                0..=1_048_576,
                "memory above which the gateway says that it is not ready for more phones; 0: no limit",
            ))
                * 1_048_576,
            open_taps_max: count(reader.number(
                "gateway.open_taps_max",
                20_000,
                1..=1_000_000,
                "taps of one shard that wait for an append; beyond it taps are refused as busy",
            )),
            ping_after: reader.duration(
                "gateway.ping_after_seconds",
                PING_INTERVAL_MS / 1000,
                1..=PING_INTERVAL_MS / 1000,
                "how often a socket is pinged: the answers prove that its taps were not under way for long",
            ),
            silence_close: reader.duration(
                "gateway.silence_close_seconds",
                60,
                2..=7200,
                "silence after which a socket is closed",
            ),
            stalled_close: reader.duration(
                "gateway.stalled_close_seconds",
                30,
                1..=3600,
                "a socket that takes nothing for this long is closed",
            ),
            join_timeout: reader.duration(
                "gateway.join_timeout_seconds",
                10,
                1..=600,
                "how long a socket may take to join",
            ),
            cooldown_tolerance: reader.duration(
                "gateway.cooldown_tolerance_ms",
                1000,
                0..=60_000,
                "how much earlier than the cooldown allows a tap may arrive, for the network's sake",
            ),
            worker_threads: count(reader.number(
                "gateway.worker_threads",
                0,
                0..=512,
                "threads of the runtime; 0: one per core",
            )),
        }
    }
}

/// A number of things that are held in memory: what does not fit is more than there can be.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Short keys could be guessed from a hash and a known client id.
const CLIENT_HASH_KEY_BYTES_MIN: usize = 16;
/// What RFC 7518 asks of an HS256 key.
const HOST_TOKEN_KEY_BYTES_MIN: usize = 32;

fn read_client_hash_key(reader: &mut Reader) -> Secret {
    const NAME: &str = "gateway.client_hash_key";
    let key = reader.secret(
        NAME,
        "keys the hash under which clients are counted, 16 bytes or more; the same on every gateway",
    );
    let key = key.unwrap_or_default();
    if key.reveal().len() < CLIENT_HASH_KEY_BYTES_MIN {
        let shown = if key.reveal().is_empty() {
            "nothing"
        } else {
            "***"
        };
        reader.wrong(
            NAME,
            shown,
            "a secret of at least 16 bytes (or UPROAR_GATEWAY__CLIENT_HASH_KEY in the environment)",
        );
    }
    key
}

fn read_host_token_keys(reader: &mut Reader) -> (BTreeMap<String, Secret>, String) {
    const KEYS: &str = "gateway.host_token_keys";
    const SIGNING: &str = "gateway.host_token_key_id";
    let keys = reader.secrets(
        KEYS,
        "signing keys of host tokens by id, 32 bytes or more each, several while they are being rotated; in the environment a variable for each id, as UPROAR_GATEWAY__HOST_TOKEN_KEYS__A",
    );
    if keys.is_empty() {
        reader.wrong(
            KEYS,
            "nothing",
            "at least one key, such as host_token_keys = { a = \"32 random bytes or more\" }, or UPROAR_GATEWAY__HOST_TOKEN_KEYS__A in the environment",
        );
    }
    for (id, key) in &keys {
        if key.reveal().len() < HOST_TOKEN_KEY_BYTES_MIN {
            reader.wrong(KEYS, &format!("{id} = ***"), "secrets of at least 32 bytes");
        }
    }
    let named = reader.optional_text(
        SIGNING,
        "the key that signs; needed only where there are several",
    );
    let signing = match (named, keys.len()) {
        (Some(id), _) => {
            if !keys.contains_key(&id) {
                reader.wrong(SIGNING, &id, "the id of one of host_token_keys");
            }
            id
        }
        (None, 0 | 1) => keys.keys().next().cloned().unwrap_or_default(),
        (None, _) => {
            reader.wrong(
                SIGNING,
                "nothing",
                "the id of the key that signs, as there are several",
            );
            String::new()
        }
    };
    (keys, signing)
}

fn read_public_url(reader: &mut Reader) -> String {
    const NAME: &str = "gateway.public_url";
    let text = reader.text(
        NAME,
        "http://localhost:8080",
        "what links and QR codes begin with",
    );
    let fits = url::Url::parse(&text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host().is_some()
            && url.query().is_none()
            && url.fragment().is_none()
    });
    if !fits {
        reader.wrong(
            NAME,
            &text,
            "an http or https address such as https://uproar.example",
        );
    }
    text.trim_end_matches('/').to_owned()
}

fn read_origins(reader: &mut Reader, public_url: &str) -> Origins {
    const NAME: &str = "gateway.origins";
    let list = reader.list(
        NAME,
        &[],
        "origins of other sites' pages that may connect, besides that of public_url; * for any",
    );
    let mut origins = Origins::new(public_url);
    for text in &list {
        if !origins.allow(text) {
            reader.wrong(NAME, text, "an origin such as https://slides.example, or *");
        }
    }
    origins
}

fn read_trusted_proxies(reader: &mut Reader) -> TrustedProxies {
    const NAME: &str = "gateway.trusted_proxies";
    let list = reader.list(
        NAME,
        &[],
        "addresses or networks of proxies whose X-Forwarded-For is believed",
    );
    let mut proxies = TrustedProxies::default();
    for text in &list {
        if !proxies.trust(text) {
            reader.wrong(
                NAME,
                text,
                "an address or a network such as 10.0.0.7 or 10.0.0.0/8",
            );
        }
    }
    proxies
}
