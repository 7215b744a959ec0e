//! The end of a gateway: every phone is told its own moment to come back, and every tap that was taken is settled.

use crate::app::App;
use crate::connection::Farewell;
use crate::peer::Peer;
use shared::protocol::Bye;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Load balancers see that the gateway is not ready before its phones come back.
const NOTICE: Duration = Duration::from_millis(500);
/// Between two runs of phones that are sent off: ten thousand a second leave.
const PAUSE: Duration = Duration::from_millis(25);
/// Phones that may come back per second and gateway that drains: what its neighbours take without noticing.
const RETURNS_PER_SECOND: u64 = 2_000;
/// The least and the most time over which they come back.
const SPREAD_MS: std::ops::RangeInclusive<u64> = 1_000..=20_000;
/// How long to wait for a phone's last acks before it is closed all the same.
const LAST_ACKS: Duration = Duration::from_secs(2);

/// What was not done when the time was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the drain took too long: {connections} connections were open and {taps} taps not settled")]
pub(crate) struct Unfinished {
    pub(crate) connections: usize,
    pub(crate) taps: usize,
}

/// Sends everyone off, flushes the outboxes and acknowledges what they held.
///
/// # Errors
/// What was left after `drain_seconds`.
pub(crate) async fn run(app: &Arc<App>) -> Result<(), Unfinished> {
    let end = Instant::now() + app.settings.drain;
    app.readiness
        .set("draining", Err("the gateway is shutting down".to_owned()));
    app.draining.cancel();
    tokio::time::sleep(NOTICE.min(app.settings.drain / 10)).await;
    let mut leaving = Leaving::new(app);
    let mut run = 0;
    // Round and round: a socket whose handshake was under way may turn up at a place that was passed already.
    while app.peers.len() > 0 || app.outboxes.taps() > 0 {
        if Instant::now() >= end {
            return Err(Unfinished {
                connections: app.peers.len(),
                taps: app.outboxes.taps(),
            });
        }
        run = leaving.send_off(app, run);
        leaving.close_settled(app);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Those who were told to come back and are not closed yet.
struct Leaving {
    /// Over how many milliseconds they come back.
    spread_ms: u64,
    /// Until when each may still wait for its acks.
    peers: Vec<(Arc<Peer>, Instant)>,
}

impl Leaving {
    fn new(app: &App) -> Self {
        let people = u64::try_from(app.peers.len()).unwrap_or(u64::MAX);
        let spread_ms = people.saturating_mul(1000) / RETURNS_PER_SECOND;
        Leaving {
            spread_ms: spread_ms.clamp(*SPREAD_MS.start(), *SPREAD_MS.end()),
            peers: Vec::new(),
        }
    }

    /// Tells the phones of a run when to come back; which run is next.
    fn send_off(&mut self, app: &App, index: usize) -> usize {
        let Some(run) = app.peers.run(index) else {
            return 0;
        };
        for peer in run.peers() {
            let retry_ms = rand::random_range(0..self.spread_ms);
            let bye = Bye {
                why: "drain".to_owned(),
                retry_ms: Some(retry_ms),
            };
            if peer.say_bye(bye, app.clock.tenths()) {
                self.peers
                    .push((Arc::clone(peer), Instant::now() + LAST_ACKS));
            }
        }
        index + 1
    }

    /// Closes those whose taps are acknowledged.
    fn close_settled(&mut self, app: &App) {
        let now = Instant::now();
        self.peers.retain(|(peer, latest)| {
            let settled = peer.taps_in_flight() == 0 || now >= *latest;
            if settled {
                app.close(peer, Farewell::Drained);
            }
            !settled
        });
    }
}
