//! What all parts of the gateway share.

use crate::appender::{Outboxes, busy_retry_ms};
use crate::clock::{Clock, Moment};
use crate::connection::Farewell;
use crate::fanout::Fanout;
use crate::http::HttpState;
use crate::http::guesses::Guesses;
use crate::http::tokens::Tokens;
use crate::metrics::{CloseLabel, Metrics};
use crate::peer::Peer;
use crate::rooms::{Members, RoomCopy, Rooms};
use crate::session::Surroundings;
use crate::settings::Settings;
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::HeaderValue;
use prometheus_client::registry::Registry;
use sha2::Sha256;
use shared::cluster::Cluster;
use shared::counting::ids::{ClientHash, PageId};
use shared::protocol::{client_id, page_id};
use shared::service::operations::Readiness;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// One gateway; everything that lives as long as the process.
#[derive(Debug)]
pub struct App {
    /// Eight random hex digits, new at each start: see [`crate::connection::GATEWAY_HEADER`].
    pub(crate) id: HeaderValue,
    /// As read at start.
    pub settings: Settings,
    /// Redis.
    pub cluster: Cluster,
    /// Copies of the rooms that somebody here looks at.
    pub rooms: Rooms,
    /// Host tokens.
    pub tokens: Tokens,
    /// How many connections are open, and the cap.
    pub connections: Arc<Gate>,
    /// Whoever asks for rooms that do not exist.
    pub guesses: Guesses,
    /// What the HTTP front keeps for itself.
    pub http: HttpState,
    /// For Prometheus.
    pub metrics: Metrics,
    /// For `/readyz`.
    pub readiness: Readiness,
    /// Owns every task.
    pub tracker: TaskTracker,
    /// Cancelled when the gateway begins to drain: take nothing new.
    pub draining: CancellationToken,
    /// Cancelled when the drain is over: the feed, the appends and the sweeper end.
    pub stopping: CancellationToken,
    pub(crate) clock: Clock,
    pub(crate) outboxes: Outboxes,
    /// All viewers, joined or not, for the sweeper and the drain.
    pub(crate) peers: Members,
}

/// What is there before Redis is reached.
#[derive(Debug)]
pub(crate) struct Foundation {
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) http: HttpState,
    pub(crate) tokens: Tokens,
    pub(crate) readiness: Readiness,
    pub(crate) tracker: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

impl Foundation {
    pub(crate) fn new(settings: Settings, registry: &mut Registry) -> anyhow::Result<Self> {
        Ok(Foundation {
            metrics: Metrics::new(registry),
            http: HttpState::new(&settings, registry),
            tokens: Tokens::new(&settings)?,
            settings,
            readiness: Readiness::default(),
            tracker: TaskTracker::new(),
            stopping: CancellationToken::new(),
        })
    }
}

impl App {
    pub(crate) fn new(foundation: Foundation, cluster: Cluster) -> Arc<Self> {
        let Foundation {
            settings,
            metrics,
            http,
            tokens,
            readiness,
            tracker,
            stopping,
        } = foundation;
        let clock = Clock::default();
        let fanout = Fanout::new(&tracker, &metrics, clock, settings.ping_after);
        Arc::new(App {
            id: random_id(),
            rooms: Rooms::new(cluster.clone(), clock, fanout),
            outboxes: Outboxes::new(cluster.shards().count(), settings.open_taps_max),
            connections: Arc::new(Gate::new(settings.connections_max)),
            guesses: Guesses::default(),
            draining: CancellationToken::new(),
            peers: Members::default(),
            settings,
            cluster,
            tokens,
            http,
            metrics,
            readiness,
            tracker,
            stopping,
            clock,
        })
    }

