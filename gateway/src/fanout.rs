//! Room to viewers: one frame per room and tick, encoded once, offered to each member without waiting for any.

use crate::app::App;
use crate::clock::Clock;
use crate::connection::Farewell;
use crate::encoded::Encoded;
use crate::metrics::Metrics;
use crate::peer::{Delivery, Peer};
use crate::rooms::{Members, RoomCopy};
use prometheus_client::metrics::counter::Counter;
use shared::protocol::ServerFrame;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

/// Viewers served before others get a turn on this thread: a write takes some 2 us, so half a millisecond.
const SLICE: usize = 256;
/// Members that one task serves; a larger room is served by several, on several cores.
const MEMBERS_PER_TASK: usize = 8192;

/// What sending takes.
#[derive(Debug)]
pub(crate) struct Fanout {
    tracker: TaskTracker,
    clock: Clock,
    sent: Counter,
    behind: Counter,
}

impl Fanout {
    pub(crate) fn new(tracker: &TaskTracker, metrics: &Metrics, clock: Clock) -> Arc<Self> {
        Arc::new(Fanout {
            tracker: tracker.clone(),
            clock,
            sent: metrics.frames_sent.clone(),
            behind: metrics.frames_behind.clone(),
        })
    }

    /// Sends a room's news to its members, unless that is under way: then it goes on with what is new.
    pub(crate) fn tell(self: &Arc<Self>, copy: Arc<RoomCopy>) {
        if copy.lock_news().begin() {
            self.tracker.spawn(Arc::clone(self).work(copy));
        }
    }

    async fn work(self: Arc<Self>, copy: Arc<RoomCopy>) {
        loop {
            let Some(news) = copy.lock_news().take() else {
                return;
            };
            if news.room || !news.changed.is_empty() {
                // The whole room if the host changed it, or else the totals that grew.
                let frame = if news.room {
                    copy.encoded()
                } else {
                    copy.encoded_tick(&news.changed)
                };
                self.walk_all(&copy, &frame).await;
            }
            if let Some(audience) = news.audience {
                let frame = Encoded::new(&ServerFrame::Audience(audience));
                self.walk(&copy.hosts, 0, usize::MAX, &frame).await;
            }
        }
    }

    async fn walk_all(self: &Arc<Self>, copy: &Arc<RoomCopy>, frame: &Encoded) {
        let places = copy.members.places();
        if places <= MEMBERS_PER_TASK {
            return self.walk(&copy.members, 0, usize::MAX, frame).await;
        }
        let mut walks = JoinSet::new();
        for from in (0..places).step_by(MEMBERS_PER_TASK) {
            // Whoever joins at a place behind all these gets the room as it is after this news.
            let (fanout, copy, frame) = (Arc::clone(self), Arc::clone(copy), frame.clone());
            walks.spawn(async move {
                fanout
                    .walk(&copy.members, from, from + MEMBERS_PER_TASK, &frame)
                    .await;
            });
        }
        walks.join_all().await;
    }

    async fn walk(&self, members: &Members, from: usize, to: usize, frame: &Encoded) {
        let mut slice: Vec<Arc<Peer>> = Vec::new();
        let mut next = Some(from);
        let (mut sent, mut behind) = (0, 0);
        while let Some(from) = next.filter(|from| *from < to) {
            next = members.slice(from, SLICE.min(to - from), &mut slice);
            let now = self.clock.tenths();
            for peer in slice.drain(..) {
                match peer.deliver(frame, now) {
                    Delivery::Done => sent += 1,
                    Delivery::Behind => behind += 1,
                    Delivery::Gone => {}
                }
            }
            if next.is_some() {
                tokio::task::yield_now().await;
            }
        }
        self.sent.inc_by(sent);
        self.behind.inc_by(behind);
    }
}

/// Tells all members that their room is gone.
pub(crate) fn dismiss(app: &App, copy: &RoomCopy) {
    let mut slice = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        next = copy.members.slice(from, SLICE, &mut slice);
        for peer in slice.drain(..) {
            app.close(&peer, Farewell::Unknown);
        }
    }
}

#[cfg(test)]
#[path = "fanout_tests.rs"]
mod tests;
