//! What a WAIT means.
//!
//! A replica may be left out of what a WAIT must reach only by what was observed after the WAIT's answer: an older
//! topology may not know that the replica has come back, and one that came back before the write may be elected without
//! it. Where all replicas acknowledged nothing is left out, so normal operation waits for nothing.

use super::client::{Cluster, Target};
use super::topology::Master;
use redis::Value;
use std::time::{Duration, Instant};

/// Beyond two intervals: how long the polls themselves may take.
const POLLS_TAKE_AT_MOST: Duration = Duration::from_millis(500);

/// What a WAIT told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waited {
    /// Every electable replica has what was written before it.
    pub(super) stable: bool,
    /// Stable, but there is no copy.
    pub(super) unreplicated: bool,
}

const NOT_STABLE: Waited = Waited {
    stable: false,
    unreplicated: false,
};

impl Cluster {
    /// What a WAIT whose answer came at `answered` means: the slot must still be that master's, and all that are electable
    /// must have acknowledged, not only those that were when the pipeline was sent. `answer` is none where no WAIT was
    /// sent, since no replica was electable. Where a replica is left out it takes until the next topology, and if none
    /// comes the write is not stable.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn waited(
        &self,
        target: &Target,
        answer: Option<&Value>,
        answered: Instant,
    ) -> Waited {
        let acknowledged = match answer {
            None => Some(0),
            Some(Value::Int(count)) => usize::try_from(*count).ok(),
            Some(_) => None,
        };
        let waited = match acknowledged {
            Some(acknowledged) => self.settled(target, acknowledged, answered).await,
            None => NOT_STABLE,
        };
        if !waited.stable {
            self.inner.metrics.waits_unsatisfied.inc();
        } else if waited.unreplicated {
            self.inner.metrics.unreplicated.inc();
        }
        waited
    }

    async fn settled(&self, target: &Target, acknowledged: usize, answered: Instant) -> Waited {
        // The view and the master are polled one after the other, each once an interval. Counted from the answer, so
        // that the appends of one pipeline wait together.
        let patience = self.inner.settings.topology_interval * 2 + POLLS_TAKE_AT_MOST;
        let settled = async {
            loop {
                // Before the look: what is published between the two is not missed.
                let polled = self.inner.polled.notified();
                let judged = {
                    let topology = self.inner.topology.borrow();
                    let master = topology
                        .master_of(target.slot)
                        .filter(|master| master.id == target.id);
                    judge(master, acknowledged, answered)
                };
                match judged {
                    Some(waited) => return waited,
                    None => polled.await,
                }
            }
        };
        tokio::time::timeout_at((answered + patience).into(), settled)
            .await
            .unwrap_or(NOT_STABLE)
    }
}

/// What a WAIT means by the newest topology; none where only one that is newer than the answer can tell.
fn judge(master: Option<&Master>, acknowledged: usize, answered: Instant) -> Option<Waited> {
    let Some(master) = master else {
        return Some(NOT_STABLE);
    };
    if acknowledged < master.electable_replicas {
        return Some(NOT_STABLE);
    }
    let is_newer = master.observed_since.is_some_and(|since| since > answered);
    (acknowledged >= master.replicas || is_newer).then_some(Waited {
        stable: true,
        unreplicated: master.electable_replicas == 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_topology_newer_than_the_answer_leaves_a_replica_out() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let stable = |unreplicated| {
            Some(Waited {
                stable: true,
                unreplicated,
            })
        };
        let master = |electable_replicas, replicas, since| Master {
            electable_replicas,
            replicas,
            observed_since: Some(at(since)),
            ..Master::default()
        };
        let judged = |master: Master, acknowledged| judge(Some(&master), acknowledged, at(100));
        assert_eq!(judged(master(1, 1, 0), 1), stable(false), "all have it");
        assert_eq!(judged(master(0, 0, 0), 0), stable(true), "there are none");
        assert_eq!(judged(master(1, 1, 200), 0), Some(NOT_STABLE));
        assert_eq!(judged(master(1, 1, 0), 0), Some(NOT_STABLE));
        assert_eq!(judged(master(0, 1, 0), 0), None, "it may be back by now");
        assert_eq!(judged(master(1, 2, 100), 1), None, "not after the answer");
        assert_eq!(judged(master(0, 1, 101), 0), stable(true));
        assert_eq!(judged(master(1, 2, 101), 1), stable(false));
        let never = Master {
            replicas: 1,
            ..Master::default()
        };
        assert_eq!(judged(never, 0), None);
        assert_eq!(judge(None, 1, at(100)), Some(NOT_STABLE), "another's now");
    }
}