    /// The ids of a join or of a fallback request: a keyed hash of the 32 hex digits of `client`, and the 8 of `page`.
    /// The client id itself goes no further than this.
    ///
    /// # Errors
    /// Which of them is not as it should be.
    pub fn identify(&self, client: &str, page: &str) -> Result<(ClientHash, PageId), BadIds> {
        let client = client_id(client).ok_or(BadIds::Client)?;
        let page = page_id(page).ok_or(BadIds::Page)?;
        Ok((
            hash_client(self.settings.client_hash_key.reveal().as_bytes(), &client),
            PageId(page),
        ))
    }

    /// What a session is told at each frame.
    pub(crate) fn surroundings<'a>(&self, copy: &'a RoomCopy, now: Moment) -> Surroundings<'a> {
        let log = self.cluster.log_state(copy.shard(), now.instant);
        Surroundings {
            room: copy.room(),
            clients: &copy.clients,
            now_ms: now.ms,
            log_now_ms: log.now_ms,
            tolerance_ms: u64::try_from(self.settings.cooldown_tolerance.as_millis())
                .unwrap_or(u64::MAX),
            busy: log.is_nearly_full.then(busy_retry_ms),
        }
    }

    /// Closes a viewer for whom too many frames wait: it does not read.
    pub(crate) fn overflow(&self, peer: &Peer) {
        self.metrics.overflows.inc();
        self.close(
            peer,
            Farewell::Overload("too many frames wait to be read", busy_retry_ms()),
        );
    }

    /// Closes a viewer, and counts why.
    pub(crate) fn close(&self, peer: &Peer, farewell: Farewell) {
        let (code, reason, bye) = farewell.told();
        if peer.close(code, &reason, bye, self.clock.tenths()) {
            self.metrics
                .closes
                .get_or_create(&CloseLabel { code })
                .inc();
        }
    }
}

fn random_id() -> HeaderValue {
    let id = format!("{:08x}", rand::random::<u32>());
    HeaderValue::from_str(&id).expect("hex digits may stand in a header")
}

/// The first eight bytes of an HMAC: enough that ten million clients share none by chance (one in 370,000 rooms).
fn hash_client(key: &[u8], client: &[u8; 16]) -> ClientHash {
    let mut hmac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    hmac.update(client);
    let tag: [u8; 32] = hmac.finalize().into_bytes().into();
    let mut first = [0; 8];
    first.copy_from_slice(&tag[..8]);
    ClientHash(u64::from_be_bytes(first))
}

/// Ids of a wrong form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadIds {
    /// Not 32 hex digits.
    #[error("client must be 32 hex digits")]
    Client,
    /// Not 8 hex digits.
    #[error("page must be 8 hex digits")]
    Page,
}

/// Counts open connections up to a cap.
#[derive(Debug)]
pub struct Gate {
    open: AtomicUsize,
    max: usize,
}

impl Gate {
    fn new(max: usize) -> Self {
        Gate {
            open: AtomicUsize::new(0),
            max,
        }
    }

    /// Lets one connection in, until its pass is dropped; none at the cap.
    pub fn enter(self: &Arc<Self>) -> Option<Pass> {
        let enter = |open: usize| (open < self.max).then_some(open + 1);
        self.open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter)
            .ok()?;
        Some(Pass {
            gate: Arc::clone(self),
        })
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether one more would be turned away.
    pub fn is_full(&self) -> bool {
        self.open() >= self.max
    }
}

/// One open connection.
#[derive(Debug)]
pub struct Pass {
    gate: Arc<Gate>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_lets_in_as_many_as_it_may() {
        let gate = Arc::new(Gate::new(2));
        let first = gate.enter();
        let second = gate.enter();
        assert!(first.is_some() && second.is_some() && gate.is_full());
        assert!(gate.enter().is_none());
        drop(first);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_client_is_hashed_as_documented() {
        // printf '\0%.0s' $(seq 16) | openssl dgst -sha256 -hmac Jefe
        assert_eq!(
            hash_client(b"Jefe", &[0; 16]),
            ClientHash(0x1999_b614_b80d_00ff)
        );
    }
}
