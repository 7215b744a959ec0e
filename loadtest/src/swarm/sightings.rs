//! When a total was first seen by somebody else than the one who tapped.

use super::harvest::FrameLog;
use std::collections::BTreeMap;

/// All sights of all totals, by room and reaction.
#[derive(Debug, Clone, Default)]
pub(super) struct Sightings(BTreeMap<(u32, u8), Vec<Earliest>>);

/// The earliest sights of this total or a higher one.
#[derive(Debug, Clone, Copy)]
struct Earliest {
    total: u64,
    first_us: u64,
    first_phone: u32,
    /// The earliest by another phone than the first.
    other_us: Option<u64>,
}

impl Sightings {
    pub(super) fn new(logs: &[FrameLog]) -> Sightings {
        let mut sightings: BTreeMap<(u32, u8), Vec<Earliest>> = BTreeMap::new();
        for log in logs {
            for frame in &log.frames {
                for (key, total) in &frame.totals {
                    let sights = sightings.entry((log.room, *key)).or_default();
                    sights.push(Earliest {
                        total: *total,
                        first_us: frame.first_us,
                        first_phone: frame.first_phone,
                        other_us: frame.second_us,
                    });
                }
            }
        }
        for sights in sightings.values_mut() {
            sights.sort_by_key(|sight| sight.total);
            // A higher total shows all lower ones, too.
            for lower in (1..sights.len()).rev() {
                let higher = sights[lower];
                sights[lower - 1].include(higher);
            }
        }
        Sightings(sightings)
    }

    pub(super) fn first_seen(
        &self,
        room: u32,
        key: u8,
        total: u64,
        by_other_than: u32,
    ) -> Option<u64> {
        let sights = self.0.get(&(room, key))?;
        let sight = sights.get(sights.partition_point(|sight| sight.total < total))?;
        if sight.first_phone == by_other_than {
            sight.other_us
        } else {
            Some(sight.first_us)
        }
    }
}

impl Earliest {
    fn include(&mut self, higher: Earliest) {
        let (first, second) = if higher.first_us < self.first_us {
            (higher, *self)
        } else {
            (*self, higher)
        };
        self.first_us = first.first_us;
        self.first_phone = first.first_phone;
        // Whoever was first of all has only its own second sight to offer.
        let of_second = if second.first_phone == first.first_phone {
            second.other_us
        } else {
            Some(second.first_us)
        };
        self.other_us = [first.other_us, of_second].into_iter().flatten().min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::harvest::FrameSeen;

    fn log(gateway: &str, frames: &[(u64, u64, u32, Option<u64>)]) -> FrameLog {
        let seen = frames
            .iter()
            .map(|(total, first_us, first_phone, second_us)| FrameSeen {
                sum: *total,
                first_us: *first_us,
                first_phone: *first_phone,
                second_us: *second_us,
                totals: vec![(0, *total)],
            });
        FrameLog {
            room: 0,
            gateway: gateway.to_owned(),
            frames: seen.collect(),
        }
    }

    #[test]
    fn a_total_is_seen_with_it_or_a_higher_one() {
        let sightings = Sightings::new(&[log("a", &[(3, 10, 1, Some(11)), (7, 20, 2, None)])]);
        assert_eq!(sightings.first_seen(0, 0, 3, 9), Some(10));
        assert_eq!(sightings.first_seen(0, 0, 4, 9), Some(20));
        assert_eq!(sightings.first_seen(0, 0, 8, 9), None);
        assert_eq!(sightings.first_seen(0, 1, 1, 9), None);
        assert_eq!(sightings.first_seen(1, 0, 1, 9), None);
    }

    #[test]
    fn the_tapping_phones_own_sight_does_not_count() {
        let sightings = Sightings::new(&[log("a", &[(3, 10, 1, Some(15)), (7, 12, 1, None)])]);
        assert_eq!(sightings.first_seen(0, 0, 3, 1), Some(15));
        assert_eq!(sightings.first_seen(0, 0, 7, 1), None);
        assert_eq!(sightings.first_seen(0, 0, 7, 2), Some(12));
    }

    /// Against all sights looked through one by one.
    #[test]
    fn over_all_gateways_the_earliest_is_found() {
        let mut number = 1_u64;
        let mut draw = |below: u64| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (number >> 33) % below
        };
        for _ in 0..200 {
            let mut frames = Vec::new();
            for total in 1..12 {
                let first_us = draw(50);
                let second_us = (draw(3) > 0).then(|| first_us + draw(20));
                frames.push((total, first_us, u32::try_from(draw(3)).unwrap(), second_us));
            }
            let (one, other) = frames.split_at(5);
            let sightings = Sightings::new(&[log("a", one), log("b", other)]);
            for (total, phone) in (0..13).flat_map(|total| (0..3).map(move |phone| (total, phone)))
            {
                let sights = frames.iter().filter(|frame| frame.0 >= total);
                let by_others = sights.filter_map(|(_, first_us, first_phone, second_us)| {
                    if *first_phone == phone {
                        *second_us
                    } else {
                        Some(*first_us)
                    }
                });
                assert_eq!(
                    sightings.first_seen(0, 0, total, phone),
                    by_others.min(),
                    "{frames:?}"
                );
            }
        }
    }
}
