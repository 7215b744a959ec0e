use super::*;
use crate::report::{RoomReport, sample};

/// Some 400 KB open at once on any phone.
const BYTES_MAX: usize = 400_000;

#[test]
fn it_is_one_file_that_asks_for_nothing() {
    let page = page(&sample::run(60));
    if let Some(path) = std::env::var_os("PAGE") {
        std::fs::write(path, &page).unwrap();
    }
    for outside in [
        "http://", "https://", "<script", "url(", "@import", " src=", "<img",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<link").count(), 1);
    for wrong in ["NaN", "inf\"", "infinity"] {
        assert!(!page.contains(wrong), "{wrong}");
    }
}

#[test]
fn everything_that_was_measured_is_in_it() {
    let report = sample::run(60);
    let page = page(&report);
    for section in [
        "figures",
        "asked",
        "waits",
        "load",
        "processes",
        "rooms",
        "cross-checks",
        "errors",
        "definitions",
        "circumstances",
    ] {
        assert!(
            page.contains(&format!("<section id=\"{section}\"")),
            "{section}"
        );
    }
    for process in &report.processes {
        assert!(page.contains(&process.name), "{}", process.name);
    }
    for check in &report.cross_checks {
        assert!(page.contains(&check.other), "{}", check.other);
    }
    assert!(page.contains("1,203,400") && page.contains("Passed: 6 thresholds held."));
    assert!(page.contains(&report.circumstances.command));
}

#[test]
fn pictures_have_words_and_ids_are_unique() {
    let page = page(&sample::run(60));
    let pictures = page.matches("role=\"img\"").count();
    assert!(pictures >= 10);
    assert_eq!(page.matches("<desc id=").count(), pictures);
    assert_eq!(page.matches("<title id=").count(), pictures);
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let unique: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for referred in page.split("aria-labelledby=\"").skip(1) {
        for id in referred.split('"').next().unwrap().split(' ') {
            assert!(unique.contains(id), "{id}");
        }
    }
}

#[test]
fn long_runs_of_many_rooms_stay_small() {
    let mut report = sample::run(600);
    let room = |index: u64| RoomReport {
        code: format!("ROOM{index:03}"),
        phones: 1000,
        expected: 1_000_000 + index,
        delivered: 1_000_000 + index - u64::from(index == 700),
        ..RoomReport::default()
    };
    report.rooms = (0..1000).map(room).collect();
    let page = page(&report);
    if let Some(path) = std::env::var_os("LONG_PAGE") {
        std::fs::write(path, &page).unwrap();
    }
    assert!(page.len() < BYTES_MAX, "{} bytes", page.len());
    let first = page.split("<th scope=\"row\">ROOM").nth(1).unwrap();
    assert!(
        first.starts_with("700"),
        "the room with something missing comes first"
    );
    assert!(page.contains("And 900 more"));
}

#[test]
fn what_did_not_hold_comes_first() {
    let mut report = sample::run(60);
    report.lost = Some(3);
    report.cross_checks[0].agrees = false;
    report.generator_busy = 0.97;
    report.judge(&sample::thresholds());
    let page = page(&report);
    if let Some(path) = std::env::var_os("BAD_PAGE") {
        std::fs::write(path, &page).unwrap();
    }
    let (verdict, _) = page.split_once("Key figures").unwrap();
    for said in report.crossed.iter().chain(&report.vetoes) {
        assert!(verdict.contains(said), "{said}");
    }
    assert!(page.contains("<title>Keynote hall, 5,000 phones: not to be believed</title>"));
}

#[test]
fn an_empty_report_is_a_page_too() {
    let page = page(&RunReport::default());
    assert!(
        page.contains("not measured") && !page.contains("NaN"),
        "{page}"
    );
}

#[test]
fn names_from_outside_are_text() {
    let mut report = sample::run(60);
    report.scenario = "<b>\"Hall\" & more".to_owned();
    report.rooms[0].code = "<script>".to_owned();
    let page = page(&report);
    assert!(page.contains("&lt;b&gt;&quot;Hall&quot; &amp; more") && !page.contains("<script"));
}
