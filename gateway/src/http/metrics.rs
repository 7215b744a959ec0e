//! What the HTTP front tells Prometheus.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of the HTTP front.
#[derive(Debug, Default)]
pub(crate) struct HttpMetrics {
    /// Requests answered, by route and status; an upgrade to a socket is a 101.
    pub(crate) requests: Family<RequestLabels, Counter>,
    /// Connections that are with HTTP at the moment, sockets not among them.
    pub(crate) connections: Gauge,
    /// Connections closed because no request came within the handshake timeout.
    pub(crate) slow_handshakes: Counter,
    /// Errors of accept, by what the system said.
    pub(crate) accept_errors: Family<AcceptErrorLabels, Counter>,
    /// Times that accepting waited for a connection to end, at the cap.
    pub(crate) accept_waits: Counter,
    /// Answers to unknown room codes that were held back.
    pub(crate) guesses_limited: Counter,
    /// Requests of pages of other sites that were refused.
    pub(crate) foreign_origins: Counter,
    /// Attempts at a room change that had to be made again.
    pub(crate) room_change_retries: Counter,
}

/// One kind of answered request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    /// The route with its variable parts in braces, never what a client made up.
    pub(crate) route: &'static str,
    /// The status of the answer.
    pub(crate) status: u16,
}

/// One kind of accept error.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AcceptErrorLabels {
    /// `files`, `memory`, `connection` or `other`.
    pub(crate) kind: &'static str,
}

impl HttpMetrics {
    /// All of them, registered.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = HttpMetrics::default();
        let registry = registry.sub_registry_with_prefix("uproar_gateway_http");
        registry.register(
            "requests",
            "Requests answered, by route and status; an upgrade to a socket is a 101",
            metrics.requests.clone(),
        );
        registry.register(
            "connections",
            "Connections that are with HTTP at the moment, sockets not among them",
            metrics.connections.clone(),
        );
        registry.register(
            "slow_handshakes",
            "Connections closed because no request came within the handshake timeout",
            metrics.slow_handshakes.clone(),
        );
        registry.register(
            "accept_errors",
            "Errors of accept, by what the system said",
            metrics.accept_errors.clone(),
        );
        registry.register(
            "accept_waits",
            "Times that accepting waited for a connection to end, at the cap",
            metrics.accept_waits.clone(),
        );
        registry.register(
            "guesses_limited",
            "Answers to unknown room codes that were held back",
            metrics.guesses_limited.clone(),
        );
        registry.register(
            "foreign_origins",
            "Requests of pages of other sites that were refused",
            metrics.foreign_origins.clone(),
        );
        registry.register(
            "room_change_retries",
            "Attempts at a room change that had to be made again",
            metrics.room_change_retries.clone(),
        );
        metrics
    }
}
