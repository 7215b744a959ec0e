use super::*;

const KEYS: [&str; 3] = ["clap", "laugh", "heart"];

fn table() -> Table {
    Table::new(0, "0badcafe", KEYS.map(|key| key.parse().unwrap()).to_vec())
}

fn totals(totals: &[(&str, u64)]) -> String {
    let totals = totals
        .iter()
        .map(|(key, total)| format!("\"{key}\":{total}"));
    totals.collect::<Vec<_>>().join(",")
}

fn tick(changed: &[(&str, u64)]) -> Vec<u8> {
    format!(r#"{{"tick":{{"totals":{{{}}}}}}}"#, totals(changed)).into_bytes()
}

fn room(all: &[(&str, u64)]) -> Vec<u8> {
    let palette = r#"[{"key":"clap","emoji":"👏","label":"Applause"}]"#;
    let totals = totals(all);
    let room = format!(
        r#"{{"room":{{"title":"T","palette":{palette},"cooldown_ms":3000,"state":"open","totals":{{{totals}}}}}}}"#
    );
    room.into_bytes()
}

/// Who saw it when is not asked.
fn sum(table: &mut Table, payload: &[u8]) -> u64 {
    match table.meaning(payload, 1, 1).unwrap() {
        Meaning::Tick(sum) | Meaning::Room(sum, _) => sum,
    }
}

#[test]
fn a_frame_is_known_by_its_bytes_and_two_sights_are_noted() {
    let mut table = table();
    assert_eq!(
        table.meaning(&room(&[("clap", 5)]), 10, 1),
        Some(Meaning::Room(5, true))
    );
    let next = tick(&[("clap", 7), ("heart", 2)]);
    for (at, phone) in [(20, 1), (21, 1), (22, 2), (23, 3)] {
        assert_eq!(table.meaning(&next, at, phone), Some(Meaning::Tick(9)));
    }
    assert_eq!(table.meaning(br#"{"pong":1}"#, 24, 1), None);
    assert_eq!(table.meaning(br#"{"tick":{"totals":{"#, 24, 1), None);
    let (index, gateway, log) = table.into_log();
    assert_eq!((index, gateway.as_str()), (0, "0badcafe"));
    let seen = FrameSeen {
        sum: 9,
        first_us: 20,
        first_phone: 1,
        second_us: Some(22),
        totals: vec![(0, 7), (2, 2)],
    };
    assert_eq!(log, [seen]);
}

#[test]
fn a_frame_has_the_same_sum_whoever_shows_it_first() {
    let joins = room(&[("clap", 1), ("laugh", 1)]);
    let (one, two) = (tick(&[("clap", 4)]), tick(&[("laugh", 3)]));
    let three = tick(&[("clap", 5), ("heart", 1)]);
    let late_join = room(&[("clap", 4), ("laugh", 3)]);
    let mut in_step = table();
    let expected = [&joins, &one, &two, &three].map(|frame| sum(&mut in_step, frame));
    assert_eq!(expected, [2, 5, 7, 9]);

    // One joins with the second tick's state and shows the third, before another shows the first and second.
    let mut crossed = table();
    sum(&mut crossed, &joins);
    assert_eq!(sum(&mut crossed, &late_join), 7);
    assert_eq!(sum(&mut crossed, &three), 9);
    assert_eq!(sum(&mut crossed, &one), 5);
    assert_eq!(sum(&mut crossed, &two), 7);
    let sums =
        |table: Table| -> Vec<u64> { table.into_log().2.iter().map(|seen| seen.sum).collect() };
    assert_eq!(sums(crossed), sums(in_step));
}

#[test]
fn a_frame_from_before_all_of_a_threads_phones_is_needed_by_none() {
    let mut table = table();
    sum(&mut table, &room(&[("clap", 9)]));
    let old = tick(&[("clap", 8)]);
    assert_eq!(table.meaning(&old, 1, 1), Some(Meaning::Tick(0)));
    assert_eq!(table.into_log().2, []);
}

#[test]
fn whoever_lags_by_many_frames_is_understood() {
    let mut table = table();
    sum(&mut table, &room(&[]));
    let frames: Vec<Vec<u8>> = (1..=900).map(|total| tick(&[("clap", total)])).collect();
    for (frame, total) in frames.iter().zip(1..) {
        assert_eq!(sum(&mut table, frame), total);
    }
    for (frame, total) in frames.iter().zip(1..) {
        assert_eq!(table.meaning(frame, 99, 2), Some(Meaning::Tick(total)));
    }
    let (.., log) = table.into_log();
    assert_eq!(log.len(), 900);
    assert!(log.iter().all(|seen| seen.second_us == Some(99)));
}

#[test]
fn a_reaction_that_the_plan_does_not_know_counts_too() {
    let mut table = table();
    sum(&mut table, &room(&[("clap", 1)]));
    assert_eq!(sum(&mut table, &tick(&[("wave", 4)])), 5);
    assert_eq!(sum(&mut table, &tick(&[("wave", 6)])), 7);
    assert_eq!(table.into_log().2[0].totals, [(3, 4)]);
}
