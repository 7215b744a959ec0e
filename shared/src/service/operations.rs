//! The operations port: `/livez`, `/readyz`, `/metrics`.

use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether the service is ready, as a set of named conditions that must all hold.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    conditions: Arc<Mutex<BTreeMap<&'static str, Result<(), String>>>>,
}

impl Readiness {
    /// Sets one condition: `Ok`, or why not.
    pub fn set(&self, condition: &'static str, state: Result<(), String>) {
        self.conditions
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .insert(condition, state);
    }

    /// All that does not hold.
    pub fn failing(&self) -> Vec<(&'static str, String)> {
        let conditions = self
            .conditions
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        conditions
            .iter()
            .filter_map(|(name, state)| Some((*name, state.clone().err()?)))
            .collect()
    }
}

/// Serves the operations port until `shutdown`.
pub async fn serve(
    _listener: TcpListener,
    _readiness: Readiness,
    _registry: Arc<Registry>,
    _shutdown: CancellationToken,
) {
    todo!()
}
