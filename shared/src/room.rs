//! A room: its code, its palette and its settings.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The code by which people find a room, in its canonical form: 4 to 12 of `A-Z0-9`, upper case.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoomCode(Arc<str>);

impl RoomCode {
    /// A new code of six symbols without look-alikes (no 0, O, 1, I, L).
    pub fn generate(_rng: &mut impl rand::Rng) -> Self {
        todo!()
    }

    /// The canonical form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a typed room code is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoomCodeError {
    /// Not 4 to 12 letters and digits once spaces and dashes are taken out.
    #[error("a room code has 4 to 12 letters and digits, this one has {0}")]
    Length(usize),
    /// A symbol that is no letter and no digit.
    #[error("a room code has letters and digits only, not {0:?}")]
    Symbol(char),
}

/// Takes what a person typed: any case, with spaces or dashes around or inside.
impl FromStr for RoomCode {
    type Err = RoomCodeError;
    fn from_str(_typed: &str) -> Result<Self, RoomCodeError> {
        todo!()
    }
}

impl TryFrom<String> for RoomCode {
    type Error = RoomCodeError;
    fn try_from(text: String) -> Result<Self, RoomCodeError> {
        text.parse()
    }
}

impl From<RoomCode> for String {
    fn from(code: RoomCode) -> String {
        code.0.as_ref().to_owned()
    }
}

impl fmt::Display for RoomCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RoomCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key of a reaction: 1 to 24 of `a-z0-9_-`. Well-formed keys count, whatever the palette says.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReactionKey(Arc<str>);

impl ReactionKey {
    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no reaction key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a reaction key has 1 to 24 of a-z, 0-9, _ and -, not {0:?}")]
pub struct ReactionKeyError(pub String);

impl FromStr for ReactionKey {
    type Err = ReactionKeyError;
    fn from_str(_text: &str) -> Result<Self, ReactionKeyError> {
        todo!()
    }
}

impl TryFrom<String> for ReactionKey {
    type Error = ReactionKeyError;
    fn try_from(text: String) -> Result<Self, ReactionKeyError> {
        text.parse()
    }
}

impl From<ReactionKey> for String {
    fn from(key: ReactionKey) -> String {
        key.0.as_ref().to_owned()
    }
}

impl fmt::Display for ReactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ReactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One reaction of a palette, its emoji in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PaletteEntry {
    /// Names the reaction in taps, totals and tables.
    #[schemars(with = "String")]
    pub key: ReactionKey,
    /// One emoji, canonical (fully qualified).
    pub emoji: String,
    /// What a screen reader says.
    pub label: String,
}

/// 1 to 12 reactions with unique keys and unique emoji.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<PaletteEntry>", into = "Vec<PaletteEntry>")]
pub struct Palette(Arc<[PaletteEntry]>);

impl Palette {
    /// Checks and canonicalises.
    ///
    /// # Errors
    /// The first entry that is wrong, and what would be right.
    pub fn new(_entries: Vec<PaletteEntry>) -> Result<Self, PaletteError> {
        todo!()
    }

    /// The entries in the order of the buttons.
    pub fn entries(&self) -> &[PaletteEntry] {
        &self.0
    }

    /// The position of a key, if the palette has it.
    pub fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|entry| entry.key.as_str() == key)
    }

    /// The palette of a room that named none.
    pub fn standard() -> Self {
        todo!()
    }
}

impl TryFrom<Vec<PaletteEntry>> for Palette {
    type Error = PaletteError;
    fn try_from(entries: Vec<PaletteEntry>) -> Result<Self, PaletteError> {
        Palette::new(entries)
    }
}

impl From<Palette> for Vec<PaletteEntry> {
    fn from(palette: Palette) -> Self {
        palette.0.to_vec()
    }
}

/// Why a palette is none; the index counts from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PaletteError {
    /// No entry, or more than twelve.
    #[error("a palette has 1 to 12 reactions, this one has {0}")]
    Length(usize),
    /// One entry is wrong.
    #[error("reaction {index}: {reason}")]
    Entry {
        /// Which entry.
        index: usize,
        /// What is wrong and what would be right.
        reason: String,
    },
}

/// Whether a room takes taps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoomState {
    /// Takes taps.
    Open,
    /// Takes none for now.
    Paused,
    /// Takes none any more.
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
