//! How long people waited: over time, and as distributions.

use super::plot::course::Course;
use super::plot::thin::Keep;
use super::plot::{Line, bars, tail};
use super::section as section_of;
use crate::report::{RunReport, Second, words};
use maud::{Markup, html};

/// The section.
pub(super) fn section(report: &RunReport) -> Markup {
    let course = Course {
        id: "waits-course",
        title: "Waits over time, ms",
        unit: " ms",
        keep: Keep::Most,
        lines: lines(&report.seconds),
        window: report.window,
        until: super::load::until(report),
    };
    let content = html! {
        (course.draw())
        (tail::draw("waits-tail", "Waits by percentile, ms", &report.distributions))
        div.grid {
            @for (index, distribution) in report.distributions.iter().enumerate() {
                @let id = format!("waits-bars-{index}");
                (bars::draw(&id, &capital(words::wait(&distribution.name)), distribution))
            }
        }
    };
    let about = "Counted from when a tap was due, not from when it could be sent. Outside the measured window, \
                 shaded, people arrive, the system warms up, and in the end the last answers come in.";
    section_of("waits", "Waits", about, &content)
}

/// Solid is what 99 of 100 did not exceed, dashed what half of them did not.
fn lines(seconds: &[Second]) -> Vec<Line> {
    type Pick = fn(&Second) -> Option<f64>;
    let line = |label: &str, colour: u8, dashed: bool, pick: Pick| Line {
        label: label.to_owned(),
        colour,
        dashed,
        points: seconds
            .iter()
            .filter_map(|second| Some((f64::from(second.at), pick(second)?)))
            .collect(),
    };
    vec![
        line("seen by others, p99", 1, false, |second| {
            second.tick_ms.map(|(_, p99)| p99)
        }),
        line("seen by others, p50", 1, true, |second| {
            second.tick_ms.map(|(p50, _)| p50)
        }),
        line("acknowledged, p99", 2, false, |second| {
            second.ack_ms.map(|(_, p99)| p99)
        }),
        line("acknowledged, p50", 2, true, |second| {
            second.ack_ms.map(|(p50, _)| p50)
        }),
    ]
}

fn capital(text: &str) -> String {
    let mut symbols = text.chars();
    match symbols.next() {
        Some(first) => first.to_uppercase().chain(symbols).collect(),
        None => String::new(),
    }
}
