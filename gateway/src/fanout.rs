//! Room to viewers: one frame per room and tick, encoded once, offered to each member without waiting for any.

use crate::app::App;
use crate::clock::Clock;
use crate::connection::Farewell;
use crate::encoded::Encoded;
use crate::metrics::Metrics;
use crate::peer::{Delivery, SharedFrame};
use crate::rooms::{Members, RUN, RoomCopy};
use prometheus_client::metrics::counter::Counter;
use shared::protocol::ServerFrame;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

/// Runs of members that one task serves, 8,192 members; a larger room is served by several, on several cores.
const RUNS_PER_TASK: usize = 8192 / RUN;

/// What sending takes.
#[derive(Debug)]
pub(crate) struct Fanout {
    tracker: TaskTracker,
    clock: Clock,
    ping_after: Duration,
    sent: Counter,
    behind: Counter,
}

impl Fanout {
    /// Members are pinged after so long.
    pub(crate) fn new(
        tracker: &TaskTracker,
        metrics: &Metrics,
        clock: Clock,
        ping_after: Duration,
    ) -> Arc<Self> {
        Arc::new(Fanout {
            tracker: tracker.clone(),
            clock,
            ping_after,
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
                self.walk_all(&copy, &self.shared(frame)).await;
            }
            if let Some(audience) = news.audience {
                let frame = self.shared(Encoded::new(&ServerFrame::Audience(audience)));
                self.walk(&copy.hosts, 0..usize::MAX, &frame).await;
            }
        }
    }

    fn shared(&self, frame: Encoded) -> SharedFrame {
        SharedFrame::new(frame, self.clock, self.ping_after)
    }

    async fn walk_all(self: &Arc<Self>, copy: &Arc<RoomCopy>, frame: &SharedFrame) {
        let runs = copy.members.runs();
        if runs <= RUNS_PER_TASK {
            return self.walk(&copy.members, 0..usize::MAX, frame).await;
        }
        let mut walks = JoinSet::new();
        for from in (0..runs).step_by(RUNS_PER_TASK) {
            // Whoever joins at a place behind all these gets the room as it is after this news.
            let (fanout, copy, frame) = (Arc::clone(self), Arc::clone(copy), frame.clone());
            walks.spawn(async move {
                fanout
                    .walk(&copy.members, from..from + RUNS_PER_TASK, &frame)
                    .await;
            });
        }
        walks.join_all().await;
    }

    async fn walk(&self, members: &Members, runs: Range<usize>, frame: &SharedFrame) {
        let (mut sent, mut behind) = (0, 0);
        for index in runs {
            let Some(run) = members.run(index) else {
                break;
            };
            let now = self.clock.tenths();
            for peer in run.peers() {
                match peer.deliver(frame, now) {
                    Delivery::Done => sent += 1,
                    Delivery::Behind => behind += 1,
                    Delivery::Gone => {}
                }
            }
            drop(run);
            if index + 1 < members.runs() {
                tokio::task::yield_now().await;
            }
        }
        self.sent.inc_by(sent);
        self.behind.inc_by(behind);
    }
}

/// Tells all members that their room is gone.
pub(crate) fn dismiss(app: &App, copy: &RoomCopy) {
    for run in (0..).map_while(|index| copy.members.run(index)) {
        for peer in run.peers() {
            app.close(peer, Farewell::Unknown);
        }
    }
}

#[cfg(test)]
#[path = "fanout_tests.rs"]
mod tests;
