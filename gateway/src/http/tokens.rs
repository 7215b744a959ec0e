//! Host tokens: JWTs with an expiry, signed with one of the keys from the settings.

use crate::settings::Settings;
use shared::room::RoomCode;

/// Signs and verifies host tokens.
#[derive(Debug)]
pub struct Tokens {}

/// Why a token does not open a room for its bearer; each is one sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token of ours, or changed.
    #[error("the host token is not valid")]
    Invalid,
    /// Its time is over.
    #[error("the host token has expired")]
    Expired,
    /// It belongs to another room.
    #[error("the host token is for another room")]
    OtherRoom,
}

impl Tokens {
    /// With the keys of the settings.
    pub fn new(_settings: &Settings) -> Self {
        Tokens {}
    }

    /// Whether this token makes its bearer a host of this room.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn verify(&self, _room: &RoomCode, _token: &str) -> Result<(), TokenError> {
        Err(TokenError::Invalid)
    }
}
