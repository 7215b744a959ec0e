//! What time it is on a master, by TIME and the round trip it took.
//!
//! Offsets are measured against a clock that starts at the process's wall time and then runs on the monotonic
//! clock, so a step of our own wall clock moves nothing.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Samples kept: two seconds' worth, within which clocks drift by less than a millisecond.
const SAMPLES_MAX: usize = 10;

/// Our clock, milliseconds since 1970.
pub(super) fn local_now_ms() -> i64 {
    local_ms(Instant::now())
}

/// What our clock says at a moment.
pub(super) fn local_ms(at: Instant) -> i64 {
    static START: OnceLock<(Instant, i64)> = OnceLock::new();
    let (started, wall_ms) = START.get_or_init(|| {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        (Instant::now(), millis(wall))
    });
    wall_ms + millis(at.saturating_duration_since(*started))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What scheduling and rounding to milliseconds may add to the error of a sample.
const SLACK: Duration = Duration::from_millis(10);

/// The estimate of one master's clock.
#[derive(Debug, Clone, Default)]
pub(super) struct ClockEstimate {
    samples: VecDeque<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    round_trip: Duration,
    offset_ms: i64,
}

impl ClockEstimate {
    /// Takes the answer to a TIME that was sent at `sent_ms` of our clock and took `round_trip`.
    pub(super) fn observe(&mut self, sent_ms: i64, round_trip: Duration, server_ms: i64) {
        let halfway = sent_ms.saturating_add(millis(round_trip / 2));
        let sample = Sample {
            round_trip,
            offset_ms: server_ms.saturating_sub(halfway),
        };
        // Each sample is at most half its round trip off. One that contradicts the estimate says that the master's clock
        // was set: what was measured before means nothing any more.
        if let Some(best) = self.best() {
            let error = (best.round_trip + round_trip) / 2 + SLACK;
            if sample.offset_ms.abs_diff(best.offset_ms) > millis(error).unsigned_abs() {
                self.samples.clear();
            }
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The master's clock less ours, by the sample with the shortest round trip.
    pub(super) fn offset_ms(&self) -> Option<i64> {
        self.best().map(|sample| sample.offset_ms)
    }

    fn best(&self) -> Option<Sample> {
        self.samples
            .iter()
            .min_by_key(|sample| sample.round_trip)
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_wins() {
        let mut clock = ClockEstimate::default();
        assert_eq!(clock.offset_ms(), None);
        clock.observe(1_000, Duration::from_millis(400), 6_350);
        clock.observe(2_000, Duration::from_millis(2), 7_001);
        clock.observe(3_000, Duration::from_millis(300), 8_020);
        assert_eq!(clock.offset_ms(), Some(5_000));
    }

    #[test]
    fn a_step_of_the_masters_clock_is_followed_at_once() {
        let mut clock = ClockEstimate::default();
        for i in 0..20 {
            clock.observe(i * 200, Duration::from_millis(1), i * 200);
        }
        clock.observe(4_000, Duration::from_millis(3), 64_001);
        assert_eq!(clock.offset_ms(), Some(60_000));
    }
}
