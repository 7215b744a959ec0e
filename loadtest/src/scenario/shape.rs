//! Which settings a scenario has and which values each of them may take by itself: the one place that says so. What
//! several settings must be to each other is in [`super::rules`].

use super::mistake::{Mistake, Place, kind};
use serde_json::{Map, Value};
use shared::room::{COOLDOWN_MS, REACTIONS_MAX, TITLE_CHARS_MAX, check_title};

/// A setting.
pub(super) struct Field {
    name: &'static str,
    needed: bool,
    may_be: MayBe,
}

/// What a setting may be.
enum MayBe {
    /// A title as a room may have it.
    Title,
    /// Some sentences.
    Text,
    /// A whole number within these bounds.
    Whole(u64, u64),
    /// A number within these bounds.
    Number(f64, f64),
    /// A number above the first and up to the second.
    NumberAbove(f64, f64),
    /// The least and the most, both within these bounds.
    Span(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A table with these settings.
    Table(&'static [Field]),
    /// A list of such tables; true: at least one.
    Tables(&'static [Field], bool),
}
use MayBe::{Number, NumberAbove, Span, Table, Tables, Text, Title, Whole, Word};

const fn needed(name: &'static str, may_be: MayBe) -> Field {
    Field {
        name,
        needed: true,
        may_be,
    }
}

const fn optional(name: &'static str, may_be: MayBe) -> Field {
    Field {
        name,
        needed: false,
        may_be,
    }
}

/// What one shard of a cluster is designed for; more is a slip of the hand.
const PHONES_MAX: u64 = 10_000_000;
/// A day: a run keeps every tap in memory, and nobody waits longer.
const SECONDS_MAX: f64 = 86_400.0;
/// An hour, for waits that are not the measured window itself.
const WAIT_MAX: f64 = 3_600.0;
/// Bounds in milliseconds: a phone gives up long before ten minutes.
const MILLISECONDS_MAX: f64 = 600_000.0;

/// The whole file.
pub(super) const SCENARIO: &[Field] = &[
    needed("title", Title),
    needed("about", Text),
    needed("phones", Whole(1, PHONES_MAX)),
    needed("seconds", NumberAbove(0.0, SECONDS_MAX)),
    optional("warm_up_seconds", Number(0.0, WAIT_MAX)),
    optional("gateways", Whole(1, 64)),
    needed("rooms", Table(ROOMS)),
    needed("arrive", Tables(STAGE, true)),
    optional("tap", Table(TAPPING)),
    optional("cue", Tables(CUE, false)),
    optional("away", Tables(AWAY, false)),
    optional("stall", Tables(STALL, false)),
    optional("thresholds", Table(THRESHOLDS)),
];

const ROOMS: &[Field] = &[
    needed("count", Whole(1, 100_000)),
    optional("sizes", Word(&["even", "uneven"])),
    needed(
        "cooldown_ms",
        Whole(*COOLDOWN_MS.start() as u64, *COOLDOWN_MS.end() as u64),
    ),
    optional("reactions", Whole(1, REACTIONS_MAX as u64)),
    optional("more_phones", Word(&["larger_rooms", "more_rooms"])),
];

const STAGE: &[Field] = &[
    needed("percent", NumberAbove(0.0, 100.0)),
    needed("over_seconds", Number(0.0, WAIT_MAX)),
    optional("after_seconds", Number(0.0, WAIT_MAX)),
];

const TAPPING: &[Field] = &[
    needed("every_seconds", Span(0.25, WAIT_MAX)),
    optional("distribution", Word(&["uniform", "exponential"])),
];

const CUE: &[Field] = &[
    needed("at_seconds", Number(0.0, SECONDS_MAX)),
    optional("every_seconds", NumberAbove(0.0, SECONDS_MAX)),
    needed("percent", NumberAbove(0.0, 100.0)),
    needed("within_seconds", Number(0.0, WAIT_MAX)),
];

const AWAY: &[Field] = &[
    needed("at_seconds", Number(0.0, SECONDS_MAX)),
    needed("percent", NumberAbove(0.0, 100.0)),
    optional("over_seconds", Number(0.0, WAIT_MAX)),
    needed("for_seconds", Span(0.001, SECONDS_MAX)),
    needed("how", Word(&["leave", "cut"])),
];

const STALL: &[Field] = &[
    needed("at_seconds", Number(0.0, SECONDS_MAX)),
    needed("percent", NumberAbove(0.0, 100.0)),
    needed("seconds", NumberAbove(0.0, SECONDS_MAX)),
];

const THRESHOLDS: &[Field] = &[
    optional("delivered_percent_min", Number(0.0, 100.0)),
    optional("lost_max", Whole(0, u64::MAX)),
    optional("doubled_max", Whole(0, u64::MAX)),
    optional("unsettled_max", Whole(0, u64::MAX)),
    optional("joins_refused_max", Whole(0, u64::MAX)),
    optional("join_p95_ms_max", NumberAbove(0.0, MILLISECONDS_MAX)),
    optional("joined_max_ms_max", NumberAbove(0.0, MILLISECONDS_MAX)),
    optional("ack_p99_ms_max", NumberAbove(0.0, MILLISECONDS_MAX)),
    optional("tick_p99_ms_max", NumberAbove(0.0, MILLISECONDS_MAX)),
    optional(
        "beyond_window_p99_ms_max",
        NumberAbove(0.0, MILLISECONDS_MAX),
    ),
];

/// All mistakes in a table, in the order of the fields, then what does not belong there.
pub(super) fn mistakes(table: &Map<String, Value>, fields: &[Field]) -> Vec<Mistake> {
    let mut found = Vec::new();
    check_table(table, fields, &Place::root(), &mut found);
    found
}

fn check_table(
    table: &Map<String, Value>,
    fields: &[Field],
    place: &Place,
    found: &mut Vec<Mistake>,
) {
    for field in fields {
        let place = place.key(field.name);
        match table.get(field.name) {
            // What was left out of a file is null in a scenario that was put together in the program.
            None | Some(Value::Null) if field.needed => {
                found.push(Mistake::missing(place, field.may_be.to_string()));
            }
            None | Some(Value::Null) => {}
            Some(value) => check(value, &field.may_be, &place, found),
        }
    }
    for (key, value) in table {
        if !fields.iter().any(|field| field.name == key) {
            let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
            let right = format!("there is no such setting here, only {}", known.join(", "));
            found.push(Mistake::new(place.key(key), value.clone(), right));
        }
    }
}

fn check(value: &Value, may_be: &MayBe, place: &Place, found: &mut Vec<Mistake>) {
    let within = |low: f64, high: f64| {
        value
            .as_f64()
            .is_some_and(|number| (low..=high).contains(&number))
    };
    let right = match may_be {
        Table(fields) => match value {
            Value::Object(table) => return check_table(table, fields, place, found),
            _ => false,
        },
        Tables(fields, at_least_one) => match value {
            Value::Array(list) if !(list.is_empty() && *at_least_one) => {
                return check_list(list, fields, place, found);
            }
            _ => false,
        },
        Title => match value.as_str().map(check_title) {
            Some(Err(error)) => {
                return found.push(Mistake::new(
                    place.clone(),
                    value.clone(),
                    error.to_string(),
                ));
            }
            titled => titled.is_some(),
        },
        Text => value.as_str().is_some_and(|text| !text.trim().is_empty()),
        Whole(low, high) => value
            .as_u64()
            .is_some_and(|number| (*low..=*high).contains(&number)),
        Number(low, high) => within(*low, *high),
        NumberAbove(low, high) => within(*low, *high) && value.as_f64() > Some(*low),
        Span(low, high) => is_span(value, *low, *high),
        Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
    };
    if !right {
        found.push(Mistake::new(
            place.clone(),
            value.clone(),
            may_be.to_string(),
        ));
    }
}

fn check_list(list: &[Value], fields: &[Field], place: &Place, found: &mut Vec<Mistake>) {
    for (index, value) in list.iter().enumerate() {
        let place = place.index(index);
        match value {
            Value::Object(table) => check_table(table, fields, &place, found),
            other => {
                let right = format!("each is to be a table, not {}", kind(other));
                found.push(Mistake::new(place, other.clone(), right));
            }
        }
    }
}

fn is_span(value: &Value, low: f64, high: f64) -> bool {
    let numbers: Option<Vec<f64>> = value
        .as_array()
        .and_then(|list| list.iter().map(Value::as_f64).collect());
    match numbers.as_deref() {
        Some([least, most]) => low <= *least && least <= most && *most <= high,
        _ => false,
    }
}

/// What would be right.
impl std::fmt::Display for MayBe {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Title => write!(out, "give a line of 1 to {TITLE_CHARS_MAX} characters"),
            Text => write!(out, "say in a sentence or two what it stands for"),
            Whole(low, u64::MAX) => write!(out, "give a whole number, {low} or more"),
            Whole(low, high) => write!(out, "give a whole number from {low} to {high}"),
            Number(low, high) => write!(out, "give a number from {low} to {high}"),
            NumberAbove(low, high) => {
                write!(out, "give a number above {low} and up to {high}")
            }
            Span(low, high) => write!(
                out,
                "give the least and the most, such as [3, 6], from {low} to {high}"
            ),
            Word(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                write!(out, "give {}", quoted.join(" or "))
            }
            Table(fields) => write!(out, "give a table with {}", names(fields)),
            Tables(fields, _) => {
                write!(
                    out,
                    "give one or more tables in [[…]] with {}",
                    names(fields)
                )
            }
        }
    }
}

/// The needed settings of a table; all of them where none is.
fn names(fields: &[Field]) -> String {
    let needed: Vec<&str> = fields
        .iter()
        .filter(|field| field.needed)
        .map(|field| field.name)
        .collect();
    if needed.is_empty() {
        let all: Vec<&str> = fields.iter().map(|field| field.name).collect();
        return all.join(", ");
    }
    needed.join(", ")
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
