//! What the settings of a scenario must be to each other. Each of them alone is right already, by [`super::shape`].

use super::mistake::{Mistake, Place};
use super::{Scenario, Thresholds};

/// Stages written as 33.3, 33.3 and 33.4, or as three times 33.33, sum to a hundred.
const PERCENT_SLACK: f64 = 0.02;
/// What rounding adds, in seconds, when the moments of a scenario are moved to another length.
const MOMENT_SLACK: f64 = 1e-6;

impl Scenario {
    /// All contradictions.
    pub(super) fn contradictions(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        self.check_rooms(&mut found);
        self.check_stages(&mut found);
        self.check_tapping(&mut found);
        self.check_moments(&mut found);
        self.check_thresholds(&mut found);
        found
    }

    /// Whether anybody taps at all.
    fn taps_at_all(&self) -> bool {
        self.tap.is_some() || !self.cue.is_empty()
    }

    fn check_rooms(&self, found: &mut Vec<Mistake>) {
        if self.rooms.count > self.phones {
            let right = format!("there are {} phones, and each room needs one", self.phones);
            found.push(Mistake::new(
                Place::root().key("rooms").key("count"),
                self.rooms.count,
                right,
            ));
        }
    }

    fn check_stages(&self, found: &mut Vec<Mistake>) {
        let sum: f64 = self.arrive.iter().map(|stage| stage.percent).sum();
        if (sum - 100.0).abs() <= PERCENT_SLACK {
            return;
        }
        let last = self.arrive.len().saturating_sub(1);
        let place = Place::root().key("arrive").index(last).key("percent");
        let percent = self.arrive.last().map_or(0.0, |stage| stage.percent);
        let right = format!("the stages are to sum to 100 and sum to {}", rounded(sum));
        found.push(Mistake::new(place, percent, right));
    }

    fn check_tapping(&self, found: &mut Vec<Mistake>) {
        let Some(tap) = self.tap else { return };
        #[expect(
            clippy::cast_precision_loss,
            reason = "a cooldown has at most 60,000 milliseconds"
        )]
        let cooldown = self.rooms.cooldown_ms as f64 / 1000.0;
        if tap.every_seconds[0] < cooldown {
            let right = format!(
                "nobody can tap sooner than the cooldown of {cooldown} s allows (rooms.cooldown_ms)"
            );
            let place = Place::root().key("tap").key("every_seconds");
            found.push(Mistake::new(place, tap.every_seconds.to_vec(), right));
        }
    }

    /// Whatever is to happen in the measured window ends in it: else the report would say less than it seems to.
    fn check_moments(&self, found: &mut Vec<Mistake>) {
        let mut check = |list: &str, index: usize, at: f64, lasts: f64, what: &str| {
            if at + lasts > self.seconds + MOMENT_SLACK {
                let right = format!(
                    "{what} is over after {} s, but the run is after {} s",
                    rounded(at + lasts),
                    self.seconds
                );
                let place = Place::root().key(list).index(index).key("at_seconds");
                found.push(Mistake::new(place, at, right));
            }
        };
        for (index, cue) in self.cue.iter().enumerate() {
            check("cue", index, cue.at_seconds, cue.within_seconds, "the cue");
        }
        for (index, away) in self.away.iter().enumerate() {
            let lasts = away.over_seconds + away.for_seconds[1];
            check("away", index, away.at_seconds, lasts, "the absence");
        }
        for (index, stall) in self.stall.iter().enumerate() {
            check("stall", index, stall.at_seconds, stall.seconds, "the stall");
        }
        for (index, cue) in self.cue.iter().enumerate() {
            let Some(every) = cue.every_seconds else {
                continue;
            };
            if every < cue.within_seconds {
                let right = format!(
                    "the next cue would come before this one, within {} s, is over",
                    cue.within_seconds
                );
                let place = Place::root().key("cue").index(index).key("every_seconds");
                found.push(Mistake::new(place, every, right));
            }
        }
    }

    /// A figure that nothing in the scenario makes is never measured, and would fail each run.
    fn check_thresholds(&self, found: &mut Vec<Mistake>) {
        if self.taps_at_all() {
            return;
        }
        let Thresholds {
            delivered_percent_min,
            ack_p99_ms_max,
            tick_p99_ms_max,
            beyond_window_p99_ms_max,
            ..
        } = self.thresholds;
        for (name, bound) in [
            ("delivered_percent_min", delivered_percent_min),
            ("ack_p99_ms_max", ack_p99_ms_max),
            ("tick_p99_ms_max", tick_p99_ms_max),
            ("beyond_window_p99_ms_max", beyond_window_p99_ms_max),
        ] {
            if let Some(bound) = bound {
                let place = Place::root().key("thresholds").key(name);
                let right = "nobody taps, so there is nothing to measure: \
                             add [tap] or [[cue]], or leave it out";
                found.push(Mistake::new(place, bound, right));
            }
        }
    }
}

/// For messages: sums of decimal fractions without their dust.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
