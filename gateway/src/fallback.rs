//! For those whose network blocks WebSockets: the same frames as server-sent events, the same taps as a POST.

use crate::app::App;
use crate::appender::busy_retry_ms;
use crate::connection::Farewell;
use crate::metrics::WhyLabel;
use crate::peer::Peer;
use crate::rooms::{Membership, RoomCopy};
use crate::session::Member;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use shared::counting::ids::{ClientHash, PageId};
use shared::protocol::{Refused, Role, ServerFrame, TapFrame, Why};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The body of `GET /v1/rooms/CODE/events`: `text/event-stream`, first the room, then what happens in it. Dropping it
/// leaves the room.
#[derive(Debug)]
pub struct Events {
    app: Arc<App>,
    copy: Arc<RoomCopy>,
    peer: Arc<Peer>,
    membership: Membership,
    place: usize,
}

/// Begins a stream of events. A host's token has been checked by the caller. At the connection cap the stream is one
/// `bye` that says when to come back: a browser would not tell its page about a status.
pub fn events(
    app: &Arc<App>,
    room: &Arc<RoomCopy>,
    client: ClientHash,
    _page: PageId,
    role: Role,
) -> Events {
    let now = app.clock.tenths();
    let pass = app.connections.enter();
    let is_full = pass.is_none();
    let peer = Arc::new(Peer::events(pass, now));
    app.metrics.event_streams.inc();
    app.metrics.joins.inc();
    let events = Events {
        membership: room.join(&peer, client, role, now),
        place: app.peers.join(Arc::clone(&peer)),
        app: Arc::clone(app),
        copy: Arc::clone(room),
        peer,
    };
    if is_full {
        app.metrics.full.inc();
        app.close(
            &events.peer,
            Farewell::Overload("this gateway is full", busy_retry_ms()),
        );
    }
    events
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let event = std::task::ready!(self.peer.poll_event(
            context,
            &self.copy,
            self.app.clock.tenths()
        ));
        Poll::Ready(event.map(|json| {
            let mut event = Vec::with_capacity(json.len() + 8);
            event.extend_from_slice(b"data: ");
            event.extend_from_slice(&json);
            event.extend_from_slice(b"\n\n");
            Ok(Frame::data(Bytes::from(event)))
        }))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.copy.leave(&self.membership, self.app.clock.tenths());
        self.app.peers.leave(self.place);
        self.peer.kill();
        self.app.metrics.event_streams.dec();
    }
}

/// The fate of some taps is not known (a batch was given up, or the gateway is ending): 503 with Retry-After; the
/// client sends them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the fate of these taps is not known: send them again")]
pub struct Unsettled;

/// Taps in one request, at the most; `http` refuses more with 400.
pub const TAPS_PER_REQUEST_MAX: usize = 64;

/// A tap's answer, or where it will come from.
enum Answer {
    Now(ServerFrame),
    Later(oneshot::Receiver<ServerFrame>),
}

/// Takes taps by POST: one `Ack` or `Refused` per tap, in order, once all are settled.
///
/// # Errors
/// [`Unsettled`].
///
/// # Cancel safety
/// Safe: taps that were taken stay taken; sent again, they count once.
pub async fn taps(
    app: &Arc<App>,
    room: &Arc<RoomCopy>,
    client: ClientHash,
    page: PageId,
    taps: &[TapFrame],
) -> Result<Vec<ServerFrame>, Unsettled> {
    let mut member = Member::new(client, page, Role::Phone);
    let answers: Vec<_> = taps
        .iter()
        .map(|tap| take(app, room, &mut member, tap))
        .collect();
    let mut frames = Vec::with_capacity(answers.len());
    for answer in answers {
        frames.push(match answer {
            Answer::Now(frame) => frame,
            Answer::Later(answer) => answer.await.map_err(|_| Unsettled)?,
        });
    }
    Ok(frames)
}

fn take(app: &App, room: &RoomCopy, member: &mut Member, tap: &TapFrame) -> Answer {
    let refused = match member.tap(tap, &app.surroundings(room)) {
        Ok(taken) => match app.outboxes.take_posted(app, room, &taken) {
            Some(answer) => {
                app.metrics.taps.inc();
                return Answer::Later(answer);
            }
            None => {
                room.refund(&taken);
                Refused {
                    seq: tap.seq,
                    why: Why::Busy,
                    retry_ms: Some(busy_retry_ms()),
                }
            }
        },
        Err(refused) => refused,
    };
    app.metrics
        .refused
        .get_or_create(&WhyLabel {
            why: refused.why.as_str(),
        })
        .inc();
    Answer::Now(ServerFrame::Refused(refused))
}
