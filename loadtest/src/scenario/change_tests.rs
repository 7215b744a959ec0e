use super::*;

fn named(name: &str) -> Scenario {
    Scenario::named_or_path(name).unwrap()
}

#[test]
fn more_phones_make_rooms_larger_or_more() {
    let hall = named("hall").with_phones(400);
    assert_eq!((hall.phones, hall.rooms.count), (400, 1));
    let channels = named("channels-of-100").with_phones(1_000);
    assert_eq!((channels.phones, channels.rooms.count), (1_000, 10));
    let channels = named("channels-of-100").with_phones(30);
    assert_eq!((channels.phones, channels.rooms.count), (30, 1));
    let conference = named("conference").with_phones(9_000);
    assert_eq!((conference.phones, conference.rooms.count), (9_000, 20));
    let conference = named("conference").with_phones(7);
    assert_eq!(conference.rooms.count, 7, "each room needs a phone");
}

#[test]
fn a_longer_run_moves_moments_and_keeps_spans() {
    let drop = named("wifi-drop").with_seconds(600.0);
    assert_eq!(drop.seconds, 600.0);
    assert_eq!(drop.away[0].at_seconds, 200.0);
    assert_eq!(drop.away[0].for_seconds, [5.0, 15.0]);
    let slow = named("slow-phones").with_seconds(600.0);
    assert_eq!(
        (slow.stall[0].at_seconds, slow.stall[0].seconds),
        (150.0, 20.0)
    );
    let hall = named("hall").with_seconds(600.0);
    assert_eq!(hall.cue[0].at_seconds, 150.0);
    assert_eq!(hall.cue[0].every_seconds, Some(20.0));
    assert_eq!(hall.tap, named("hall").tap);
    assert_eq!(hall.warm_up_seconds, 10.0);
}

#[test]
fn a_shorter_run_shrinks_both() {
    let drop = named("wifi-drop").with_seconds(12.0);
    assert_eq!(drop.away[0].at_seconds, 4.0);
    assert_eq!(drop.away[0].for_seconds, [1.0, 3.0]);
    let hall = named("hall").with_seconds(12.0);
    assert_eq!(
        (hall.cue[0].at_seconds, hall.cue[0].within_seconds),
        (3.0, 0.4)
    );
    assert_eq!(hall.cue[0].every_seconds, Some(4.0));
}

#[test]
fn altered_scenarios_stay_right() {
    for name in [
        "hall",
        "conference",
        "channels-of-100",
        "join-storm",
        "wifi-drop",
        "slow-phones",
    ] {
        for seconds in [1.7, 10.0, 33.3, 61.0, 600.0] {
            for phones in [1, 19, 333, 50_000] {
                let altered = named(name).with_phones(phones).with_seconds(seconds);
                altered
                    .checked()
                    .unwrap_or_else(|error| panic!("{name} {seconds} {phones}: {error}"));
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(named("hall").with_phones(0).checked().is_err());
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = named("hall").with_seconds(seconds).checked().unwrap_err();
        assert!(error.to_string().contains("seconds"), "{error}");
    }
}
