//! What the phones should have got and what they got.
//!
//! All generators together know each room's frames as each gateway sent them: any phone's sight of a frame is proof
//! that it was sent. A phone must have got each of them from its join to its end; one frame with all totals, sent to a
//! phone that had fallen behind, stands for all frames that it skips.

use super::harvest::{FrameLog, Harvest, Stay, TapFate, TapHarvest};
use super::merge::merge_logs;
use super::sightings::Sightings;
use std::collections::BTreeMap;
use std::ops::Range;

/// Frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivery {
    /// That phones had to get.
    pub expected: u64,
    /// Of these, those that they got.
    pub delivered: u64,
}

/// The findings of a run.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// By the index of the room.
    pub rooms: Vec<Delivery>,
    sightings: Sightings,
}

impl Evaluation {
    /// From what all generators of a run brought back, by one clock; so many rooms there were.
    pub fn new(harvests: &[Harvest], rooms: usize) -> Evaluation {
        let logs = harvests.iter().flat_map(|harvest| &harvest.frames).cloned();
        let logs = merge_logs(logs);
        let sums = sums(&logs);
        let mut deliveries = vec![Delivery::default(); rooms];
        for phone in harvests.iter().flat_map(|harvest| &harvest.phones) {
            let room = usize::try_from(phone.room).unwrap_or(usize::MAX);
            let Some(delivery) = deliveries.get_mut(room) else {
                continue;
            };
            for stay in &phone.stays {
                let sent = sums.get(&(phone.room, stay.gateway.as_str()));
                let one = delivery_to(stay, sent.map_or(&[], Vec::as_slice));
                delivery.expected += one.expected;
                delivery.delivered += one.delivered;
            }
        }
        Evaluation {
            rooms: deliveries,
            sightings: Sightings::new(&logs),
        }
    }

    /// All rooms together.
    pub fn total(&self) -> Delivery {
        let rooms = self.rooms.iter();
        rooms.fold(Delivery::default(), |sum, room| Delivery {
            expected: sum.expected + room.expected,
            delivered: sum.delivered + room.delivered,
        })
    }

    /// When another phone than this one first had a frame by which the reaction's total was so high, at whichever
    /// gateway; microseconds.
    pub fn first_seen(&self, room: u32, key: u8, total: u64, by_other_than: u32) -> Option<u64> {
        self.sightings.first_seen(room, key, total, by_other_than)
    }
}

/// The sums of the frames that each gateway sent of each room, in order.
fn sums(logs: &[FrameLog]) -> BTreeMap<(u32, &str), Vec<u64>> {
    let sums = logs.iter().map(|log| {
        let sums = log.frames.iter().map(|frame| frame.sum).collect();
        ((log.room, log.gateway.as_str()), sums)
    });
    sums.collect()
}

/// What one phone had to get of what was sent.
fn delivery_to(stay: &Stay, sent: &[u64]) -> Delivery {
    // Beyond the first, up to and with the second.
    let between = |from: u64, until: u64| {
        let beyond = sent.partition_point(|sum| *sum <= from);
        let within = sent.partition_point(|sum| *sum <= until);
        u64::try_from(within.saturating_sub(beyond)).unwrap_or(u64::MAX)
    };
    let until = match sent.last() {
        Some(last) if stay.to_the_end => *last,
        _ => stay.until_sum,
    };
    let expected = between(stay.from_sum, until);
    let skipped: u64 = stay
        .skipped
        .iter()
        .map(|(from, until)| between(*from, *until))
        .sum();
    Delivery {
        expected,
        delivered: expected.min(stay.ticks + skipped),
    }
}

/// Each join: when it was due, and how long it took until the room was there; microseconds.
pub fn join_waits(harvests: &[Harvest]) -> impl Iterator<Item = (u64, u64)> {
    let phones = harvests.iter().flat_map(|harvest| &harvest.phones);
    let stays = phones.flat_map(|phone| &phone.stays);
    stays.map(|stay| (stay.due_us, stay.joined_us.saturating_sub(stay.due_us)))
}

/// Each acknowledged tap that was due in the window: when, and how long it took until it was acknowledged; microseconds.
pub fn ack_waits(harvests: &[Harvest], window: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    taps(harvests, window).filter_map(|tap| match tap.fate {
        TapFate::Acknowledged(at_us) => Some((tap.due_us, at_us.saturating_sub(tap.due_us))),
        _ => None,
    })
}

/// How late each tap that was due in the window was sent by the generator's own fault, microseconds.
pub fn lateness(harvests: &[Harvest], window: Range<u64>) -> impl Iterator<Item = u64> {
    taps(harvests, window).map(|tap| u64::from(tap.late_us))
}

fn taps(harvests: &[Harvest], window: Range<u64>) -> impl Iterator<Item = &TapHarvest> {
    let phones = harvests.iter().flat_map(|harvest| &harvest.phones);
    phones
        .flat_map(|phone| &phone.taps)
        .filter(move |tap| window.contains(&tap.due_us))
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
