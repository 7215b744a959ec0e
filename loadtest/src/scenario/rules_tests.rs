use super::super::{Away, Cue, Parting, Stall};
use super::*;

/// What contradicts itself in the hall once it was altered.
fn after(alter: impl FnOnce(&mut Scenario)) -> Vec<String> {
    let mut scenario = Scenario::named_or_path("hall").unwrap();
    alter(&mut scenario);
    let found = scenario.contradictions();
    found.iter().map(Mistake::to_string).collect()
}

#[test]
fn each_room_needs_a_phone() {
    let found = after(|hall| hall.rooms.count = 5001);
    assert_eq!(
        found,
        ["rooms.count = 5001; there are 5000 phones, and each room needs one"]
    );
    assert!(after(|hall| hall.rooms.count = 5000).is_empty());
}

#[test]
fn stages_sum_to_a_hundred() {
    assert_eq!(
        after(|hall| hall.arrive[2].percent = 10.1),
        ["arrive[2].percent = 10.1; the stages are to sum to 100 and sum to 100.1"]
    );
    let thirds = after(|hall| {
        for stage in &mut hall.arrive {
            stage.percent = 33.33;
        }
    });
    assert!(thirds.is_empty(), "{thirds:?}");
}

#[test]
fn nobody_taps_sooner_than_the_cooldown() {
    assert_eq!(
        after(|hall| hall.rooms.cooldown_ms = 3001),
        [
            "tap.every_seconds = [3.0,6.0]; nobody can tap sooner than the cooldown of 3.001 s allows \
             (rooms.cooldown_ms)"
        ]
    );
}

#[test]
fn what_happens_ends_within_the_run() {
    let cue = Cue {
        at_seconds: 59.0,
        every_seconds: None,
        percent: 5.0,
        within_seconds: 1.5,
    };
    assert_eq!(
        after(|hall| hall.cue = vec![cue]),
        ["cue[0].at_seconds = 59.0; the cue is over after 60.5 s, but the run is after 60 s"]
    );
    let away = Away {
        at_seconds: 30.0,
        percent: 5.0,
        over_seconds: 15.0,
        for_seconds: [5.0, 16.0],
        how: Parting::Leave,
    };
    assert_eq!(
        after(|hall| hall.away = vec![away]),
        ["away[0].at_seconds = 30.0; the absence is over after 61 s, but the run is after 60 s"]
    );
    let stall = |seconds| Stall {
        at_seconds: 40.0,
        percent: 5.0,
        seconds,
    };
    assert_eq!(after(|hall| hall.stall = vec![stall(20.1)]).len(), 1);
    assert!(after(|hall| hall.stall = vec![stall(20.0)]).is_empty());
}

#[test]
fn cues_do_not_overlap_themselves() {
    let found = after(|hall| hall.cue[0].every_seconds = Some(1.0));
    assert_eq!(
        found,
        [
            "cue[0].every_seconds = 1.0; the next cue would come before this one, within 2 s, is over"
        ]
    );
}

#[test]
fn nothing_is_asked_of_taps_that_nobody_makes() {
    let found = after(|hall| {
        hall.tap = None;
        hall.cue.clear();
    });
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("thresholds.delivered_percent_min = 100.0; nobody taps"));
    assert!(found[1].starts_with("thresholds.beyond_window_p99_ms_max = 100.0; nobody taps"));
    // Cues are taps, too.
    assert!(after(|hall| hall.tap = None).is_empty());
}

#[test]
fn all_contradictions_are_told() {
    let found = after(|hall| {
        hall.rooms.count = 5001;
        hall.arrive[0].percent = 50.0;
        hall.rooms.cooldown_ms = 4000;
    });
    assert_eq!(found.len(), 3, "{found:?}");
}
