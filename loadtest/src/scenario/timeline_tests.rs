use super::super::{Away, Cue, Distribution, Stage, Stall, Tapping, for_tests};
use super::*;
use std::collections::BTreeSet;

const SEED: u64 = 7;

fn scenario(phones: u32, rooms: u32) -> Scenario {
    let mut scenario = for_tests::scenario(phones, Some([3.0, 6.0]));
    scenario.rooms.count = rooms;
    scenario.rooms.cooldown_ms = 3000;
    scenario.rooms.reactions = 6;
    scenario.warm_up_seconds = 5.0;
    scenario.arrive[0].over_seconds = 10.0;
    scenario
}

fn parts(scenario: &Scenario) -> Vec<Part> {
    (0..scenario.phones)
        .map(|phone| scenario.part(SEED, phone))
        .collect()
}

fn room_sizes(scenario: &Scenario) -> Vec<usize> {
    let parts = parts(scenario);
    (0..scenario.rooms.count)
        .map(|room| parts.iter().filter(|part| part.room == room).count())
        .collect()
}

#[test]
fn shuffling_moves_everybody_to_a_place_of_their_own() {
    for count in [1, 2, 3, 100, 1000, 4097] {
        let places: BTreeSet<u32> = (0..count)
            .map(|index| shuffled(SEED, index, count))
            .collect();
        assert_eq!(places, (0..count).collect());
    }
    let moved = (0..1000).filter(|index| shuffled(SEED, *index, 1000) != *index);
    assert!(moved.count() > 980);
    let same = (0..1000).filter(|index| shuffled(1, *index, 1000) == shuffled(2, *index, 1000));
    assert!(same.count() < 20);
}

#[test]
fn even_rooms_are_alike_and_uneven_ones_draw_as_talks_do() {
    assert_eq!(room_sizes(&scenario(1000, 4)), [250; 4]);
    let mut uneven = scenario(2500, 4);
    uneven.rooms.sizes = Sizes::Uneven;
    // 1 : 1/2 : 1/3 : 1/4, of which the sum is 25/12.
    assert_eq!(room_sizes(&uneven), [1200, 600, 400, 300]);
}

#[test]
fn a_room_has_phones_from_every_range_and_target() {
    let parts = parts(&scenario(1000, 2));
    for (from, step) in [(0, 2), (1, 2)] {
        let phones = parts.iter().skip(from).step_by(step);
        let of_first = phones.filter(|part| part.room == 0).count();
        assert!((200..300).contains(&of_first), "{of_first} of 500");
    }
}

#[test]
fn stages_follow_each_other() {
    let mut scenario = scenario(1000, 1);
    scenario.arrive = vec![
        Stage {
            percent: 30.0,
            over_seconds: 10.0,
            after_seconds: 0.0,
        },
        Stage {
            percent: 50.0,
            over_seconds: 0.0,
            after_seconds: 20.0,
        },
        Stage {
            percent: 20.0,
            over_seconds: 5.0,
            after_seconds: 1.0,
        },
    ];
    let times = scenario.times();
    assert_eq!(times.arrived, seconds(36.0));
    assert_eq!(times.from, seconds(41.0));
    assert_eq!(times.until, seconds(101.0));
    let mut arrivals: Vec<Duration> = parts(&scenario).iter().map(|part| part.arrives).collect();
    arrivals.sort();
    assert!(arrivals[0] <= seconds(0.1) && arrivals[299] == seconds(10.0));
    assert!(
        arrivals[300..800]
            .iter()
            .all(|arrival| *arrival == seconds(30.0))
    );
    assert!(arrivals[800] > seconds(31.0));
    assert_eq!(arrivals[999], times.arrived);
}

