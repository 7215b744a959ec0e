//! One room as this gateway knows it.

use shared::protocol::RoomFrame;
use shared::room::{ReactionKey, Room};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A copy of a room.
#[derive(Debug)]
pub struct RoomCopy {}

impl RoomCopy {
    /// What the host set.
    pub fn room(&self) -> Arc<Room> {
        todo!()
    }

    /// Totals, as far as this gateway has heard.
    pub fn totals(&self) -> BTreeMap<ReactionKey, u64> {
        todo!()
    }

    /// Both, as a page gets them.
    pub fn frame(&self) -> RoomFrame {
        RoomFrame::new(&self.room(), &self.totals())
    }

    /// A host changed the room through this gateway: shows it at once to all who are here, if it is newer than what
    /// the copy has. (The feed brings it to the other gateways, and here once more.)
    pub fn changed(&self, _room: Room) {
        todo!()
    }
}
