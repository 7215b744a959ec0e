//! What the cluster client counts.

use super::errors::RequestError;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Counters of one cluster client; clones share them.
#[derive(Debug, Clone, Default)]
pub struct ClusterMetrics {
    /// Requests, scripts and reads by outcome.
    pub(super) requests: Family<Outcome, Counter>,
    /// Appends by outcome.
    pub(super) appends: Family<Outcome, Counter>,
    /// Changes of masters, slots or electable replicas.
    pub(super) topology_changes: Counter,
    /// Connections for appends or subscriptions opened again.
    pub(super) reconnects: Counter,
    /// Channels subscribed again.
    pub(super) resubscriptions: Counter,
    /// Subscriptions dropped because their messages were not taken away fast enough.
    pub(super) feed_overflows: Counter,
    /// WAITs that not all electable replicas satisfied.
    pub(super) waits_unsatisfied: Counter,
    /// Writes and reads taken as stable without any replica.
    pub(super) unreplicated: Counter,
}

/// How something ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Outcome {
    outcome: &'static str,
}

impl Outcome {
    pub(super) fn of<T>(result: &Result<T, RequestError>) -> Self {
        let outcome = match result {
            Ok(_) => "done",
            Err(RequestError::NotDone(_)) => "not_done",
            Err(RequestError::Unknown(_)) => "unknown",
            Err(RequestError::OutOfMemory) => "out_of_memory",
            Err(RequestError::Refused(_)) => "refused",
        };
        Outcome { outcome }
    }

    pub(super) fn not_stable() -> Self {
        Outcome {
            outcome: "not_stable",
        }
    }
}

impl ClusterMetrics {
    /// Shows them as `<prefix of the registry>_redis_…`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("redis");
        registry.register(
            "requests",
            "Requests, scripts and reads of logs, by outcome",
            self.requests.clone(),
        );
        registry.register(
            "appends",
            "Appends to logs, by outcome",
            self.appends.clone(),
        );
        registry.register(
            "topology_changes",
            "Changes of masters, slots or electable replicas",
            self.topology_changes.clone(),
        );
        registry.register(
            "reconnects",
            "Connections for appends and subscriptions opened again",
            self.reconnects.clone(),
        );
        registry.register(
            "resubscriptions",
            "Channels subscribed again",
            self.resubscriptions.clone(),
        );
        registry.register(
            "feed_overflows",
            "Subscriptions dropped because their messages were not taken away fast enough",
            self.feed_overflows.clone(),
        );
        registry.register(
            "waits_unsatisfied",
            "WAITs that not all electable replicas satisfied in time",
            self.waits_unsatisfied.clone(),
        );
        registry.register(
            "unreplicated",
            "Writes and reads taken as stable while no replica was electable",
            self.unreplicated.clone(),
        );
    }
}