#[test]
fn a_share_goes_away_and_comes_back_in_time() {
    let mut scenario = scenario(999, 1);
    let away = |at_seconds, how| Away {
        at_seconds,
        percent: 100.0 / 3.0,
        over_seconds: 2.0,
        for_seconds: [5.0, 10.0],
        how,
    };
    scenario.away = vec![away(10.0, Parting::Cut), away(12.0, Parting::Leave)];
    scenario.stall = vec![
        Stall {
            at_seconds: 1.0,
            percent: 10.0,
            seconds: 20.0,
        },
        Stall {
            at_seconds: 15.0,
            percent: 100.0,
            seconds: 20.0,
        },
    ];
    let from = scenario.times().from;
    let parts = parts(&scenario);
    let cut = parts
        .iter()
        .flat_map(|part| &part.away)
        .filter(|(.., how)| *how == Parting::Cut);
    let cut: Vec<_> = cut.collect();
    assert_eq!(cut.len(), 333);
    for (goes, back, _) in cut {
        assert!((from + seconds(10.0)..from + seconds(12.0)).contains(goes));
        assert!((seconds(5.0)..seconds(10.0)).contains(&(*back - *goes)));
    }
    for part in &parts {
        assert!(part.away.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
    let long = parts
        .iter()
        .filter(|part| part.stalls == [(from + seconds(1.0), from + seconds(35.0))]);
    assert_eq!(long.count(), 100);
    let short = parts
        .iter()
        .filter(|part| part.stalls == [(from + seconds(15.0), from + seconds(35.0))]);
    assert_eq!(short.count(), 899);
}

#[test]
fn taps_keep_their_distance_and_their_reactions() {
    let mut scenario = scenario(200, 1);
    for distribution in [Distribution::Uniform, Distribution::Exponential] {
        let every_seconds = [3.0, 6.0];
        scenario.tap = Some(Tapping {
            every_seconds,
            distribution,
        });
        let times = scenario.times();
        let mut waits = Vec::new();
        let mut keys = BTreeSet::new();
        for phone in 0..scenario.phones {
            let taps: Vec<(Duration, u8)> = scenario.taps(SEED, phone).collect();
            assert_eq!(taps, scenario.taps(SEED, phone).collect::<Vec<_>>());
            let arrives = scenario.part(SEED, phone).arrives;
            assert!(
                taps.iter()
                    .all(|(due, _)| (arrives..times.until).contains(due))
            );
            waits.extend(
                taps.windows(2)
                    .map(|pair| (pair[1].0 - pair[0].0).as_secs_f64()),
            );
            keys.extend(taps.iter().map(|(_, key)| *key));
        }
        assert_eq!(keys, (0..6).collect());
        assert!(waits.iter().all(|wait| (3.05..=6.0).contains(wait)));
        let mean = waits.iter().sum::<f64>() / f64::from(u32::try_from(waits.len()).unwrap());
        let expected = match distribution {
            Distribution::Uniform => 4.5,
            // A third of the span, less what is cut off at the upper bound.
            Distribution::Exponential => 3.95,
        };
        assert!((mean - expected).abs() < 0.05, "{distribution:?}: {mean}");
    }
}

#[test]
fn cues_are_tapped_by_their_share_and_displace_what_is_too_near() {
    let mut scenario = scenario(400, 1);
    scenario.cue = vec![
        Cue {
            at_seconds: 10.0,
            every_seconds: Some(20.0),
            percent: 25.0,
            within_seconds: 2.0,
        },
        Cue {
            at_seconds: 11.0,
            every_seconds: None,
            percent: 100.0,
            within_seconds: 1.0,
        },
    ];
    let times = scenario.times();
    let gap = Duration::from_millis(scenario.rooms.cooldown_ms + 50);
    let mut at_second_cue = BTreeSet::new();
    for phone in 0..scenario.phones {
        let taps: Vec<(Duration, u8)> = scenario.taps(SEED, phone).collect();
        assert!(taps.windows(2).all(|pair| pair[1].0 - pair[0].0 >= gap));
        let near = |at: f64, within: f64| {
            let from = times.from + seconds(at);
            taps.iter()
                .any(|(due, _)| (from..from + seconds(within)).contains(due))
        };
        assert!(
            near(10.0, 2.0),
            "every phone taps at one of the two that overlap"
        );
        if near(30.0, 2.0) {
            at_second_cue.insert(phone);
        }
    }
    // All of the quarter that is told to, and of the others those whose own tap falls there.
    let least =
        (0..scenario.phones).filter(|phone| scenario.place(SEED, Salt::Cue(0, 1), *phone) < 100);
    assert!(least.clone().all(|phone| at_second_cue.contains(&phone)));
    assert_eq!(least.count(), 100);
}

#[test]
fn without_tapping_there_are_only_cues() {
    let mut scenario = scenario(100, 1);
    scenario.tap = None;
    assert_eq!(scenario.taps(SEED, 0).count(), 0);
    let every_seconds = Some(10.0);
    scenario.cue = vec![Cue {
        at_seconds: 5.0,
        every_seconds,
        percent: 50.0,
        within_seconds: 1.0,
    }];
    let taps: usize = (0..100)
        .map(|phone| scenario.taps(SEED, phone).count())
        .sum();
    assert_eq!(taps, 6 * 50);
}
