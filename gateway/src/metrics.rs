//! What Prometheus is told. The doc comment of a field is its help text.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// Why a tap was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WhyLabel {
    /// The `why` of the protocol.
    pub why: &'static str,
}

/// How a socket was closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CloseLabel {
    /// The close code.
    pub code: u16,
}

/// From 1 ms to 8 s, doubling: an ack takes a flush and a WAIT, or a failover.
fn seconds() -> Histogram {
    Histogram::new((0..14).map(|power| f64::from(1 << power) / 1000.0))
}

/// Declares the metrics once: field, kind, name after `uproar_gateway_`, and help.
macro_rules! metrics {
    ($($field:ident: $kind:ty = $new:expr, $name:literal, $help:literal;)*) => {
        /// All metrics of the sockets and of what stands behind them.
        #[derive(Debug)]
        pub struct Metrics {
            $(#[doc = $help] pub $field: $kind,)*
        }

        impl Metrics {
            /// Registers all of them.
            pub fn new(registry: &mut Registry) -> Self {
                let registry = registry.sub_registry_with_prefix("uproar_gateway");
                Metrics { $($field: register(registry, $name, $help, $new),)* }
            }
        }
    };
}

fn register<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

metrics! {
    sockets: Gauge = Gauge::default(), "sockets", "Sockets open now";
    event_streams: Gauge = Gauge::default(), "event_streams", "Streams of server-sent events open now";
    rooms: Gauge = Gauge::default(), "rooms", "Rooms of which this gateway holds a copy";
    joins: Counter = Counter::default(), "joins", "Phones, stages and hosts that joined a room";
    taps: Counter = Counter::default(), "taps", "Taps taken into an outbox";
    refused: Family<WhyLabel, Counter> = Family::default(), "refused_taps", "Attempts to tap that were refused, by why";
    acks: Counter = Counter::default(), "acks", "Taps acknowledged";
    ack_seconds: Histogram = seconds(), "ack_seconds", "From taking a tap to acknowledging it";
    open_taps: Gauge = Gauge::default(), "open_taps", "Taps that wait for an append or for its answer";
    appends: Counter = Counter::default(), "appends", "Entries appended to logs, repeated ones included";
    append_seconds: Histogram = seconds(), "append_seconds", "One pipeline of appends with its WAIT";
    appends_unsettled: Counter = Counter::default(), "appends_unsettled", "Appends that were refused, unanswered or not replicated, and are repeated";
    appends_unreplicated: Counter = Counter::default(), "appends_unreplicated", "Appends acknowledged without any replica: outside the promise";
    given_up_taps: Counter = Counter::default(), "given_up_taps", "Taps of batches that did not reach the log in time; their phones send them again";
    frames_sent: Counter = Counter::default(), "frames_sent", "Room-wide frames that were delivered";
    frames_behind: Counter = Counter::default(), "frames_behind", "Room-wide frames left out because the viewer was behind";
    overflows: Counter = Counter::default(), "overflows", "Viewers closed because too many frames waited for them alone";
    stalled: Counter = Counter::default(), "stalled", "Viewers closed because they took nothing for too long";
    silent: Counter = Counter::default(), "silent", "Sockets closed because nothing was heard from them";
    stale: Counter = Counter::default(), "stale", "Sockets closed because what they sent may have been under way for over 25 s";
    unjoined: Counter = Counter::default(), "unjoined", "Sockets closed because they did not join in time";
    full: Counter = Counter::default(), "full", "Sockets and streams turned away at the connection cap";
    slow_path: Counter = Counter::default(), "slow_path", "Sockets that moved to fastwebsockets: a fragment, or a message over 125 bytes";
    closes: Family<CloseLabel, Counter> = Family::default(), "closes", "Viewers closed by the gateway, by close code";
    ticks: Counter = Counter::default(), "ticks", "Ticks heard from the aggregators";
    ticks_unreadable: Counter = Counter::default(), "ticks_unreadable", "Messages on ticks channels that could not be read";
    tick_gaps: Counter = Counter::default(), "tick_gaps", "Times that ticks were missed and a shard's rooms were read again";
    shards_late: Gauge = Gauge::default(), "shards_late", "Shards whose channel is sound but whose aggregator has been silent for 5 s";
    shards_deaf: Gauge = Gauge::default(), "shards_deaf", "Shards whose channel did not bring this gateway's own probe";
    probes: Counter = Counter::default(), "probes", "Probes published on silent channels";
    memory_bytes: Gauge = Gauge::default(), "memory_bytes", "Resident memory of the process";
}
