//! How long what a connection brings can have been under way.
//!
//! A tap's age says how long it had waited when it was sent, not how long it has travelled since: a stalled network or a
//! paused gateway can hand over, minutes late, a tap that was long ago sent again elsewhere and counted, with an age of
//! nothing. The memory of seen taps would have passed it. So a gateway takes taps only from a connection that proves
//! itself fresh:
//! - It pings at least every [`PING_INTERVAL_MS`], whatever else comes, and each ping carries the time at which it was
//!   sent, by the gateway's monotonic clock. Bytes keep their order, so what comes behind the answer to a ping was sent
//!   after that ping.
//! - A tap that comes more than [`TRANSIT_MAX_MS`] after the last ping that was answered is not taken; the connection is
//!   closed, and the phone sends the tap again with its age.
//!
//! Where sockets are blocked the event stream tells the time as often, and each POST sends the last one back. That is log
//! time, since a POST may reach another gateway than the stream; see [`is_recent`].

/// How often a gateway pings at least. Phones and proxies that drop silent connections are kept by it as well.
pub const PING_INTERVAL_MS: u64 = 10_000;

/// How long a tap may have been under way: two pings and a slow round trip. With this,
/// [`TAP_AGE_MAX_MS`](super::outbox::TAP_AGE_MAX_MS), [`VOID_AFTER_MS`](super::outbox::VOID_AFTER_MS) and 5 s between the
/// masters' clocks, before and after, one tap's entries lie within 145 s of log time: less than the memory's 150 s.
pub const TRANSIT_MAX_MS: u64 = 25_000;

/// How far ahead of a gateway's own log time the time that a POST sends back may be: another gateway may have told it,
/// by the clock of another master (up to 5 s apart), and each gateway only estimates these clocks.
pub const AHEAD_MAX_MS: u64 = 10_000;

/// Whether a POST that sends back the log time `told_ms` was sent within the last [`TRANSIT_MAX_MS`].
pub fn is_recent(told_ms: u64, log_now_ms: u64) -> bool {
    log_now_ms.saturating_sub(told_ms) <= TRANSIT_MAX_MS
        && told_ms.saturating_sub(log_now_ms) <= AHEAD_MAX_MS
}

/// What is known of one connection, in 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    proven_ms: u64,
}

impl Freshness {
    /// The connection was accepted at `now_ms`: the other side sends its first frame later.
    pub fn new(now_ms: u64) -> Self {
        Freshness { proven_ms: now_ms }
    }

    /// A ping that says it was sent at `sent_ms` was answered. What cannot be is ignored.
    pub fn answered(&mut self, sent_ms: u64, now_ms: u64) {
        if sent_ms <= now_ms {
            self.proven_ms = self.proven_ms.max(sent_ms);
        }
    }

    /// Whether what comes now was sent within the last [`TRANSIT_MAX_MS`].
    pub fn is_fresh(self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.proven_ms) <= TRANSIT_MAX_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::memory::{EPOCH_MS, EPOCHS_BEFORE};
    use crate::counting::outbox::{TAP_AGE_MAX_MS, VOID_AFTER_MS};

    #[test]
    fn a_connection_is_fresh_until_its_last_answer_is_too_old() {
        let mut freshness = Freshness::new(1_000);
        assert!(freshness.is_fresh(1_000 + TRANSIT_MAX_MS));
        assert!(!freshness.is_fresh(1_001 + TRANSIT_MAX_MS));
        freshness.answered(11_000, 12_000);
        assert!(freshness.is_fresh(11_000 + TRANSIT_MAX_MS));
        assert!(!freshness.is_fresh(11_001 + TRANSIT_MAX_MS));
    }

    #[test]
    fn an_old_or_impossible_answer_proves_nothing() {
        let mut freshness = Freshness::new(20_000);
        freshness.answered(10_000, 21_000);
        freshness.answered(90_000, 22_000);
        assert_eq!(freshness, Freshness::new(20_000));
    }

    #[test]
    fn a_post_is_recent_within_its_bounds() {
        let now = 1_790_000_000_000;
        for told in [now - TRANSIT_MAX_MS, now, now + AHEAD_MAX_MS] {
            assert!(is_recent(told, now), "{told}");
        }
        for told in [
            0,
            now - TRANSIT_MAX_MS - 1,
            now + AHEAD_MAX_MS + 1,
            u64::MAX,
        ] {
            assert!(!is_recent(told, now), "{told}");
        }
    }

    #[test]
    fn one_taps_entries_lie_within_the_memory() {
        let clocks_apart_ms = 5_000;
        let span_ms = TRANSIT_MAX_MS + TAP_AGE_MAX_MS + VOID_AFTER_MS + 2 * clocks_apart_ms;
        assert!(span_ms < EPOCH_MS * EPOCHS_BEFORE, "{span_ms} ms");
    }
}
