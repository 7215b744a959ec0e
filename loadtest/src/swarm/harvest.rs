//! What a generator brings back. All times are microseconds from the run's zero, by the generator's own clock; whoever
//! puts several together moves them by the clocks' difference.

use serde::{Deserialize, Serialize};
use shared::protocol::Why;

/// Counters of a run under way; those of several generators add up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Phones that are to be there now.
    pub phones: u64,
    /// Phones in their room now.
    pub joined: u64,
    /// Taps sent for the first time.
    pub taps: u64,
    /// Acknowledged.
    pub acked: u64,
    /// Refused in the end.
    pub refused: u64,
    /// Without an answer.
    pub waiting: u64,
    /// Room-wide frames received: ticks and whole rooms.
    pub frames: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Connections that failed or broke without being meant to.
    pub errors: u64,
    /// CPU time of the generator's threads, microseconds.
    pub cpu_us: u64,
    /// The busiest thread's share of the last second, 0 to 1.
    pub busy: f64,
    /// Waits from due to acknowledged since the last snapshot: milliseconds (rounded up) and how many.
    pub ack_ms: Vec<(u32, u32)>,
    /// How late taps were sent since the last snapshot, likewise: the generator's own fault.
    pub late_ms: Vec<(u32, u32)>,
}

/// What a generator saw from beginning to end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Harvest {
    /// All phones.
    pub phones: Vec<PhoneHarvest>,
    /// Distinct room-wide frames, by room and gateway.
    pub frames: Vec<FrameLog>,
    /// CPU time of the generator's threads, microseconds.
    pub cpu_us: u64,
    /// Room-wide frames received.
    pub frames_received: u64,
    /// Seconds (from zero, whole) with the busiest thread's share of each, 0 to 1.
    pub busy: Vec<(u32, f64)>,
    /// What went wrong and how often: a message without addresses.
    pub errors: Vec<(String, u64)>,
}

/// One phone.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PhoneHarvest {
    /// Its number in the scenario.
    pub phone: u32,
    /// Its room, by index.
    pub room: u32,
    /// 128 random bits.
    pub client: [u8; 16],
    /// 32 random bits.
    pub page: u32,
    /// Its taps, in the order of their seq, which is their index plus one.
    pub taps: Vec<TapHarvest>,
    /// Its connections, in order.
    pub stays: Vec<Stay>,
    /// Attempts to join that did not end in a room, by the other side's fault: nobody listens, 503, a close before the
    /// first frame, no answer within 10 s.
    pub joins_refused: u32,
}

/// One tap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TapHarvest {
    /// The reaction, by index in the room's keys.
    pub key: u8,
    /// When the person would have tapped: latencies count from here.
    pub due_us: u64,
    /// When it was first written to a socket.
    pub sent_us: u64,
    /// How much later that was than it could have been, by the generator's own fault, microseconds.
    pub late_us: u32,
    /// How often it was.
    pub attempts: u32,
    /// What became of it.
    pub fate: TapFate,
}

/// What became of a tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TapFate {
    /// No answer.
    Waiting,
    /// Acknowledged at this time: it must count exactly once.
    Acknowledged(u64),
    /// Its first and only attempt was refused: it must not count.
    Refused(Why),
    /// Sent more than once and the last attempt refused, or too old: an earlier attempt may have counted.
    Unknown,
}

/// A connection from its join to its end. What the room's history is for this phone is a span of *sums*: the sum over
/// all reactions of the room's totals, which only grows, and so names each state of the room.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stay {
    /// When it was due to connect.
    pub due_us: u64,
    /// When the room's first frame was there.
    pub joined_us: u64,
    /// Which gateway served it, by its id; empty if it did not say.
    pub gateway: String,
    /// The sum with the first frame.
    pub from_sum: u64,
    /// The sum with the last frame it got.
    pub until_sum: u64,
    /// Tick frames that came, each with news.
    pub ticks: u64,
    /// Spans of sums (beyond the first, up to and with the second) that one frame with all totals stood for, because
    /// the phone had fallen behind: what they hold has been delivered.
    pub skipped: Vec<(u64, u64)>,
    /// Whether it was there to the end of the run, and so must have got the last frame of the room.
    pub to_the_end: bool,
}

/// The frames of a room as one gateway sent them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameLog {
    /// The room, by index.
    pub room: u32,
    /// The gateway's id.
    pub gateway: String,
    /// Each distinct tick frame, in order.
    pub frames: Vec<FrameSeen>,
}

/// A distinct frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameSeen {
    /// The sum of the room's totals with it.
    pub sum: u64,
    /// When the first phone had it, by this generator,
    pub first_us: u64,
    /// and which: another one's sight is what shows a tap to somebody else.
    pub first_phone: u32,
    /// When the second phone had it, if one did.
    pub second_us: Option<u64>,
    /// What changed: key index and new total.
    pub totals: Vec<(u8, u64)>,
}
