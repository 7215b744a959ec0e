//! Taps that give each tick exactly one piece of news: the next ones are made as soon as a tick has come.

use super::bench::KEYS;
use super::phones::Phones;
use std::ops::Range;
use std::time::{Duration, Instant};

/// A tick that is as late as this was missed: the taps are made all the same.
const MISSED: Duration = Duration::from_secs(2);

/// Who taps next.
#[derive(Debug)]
pub(super) struct Beat {
    tappers: Range<usize>,
    turn: usize,
    /// Ticks that the first phone had seen when the last taps were made.
    ticks_seen: Option<u64>,
    tapped_at: Instant,
}

impl Beat {
    /// These tap in turn, on all reactions.
    pub(super) fn new(tappers: Range<usize>) -> Self {
        Beat {
            tappers,
            turn: 0,
            ticks_seen: None,
            tapped_at: Instant::now(),
        }
    }

    /// Taps if it is time to; `ticks_seen` as the first phone has now.
    pub(super) fn keep(&mut self, phones: &mut Phones, ticks_seen: u64) -> anyhow::Result<()> {
        if self.ticks_seen == Some(ticks_seen) && self.tapped_at.elapsed() < MISSED {
            return Ok(());
        }
        self.ticks_seen = Some(ticks_seen);
        self.tapped_at = Instant::now();
        let tapper = self.tappers.start + self.turn % self.tappers.len();
        self.turn += 1;
        for key in KEYS {
            phones.tap_key(tapper..tapper + 1, key)?;
        }
        Ok(())
    }
}
