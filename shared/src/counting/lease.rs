//! Who reads which shard. Leases are for speed: what is right is decided by the checks of each commit.
//!
//! Rules: an owner renews by adding one to `beat`. A candidate takes a lease that is free, or whose record has not
//! changed for [`LEASE_TIMEOUT`] of the candidate's own monotonic clock: never by comparing clocks of two machines,
//! nor by a time that somebody wrote down, since a new master's clock may be behind. The claim itself is a
//! compare-and-set on the record that was observed.

use super::ids::Nonce;
use std::time::Duration;

/// A candidate takes over when the record has not changed for this long by its own monotonic clock. Eight ticks
/// of an aggregator: a hiccup of a second costs no take-over, and a death shows for about two.
pub const LEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// A lease as it stands in Redis. Each renewal adds one to `beat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseRecord {
    /// Its owner; none when it was let go or never taken.
    pub owner: Option<Nonce>,
    /// Counts the renewals.
    pub beat: u64,
}

/// One candidate's view of one lease.
#[derive(Debug, Default)]
pub struct LeaseWatch {
    /// The record as last seen, and since when it has looked like that.
    unchanged: Option<(LeaseRecord, Duration)>,
}

impl LeaseWatch {
    /// Tells what the record is now (`now`: monotonic, from any fixed start); whether it may be taken.
    pub fn observe(&mut self, record: LeaseRecord, now: Duration) -> bool {
        match self.unchanged {
            Some((before, since)) if before == record => {
                record.owner.is_none() || now.saturating_sub(since) >= LEASE_TIMEOUT
            }
            _ => {
                self.unchanged = Some((record, now));
                record.owner.is_none()
            }
        }
    }
}

/// How many of `shards` each of `members` should hold at the most.
pub fn fair_share(shards: usize, members: usize) -> usize {
    shards.div_ceil(members.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(owner: u64, beat: u64) -> LeaseRecord {
        LeaseRecord {
            owner: Some(Nonce(owner)),
            beat,
        }
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_free_lease_is_taken_at_once() {
        assert!(LeaseWatch::default().observe(LeaseRecord::default(), ms(5)));
    }

    #[test]
    fn a_held_lease_is_taken_only_when_it_stood_still_for_long_enough() {
        let mut watch = LeaseWatch::default();
        assert!(!watch.observe(record(1, 7), ms(1_000)));
        assert!(!watch.observe(record(1, 7), ms(2_999)));
        assert!(watch.observe(record(1, 7), ms(3_000)));
    }

    #[test]
    fn any_change_starts_the_wait_again() {
        let mut watch = LeaseWatch::default();
        assert!(!watch.observe(record(1, 7), ms(0)));
        assert!(!watch.observe(record(1, 8), ms(1_999)));
        assert!(!watch.observe(record(2, 8), ms(3_900)));
        // A failover took a renewal back: a change as well.
        assert!(!watch.observe(record(2, 7), ms(5_800)));
        assert!(!watch.observe(record(2, 7), ms(7_799)));
        assert!(watch.observe(record(2, 7), ms(7_800)));
    }

    #[test]
    fn a_lease_let_go_is_taken_although_it_just_changed() {
        let mut watch = LeaseWatch::default();
        assert!(!watch.observe(record(1, 7), ms(0)));
        assert!(watch.observe(
            LeaseRecord {
                owner: None,
                beat: 8
            },
            ms(10)
        ));
    }

    #[test]
    fn shares_cover_all_shards_and_differ_by_the_rounding_only() {
        assert_eq!(fair_share(64, 2), 32);
        assert_eq!(fair_share(64, 3), 22);
        assert_eq!(fair_share(64, 100), 1);
        assert_eq!(fair_share(64, 0), 64);
    }
}
