//! What the sweeper holds a viewer to: nothing here has a timer of its own.

use super::outgoing::Phase;
use super::{Peer, Sink};
use crate::clock::{Clock, Tenths};
use crate::encoded::encode_ping;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What the sweeper finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// No join in time.
    Join,
    /// Nothing was heard for too long, not even a pong.
    Silent,
    /// It takes nothing of what is sent.
    Stalled,
    /// It was told to close and does not.
    Closing,
}

/// What the sweeper holds a viewer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) join: Duration,
    /// Between two pings, whatever else comes: see `counting::freshness`.
    pub(crate) ping_after: Duration,
    pub(crate) silence: Duration,
    pub(crate) stalled: Duration,
    pub(crate) closing: Duration,
}

impl Peer {
    /// What the sweeper does about it now; pings it where that is due.
    pub(crate) fn sweep(&self, patience: &Patience, clock: Clock) -> Option<Overdue> {
        let now = clock.tenths();
        let heard = Tenths(self.heard_at.load(Ordering::Relaxed));
        let mut outgoing = self.lock();
        match outgoing.phase {
            Phase::Dead => return None,
            Phase::Closing(since) => {
                return (now.since(since) >= patience.closing).then_some(Overdue::Closing);
            }
            Phase::Open | Phase::Leaving => {}
        }
        if outgoing
            .stalled_since
            .is_some_and(|since| now.since(since) >= patience.stalled)
        {
            return Some(Overdue::Stalled);
        }
        let Sink::Socket(stream) = &self.sink else {
            return None;
        };
        if outgoing
            .join_awaited_since
            .is_some_and(|since| now.since(since) >= patience.join)
        {
            return Some(Overdue::Join);
        }
        if now.since(heard) >= patience.silence {
            return Some(Overdue::Silent);
        }
        if now.since(outgoing.pinged_at) >= patience.ping_after {
            outgoing.pinged_at = now;
            // Whoever has no room for a ping is stalled, and found by that.
            outgoing.send(stream, encode_ping(clock.now_ms()), now);
        }
        None
    }
}
