//! What each phone does and when: pure, and the same for the same seed, so that several generators share a scenario
//! without talking about it.

use super::{Parting, Scenario};
use std::time::Duration;

/// The times of a run, from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The last phone arrives.
    pub arrived: Duration,
    /// The measured window begins.
    pub from: Duration,
    /// It ends: nobody taps any more.
    pub until: Duration,
}

/// One phone's part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its room, by index.
    pub room: u32,
    /// When it arrives.
    pub arrives: Duration,
    /// When it goes, when it comes back, and how it goes; in order, not overlapping.
    pub away: Vec<(Duration, Duration, Parting)>,
    /// When it reads nothing; in order, not overlapping.
    pub stalls: Vec<(Duration, Duration)>,
}

/// When a phone's taps are due.
#[derive(Debug)]
pub struct Taps;

impl Scenario {
    /// The times of a run.
    pub fn times(&self) -> Times {
        todo!()
    }

    /// What a phone does. Phones are numbered from 0 to `phones`; a phone's room does not depend on the number of
    /// generators.
    pub fn part(&self, seed: u64, phone: u32) -> Part {
        let _ = (seed, phone);
        todo!()
    }

    /// When a phone's taps are due, in order, each with the index of the reaction to tap: from its arrival to the end
    /// of the measured window, those of shared cues included, never closer together than the rooms' cooldown.
    pub fn taps(&self, seed: u64, phone: u32) -> Taps {
        let _ = (seed, phone);
        todo!()
    }
}

impl Iterator for Taps {
    type Item = (Duration, u8);
    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}
