//! Time since zero, and what a thread has used of it.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// No time: nothing is due.
pub(super) const NEVER: u64 = u64::MAX;

/// Counts microseconds from the run's zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    zero: Instant,
}

impl Clock {
    pub(super) fn new(zero: Instant) -> Clock {
        Clock { zero }
    }

    /// Microseconds since zero; 0 before it.
    pub(super) fn now_us(self) -> u64 {
        microseconds(self.zero.elapsed())
    }

    /// How long it still is until then.
    pub(super) fn until(self, due_us: u64) -> Duration {
        let due = Duration::from_micros(due_us);
        // Before zero, `elapsed` is zero: what is missing to zero comes on top.
        let ahead = self.zero.saturating_duration_since(Instant::now());
        due.saturating_sub(self.zero.elapsed()) + ahead
    }
}

/// A duration in whole microseconds.
pub(super) fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(NEVER - 1)
}

/// CPU time that the calling thread has used.
pub(super) fn thread_cpu() -> Duration {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    used.map(Duration::from).unwrap_or_default()
}

/// How busy a thread was, second by second.
#[derive(Debug)]
pub(super) struct Busy {
    /// Its CPU time and the time when the second under way began.
    since: (Duration, u64),
    cpu: Duration,
    /// Seconds from zero, and the thread's share of each.
    pub(super) seconds: Vec<(u32, f64)>,
}

impl Busy {
    pub(super) fn new() -> Busy {
        let cpu = thread_cpu();
        Busy {
            since: (cpu, 0),
            cpu,
            seconds: Vec::new(),
        }
    }

    /// Looks again; to be called several times a second by the thread itself.
    pub(super) fn look(&mut self, now_us: u64) {
        self.note(now_us, thread_cpu());
    }

    fn note(&mut self, now_us: u64, cpu: Duration) {
        self.cpu = cpu;
        let (cpu_then, then_us) = self.since;
        let (second, second_then) = (now_us / 1_000_000, then_us / 1_000_000);
        if now_us == 0 {
            // Before zero is no part of the run.
            self.since = (cpu, 0);
        } else if second > second_then {
            let wall = Duration::from_micros(now_us - then_us);
            let share = cpu.saturating_sub(cpu_then).as_secs_f64() / wall.as_secs_f64();
            // A thread that did not get to look for several seconds was as busy in each.
            let seconds = (second_then..second).filter_map(|second| u32::try_from(second).ok());
            self.seconds
                .extend(seconds.map(|second| (second, share.min(1.0))));
            self.since = (cpu, now_us);
        }
    }

    /// CPU time used, microseconds.
    pub(super) fn cpu_us(&self) -> u64 {
        microseconds(self.cpu)
    }

    /// The share of the last whole second.
    pub(super) fn last(&self) -> f64 {
        self.seconds.last().map_or(0.0, |(_, share)| *share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_zero_it_is_zero_and_what_is_due_is_further_away() {
        let clock = Clock::new(Instant::now() + Duration::from_secs(60));
        assert_eq!(clock.now_us(), 0);
        let wait = clock.until(2_000_000);
        assert!((Duration::from_secs(61)..=Duration::from_secs(62)).contains(&wait));
        let begun = Clock::new(Instant::now());
        assert!(begun.until(2_000_000) <= Duration::from_secs(2));
        assert_eq!(begun.until(0), Duration::ZERO);
    }

    #[test]
    fn a_thread_that_works_is_busy() {
        let mut busy = Busy::new();
        let start = (busy.cpu, Duration::from_millis(600));
        busy.note(0, start.0);
        busy.note(500_000, start.0 + Duration::from_millis(100));
        assert_eq!(busy.seconds, []);
        busy.note(1_000_000, start.0 + start.1);
        // Two seconds and more without a look: three quarters of both.
        busy.note(3_000_000, start.0 + start.1 + Duration::from_millis(1500));
        let shares = [(0, 0.6), (1, 0.75), (2, 0.75)];
        assert_eq!(busy.seconds.len(), 3);
        for (found, wanted) in busy.seconds.iter().zip(shares) {
            assert_eq!(found.0, wanted.0);
            assert!((found.1 - wanted.1).abs() < 1e-9, "{found:?}");
        }
        let before = thread_cpu();
        let mut number = 1_u64;
        while thread_cpu() - before < Duration::from_millis(5) {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
    }
}
