//! Waits of taps, from when they were due: to their acknowledgement, to another phone's sight of them, and how much of
//! the latter the flush and the tick explain.

use super::follower::Stamps;
use super::windows::Windows;
use crate::ledger::client_hash;
use crate::report::Distribution;
use crate::swarm::assignment::RoomPlan;
use crate::swarm::evaluate::Evaluation;
use crate::swarm::harvest::{Harvest, PhoneHarvest, TapFate, TapHarvest};
use crate::waits::{histogram, quantile_ms};
use hdrhistogram::Histogram;
use shared::counting::ids::{PageId, TapId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Waits of one kind, microseconds.
#[derive(Debug)]
pub struct Waits {
    name: &'static str,
    all: Histogram<u64>,
    seconds: BTreeMap<u32, Histogram<u64>>,
}

impl Waits {
    /// None yet.
    pub fn new(name: &'static str) -> Self {
        Waits {
            name,
            all: histogram(),
            seconds: BTreeMap::new(),
        }
    }

    /// One of a tap that was due then; only those of the window count in the distribution.
    pub fn add(&mut self, due_us: u64, wait_us: u64, window: &Range<u64>) {
        let second = u32::try_from(due_us / 1_000_000).unwrap_or(u32::MAX);
        let of_second = self.seconds.entry(second).or_insert_with(histogram);
        of_second.saturating_record(wait_us);
        if window.contains(&due_us) {
            self.all.saturating_record(wait_us);
        }
    }

    /// 99 of 100 take no longer, milliseconds; none if there were no waits.
    pub fn p99_ms(&self) -> Option<f64> {
        self.quantile_ms(0.99)
    }

    /// See [`Waits::p99_ms`].
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        (!self.all.is_empty()).then(|| quantile_ms(&self.all, quantile))
    }

    /// 50 and 99 % of those due in a second.
    pub fn second(&self, second: u32) -> Option<(f64, f64)> {
        let of_second = self.seconds.get(&second)?;
        let at = |quantile| quantile_ms(of_second, quantile);
        Some((at(0.50), at(0.99)))
    }

    /// For the report; none if there were no waits.
    pub fn distribution(&self) -> Option<Distribution> {
        Distribution::of(self.name, &self.all)
    }
}

/// All waits of a run.
#[derive(Debug)]
pub struct Latencies {
    /// From due to acknowledged.
    pub ack: Waits,
    /// From due to seen by another phone.
    pub tick: Waits,
    /// The same less the flush and the tick that the tap waited for.
    pub beyond_window: Waits,
    /// Acknowledged taps of the window that nobody else was seen to see.
    pub unseen: u64,
}

impl Latencies {
    /// From what the phones saw and, where they could be read, the servers' stamps.
    pub fn of(
        harvests: &[Harvest],
        rooms: &[RoomPlan],
        evaluation: &Evaluation,
        stamps: Option<(&Stamps, &str)>,
        windows: Windows,
        window: &Range<u64>,
    ) -> Latencies {
        let mut latencies = Latencies {
            ack: Waits::new("ack"),
            tick: Waits::new("tick"),
            beyond_window: Waits::new("beyond_window"),
            unseen: 0,
        };
        for phone in harvests.iter().flat_map(|harvest| &harvest.phones) {
            let client = stamps.map(|(_, key)| client_hash(key, &phone.client));
            for (seq, tap) in (1..).zip(&phone.taps) {
                let TapFate::Acknowledged(at_us) = tap.fate else {
                    continue;
                };
                let wait = at_us.saturating_sub(tap.due_us);
                latencies.ack.add(tap.due_us, wait, window);
                if let (Some((stamps, _)), Some(client)) = (stamps, client) {
                    let page = PageId(phone.page);
                    let id = TapId { client, page, seq };
                    let shown = shown(phone, tap, id, rooms, evaluation, stamps, windows);
                    match shown {
                        Some((wait, beyond)) => {
                            latencies.tick.add(tap.due_us, wait, window);
                            latencies.beyond_window.add(tap.due_us, beyond, window);
                        }
                        None if window.contains(&tap.due_us) => latencies.unseen += 1,
                        None => {}
                    }
                }
            }
        }
        latencies
    }
}

/// How long it took until another phone saw the tap, and how much of that neither flush nor tick explains.
fn shown(
    phone: &PhoneHarvest,
    tap: &TapHarvest,
    id: TapId,
    rooms: &[RoomPlan],
    evaluation: &Evaluation,
    stamps: &Stamps,
    windows: Windows,
) -> Option<(u64, u64)> {
    let stamp = stamps.of(id)?;
    let room = rooms.get(usize::try_from(phone.room).ok()?)?;
    let key = room.keys.get(usize::from(tap.key))?;
    let seen_us = evaluation.first_seen(phone.room, tap.key, stamp.number, phone.phone)?;
    let published_ms = stamps.published_ms(&room.code, key.as_str(), stamp.number)?;
    let wait = seen_us.saturating_sub(tap.due_us);
    // No more than the window itself is excused: a flush or a tick that came late is somebody's fault.
    let flush_ms = stamp
        .appended_ms
        .saturating_sub(stamp.taken_ms)
        .min(windows.flush_ms);
    let tick_ms = published_ms
        .saturating_sub(stamp.appended_ms)
        .min(windows.tick_ms);
    Some((wait, wait.saturating_sub((flush_ms + tick_ms) * 1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_of_the_window_count_and_each_counts_in_its_second() {
        let mut waits = Waits::new("x");
        let window = 1_000_000..3_000_000;
        for (due_us, wait_us) in [(500_000, 900_000), (1_500_000, 20_000), (2_500_000, 40_000)] {
            waits.add(due_us, wait_us, &window);
        }
        let distribution = waits.distribution().unwrap();
        assert_eq!(distribution.count, 2);
        assert!(
            (distribution.percentiles[5] - 40.0).abs() < 0.1,
            "{distribution:?}"
        );
        assert!((waits.second(0).unwrap().1 - 900.0).abs() < 1.0);
        assert_eq!(waits.second(3), None);
        assert_eq!(
            distribution
                .buckets
                .iter()
                .map(|bucket| bucket.1)
                .sum::<u64>(),
            2
        );
        assert!(distribution.buckets.iter().all(|bucket| bucket.0 >= 20.0));
        assert_eq!(Waits::new("y").p99_ms(), None);
    }
}
