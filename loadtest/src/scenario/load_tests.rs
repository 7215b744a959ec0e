use super::*;
use crate::scenario::{MorePhones, Sizes};

/// A scenario without mistakes, each line of it known.
const RIGHT: &str = r#"title = "T"
about = "A."
phones = 10
seconds = 20
[rooms]
count = 2
cooldown_ms = 3000
[[arrive]]
percent = 40
over_seconds = 0
[[arrive]]
percent = 60
over_seconds = 5
"#;

fn mistakes(text: &str) -> Vec<String> {
    match Scenario::from_toml("mine.toml", text).unwrap_err() {
        ScenarioError::Mistaken { mistakes, .. } => mistakes,
        other => panic!("{other}"),
    }
}

#[test]
fn the_programs_scenarios_have_no_mistakes() {
    for known in &built_in::ALL {
        let scenario = Scenario::named_or_path(known.name).unwrap();
        assert!(!scenario.title.is_empty() && scenario.tap.is_some());
        assert_eq!(scenario.clone().checked().unwrap(), scenario);
    }
}

#[test]
fn the_programs_scenarios_are_what_they_are_called() {
    let get = |name| Scenario::named_or_path(name).unwrap();
    let hall = get("hall");
    assert_eq!((hall.phones, hall.rooms.count), (5000, 1));
    assert_eq!(hall.tap.unwrap().every_seconds, [3.0, 6.0]);
    assert_eq!(hall.thresholds.beyond_window_p99_ms_max, Some(100.0));
    let conference = get("conference");
    assert_eq!(conference.rooms.count, 20);
    assert_eq!(conference.rooms.sizes, Sizes::Uneven);
    let channels = get("channels-of-100");
    assert_eq!(channels.phones / channels.rooms.count, 100);
    assert_eq!(channels.tap.unwrap().every_seconds, [30.0, 60.0]);
    let storm = get("join-storm");
    assert_eq!((storm.phones, storm.arrive[0].over_seconds), (10_000, 0.0));
    assert_eq!(storm.thresholds.joined_max_ms_max, Some(5000.0));
    assert_eq!(get("wifi-drop").away[0].percent, 33.3);
    let stall = get("slow-phones").stall[0];
    assert_eq!((stall.percent, stall.seconds), (10.0, 20.0));
}

#[test]
fn a_file_is_read_and_what_it_leaves_out_is_usual() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, RIGHT).unwrap();
    let scenario = Scenario::named_or_path(path.to_str().unwrap()).unwrap();
    assert_eq!(scenario.rooms.reactions, 6);
    assert_eq!(scenario.rooms.more_phones, MorePhones::LargerRooms);
    assert_eq!(scenario.gateways, 1);
    assert_eq!(scenario.tap, None);
    assert_eq!(scenario.arrive.len(), 2);
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = Scenario::named_or_path("hal").unwrap_err().to_string();
    for known in &built_in::ALL {
        assert!(error.contains(known.name), "{error}");
    }
    assert!(
        error.contains("\"hal\"") && error.contains("Keynote hall"),
        "{error}"
    );
    let error = Scenario::named_or_path("./hal.toml")
        .unwrap_err()
        .to_string();
    assert!(error.contains("./hal.toml cannot be read"), "{error}");
}

#[test]
fn all_mistakes_are_told_at_once_each_with_its_line() {
    let text = RIGHT
        .replace("phones = 10", "phones = 0")
        .replace("seconds = 20", "seconds = inf")
        .replace("cooldown_ms = 3000", "cooldown_ms = 100\ncolour = \"red\"")
        .replace("percent = 60", "percent = 160");
    assert_eq!(
        mistakes(&text),
        [
            "line 3: phones = 0; give a whole number from 1 to 10000000",
            "line 4: seconds = \"inf\"; give a number above 0 and up to 86400",
            "line 7: rooms.cooldown_ms = 100; give a whole number from 250 to 60000",
            "line 8: rooms.colour = \"red\"; there is no such setting here, only count, sizes, \
             cooldown_ms, reactions, more_phones",
            "line 13: arrive[1].percent = 160; give a number above 0 and up to 100",
        ]
    );
    let error = Scenario::from_toml("mine.toml", &text)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("mine.toml has 5 mistakes:\n  line 3: "),
        "{error}"
    );
}

#[test]
fn what_is_missing_is_told_too() {
    let text = "title = \"T\"\nphones = 5\nseconds = 5\n[rooms]\ncount = 1\n";
    assert_eq!(
        mistakes(text),
        [
            "about is missing; say in a sentence or two what it stands for",
            "arrive is missing; give one or more tables in [[…]] with percent, over_seconds",
            "line 4: rooms.cooldown_ms is missing; give a whole number from 250 to 60000",
        ]
    );
}

#[test]
fn contradictions_have_lines() {
    let text = RIGHT.replace("percent = 60", "percent = 50");
    assert_eq!(
        mistakes(&text),
        ["line 12: arrive[1].percent = 50.0; the stages are to sum to 100 and sum to 90"]
    );
    let error = Scenario::from_toml("mine.toml", &text)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("mine.toml has a mistake: line 12: "),
        "{error}"
    );
}

#[test]
fn what_is_not_toml_has_lines_too() {
    let found = mistakes("title = \"T\nphones = = 5\n");
    assert!(found.len() >= 2, "{found:?}");
    assert!(
        found[0].starts_with("line 1: ") && found[1].starts_with("line 2: "),
        "{found:?}"
    );
}
