use super::super::harvest::{FrameSeen, PhoneHarvest};
use super::*;

fn log(gateway: &str, sums: &[u64]) -> FrameLog {
    let frames = sums.iter().map(|sum| FrameSeen {
        sum: *sum,
        first_us: *sum,
        first_phone: 1,
        second_us: None,
        totals: vec![(0, *sum)],
    });
    FrameLog {
        room: 0,
        gateway: gateway.to_owned(),
        frames: frames.collect(),
    }
}

fn stay(gateway: &str, from_sum: u64, until_sum: u64, ticks: u64) -> Stay {
    Stay {
        gateway: gateway.to_owned(),
        from_sum,
        until_sum,
        ticks,
        ..Stay::default()
    }
}

fn harvest(frames: Vec<FrameLog>, stays: Vec<Stay>) -> Harvest {
    let phones = (0..).zip(stays).map(|(phone, stay)| PhoneHarvest {
        phone,
        stays: vec![stay],
        ..PhoneHarvest::default()
    });
    Harvest {
        phones: phones.collect(),
        frames,
        ..Harvest::default()
    }
}

fn of_one(sums: &[u64], stay: Stay) -> (u64, u64) {
    let evaluation = Evaluation::new(&[harvest(vec![log("a", sums)], vec![stay])], 1);
    assert_eq!(evaluation.rooms, [evaluation.total()]);
    (evaluation.total().expected, evaluation.total().delivered)
}

#[test]
fn what_was_sent_between_join_and_end_had_to_come() {
    let sums = [2, 5, 7, 9];
    assert_eq!(of_one(&sums, stay("a", 2, 7, 2)), (2, 2));
    assert_eq!(of_one(&sums, stay("a", 2, 7, 1)), (2, 1));
    assert_eq!(of_one(&sums, stay("a", 3, 3, 0)), (0, 0));
    // A second sight of the same makes up for nothing.
    assert_eq!(of_one(&sums, stay("a", 2, 7, 5)), (2, 2));
}

#[test]
fn whoever_stayed_to_the_end_had_to_get_the_last() {
    let mut last_missing = stay("a", 2, 7, 2);
    last_missing.to_the_end = true;
    assert_eq!(of_one(&[2, 5, 7, 9], last_missing), (3, 2));
}

#[test]
fn a_frame_with_all_totals_stands_for_those_it_skips() {
    let mut behind = stay("a", 2, 9, 1);
    behind.skipped = vec![(2, 7)];
    assert_eq!(of_one(&[2, 5, 7, 9], behind), (3, 3));
}

#[test]
fn one_generator_proves_what_the_others_should_have_got() {
    let one = harvest(vec![log("a", &[2, 5, 7])], vec![stay("a", 2, 7, 2)]);
    let other = harvest(vec![log("a", &[2, 7])], vec![stay("a", 2, 7, 1)]);
    let total = Evaluation::new(&[one, other], 1).total();
    assert_eq!((total.expected, total.delivered), (4, 3));
}

#[test]
fn gateways_send_frames_of_their_own() {
    let logs = vec![log("a", &[2, 5]), log("b", &[3, 4, 5])];
    let stays = vec![stay("a", 2, 5, 1), stay("b", 2, 5, 3), stay("c", 1, 1, 0)];
    let total = Evaluation::new(&[harvest(logs, stays)], 1).total();
    assert_eq!((total.expected, total.delivered), (4, 4));
}

#[test]
fn one_frame_in_ten_thousand_is_noticed() {
    let sums: Vec<u64> = (0..=100).collect();
    let mut stays: Vec<Stay> = (0..100).map(|_| stay("a", 0, 100, 100)).collect();
    stays[17].ticks -= 1;
    let total = Evaluation::new(&[harvest(vec![log("a", &sums)], stays)], 1).total();
    assert_eq!((total.expected, total.delivered), (10_000, 9_999));
}

#[test]
fn waits_count_from_when_a_tap_was_due_and_only_in_the_window() {
    let tap = |due_us, sent_us, fate| TapHarvest {
        key: 0,
        due_us,
        sent_us,
        late_us: u32::try_from(sent_us - due_us).unwrap(),
        attempts: 1,
        fate,
    };
    let mut harvest = harvest(Vec::new(), vec![stay("a", 0, 0, 0)]);
    harvest.phones[0].stays[0].due_us = 7;
    harvest.phones[0].stays[0].joined_us = 9;
    harvest.phones[0].taps = vec![
        tap(5, 5, TapFate::Acknowledged(9)),
        tap(10, 40, TapFate::Acknowledged(50)),
        tap(19, 19, TapFate::Waiting),
        tap(20, 20, TapFate::Acknowledged(21)),
    ];
    let harvests = [harvest];
    assert_eq!(ack_waits(&harvests, 10..20).collect::<Vec<_>>(), [(10, 40)]);
    assert_eq!(lateness(&harvests, 10..20).collect::<Vec<_>>(), [30, 0]);
    assert_eq!(join_waits(&harvests).collect::<Vec<_>>(), [(7, 2)]);
}
