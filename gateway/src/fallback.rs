//! For those whose network blocks WebSockets: the same frames as server-sent events, the same taps as a POST.

use crate::app::App;
use crate::rooms::RoomCopy;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use shared::counting::ids::{ClientHash, PageId};
use shared::protocol::{Role, ServerFrame, TapFrame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The body of `GET /v1/rooms/CODE/events`: `text/event-stream`, first the room, then what happens in it. Dropping it
/// leaves the room.
#[derive(Debug)]
pub struct Events {}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        todo!()
    }
}

/// Begins a stream of events. A host's token has been checked by the caller.
pub fn events(
    _app: &Arc<App>,
    _room: &Arc<RoomCopy>,
    _client: ClientHash,
    _page: PageId,
    _role: Role,
) -> Events {
    todo!()
}

/// The fate of some taps is not known (a batch was given up, or the gateway is ending): 503 with Retry-After; the
/// client sends them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fate of these taps is not known: send them again")]
pub struct Unsettled;

/// Taps in one request, at the most; `http` refuses more with 400.
pub const TAPS_PER_REQUEST_MAX: usize = 64;

/// Takes taps by POST: one `Ack` or `Refused` per tap, in order, once all are settled.
///
/// # Errors
/// [`Unsettled`].
///
/// # Cancel safety
/// Safe: taps that were taken stay taken; sent again, they count once.
pub async fn taps(
    _app: &Arc<App>,
    _room: &Arc<RoomCopy>,
    _client: ClientHash,
    _page: PageId,
    _taps: &[TapFrame],
) -> Result<Vec<ServerFrame>, Unsettled> {
    todo!()
}
