//! The verdict, the figures that matter most, and what was asked.

use super::{section, sign};
use crate::report::judge::Verdict;
use crate::report::number::{bytes, grouped, share, whole};
use crate::report::table::measured;
use crate::report::{Bound, RunReport, words};
use maud::{Markup, html};

/// Whether it passed; if not, what did not hold, or why nobody knows.
pub(super) fn verdict(report: &RunReport) -> Markup {
    let (class, mark) = match report.verdict() {
        Verdict::Held => ("held", "✓"),
        Verdict::Crossed => ("crossed", "✗"),
        Verdict::GeneratorBound => ("unknown", "?"),
    };
    html! {
        section.verdict.(class) aria-labelledby="verdict-heading" {
            h2 id="verdict-heading" {
                span.mark aria-hidden="true" { (mark) }
                (report.headline())
            }
            @if !report.vetoes.is_empty() {
                h3 { "Why these figures are not to be believed" }
                ul { @for veto in &report.vetoes { li { (veto) } } }
            }
            @if !report.crossed.is_empty() {
                h3 { (did_not_hold(report)) }
                ul { @for crossed in &report.crossed { li { (crossed) } } }
            }
        }
    }
}

fn did_not_hold(report: &RunReport) -> &'static str {
    match report.unmeasured() {
        0 => "What did not hold",
        unknown if unknown == report.crossed.len() => "What could not be measured",
        _ => "What did not hold, or could not be measured",
    }
}

/// Tiles: a name, a figure, and what it is to be seen beside.
pub(super) fn figures(report: &RunReport) -> Markup {
    let unknown = || "not measured".to_owned();
    let ms = |figure: Option<f64>| figure.map_or_else(unknown, |ms| format!("{} ms", grouped(ms)));
    let count = |figure: Option<u64>| figure.map_or_else(unknown, whole);
    let us = |figure: Option<f64>| figure.map_or_else(unknown, |us| format!("{} µs", grouped(us)));
    let delivered = share(report.delivered, report.expected).unwrap_or_else(unknown);
    let frames = format!(
        "{} of {} frames",
        whole(report.delivered),
        whole(report.expected)
    );
    let lost = format!(
        "{} lost, {} doubled",
        count(report.lost),
        count(report.doubled)
    );
    let joined = format!(
        "of {}; {} turned away",
        whole(report.phones),
        whole(report.joins_refused)
    );
    let slowest = format!("the slowest {}", ms(report.joined_max_ms));
    let gateways = report
        .gateway_cores
        .map_or_else(unknown, |cores| format!("{} cores", grouped(cores)));
    let busy = format!(
        "{} %",
        grouped((report.generator_busy * 1000.0).round() / 10.0)
    );
    let late = format!(
        "99 % of taps at most {} ms late",
        grouped(report.generator_late_p99_ms)
    );
    let tiles = [
        (
            "Seen by others, p99",
            ms(report.tick_p99_ms),
            "from a tap to a frame that counts it".to_owned(),
        ),
        (
            "Beyond the window, p99",
            ms(report.beyond_window_p99_ms),
            "less the waits that are meant to be".to_owned(),
        ),
        (
            "Acknowledged, p99",
            ms(report.ack_p99_ms),
            "from a tap to its answer".to_owned(),
        ),
        ("Delivered", delivered, frames),
        ("Taps acknowledged", whole(report.acked), lost),
        ("Phones joined", whole(report.joined), joined),
        ("Join, p95", ms(report.join_p95_ms), slowest),
        (
            "Gateways",
            gateways,
            format!("{} of memory", gateway_memory(report)),
        ),
        (
            "Gateway CPU a frame",
            us(report.gateway_us_per_frame),
            format!("generator: {}", us(report.generator_us_per_frame)),
        ),
        ("Generator busy", busy, late),
    ];
    let content = html! {
        dl.tiles {
            @for (name, figure, beside) in &tiles {
                div { dt { (name) } dd.figure { (figure) } dd { (beside) } }
            }
        }
    };
    section("figures", "Key figures", "", &content)
}

fn gateway_memory(report: &RunReport) -> String {
    let gateways = report.processes.iter().filter(|one| one.kind == "gateway");
    bytes(gateways.map(|one| one.memory_bytes_max).sum())
}

/// Each threshold with what was measured.
pub(super) fn asked(report: &RunReport) -> Markup {
    if report.bounds.is_empty() {
        return html! {};
    }
    let content = html! {
        table.cards role="table" {
            caption { "What was asked of this run, and what it did" }
            thead role="rowgroup" {
                tr role="row" {
                    th scope="col" role="columnheader" { "Threshold" }
                    th.number scope="col" role="columnheader" { "Measured" }
                    th.number scope="col" role="columnheader" { "Bound" }
                    th scope="col" role="columnheader" { "Held" }
                }
            }
            tbody role="rowgroup" {
                @for bound in &report.bounds {
                    @let side = if bound.at_least { "at least" } else { "at most" };
                    tr role="row" {
                        th scope="row" role="rowheader" {
                            code { (bound.figure) }
                            span.meaning { (words::meaning(&bound.figure)) }
                        }
                        td.number role="cell" data-name="Measured" { (measured(report, bound)) }
                        td.number role="cell" data-name="Bound" { (side) " " (grouped(bound.bound)) (bound.unit) }
                        td role="cell" data-name="Held" {
                            (sign(bound.held, held(bound)))
                        }
                    }
                }
            }
        }
    };
    section("asked", "Thresholds", "", &content)
}

fn held(bound: &Bound) -> &'static str {
    match (bound.held, bound.measured) {
        (true, _) => "held",
        (false, None) => "nobody knows",
        (false, Some(_)) => "crossed",
    }
}
