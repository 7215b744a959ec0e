//! The browser protocol, version 1: JSON text frames, each an object with one key that names it.

use crate::room::{Palette, ReactionKey, Room, RoomState};
use crate::ticks::Audience;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "uproar.v1";

/// Who joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Audience.
    Phone,
    /// The overlay on the slides.
    Stage,
    /// Runs the room.
    Host,
}

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientFrame {
    /// The first frame.
    Join(Join),
    /// One tap.
    Tap(TapFrame),
    /// Answered with a pong.
    Ping,
    /// Unknown: ignored.
    Unknown,
}

/// See DESIGN: the ids are 128 and 32 random bits in hex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Join {
    /// 32 hex digits.
    pub client: String,
    /// 8 hex digits.
    pub page: String,
    /// Who joins.
    pub role: Role,
    /// A host token, for hosts.
    #[serde(default)]
    pub token: Option<String>,
}

/// A tap, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TapFrame {
    /// The reaction's key (checked for form only).
    #[schemars(with = "String")]
    pub key: ReactionKey,
    /// From 1, growing by one per page.
    pub seq: u32,
    /// How long ago it was first sent, in milliseconds.
    #[serde(default)]
    pub age_ms: u64,
}

/// Why a frame is refused and the connection closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not JSON, or not an object with one key.
    #[error("not a frame: {0}")]
    NotAFrame(String),
    /// A known frame of a wrong shape.
    #[error("a {frame} frame of the wrong shape: {reason}")]
    Shape {
        /// Which frame.
        frame: &'static str,
        /// What is wrong.
        reason: String,
    },
}

impl ClientFrame {
    /// Reads one text frame.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn parse(_text: &[u8]) -> Result<ClientFrame, FrameError> {
        todo!()
    }
}

/// Why an attempt to tap did not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Within the cooldown of the client's last tap; `retry_ms` says how long it still lasts.
    Cooldown,
    /// The room is paused.
    Paused,
    /// The room is closed.
    Closed,
    /// The palette has no such key.
    UnknownReaction,
    /// First sent more than 80 s ago.
    TooOld,
    /// The system is at a limit; `retry_ms` says when to try again.
    Busy,
    /// The seq went back, jumped or was 0.
    Seq,
}

/// What the server sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerFrame {
    /// After a join, and whenever the host changes the room.
    Room(RoomFrame),
    /// The reactions that changed, with their new totals.
    Tick(TickFrame),
    /// This seq counts.
    Ack(u32),
    /// This attempt did not count.
    Refused(Refused),
    /// To hosts, each second.
    Audience(Audience),
    /// Answers a ping; always 1.
    Pong(u8),
    /// Before a close.
    Bye(Bye),
}

/// A room and its totals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RoomFrame {
    /// Its title.
    pub title: String,
    /// The buttons.
    #[schemars(with = "Vec<crate::room::PaletteEntry>")]
    pub palette: Palette,
    /// The least time between two taps.
    pub cooldown_ms: u32,
    /// Whether it takes taps.
    pub state: RoomState,
    /// Totals since the room was created; reactions without any are left out.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub totals: BTreeMap<ReactionKey, u64>,
}

impl RoomFrame {
    /// From a room and its totals.
    pub fn new(room: &Room, totals: &BTreeMap<ReactionKey, u64>) -> Self {
        RoomFrame {
            title: room.title.clone(),
            palette: room.palette.clone(),
            cooldown_ms: room.cooldown_ms,
            state: room.state,
            totals: totals.clone(),
        }
    }
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TickFrame {
    /// Merge by maximum.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub totals: BTreeMap<ReactionKey, u64>,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Refused {
    /// Which attempt.
    pub seq: u32,
    /// Why.
    pub why: Why,
    /// When it makes sense to try again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_ms: Option<u64>,
}

/// A farewell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Bye {
    /// `drain`, `overload`, `closed`, …
    pub why: String,
    /// When to come back, in milliseconds; none: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_ms: Option<u64>,
}
