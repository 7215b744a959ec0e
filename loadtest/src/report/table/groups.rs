//! What was measured, group by group.

use super::lines::Lines;
use crate::report::number::{bytes, grouped, share, whole};
use crate::report::{Distribution, RoomReport, RunReport, words};
use std::cmp::Reverse;
use std::fmt::Write;

/// More rooms than this are for the page and the JSON.
pub(super) const ROOMS_MAX: usize = 10;

pub(super) fn joins(lines: &mut Lines, report: &RunReport) {
    lines.group("Joining");
    let refused = whole(report.joins_refused);
    let note = format!("of {}; {refused} turned away", whole(report.phones));
    lines.row("joined", &whole(report.joined), &note);
    lines.row("95 of 100 within", &milliseconds(report.join_p95_ms), "");
    lines.row(
        "the slowest within",
        &milliseconds(report.joined_max_ms),
        "",
    );
    if let Some(joins) = report.joins_per_core_second {
        let note = "per second of a gateway core";
        lines.row("joins", &grouped(joins.round()), note);
    }
}

pub(super) fn frames(lines: &mut Lines, report: &RunReport) {
    lines.group("Frames");
    lines.row("expected", &whole(report.expected), "");
    let part = share(report.delivered, report.expected).unwrap_or_default();
    lines.row("delivered", &whole(report.delivered), &part);
}

/// Where there is one room, all of this is said elsewhere.
pub(super) fn rooms(lines: &mut Lines, report: &RunReport) {
    if report.rooms.len() < 2 {
        return;
    }
    lines.group(&room_line(
        "Rooms",
        ["phones", "expected", "delivered", "acked", "counted"],
    ));
    // Those with something missing first: they are why anybody looks here.
    let mut rooms: Vec<&RoomReport> = report.rooms.iter().collect();
    rooms.sort_by_key(|room| (room.delivered == room.expected, Reverse(room.phones)));
    for room in rooms.iter().take(ROOMS_MAX) {
        let numbers = [room.phones, room.expected, room.delivered, room.acked].map(whole);
        let [phones, expected, delivered, acked] = numbers.each_ref().map(String::as_str);
        let totals = counted(room.totals);
        let line = room_line(
            &format!("  {}", room.code),
            [phones, expected, delivered, acked, &totals],
        );
        lines.line(&line);
    }
    if let Some(more) = rooms.len().checked_sub(ROOMS_MAX).filter(|more| *more > 0) {
        lines.line(&format!("  and {more} more, in the page and in the JSON"));
    }
}

fn room_line(code: &str, numbers: [&str; 5]) -> String {
    let mut line = format!("{code:<12}");
    for number in numbers {
        let _ = write!(line, "{number:>13}");
    }
    line
}

pub(super) fn taps(lines: &mut Lines, report: &RunReport) {
    lines.group("Taps");
    let (refused, unsettled) = (whole(report.taps_refused), whole(report.unsettled));
    let note = format!("{refused} refused, {unsettled} unsettled");
    lines.row("acknowledged", &whole(report.acked), &note);
    lines.row("counted in Redis", &counted(report.totals), "");
    lines.row("rows in taps", &counted(report.taps), "in Postgres");
    lines.row(
        "sums of tap_counts",
        &counted(report.tap_counts),
        "in Postgres",
    );
    lines.row(
        "lost",
        &counted(report.lost),
        "acknowledged and not counted",
    );
    lines.row(
        "doubled",
        &counted(report.doubled),
        "counted more often than sent",
    );
}

pub(super) fn waits(lines: &mut Lines, report: &RunReport) {
    if report.distributions.is_empty() {
        return;
    }
    let waits_line = |name: &str, waits: [String; 5], count: &str| {
        let mut line = format!("{name:<19}");
        for wait in waits {
            let _ = write!(line, "{wait:>10}");
        }
        format!("{line}{count:>11}")
    };
    let percents = ["50 %", "90 %", "99 %", "99.9 %", "max"].map(str::to_owned);
    lines.group(&waits_line("Waits, ms", percents, "of"));
    for distribution in &report.distributions {
        let Distribution {
            name,
            count,
            percentiles: [p50, p90, _, p99, p999, max],
            ..
        } = distribution;
        let name = format!("  {}", words::wait(name));
        let waits = [p50, p90, p99, p999, max].map(|wait| tenths(*wait));
        lines.line(&waits_line(&name, waits, &whole(*count)));
    }
}

pub(super) fn cost(lines: &mut Lines, report: &RunReport) {
    lines.group("Cost                       cores        memory");
    for process in &report.processes {
        let memory = bytes(process.memory_bytes_max);
        let name: String = process.name.chars().take(24).collect();
        lines.line(&format!("  {name:<24}{:>6.3}{memory:>14}", process.cores));
    }
    let us = |figure: Option<f64>| figure.map_or("?".to_owned(), grouped);
    let gateways = us(report.gateway_us_per_frame);
    let generator = us(report.generator_us_per_frame);
    lines.line(&format!(
        "  per frame: gateways {gateways} µs to send, generator {generator} µs to receive"
    ));
    let busy = grouped((report.generator_busy * 1000.0).round() / 10.0);
    let late = grouped(report.generator_late_p99_ms);
    lines.line(&format!(
        "  generator: {busy} % busy, 99 of 100 taps at most {late} ms late"
    ));
    for (error, times) in &report.errors {
        lines.sentence("  ", 2, &format!("{} times: {error}", whole(*times)));
    }
}

/// A wait of which tenths of a millisecond say something, so that columns align.
fn tenths(wait: f64) -> String {
    if wait < 1000.0 {
        return format!("{wait:.1}");
    }
    grouped(wait.round())
}

fn milliseconds(figure: Option<f64>) -> String {
    figure.map_or("?".to_owned(), |ms| format!("{} ms", grouped(ms)))
}

fn counted(figure: Option<u64>) -> String {
    figure.map_or("?".to_owned(), whole)
}
