//! What each phone does and when: pure, and the same for the same seed, so that several generators share a scenario
//! without talking about it.
//!
//! Who is concerned (arrives in a stage, sits in a room, goes away) is decided by a phone's place in a shuffled order,
//! one for each question: then 30 % of 1,000 phones are 300, in whichever ranges the generators have them. Timelines are
//! stable for one version of this file and of `rand`, not beyond.

use super::taps::{Taps, cue_taps};
use super::{Parting, Scenario, Sizes};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
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

impl Scenario {
    /// The times of a run.
    pub fn times(&self) -> Times {
        let stages = self.arrive.iter();
        let arrived = stages
            .map(|stage| seconds(stage.after_seconds) + seconds(stage.over_seconds))
            .sum();
        let from = arrived + seconds(self.warm_up_seconds);
        Times {
            arrived,
            from,
            until: from + seconds(self.seconds),
        }
    }

    /// What a phone does. Phones are numbered from 0 to `phones`; a phone's room does not depend on the number of
    /// generators.
    pub fn part(&self, seed: u64, phone: u32) -> Part {
        let question = |salt| self.place(seed, salt, phone);
        Part {
            room: self.room(question(Salt::Room)),
            arrives: self.arrives(question(Salt::Arrival)),
            away: self.away(seed, phone),
            stalls: self.stalls(seed, phone),
        }
    }

    /// When a phone's taps are due, in order, each with the index of the reaction to tap: from its arrival to the end
    /// of the measured window, those of shared cues included, never closer together than the rooms' cooldown.
    pub fn taps(&self, seed: u64, phone: u32) -> Taps {
        let arrives = self.arrives(self.place(seed, Salt::Arrival, phone));
        let mut random = random(seed, Salt::Taps, phone);
        let mut cues = Vec::new();
        for (index, cue) in (0..).zip(&self.cue) {
            let moments = cue_taps(cue, self.times(), &mut random, |turn| {
                let place = self.place(seed, Salt::Cue(index, turn), phone);
                place < share(self.phones, cue.percent)
            });
            cues.extend(moments.filter(|moment| *moment >= arrives));
        }
        Taps::new(self, arrives, cues, random)
    }

    /// A phone's place in the order that a question has.
    fn place(&self, seed: u64, salt: Salt, phone: u32) -> u32 {
        shuffled(seed ^ salt.number(), phone, self.phones)
    }

    fn room(&self, place: u32) -> u32 {
        let count = self.rooms.count.max(1);
        match self.rooms.sizes {
            Sizes::Even => place % count,
            Sizes::Uneven => {
                let harmonic =
                    |rooms: u32| -> f64 { (1..=rooms).map(|n| f64::from(n).recip()).sum() };
                let all = harmonic(count);
                let mut drawn = 0.0;
                let at = (f64::from(place) + 0.5) / f64::from(self.phones.max(1));
                let room = (0..count).find(|room| {
                    drawn += f64::from(room + 1).recip() / all;
                    at < drawn
                });
                room.unwrap_or(count - 1)
            }
        }
    }

    fn arrives(&self, place: u32) -> Duration {
        let mut begins = Duration::ZERO;
        let (mut before, mut percent) = (0, 0.0);
        for (index, stage) in self.arrive.iter().enumerate() {
            begins += seconds(stage.after_seconds);
            percent += stage.percent;
            let is_last = index + 1 == self.arrive.len();
            let until = if is_last {
                self.phones
            } else {
                share(self.phones, percent)
            };
            if place < until {
                // The stage's last phone arrives at its end.
                let part = f64::from(place - before + 1) / f64::from(until - before);
                return begins + seconds(stage.over_seconds * part);
            }
            before = until;
            begins += seconds(stage.over_seconds);
        }
        begins
    }

