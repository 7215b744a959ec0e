//! Who reads which shard. Leases are for speed: what is right is decided by the checks of each commit.

use super::ids::Nonce;
use std::time::Duration;

/// A candidate takes over when the record has not changed for this long by its own monotonic clock.
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
pub struct LeaseWatch {}

impl LeaseWatch {
    /// Tells what the record is now (`now`: monotonic, from any fixed start); whether it may be taken.
    pub fn observe(&mut self, _record: LeaseRecord, _now: Duration) -> bool {
        todo!()
    }
}

/// How many of `shards` each of `members` should hold at the most.
pub fn fair_share(_shards: usize, _members: usize) -> usize {
    todo!()
}
