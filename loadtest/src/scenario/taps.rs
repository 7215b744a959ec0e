//! When one phone taps: regularly, and at shared cues.

use super::timeline::{Times, seconds};
use super::{Cue, Distribution, Scenario, Tapping};
use rand::RngExt;
use rand::rngs::SmallRng;
use std::time::Duration;

/// Beyond the cooldown: a tap that comes early by the network's jitter must not be refused.
const MARGIN: Duration = Duration::from_millis(50);

/// When a phone's taps are due.
#[derive(Debug)]
pub struct Taps {
    tapping: Option<Tapping>,
    reactions: u8,
    /// The least time between two taps.
    gap: Duration,
    until: Duration,
    /// The next regular tap.
    regular: Duration,
    /// Taps at cues, the next one last.
    cues: Vec<Duration>,
    random: SmallRng,
}

impl Taps {
    /// From a phone's arrival; `cues` in any order.
    pub(super) fn new(
        scenario: &Scenario,
        arrives: Duration,
        mut cues: Vec<Duration>,
        mut random: SmallRng,
    ) -> Taps {
        let gap = Duration::from_millis(scenario.rooms.cooldown_ms) + MARGIN;
        cues.sort();
        let mut free_from = Duration::ZERO;
        let until = scenario.times().until;
        cues.retain(|cue| {
            let is_free = *cue >= free_from && *cue < until;
            if is_free {
                free_from = *cue + gap;
            }
            is_free
        });
        cues.reverse();
        let phase: f64 = random.random();
        let mut taps = Taps {
            tapping: scenario.tap,
            reactions: u8::try_from(scenario.rooms.reactions.max(1)).unwrap_or(u8::MAX),
            gap,
            until,
            regular: Duration::MAX,
            cues,
            random,
        };
        // Phones do not tap in step.
        if let Some(wait) = taps.wait() {
            taps.regular = arrives + wait.mul_f64(phase);
        }
        taps
    }

    /// To the next regular tap.
    fn wait(&mut self) -> Option<Duration> {
        let tapping = self.tapping?;
        let [least, most] = tapping.every_seconds;
        let span = (most - least).max(0.0);
        let drawn: f64 = self.random.random();
        let part = match tapping.distribution {
            Distribution::Uniform => drawn,
            // The mean of the wait on top is a third of the span.
            Distribution::Exponential => (-(1.0 - drawn).ln() / 3.0).min(1.0),
        };
        Some(seconds(least + span * part).max(self.gap))
    }
}

impl Iterator for Taps {
    type Item = (Duration, u8);

    fn next(&mut self) -> Option<Self::Item> {
        let mut due = self.regular;
        if let Some(cue) = self.cues.last()
            && *cue < self.regular.saturating_add(self.gap)
        {
            // The person waits for it, or taps here what would have come soon.
            due = *cue;
            self.cues.pop();
        }
        if due >= self.until {
            return None;
        }
        self.regular = match self.wait() {
            Some(wait) => due + wait,
            None => Duration::MAX,
        };
        Some((due, self.random.random_range(0..self.reactions)))
    }
}

/// When a phone taps at a cue, as often as that comes in the measured window; `takes_part` is asked for each time.
pub(super) fn cue_taps(
    cue: &Cue,
    times: Times,
    random: &mut SmallRng,
    takes_part: impl Fn(u32) -> bool,
) -> impl Iterator<Item = Duration> {
    let begins = times.from + seconds(cue.at_seconds);
    let every = cue
        .every_seconds
        .map(seconds)
        .filter(|every| !every.is_zero());
    let turns = (0_u32..).map_while(move |turn| match every {
        Some(every) => Some((turn, begins + every * turn)),
        None => (turn == 0).then_some((0, begins)),
    });
    turns
        .take_while(move |(_, moment)| *moment < times.until)
        .filter_map(move |(turn, moment)| {
            let within = seconds(cue.within_seconds * random.random::<f64>());
            takes_part(turn).then_some(moment + within)
        })
}
