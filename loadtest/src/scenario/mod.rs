//! What a load test plays: rooms, phones, how they arrive, tap, leave and fail, and what must hold. Read from TOML.
//!
//! Time runs from zero, when the first phone may arrive. The measured window begins once all have arrived and the
//! warm-up is over; what is due before it counts for totals and deliveries, but for no latency.

pub mod timeline;
pub mod taps;
pub mod thresholds;
pub mod load;
pub mod mistake;
mod shape;
mod rules;
mod lines;
mod built_in;
mod change;
mod palette;
pub mod for_tests;

use serde::{Deserialize, Serialize};
pub use thresholds::Thresholds;

/// A scenario, as its file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One line for reports.
    pub title: String,
    /// What it stands for, in a sentence or two.
    pub about: String,
    /// Phones in all rooms together.
    pub phones: u32,
    /// How long the measured window is.
    pub seconds: f64,
    /// From the last arrival to the measured window.
    #[serde(default)]
    pub warm_up_seconds: f64,
    /// The rooms.
    pub rooms: Rooms,
    /// How phones arrive, one stage after another.
    pub arrive: Vec<Stage>,
    /// How each phone taps; none: nobody does.
    pub tap: Option<Tapping>,
    /// Moments at which many tap together.
    #[serde(default)]
    pub cue: Vec<Cue>,
    /// Phones that are away for a while.
    #[serde(default)]
    pub away: Vec<Away>,
    /// Phones that read nothing for a while.
    #[serde(default)]
    pub stall: Vec<Stall>,
    /// How many gateways the own rig starts.
    #[serde(default = "one")]
    pub gateways: usize,
    /// What must hold.
    #[serde(default)]
    pub thresholds: Thresholds,
}

fn one() -> usize {
    1
}

/// The rooms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rooms {
    /// How many.
    pub count: u32,
    /// How phones spread over them.
    #[serde(default)]
    pub sizes: Sizes,
    /// The least time between two taps of a phone, as the rooms are made with it.
    pub cooldown_ms: u64,
    /// How many reactions the palette has, 1 to 12.
    #[serde(default = "six")]
    pub reactions: usize,
    /// What becomes more when somebody asks for more phones than the file has.
    #[serde(default)]
    pub more_phones: MorePhones,
}

fn six() -> usize {
    6
}

/// How phones spread over the rooms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// All alike.
    #[default]
    Even,
    /// As talks are attended: the n-th room draws 1/n of what the first one does.
    Uneven,
}

/// What becomes more with more phones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MorePhones {
    /// The rooms that there are become larger.
    #[default]
    LargerRooms,
    /// There are more rooms of the same size.
    MoreRooms,
}

/// A part of the phones arrives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Of all phones; the stages sum to 100.
    pub percent: f64,
    /// Evenly over so long; 0: all at once.
    pub over_seconds: f64,
    /// A pause before this stage.
    #[serde(default)]
    pub after_seconds: f64,
}

/// How a phone taps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tapping {
    /// The least and the most time between two taps; both the same: exactly that.
    pub every_seconds: [f64; 2],
    /// How the times in between are distributed.
    #[serde(default)]
    pub distribution: Distribution,
}

/// How times are distributed between two bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Each as likely.
    #[default]
    Uniform,
    /// The lower bound and an exponential wait on top, cut at the upper bound; its mean is a third of the span.
    Exponential,
}

/// A joke, a goal, the end of a talk: many tap within a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cue {
    /// From the start of the measured window.
    pub at_seconds: f64,
    /// Again and again after so long; none: once.
    #[serde(default)]
    pub every_seconds: Option<f64>,
    /// Of all phones.
    pub percent: f64,
    /// Spread over so long.
    pub within_seconds: f64,
}

/// Phones go away and come back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Away {
    /// From the start of the measured window.
    pub at_seconds: f64,
    /// Of all phones.
    pub percent: f64,
    /// They go spread over so long; 0: all at once.
    #[serde(default)]
    pub over_seconds: f64,
    /// The least and the most time until they come back.
    pub for_seconds: [f64; 2],
    /// How they go.
    pub how: Parting,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parting {
    /// The page is closed: a close frame.
    Leave,
    /// The connection breaks: a reset.
    Cut,
}

/// Phones whose page does not read: a sleeping phone, a network that stands still.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// From the start of the measured window.
    pub at_seconds: f64,
    /// Of all phones.
    pub percent: f64,
    /// How long.
    pub seconds: f64,
}
