//! What the phones did, second by second.

use super::plot::Line;
use super::plot::course::Course;
use super::plot::thin::Keep;
use crate::report::number::float;
use crate::report::{RunReport, Second};
use maud::{Markup, html};

/// The last second that anything is known of.
pub(super) fn until(report: &RunReport) -> f64 {
    let seconds = report.seconds.iter().map(|second| second.at);
    let processes = report.processes.iter().flat_map(|process| &process.seconds);
    let last = seconds
        .chain(processes.map(|(at, ..)| *at))
        .max()
        .unwrap_or(0);
    f64::from(last).max(report.window.1)
}

/// The section.
pub(super) fn section(report: &RunReport) -> Markup {
    let course = |id: &'static str, title: &'static str, keep, pick: fn(&Second) -> u64| {
        let points = |second: &Second| (f64::from(second.at), float(pick(second)));
        let line = Line {
            label: title.to_owned(),
            colour: 1,
            dashed: false,
            points: report.seconds.iter().map(points).collect(),
        };
        Course {
            id,
            title,
            unit: "",
            keep,
            lines: vec![line],
            window: report.window,
            until: until(report),
        }
    };
    let failed = report.seconds.iter().any(|second| second.errors > 0);
    let content = html! {
        div.grid {
            (course("phones", "Phones in their rooms", Keep::Most, |second| second.joined).draw())
            (course("taps", "Taps a second", Keep::Mean, |second| second.taps).draw())
            (course("frames", "Frames received a second", Keep::Mean, |second| second.frames).draw())
            @if failed {
                (course("failures", "Failures a second", Keep::Most, |second| {
                    second.errors
                }).draw())
            }
        }
    };
    let about = "Second by second; shaded is what lies outside the measured window. A failure is a connection that \
                 could not be made, or broke without being meant to.";
    super::section("load", "What the phones did", about, &content)
}
