//! Which figures are compared, which way is better, and how each of them varies by itself.

/// The command that a report is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `run`, and each step of `find-limit`.
    Run,
    /// `floor`.
    Floor,
    /// `giant-room`.
    GiantRoom,
    /// `backlog`.
    Backlog,
}

impl Command {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Command::Run => "run",
            Command::Floor => "floor",
            Command::GiantRoom => "giant-room",
            Command::Backlog => "backlog",
        }
    }

    /// What a report of it has and no other.
    pub(super) fn marks(self) -> &'static [&'static str] {
        match self {
            Command::Run => &["scenario", "expected", "delivered"],
            Command::Floor => &["frame_pairs", "floor_us_per_frame"],
            Command::GiantRoom => &["producers", "aggregator_us_per_entry"],
            Command::Backlog => &["copy_ratio", "live_ack_p99_ms"],
        }
    }

    /// All of them.
    pub(super) const ALL: [Command; 4] = [
        Command::Run,
        Command::Floor,
        Command::GiantRoom,
        Command::Backlog,
    ];

    /// What is compared, in the order of the table.
    pub(super) fn figures(self) -> &'static [Figure] {
        match self {
            Command::Run => RUN,
            Command::Floor => FLOOR,
            Command::GiantRoom => GIANT_ROOM,
            Command::Backlog => BACKLOG,
        }
    }
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Lower,
    Higher,
    /// It says how much was done, not how well.
    Neither,
}

/// How a figure varies when nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Varies {
    /// Not at all: it is promised, so that each difference counts.
    Never,
    /// A count of rare events, each by itself: by the root of their number.
    Count,
    /// A percentile of a distribution in the report, which is named, with the share below it.
    Percentile(&'static str, f64),
    /// The most of many: by one bad moment.
    Most,
    /// CPU time and what is divided by it.
    Cpu,
    /// Memory.
    Memory,
    /// A rate that the machine gives.
    Rate,
    /// A ratio of two things measured in turn; pairs of them are in the report, under this name.
    Pairs(&'static str),
}
use Better::{Higher, Lower, Neither};
use Varies::{Count, Cpu, Memory, Most, Never, Pairs, Percentile, Rate};

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    /// As it is in the JSON; `missing` and `gateway_memory_bytes` are derived.
    pub(super) name: &'static str,
    pub(super) better: Better,
    pub(super) varies: Varies,
}

const fn figure(name: &'static str, better: Better, varies: Varies) -> Figure {
    Figure {
        name,
        better,
        varies,
    }
}

const RUN: &[Figure] = &[
    figure("joined", Higher, Never),
    figure("missing", Lower, Never),
    figure("lost", Lower, Never),
    figure("doubled", Lower, Never),
    figure("unsettled", Lower, Never),
    figure("joins_refused", Lower, Count),
    figure("taps_refused", Lower, Count),
    figure("acked", Neither, Count),
    figure("join_p95_ms", Lower, Percentile("join", 0.95)),
    figure("joined_max_ms", Lower, Most),
    figure("ack_p99_ms", Lower, Percentile("ack", 0.99)),
    figure("tick_p99_ms", Lower, Percentile("tick", 0.99)),
    figure(
        "beyond_window_p99_ms",
        Lower,
        Percentile("beyond_window", 0.99),
    ),
    figure("joins_per_core_second", Higher, Cpu),
    figure("gateway_cores", Lower, Cpu),
    figure("gateway_us_per_frame", Lower, Cpu),
    figure("generator_us_per_frame", Lower, Cpu),
    figure("gateway_memory_bytes", Lower, Memory),
];

const FLOOR: &[Figure] = &[
    figure("ratio", Lower, Pairs("frame_pairs")),
    figure("gateway_us_per_frame", Lower, Cpu),
    figure("floor_us_per_frame", Neither, Cpu),
    figure("tap_ratio", Lower, Pairs("tap_pairs")),
    figure("gateway_us_per_tap", Lower, Cpu),
    figure("floor_us_per_tap", Neither, Cpu),
    figure("post_us_per_tap", Lower, Cpu),
    figure("posts_per_core_second", Higher, Cpu),
    figure("taps_per_core_second", Higher, Cpu),
    figure("bytes_per_phone", Lower, Memory),
    figure("bytes_per_phone_after_taps", Lower, Memory),
    figure("bytes_per_stalled_phone", Lower, Memory),
];

const GIANT_ROOM: &[Figure] = &[
    figure("missed", Lower, Never),
    figure("doubled", Lower, Never),
    figure("taps_per_second", Higher, Rate),
    figure("appends_per_second", Neither, Rate),
    figure("tick_interval_p99_ms", Lower, Most),
    figure("append_p99_ms", Lower, Most),
    figure("aggregator_us_per_entry", Lower, Cpu),
    figure("aggregator_us_per_tap", Lower, Cpu),
    figure("aggregator_cores", Lower, Cpu),
    figure("redis_us_per_entry", Lower, Cpu),
    figure("redis_us_per_tap", Lower, Cpu),
    figure("aggregator_memory_bytes", Lower, Memory),
];

const BACKLOG: &[Figure] = &[
    figure("lost", Lower, Never),
    figure("doubled", Lower, Never),
    figure("taps_per_second", Higher, Rate),
    figure("copy_rows_per_second", Neither, Rate),
    figure("copy_ratio", Lower, Rate),
    figure("live_ack_p99_ms", Lower, Most),
];
