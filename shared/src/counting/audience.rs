//! Head counts, folded from what each gateway last told.

use super::ids::ProducerId;
use crate::room::RoomCode;

/// A gateway's head count is forgotten when it was not told again for this long, in log time.
pub const PEOPLE_FORGOTTEN_AFTER_MS: u64 = 30_000;

/// Who is present, by room and producer.
#[derive(Debug, Default)]
pub struct Audience {}

impl Audience {
    /// A gateway told its head count of a room.
    pub fn observe(&mut self, _room: &RoomCode, _producer: ProducerId, _people: u32, _log_ms: u64) {
        todo!()
    }

    /// Phones present in a room, over all gateways.
    pub fn people(&self, _room: &RoomCode, _log_now_ms: u64) -> u32 {
        todo!()
    }

    /// Rooms with anybody present; forgets what is outdated.
    pub fn present(&mut self, _log_now_ms: u64) -> Vec<(RoomCode, u32)> {
        todo!()
    }
}
