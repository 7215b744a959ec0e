//! What all phones of a generator are to do, and how it ends.

use std::sync::atomic::{AtomicU8, Ordering};

/// In the end phones stay until no frame has come for so long (two ticks and more),
const QUIET_US: u64 = 600_000;
/// or at most so long: somebody else is still tapping.
const QUIET_WITHIN_US: u64 = 5_000_000;

/// What all phones of the generator are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Play their parts.
    Play,
    /// Not tap any more.
    Settle,
    /// See the last frames, and go.
    Finish,
    /// Go at once: nobody will ask what they saw.
    Abort,
}

/// The phase, as threads share it.
#[derive(Debug, Default)]
pub(super) struct SharedPhase(AtomicU8);

impl SharedPhase {
    const ALL: [Phase; 4] = [Phase::Play, Phase::Settle, Phase::Finish, Phase::Abort];

    /// The next phase; it never goes back.
    pub(super) fn set(&self, phase: Phase) {
        let place = Self::ALL.iter().position(|known| *known == phase);
        let place = place
            .and_then(|place| u8::try_from(place).ok())
            .unwrap_or(0);
        self.0.fetch_max(place, Ordering::Relaxed);
    }

    /// The phase that it is in.
    pub(super) fn get(&self) -> Phase {
        Self::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }
}

/// Waits for the last frames to have been and gone.
#[derive(Debug)]
pub(super) struct Quiet {
    began_us: u64,
    /// When the last frame had come,
    since_us: u64,
    /// and how many had.
    frames: u64,
}

impl Quiet {
    /// From now on, with so many frames received.
    pub(super) fn new(now_us: u64, frames: u64) -> Quiet {
        Quiet {
            began_us: now_us,
            since_us: now_us,
            frames,
        }
    }

    /// Whether it has been quiet for long enough.
    pub(super) fn is_over(&mut self, now_us: u64, frames: u64) -> bool {
        if self.frames != frames {
            (self.frames, self.since_us) = (frames, now_us);
        }
        // Before zero nobody has arrived.
        now_us == 0
            || now_us - self.since_us >= QUIET_US
            || now_us - self.began_us >= QUIET_WITHIN_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_never_goes_back() {
        let shared = SharedPhase::default();
        assert_eq!(shared.get(), Phase::Play);
        shared.set(Phase::Finish);
        shared.set(Phase::Settle);
        assert_eq!(shared.get(), Phase::Finish);
        shared.set(Phase::Abort);
        assert_eq!(shared.get(), Phase::Abort);
    }

    #[test]
    fn it_is_quiet_once_nothing_has_come_for_two_ticks_or_somebody_else_goes_on() {
        let mut quiet = Quiet::new(1, 10);
        assert!(!quiet.is_over(500_000, 10));
        assert!(!quiet.is_over(1_000_000, 11));
        assert!(!quiet.is_over(1_500_000, 11));
        assert!(quiet.is_over(1_600_000, 11));
        let mut busy = Quiet::new(1, 0);
        assert!((1..50).all(|tenths| !busy.is_over(tenths * 100_000, tenths)));
        assert!(busy.is_over(5_100_000, 99));
        assert!(Quiet::new(0, 0).is_over(0, 0));
    }
}
