//! When to come back after a lost connection.

use rand::RngExt;
use std::time::Duration;

/// The bound of the first wait; it doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// Full jitter: a random wait up to a bound that doubles with each failure. Nobody reconnects in step.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The next wait.
    pub fn wait(&mut self) -> Duration {
        let bound = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures += 1;
        bound.mul_f64(rand::rng().random())
    }

    /// A connection worked.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_bound_and_begin_again() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..200).map(|_| backoff.wait()).collect();
        assert!(waits[0] <= FIRST);
        assert!(waits.iter().all(|wait| *wait <= LONGEST));
        assert!(waits.iter().max() > Some(&Duration::from_secs(10)));
        backoff.reset();
        assert!(backoff.wait() <= FIRST);
    }
}
