//! What several threads or generators saw, put together.

use super::harvest::{FrameLog, FrameSeen, Harvest};
use std::collections::BTreeMap;

/// Frame logs by room and gateway, each frame once with the first two sights of all. No phone may be in two of the logs.
pub(super) fn merge_logs(logs: impl IntoIterator<Item = FrameLog>) -> Vec<FrameLog> {
    let mut merged: BTreeMap<(u32, String), BTreeMap<u64, FrameSeen>> = BTreeMap::new();
    for log in logs {
        let frames = merged.entry((log.room, log.gateway)).or_default();
        for frame in log.frames {
            frames
                .entry(frame.sum)
                .and_modify(|known| see_too(known, &frame))
                .or_insert(frame);
        }
    }
    let logs = merged
        .into_iter()
        .map(|((room, gateway), frames)| FrameLog {
            room,
            gateway,
            frames: frames.into_values().collect(),
        });
    logs.collect()
}

fn see_too(known: &mut FrameSeen, other: &FrameSeen) {
    let (first, later) = if other.first_us < known.first_us {
        (other, known.first_us)
    } else {
        (&*known, other.first_us)
    };
    // The first of the two that came second, or whoever was second to the first.
    let second_us = first
        .second_us
        .map_or(later, |second_us| second_us.min(later));
    let (first_us, first_phone) = (first.first_us, first.first_phone);
    known.first_us = first_us;
    known.first_phone = first_phone;
    known.second_us = Some(second_us);
}

/// The busiest share of each second.
pub(super) fn merge_busy(all: impl IntoIterator<Item = (u32, f64)>) -> Vec<(u32, f64)> {
    let mut busiest: BTreeMap<u32, f64> = BTreeMap::new();
    for (second, share) in all {
        let known = busiest.entry(second).or_default();
        *known = known.max(share);
    }
    busiest.into_iter().collect()
}

/// Several generators' harvests as one. Their times must be by one clock.
pub fn merge(harvests: impl IntoIterator<Item = Harvest>) -> Harvest {
    let mut all = Harvest::default();
    let (mut logs, mut busy) = (Vec::new(), Vec::new());
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for harvest in harvests {
        all.phones.extend(harvest.phones);
        logs.extend(harvest.frames);
        all.cpu_us += harvest.cpu_us;
        all.frames_received += harvest.frames_received;
        busy.extend(harvest.busy);
        for (message, count) in harvest.errors {
            *errors.entry(message).or_default() += count;
        }
    }
    all.phones.sort_by_key(|phone| phone.phone);
    all.frames = merge_logs(logs);
    all.busy = merge_busy(busy);
    all.errors = errors.into_iter().collect();
    all.errors
        .sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(sum: u64, first: (u64, u32), second_us: Option<u64>) -> FrameLog {
        let seen = FrameSeen {
            sum,
            first_us: first.0,
            first_phone: first.1,
            second_us,
            totals: vec![(0, sum)],
        };
        FrameLog {
            room: 0,
            gateway: "a".to_owned(),
            frames: vec![seen],
        }
    }

    #[test]
    fn the_first_two_sights_of_all_remain() {
        for (one, other, first, second) in [
            (((10, 1), Some(30)), ((20, 2), Some(21)), (10, 1), 20),
            (((10, 1), Some(15)), ((20, 2), None), (10, 1), 15),
            (((10, 1), None), ((20, 2), None), (10, 1), 20),
            (((10, 1), Some(40)), ((5, 2), Some(7)), (5, 2), 7),
        ] {
            let logs = [log(3, one.0, one.1), log(3, other.0, other.1)];
            for logs in [logs.clone(), [logs[1].clone(), logs[0].clone()]] {
                let merged = merge_logs(logs);
                assert_eq!(merged, [log(3, first, Some(second))]);
            }
        }
        let apart = merge_logs([log(4, (1, 1), None), log(3, (1, 1), None)]);
        let sums: Vec<u64> = apart[0].frames.iter().map(|frame| frame.sum).collect();
        assert_eq!(sums, [3, 4]);
    }

    #[test]
    fn harvests_add_up() {
        let harvest = |phone, share| Harvest {
            phones: vec![super::super::harvest::PhoneHarvest {
                phone,
                ..Default::default()
            }],
            frames: vec![log(3, (10, phone), None)],
            cpu_us: 5,
            frames_received: 7,
            busy: vec![(0, share), (u32::from(phone == 2), 0.1)],
            errors: vec![("reset".to_owned(), 1), (format!("only {phone}"), 2)],
        };
        let all = merge([harvest(2, 0.5), harvest(1, 0.25)]);
        assert_eq!((all.cpu_us, all.frames_received), (10, 14));
        assert_eq!(all.phones[0].phone, 1);
        assert_eq!(all.frames[0].frames.len(), 1);
        assert_eq!(all.busy, [(0, 0.5), (1, 0.1)]);
        let mut errors = all.errors;
        errors.sort();
        let [one, two] = [1, 2].map(|phone| (format!("only {phone}"), 2));
        assert_eq!(errors, [one, two, ("reset".to_owned(), 2)]);
    }
}
