//! The browser protocol, version 1: JSON text frames, each an object with one key that names it.

mod client;
mod server;
mod encode;
mod schemas;

pub use client::{ClientFrame, FrameError, Join, Role, TapFrame, client_id, page_id};
pub use encode::{write_ack, write_refused, write_tick};
pub use schemas::schemas;
pub use server::{Bye, Refused, RoomFrame, ServerFrame, TickFrame, Why};

/// The WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "uproar.v1";
