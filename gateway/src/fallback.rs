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
use shared::counting::freshness::{PING_INTERVAL_MS, is_recent};
use shared::counting::ids::{ClientHash, PageId};
use shared::protocol::{Refused, Role, ServerFrame, TapFrame, Why};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// How often a stream tells the time. This also keeps proxies and load balancers from ending it as silent (some do so
/// after thirty seconds), and finds phones that have gone, which only writing to them does.
const TIME_INTERVAL: Duration = Duration::from_millis(PING_INTERVAL_MS);

/// The body of `GET /v1/rooms/CODE/events`: `text/event-stream`, first the room, then the time and what happens in the
/// room. Dropping it leaves the room.
#[derive(Debug)]
pub struct Events {
    app: Arc<App>,
    copy: Arc<RoomCopy>,
    peer: Arc<Peer>,
    membership: Membership,
    place: usize,
    /// Something was told: the time comes after the room.
    begun: bool,
    next_time: Pin<Box<Sleep>>,
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
        begun: false,
        next_time: Box::pin(tokio::time::sleep(Duration::ZERO)),
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

impl Events {
    /// The time, where it is to be told. It is read only when the stream can take it, so that it is not old before it
    /// leaves; whatever holds it up afterwards makes it older, which is the safe side.
    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        if !self.begun || !self.peer.is_open() {
            return Poll::Pending;
        }
        std::task::ready!(self.next_time.as_mut().poll(context));
        self.next_time
            .as_mut()
            .reset(Instant::now() + TIME_INTERVAL);
        let time = self.app.cluster.log_now_ms(self.copy.shard());
        Poll::Ready(Bytes::from(ServerFrame::Time(time).encode()))
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let event = match self.poll_time(context) {
            Poll::Ready(time) => Some(time),
            Poll::Pending => std::task::ready!(self.peer.poll_event(
                context,
                &self.copy,
                self.app.clock.tenths()
            )),
        };
        self.begun = true;
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

/// Why a request with taps has no results; the client sends them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoResults {
    /// The time they came with is not of now: they may have been under way for long, and have been sent again and
    /// counted elsewhere. None was taken.
    #[error("the time of these taps is not recent: none was taken")]
    Stale,
    /// The fate of some is not known: a batch was given up, or the gateway is ending.
    #[error("the fate of these taps is not known: send them again")]
    Unsettled,
}

/// Taps in one request, at the most; `http` refuses more with 400.
pub const TAPS_PER_REQUEST_MAX: usize = 64;

/// A tap's answer, or where it will come from.
enum Answer {
    Now(ServerFrame),
    Later(oneshot::Receiver<ServerFrame>),
}

/// Takes taps by POST: one `Ack` or `Refused` per tap, in order, once all are settled. `time` is the last one that the
/// client was told; without it the taps are taken as sent just now.
///
/// # Errors
/// See [`NoResults`].
///
/// # Cancel safety
/// Safe: taps that were taken stay taken; sent again, they count once.
pub async fn taps(
    app: &Arc<App>,
    room: &Arc<RoomCopy>,
    client: ClientHash,
    page: PageId,
    time: Option<u64>,
    taps: &[TapFrame],
) -> Result<Vec<ServerFrame>, NoResults> {
    let log_now_ms = app.cluster.log_now_ms(room.shard());
    if time.is_some_and(|told_ms| !is_recent(told_ms, log_now_ms)) {
        return Err(NoResults::Stale);
    }
    let mut member = Member::new(client, page, Role::Phone);
    let answers: Vec<_> = taps
        .iter()
        .map(|tap| take(app, room, &mut member, tap))
        .collect();
    let mut frames = Vec::with_capacity(answers.len());
    for answer in answers {
        frames.push(match answer {
            Answer::Now(frame) => frame,
            Answer::Later(answer) => answer.await.map_err(|_| NoResults::Unsettled)?,
        });
    }
    Ok(frames)
}

fn take(app: &App, room: &RoomCopy, member: &mut Member, tap: &TapFrame) -> Answer {
    let refused = match member.tap(tap, &app.surroundings(room, app.clock.now())) {
        Ok(taken) => match app.outboxes.take_posted(room, &taken) {
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
