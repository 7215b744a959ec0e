use super::lines::COLUMNS;
use super::*;
use crate::report::{RoomReport, sample};

#[test]
fn it_fits_and_ends_with_the_verdict() {
    let report = sample::run(60);
    let text = table(&report, false);
    if std::env::var_os("SHOW").is_some() {
        eprintln!("{text}");
    }
    for line in text.lines() {
        assert!(line.chars().count() <= COLUMNS, "{line}");
    }
    assert!(text.starts_with("Keynote hall: 5,000 phones in 1 room, 60 s measured\n"));
    assert!(text.ends_with("\nPassed: 6 thresholds held.\n"), "{text}");
    assert!(!text.contains('\x1b'));
    assert!(table(&report, true).contains("\x1b[1;32mPassed"));
}

#[test]
fn what_did_not_hold_is_said_in_words() {
    let mut report = sample::run(60);
    report.lost = Some(3);
    report.delivered -= 120;
    report.generator_busy = 0.97;
    report.cross_checks[1].agrees = false;
    report.cross_checks[1].other_says = 4_000.0;
    report.judge(&sample::thresholds());
    let text = table(&report, false);
    for line in text.lines() {
        assert!(line.chars().count() <= COLUMNS, "{line}");
    }
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in report.crossed.iter().chain(&report.vetoes) {
        assert!(flat.contains(said), "{said}\n{text}");
    }
    assert!(flat.contains("✗ lost 3 at most 0"), "{text}");
    assert!(flat.contains("Not to be believed"), "{text}");
}

#[test]
fn many_rooms_show_those_with_something_missing_first() {
    let mut report = sample::run(60);
    let room = |index: u64| RoomReport {
        code: format!("ROOM{index:02}"),
        phones: 1_000_000 + index,
        expected: 1_000_000_000,
        delivered: 1_000_000_000 - u64::from(index == 3),
        acked: 66_012_000,
        totals: None,
    };
    report.rooms = (0..25).map(room).collect();
    let text = table(&report, false);
    let rooms: Vec<&str> = text.lines().filter(|line| line.contains("ROOM")).collect();
    assert_eq!(rooms.len(), groups::ROOMS_MAX);
    assert!(
        rooms[0].contains("ROOM03") && rooms[1].contains("ROOM24"),
        "{text}"
    );
    assert!(text.contains("and 15 more"), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= COLUMNS, "{line}");
    }
}

#[test]
fn what_could_not_be_measured_is_a_question_mark() {
    let text = table(&RunReport::default(), false);
    assert!(
        text.contains("lost                                 ?"),
        "{text}"
    );
}
