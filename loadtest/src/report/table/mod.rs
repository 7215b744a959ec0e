//! A run as a table on a terminal of 80 columns: what was measured, group by group, then what did not hold, then the
//! verdict, where the eye is when the program ends.

mod lines;
mod groups;

use super::judge::Verdict;
use super::number::{grouped, share, whole};
use super::{Bound, RunReport};
use lines::{COLUMNS, Lines, wrap};
use std::io::IsTerminal;

/// Whether standard error takes colours: a terminal, and nobody has asked for none (no-color.org).
pub fn colours_wanted() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !refused
}

/// The table; with colours where they are wanted.
pub fn table(report: &RunReport, colours: bool) -> String {
    let mut lines = Lines::new(colours);
    lines.title(&title(report));
    groups::joins(&mut lines, report);
    groups::frames(&mut lines, report);
    groups::rooms(&mut lines, report);
    groups::taps(&mut lines, report);
    groups::waits(&mut lines, report);
    groups::cost(&mut lines, report);
    cross_checks(&mut lines, report);
    asked(&mut lines, report);
    verdict(&mut lines, report);
    lines.text
}

fn title(report: &RunReport) -> String {
    let rooms = match report.rooms.len() {
        0 => String::new(),
        1 => " in 1 room".to_owned(),
        many => format!(" in {many} rooms"),
    };
    let phones = whole(report.phones);
    let seconds = grouped((report.window.1 - report.window.0).round());
    format!(
        "{}: {phones} phones{rooms}, {seconds} s measured",
        report.scenario
    )
}

fn cross_checks(lines: &mut Lines, report: &RunReport) {
    if report.cross_checks.is_empty() {
        return;
    }
    lines.group("The same from other sides");
    for check in &report.cross_checks {
        let (one, other) = (grouped(check.one_says), grouped(check.other_says));
        let said = format!(
            "{}: {} {one}, {} {other}",
            check.what, check.one, check.other
        );
        lines.marked(2, check.agrees, &said);
    }
}

fn asked(lines: &mut Lines, report: &RunReport) {
    if report.bounds.is_empty() {
        return;
    }
    lines.group("Asked                     measured  bound");
    for bound in &report.bounds {
        let Bound { figure, unit, .. } = bound;
        let mark = lines.mark(bound.held);
        let measured = measured(report, bound);
        let side = if bound.at_least {
            "at least"
        } else {
            "at most"
        };
        let allowed = format!("{side} {}{unit}", grouped(bound.bound));
        lines.line(&format!("  {mark} {figure:<20}{measured:>10}  {allowed}"));
    }
}

/// What was measured of a figure; a share never looks like all of it when it is not.
pub(super) fn measured(report: &RunReport, bound: &Bound) -> String {
    match bound.measured {
        None => "?".to_owned(),
        Some(_) if bound.figure == "delivered" => {
            share(report.delivered, report.expected).unwrap_or_default()
        }
        Some(measured) => format!("{}{}", grouped(measured), bound.unit),
    }
}

fn verdict(lines: &mut Lines, report: &RunReport) {
    lines.text.push('\n');
    for said in report.vetoes.iter().chain(&report.crossed) {
        lines.marked(0, false, said);
    }
    let code = match report.verdict() {
        Verdict::Held => "1;32",
        Verdict::Crossed => "1;31",
        Verdict::GeneratorBound => "1;33",
    };
    for line in wrap(&report.headline(), COLUMNS) {
        let line = lines.styled(code, &line);
        lines.line(&line);
    }
}

#[cfg(test)]
mod tests;
