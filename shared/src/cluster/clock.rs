//! What time it is on a master, by TIME and the round trip it took.
//!
//! Offsets are measured against a clock that starts at the process's wall time and then runs on the monotonic
//! clock, so a step of our own wall clock moves nothing.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Samples kept; at one per 200 ms a step of the master's clock is followed within two seconds.
const SAMPLES_MAX: usize = 10;

/// Our clock, milliseconds since 1970.
pub(super) fn local_now_ms() -> i64 {
    static START: OnceLock<(Instant, i64)> = OnceLock::new();
    let (started, wall_ms) = START.get_or_init(|| {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        (Instant::now(), millis(wall))
    });
    wall_ms + millis(started.elapsed())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The estimate of one master's clock.
#[derive(Debug, Clone, Default)]
pub(super) struct ClockEstimate {
    samples: VecDeque<(Duration, i64)>,
}

impl ClockEstimate {
    /// Takes the answer to a TIME that was sent at `sent_ms` of our clock and took `round_trip`.
    pub(super) fn observe(&mut self, sent_ms: i64, round_trip: Duration, server_ms: i64) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        let halfway = sent_ms.saturating_add(millis(round_trip / 2));
        self.samples
            .push_back((round_trip, server_ms.saturating_sub(halfway)));
    }

    /// The master's clock less ours, by the sample with the shortest round trip.
    pub(super) fn offset_ms(&self) -> Option<i64> {
        self.samples
            .iter()
            .min_by_key(|(round_trip, _)| *round_trip)
            .map(|(_, offset)| *offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_wins() {
        let mut clock = ClockEstimate::default();
        assert_eq!(clock.offset_ms(), None);
        clock.observe(1_000, Duration::from_millis(400), 6_900);
        clock.observe(2_000, Duration::from_millis(2), 7_001);
        clock.observe(3_000, Duration::from_millis(300), 8_200);
        assert_eq!(clock.offset_ms(), Some(5_000));
    }

    #[test]
    fn a_step_of_the_masters_clock_is_followed() {
        let mut clock = ClockEstimate::default();
        for i in 0..20 {
            clock.observe(i * 200, Duration::from_millis(1), i * 200);
        }
        for i in 20..30 {
            clock.observe(i * 200, Duration::from_millis(3), i * 200 + 60_001);
        }
        assert_eq!(clock.offset_ms(), Some(60_000));
    }
}
