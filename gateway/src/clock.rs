//! The gateway's own clock: monotonic, so that neither a cooldown nor a timeout jumps with the machine's time.

use std::time::{Duration, Instant};

/// Where the clock begins, so that a moment less the age of a tap is never below zero.
const BEGIN_MS: u64 = 3_600_000;

/// Counts from the start of the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Clock {
            start: Instant::now(),
        }
    }
}

impl Clock {
    /// Reads the clock: once for all that one frame asks of it.
    pub(crate) fn now(&self) -> Moment {
        let instant = Instant::now();
        let since_start = instant.duration_since(self.start).as_millis();
        Moment {
            instant,
            ms: BEGIN_MS + u64::try_from(since_start).unwrap_or(u64::MAX / 2),
        }
    }

    /// Milliseconds since an hour before the start.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now().ms
    }

    /// The same in tenths of a second.
    pub(crate) fn tenths(&self) -> Tenths {
        self.now().tenths()
    }
}

/// What the clock said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    /// Milliseconds since an hour before the start.
    pub(crate) ms: u64,
}

impl Moment {
    /// In tenths of a second: four bytes a connection are enough for what is only swept, and they last for thirteen
    /// years.
    pub(crate) fn tenths(self) -> Tenths {
        Tenths(u32::try_from(self.ms / 100).unwrap_or(u32::MAX))
    }
}

/// A coarse moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tenths(pub(crate) u32);

impl Tenths {
    /// So long before.
    pub(crate) fn before(self, duration: Duration) -> Tenths {
        let tenths = u32::try_from(duration.as_millis() / 100).unwrap_or(u32::MAX);
        Tenths(self.0.saturating_sub(tenths))
    }

    /// How long ago `earlier` was; zero if it was not.
    pub(crate) fn since(self, earlier: Tenths) -> Duration {
        Duration::from_millis(u64::from(self.0.saturating_sub(earlier.0)) * 100)
    }
}
