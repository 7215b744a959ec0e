//! Copies of the rooms that somebody at this gateway looks at.

mod copy;
mod load;
mod members;
mod news;
mod table;
pub(crate) mod clients;

pub(crate) use copy::Membership;
pub use copy::RoomCopy;
pub(crate) use members::{Members, RUN};
pub use table::{RoomError, Rooms};
