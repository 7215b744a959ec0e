//! The same scenario larger, smaller, longer or shorter. What it is stays: how dense rooms are, how often people tap.

use super::{MorePhones, Scenario};

impl Scenario {
    /// With so many phones. Percentages stay; what becomes more is as [`MorePhones`] says. There are never more rooms
    /// than phones.
    #[must_use]
    pub fn with_phones(mut self, phones: u32) -> Scenario {
        if self.rooms.more_phones == MorePhones::MoreRooms {
            let wanted = f64::from(self.rooms.count) * f64::from(phones) / f64::from(self.phones);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a float becomes the nearest number that there is, and the check refuses too many rooms"
            )]
            let count = wanted.round() as u32;
            self.rooms.count = count.max(1);
        }
        self.rooms.count = self.rooms.count.min(phones.max(1));
        self.phones = phones;
        self
    }

    /// With so long a measured window. Moments in it move in proportion. Spans of time shrink with it where it becomes
    /// shorter, and stay where it becomes longer: how long people laugh and networks are gone does not depend on how
    /// long somebody watches. Arrivals, the warm-up and how often people tap stay.
    #[must_use]
    pub fn with_seconds(mut self, seconds: f64) -> Scenario {
        let moved = seconds / self.seconds;
        let shrunk = moved.min(1.0);
        for cue in &mut self.cue {
            cue.at_seconds *= moved;
            cue.within_seconds *= shrunk;
            cue.every_seconds = cue.every_seconds.map(|every| every * shrunk);
        }
        for away in &mut self.away {
            away.at_seconds *= moved;
            away.over_seconds *= shrunk;
            away.for_seconds = away.for_seconds.map(|time| time * shrunk);
        }
        for stall in &mut self.stall {
            stall.at_seconds *= moved;
            stall.seconds *= shrunk;
        }
        self.seconds = seconds;
        self
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