    fn away(&self, seed: u64, phone: u32) -> Vec<(Duration, Duration, Parting)> {
        let from = self.times().from;
        let mut random = random(seed, Salt::Away(u32::MAX), phone);
        let mut absences = Vec::new();
        for (index, away) in (0..).zip(&self.away) {
            let place = self.place(seed, Salt::Away(index), phone);
            let phones = share(self.phones, away.percent);
            let [least, most] = away.for_seconds;
            let wait = seconds(least + (most - least).max(0.0) * random.random::<f64>());
            if place < phones {
                let part = f64::from(place) / f64::from(phones);
                let goes = from + seconds(away.at_seconds + away.over_seconds * part);
                absences.push((goes, goes + wait, away.how));
            }
        }
        absences.sort_by_key(|(goes, ..)| *goes);
        // Who is away already cannot go.
        let mut back = Duration::ZERO;
        absences.retain(|(goes, returns, _)| {
            let is_there = *goes >= back;
            if is_there {
                back = *returns;
            }
            is_there
        });
        absences
    }

    fn stalls(&self, seed: u64, phone: u32) -> Vec<(Duration, Duration)> {
        let from = self.times().from;
        let concerned = (0..).zip(&self.stall).filter(|(index, stall)| {
            self.place(seed, Salt::Stall(*index), phone) < share(self.phones, stall.percent)
        });
        let mut stalls: Vec<(Duration, Duration)> = concerned
            .map(|(_, stall)| {
                let begins = from + seconds(stall.at_seconds);
                (begins, begins + seconds(stall.seconds))
            })
            .collect();
        stalls.sort();
        // Those that overlap are one.
        stalls.dedup_by(|later, earlier| {
            let overlap = later.0 <= earlier.1;
            if overlap {
                earlier.1 = earlier.1.max(later.1);
            }
            overlap
        });
        stalls
    }
}

/// What a shuffled order is for: no two questions may pick the same phones.
#[derive(Debug, Clone, Copy)]
enum Salt {
    Room,
    Arrival,
    Taps,
    /// A cue, and its how-manieth time.
    Cue(u32, u32),
    Away(u32),
    Stall(u32),
}

impl Salt {
    fn number(self) -> u64 {
        let (kind, one, two) = match self {
            Salt::Room => (1, 0, 0),
            Salt::Arrival => (2, 0, 0),
            Salt::Taps => (3, 0, 0),
            Salt::Cue(cue, turn) => (4, cue, turn),
            Salt::Away(index) => (5, index, 0),
            Salt::Stall(index) => (6, index, 0),
        };
        mixed(mixed(mixed(kind) ^ u64::from(one)) ^ u64::from(two))
    }
}

/// A time of a scenario; what is no time (negative, beyond all bounds) is zero.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// So many of all phones.
fn share(phones: u32, percent: f64) -> u32 {
    let share = f64::from(phones) * (percent / 100.0).clamp(0.0, 1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the number of phones"
    )]
    let share = share.round() as u32;
    share
}

fn random(seed: u64, salt: Salt, phone: u32) -> SmallRng {
    SmallRng::seed_from_u64(mixed(seed ^ salt.number()) ^ u64::from(phone))
}

/// Where `index` stands among `0..count` once they are shuffled: a Feistel cipher on just enough bits, applied until
/// the result lies in the range (it comes back to it, being a permutation). No table is needed, and so any generator
/// can ask for any phone.
fn shuffled(seed: u64, index: u32, count: u32) -> u32 {
    let half_bits = (u64::from(count)
        .next_power_of_two()
        .trailing_zeros()
        .div_ceil(2))
    .max(1);
    let mask = (1_u64 << half_bits) - 1;
    let mut at = u64::from(index);
    loop {
        let (mut left, mut right) = (at >> half_bits, at & mask);
        for round in 0..4 {
            let turned = left ^ (mixed(mixed(seed ^ round) ^ right) & mask);
            (left, right) = (right, turned);
        }
        at = left << half_bits | right;
        if let Ok(place) = u32::try_from(at)
            && (place < count || index >= count)
        {
            return place;
        }
    }
}

/// SplitMix64's finish: each bit of the input moves each bit of the output.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
