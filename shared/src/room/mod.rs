//! A room: its code, its palette and its settings. Everything a person typed is checked here, once, and is in its
//! canonical form from then on.

mod short;
mod code;
mod key;
mod emoji;
mod palette;
mod limits;

pub use code::{RoomCode, RoomCodeError};
pub use key::{ReactionKey, ReactionKeyError};
pub use limits::{
    COOLDOWN_MS, COOLDOWN_MS_STANDARD, CooldownError, TITLE_CHARS_MAX, TitleError, check_cooldown,
    check_title,
};
pub use palette::{
    LABEL_CHARS_MAX, Palette, PaletteDraft, PaletteEntry, PaletteError, REACTIONS_MAX,
};

use serde::{Deserialize, Serialize};

/// Whether a room takes taps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoomState {
    /// Takes taps.
    Open,
    /// Takes none for now.
    Paused,
    /// Takes none, until the host opens it again.
    Closed,
}

/// All that a host sets, as it is stored in Redis and carried in room changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Its code.
    pub code: RoomCode,
    /// 1 to 120 characters, any language.
    pub title: String,
    /// The reactions people can tap.
    pub palette: Palette,
    /// The least time between two taps of one client, in milliseconds: 250 to 60,000.
    pub cooldown_ms: u32,
    /// Whether it takes taps.
    pub state: RoomState,
    /// Grows by one with each change; 1 at creation.
    pub version: u64,
    /// When it was created, log time in milliseconds since 1970.
    pub created_at_ms: u64,
}
