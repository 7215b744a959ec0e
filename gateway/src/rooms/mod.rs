//! Copies of the rooms that somebody at this gateway looks at.

mod copy;

pub use copy::RoomCopy;

use shared::room::RoomCode;
use std::sync::Arc;

/// The copies by room code. Each is loaded once, kept current by the feed, and dropped when nobody has looked at it
/// for a while.
#[derive(Debug)]
pub struct Rooms {}

/// Why there is no copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoomError {
    /// No such room.
    #[error("there is no room {0}")]
    Unknown(RoomCode),
    /// Redis does not answer.
    #[error("the room cannot be read at the moment")]
    Unavailable,
}

impl Rooms {
    /// The copy of a room, loaded if need be; many who ask at once share one load.
    ///
    /// # Errors
    /// See [`RoomError`].
    ///
    /// # Cancel safety
    /// Safe: the load goes on for others who wait, or begins again with the next who asks.
    pub async fn open(&self, _code: &RoomCode) -> Result<Arc<RoomCopy>, RoomError> {
        todo!()
    }
}
