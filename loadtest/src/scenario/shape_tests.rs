use super::super::{Away, Cue, Distribution, Parting, Scenario, Stall, Tapping, Thresholds};
use super::*;
use serde_json::json;
use std::collections::BTreeSet;

/// A scenario in which everything is set.
fn full() -> Scenario {
    let mut scenario = Scenario::named_or_path("hall").unwrap();
    scenario.tap = Some(Tapping {
        every_seconds: [3.0, 6.0],
        distribution: Distribution::Exponential,
    });
    scenario.cue = vec![Cue {
        at_seconds: 1.0,
        every_seconds: Some(5.0),
        percent: 5.0,
        within_seconds: 1.0,
    }];
    scenario.away = vec![Away {
        at_seconds: 1.0,
        percent: 5.0,
        over_seconds: 1.0,
        for_seconds: [1.0, 2.0],
        how: Parting::Cut,
    }];
    scenario.stall = vec![Stall {
        at_seconds: 1.0,
        percent: 5.0,
        seconds: 1.0,
    }];
    scenario.thresholds = Thresholds {
        delivered_percent_min: Some(99.0),
        lost_max: Some(0),
        doubled_max: Some(0),
        unsettled_max: Some(0),
        joins_refused_max: Some(0),
        join_p95_ms_max: Some(1.0),
        joined_max_ms_max: Some(1.0),
        ack_p99_ms_max: Some(1.0),
        tick_p99_ms_max: Some(1.0),
        beyond_window_p99_ms_max: Some(1.0),
    };
    scenario
}

fn full_values() -> Map<String, Value> {
    match serde_json::to_value(full()).unwrap() {
        Value::Object(table) => table,
        other => panic!("{other}"),
    }
}

/// The tables here and the types of the scenario name the same settings: else one of them would be refused or ignored.
#[test]
fn the_settings_here_are_those_of_the_types() {
    fn same(value: &Value, fields: &[Field]) {
        let Value::Object(table) = value else {
            panic!("{value}")
        };
        let here: BTreeSet<&str> = fields.iter().map(|field| field.name).collect();
        let there: BTreeSet<&str> = table.keys().map(String::as_str).collect();
        assert_eq!(here, there);
        for field in fields {
            match &field.may_be {
                Table(inner) => same(&table[field.name], inner),
                Tables(inner, _) => same(&table[field.name][0], inner),
                _ => {}
            }
        }
    }
    same(&Value::Object(full_values()), SCENARIO);
    assert_eq!(mistakes(&full_values(), SCENARIO), []);
}

/// What is wrong with the full scenario after one value was put in place of another.
fn with(pointer: &str, wrong: Value) -> Vec<String> {
    let mut values = Value::Object(full_values());
    *values.pointer_mut(pointer).unwrap() = wrong;
    let Value::Object(table) = values else {
        unreachable!("it was made as one")
    };
    let found = mistakes(&table, SCENARIO);
    found.iter().map(Mistake::to_string).collect()
}

#[test]
fn bounds_of_single_values() {
    for (pointer, wrong) in [
        ("/title", json!("")),
        ("/title", json!("two\nlines")),
        ("/title", json!("x".repeat(121))),
        ("/title", json!(5)),
        ("/about", json!("  ")),
        ("/phones", json!(0)),
        ("/phones", json!(-5)),
        ("/phones", json!(5.5)),
        ("/phones", json!("many")),
        ("/seconds", json!(0)),
        ("/seconds", json!(86_401)),
        ("/warm_up_seconds", json!(-0.1)),
        ("/gateways", json!(0)),
        ("/rooms", json!([1])),
        ("/rooms/count", json!(0)),
        ("/rooms/sizes", json!("odd")),
        ("/rooms/cooldown_ms", json!(249)),
        ("/rooms/cooldown_ms", json!(60_001)),
        ("/rooms/reactions", json!(13)),
        ("/rooms/more_phones", json!("more")),
        ("/arrive", json!([])),
        ("/arrive", json!({})),
        ("/arrive/0", json!(5)),
        ("/arrive/0/percent", json!(0)),
        ("/arrive/0/percent", json!(100.5)),
        ("/arrive/0/over_seconds", json!(-1)),
        ("/tap/every_seconds", json!(3)),
        ("/tap/every_seconds", json!([3])),
        ("/tap/every_seconds", json!([3, 4, 5])),
        ("/tap/every_seconds", json!([6, 3])),
        ("/tap/every_seconds", json!([0.1, 3])),
        ("/tap/distribution", json!("normal")),
        ("/cue/0/at_seconds", json!(-1)),
        ("/cue/0/every_seconds", json!(0)),
        ("/away/0/for_seconds", json!([0, 1])),
        ("/away/0/how", json!("die")),
        ("/stall/0/seconds", json!(0)),
        ("/thresholds/delivered_percent_min", json!(101)),
        ("/thresholds/lost_max", json!(-1)),
        ("/thresholds/lost_max", json!(0.5)),
        ("/thresholds/tick_p99_ms_max", json!(0)),
    ] {
        let found = with(pointer, wrong.clone());
        assert_eq!(found.len(), 1, "{pointer} {wrong}: {found:?}");
    }
}

#[test]
fn what_would_be_right_is_said() {
    for (pointer, wrong, said) in [
        (
            "/rooms/sizes",
            json!("odd"),
            "rooms.sizes = \"odd\"; give \"even\" or \"uneven\"",
        ),
        (
            "/tap/every_seconds",
            json!([6, 3]),
            "tap.every_seconds = [6,3]; give the least and the most, such as [3, 6], from 0.25 to 3600",
        ),
        (
            "/rooms",
            json!(5),
            "rooms = 5; give a table with count, cooldown_ms",
        ),
        (
            "/thresholds/lost_max",
            json!(-1),
            "thresholds.lost_max = -1; give a whole number, 0 or more",
        ),
        (
            "/arrive/0",
            json!(5),
            "arrive[0] = 5; each is to be a table, not a number",
        ),
    ] {
        assert_eq!(with(pointer, wrong), [said]);
    }
}
