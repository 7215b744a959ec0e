//! What all parts of the gateway share.

use crate::http::HttpState;
use crate::http::guesses::Guesses;
use crate::http::tokens::Tokens;
use crate::metrics::Metrics;
use crate::rooms::Rooms;
use crate::settings::Settings;
use shared::cluster::Cluster;
use shared::counting::ids::{ClientHash, PageId};
use shared::service::operations::Readiness;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// One gateway; everything that lives as long as the process.
#[derive(Debug)]
pub struct App {
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
}

impl App {
    /// The ids of a join or of a fallback request: a keyed hash of the 32 hex digits of `client`, and the 8 of `page`.
    ///
    /// # Errors
    /// Which of them is not as it should be.
    pub fn identify(&self, _client: &str, _page: &str) -> Result<(ClientHash, PageId), BadIds> {
        todo!()
    }
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
    _open: AtomicUsize,
    _max: usize,
}

impl Gate {
    /// Lets one connection in, until its pass is dropped; none at the cap.
    pub fn enter(self: &Arc<Self>) -> Option<Pass> {
        todo!()
    }
}

/// One open connection.
#[derive(Debug)]
pub struct Pass {
    _gate: Arc<Gate>,
}
