//! Whether a run passed: from its figures and its thresholds, without any I/O.
//!
//! A veto wins over a crossed threshold: when the generator was the bottleneck, the figures tell about the generator.

use super::number::{float, grouped, share, whole};
use super::{Bound, RunReport};
use crate::scenario::Thresholds;

/// Above this share of a core, the busiest generator thread makes phones wait for each other: by queueing theory a
/// server that is 80 % busy already keeps its customers waiting four times as long as it serves them.
pub const GENERATOR_BUSY_MAX: f64 = 0.80;
/// Taps that are sent later than this, 99 of 100, were not the taps of the scenario. It is half of what the strictest
/// threshold (100 ms beyond the window) asks of the servers.
pub const GENERATOR_LATE_P99_MS_MAX: f64 = 50.0;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All held.
    Held,
    /// At least one threshold or cross-check did not, or could not be measured.
    Crossed,
    /// Nobody knows: the generator was the bottleneck.
    GeneratorBound,
}

impl Verdict {
    /// The program's exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Held => 0,
            Verdict::Crossed => 99,
            Verdict::GeneratorBound => 98,
        }
    }
}

impl RunReport {
    /// Fills `bounds`, `crossed`, `vetoes` and `passed` from the figures, whatever they were before.
    pub fn judge(&mut self, thresholds: &Thresholds) {
        self.bounds = bounds(self, thresholds);
        self.crossed = crossed(self);
        self.vetoes = vetoes(self);
        self.passed = self.verdict() == Verdict::Held;
    }

    /// How it ended; to be asked after [`RunReport::judge`].
    pub fn verdict(&self) -> Verdict {
        match (self.vetoes.as_slice(), self.crossed.as_slice()) {
            ([], []) => Verdict::Held,
            ([], _) => Verdict::Crossed,
            _ => Verdict::GeneratorBound,
        }
    }

    /// The program's exit code: 0 held, 99 crossed, 98 the generator was the bottleneck.
    pub fn exit_code(&self) -> u8 {
        self.verdict().exit_code()
    }

    /// How many thresholds count as crossed since nobody knows.
    pub fn unmeasured(&self) -> usize {
        let bounds = self.bounds.iter();
        bounds.filter(|bound| bound.measured.is_none()).count()
    }

    /// The verdict in a sentence, for tables and pages.
    pub fn headline(&self) -> String {
        let early = if self.interrupted {
            " It was interrupted: this is what was measured until then."
        } else {
            ""
        };
        let asked = self.bounds.len();
        let unknown = self.unmeasured();
        let crossed = self.crossed.len() - unknown;
        let said = match self.verdict() {
            Verdict::Held if asked == 0 => "Passed: no threshold was asked.".to_owned(),
            Verdict::Held => format!("Passed: {} held.", count(asked, "threshold")),
            Verdict::Crossed if unknown == 0 => {
                format!("Not passed: {} did not hold.", count(crossed, "check"))
            }
            Verdict::Crossed if crossed == 0 => format!(
                "Not passed: {} could not be measured.",
                count(unknown, "threshold")
            ),
            Verdict::Crossed => format!(
                "Not passed: {} did not hold, and {} could not be measured.",
                count(crossed, "check"),
                count(unknown, "threshold")
            ),
            Verdict::GeneratorBound if crossed == 0 => {
                "Not to be believed: the generator was the bottleneck.".to_owned()
            }
            Verdict::GeneratorBound => format!(
                "Not to be believed: the generator was the bottleneck. {} did not hold either, which \
                 may be its doing.",
                count(crossed, "check")
            ),
        };
        said + early
    }
}

fn count(number: usize, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {what}{s}")
}

/// Each threshold that was asked, with what was measured.
fn bounds(report: &RunReport, asked: &Thresholds) -> Vec<Bound> {
    let at_most = |figure: &str, unit: &str, measured: Option<f64>, bound: Option<f64>| {
        bound.map(|bound| Bound {
            figure: figure.to_owned(),
            unit: unit.to_owned(),
            measured,
            bound,
            at_least: false,
            held: measured.is_some_and(|measured| measured <= bound),
        })
    };
    let counted = |figure: &str, measured: Option<u64>, bound: Option<u64>| {
        at_most(figure, "", measured.map(float), bound.map(float))
    };
    let ms = |figure: &str, measured: Option<f64>, bound: Option<f64>| {
        at_most(figure, " ms", measured, bound)
    };
    let refused = Some(float(report.joins_refused));
    let refused_max = asked.joins_refused_max.map(float);
    let all = [
        asked
            .delivered_percent_min
            .map(|bound| delivered(report, bound)),
        counted("lost", report.lost, asked.lost_max),
        counted("doubled", report.doubled, asked.doubled_max),
        counted("unsettled", Some(report.unsettled), asked.unsettled_max),
        at_most("joins_refused", "", refused, refused_max),
        ms("join_p95_ms", report.join_p95_ms, asked.join_p95_ms_max),
        ms(
            "joined_max_ms",
            report.joined_max_ms,
            asked.joined_max_ms_max,
        ),
        ms("ack_p99_ms", report.ack_p99_ms, asked.ack_p99_ms_max),
        ms("tick_p99_ms", report.tick_p99_ms, asked.tick_p99_ms_max),
        ms(
            "beyond_window_p99_ms",
            report.beyond_window_p99_ms,
            asked.beyond_window_p99_ms_max,
        ),
    ];
    all.into_iter().flatten().collect()
}

/// A run in which no frame had to be delivered has shown nothing about delivery.
fn delivered(report: &RunReport, bound: f64) -> Bound {
    let measured =
        (report.expected > 0).then(|| float(report.delivered) * 100.0 / float(report.expected));
    Bound {
        figure: "delivered".to_owned(),
        unit: " %".to_owned(),
        measured,
        bound,
        at_least: true,
        // More than had to be is a mistake of the counting, and never counts as all.
        held: measured.is_some_and(|percent| percent >= bound && percent <= 100.0),
    }
}

fn crossed(report: &RunReport) -> Vec<String> {
    let bounds = report.bounds.iter().filter(|bound| !bound.held);
    let mut crossed: Vec<String> = bounds.map(|bound| sentence(report, bound)).collect();
    let asked = report
        .bounds
        .iter()
        .any(|bound| bound.figure == "joins_refused");
    if asked && report.joined < report.phones && !report.interrupted {
        crossed.push(format!(
            "joined: {} of {} phones never came into their room",
            whole(report.phones - report.joined),
            whole(report.phones)
        ));
    }
    let checks = report.cross_checks.iter().filter(|check| !check.agrees);
    crossed.extend(checks.map(|check| {
        format!(
            "{}: {} says {}, {} says {}",
            check.what,
            check.one,
            grouped(check.one_says),
            check.other,
            grouped(check.other_says)
        )
    }));
    crossed
}

/// Names the figure, the bound and by how much it was crossed.
fn sentence(report: &RunReport, crossed: &Bound) -> String {
    let Bound { figure, unit, .. } = crossed;
    let bound = grouped(crossed.bound);
    let Some(measured) = crossed.measured else {
        let side = if crossed.at_least {
            "at least"
        } else {
            "at most"
        };
        let remedy = report.out_of_reach.get(figure);
        let remedy = remedy.map(|remedy| format!(": {remedy}"));
        return format!(
            "{figure} could not be measured, so nobody knows whether it is {side} {bound}{unit}{}",
            remedy.unwrap_or_default()
        );
    };
    if figure == "delivered" {
        return undelivered(report, &bound);
    }
    let side = if crossed.at_least { "below" } else { "above" };
    let excess = grouped((measured - crossed.bound).abs());
    format!(
        "{figure} is {}{unit}, {excess}{unit} {side} the bound of {bound}{unit}",
        grouped(measured)
    )
}

/// A share hides how many they are, and rounds to a hundred when few are missing.
fn undelivered(report: &RunReport, bound: &str) -> String {
    let (expected, delivered) = (report.expected, report.delivered);
    match expected.checked_sub(delivered) {
        Some(missing) => format!(
            "delivered is {} and the bound {bound} %: {} of {} frames are missing",
            share(delivered, expected).unwrap_or_default(),
            whole(missing),
            whole(expected)
        ),
        None => format!(
            "delivered is {} frames and only {} had to be: the counting is wrong",
            whole(delivered),
            whole(expected)
        ),
    }
}

fn vetoes(report: &RunReport) -> Vec<String> {
    let mut vetoes = Vec::new();
    let busy = report.generator_busy;
    if busy.is_nan() || busy > GENERATOR_BUSY_MAX {
        vetoes.push(format!(
            "the busiest generator thread was {} % busy, and above {} % phones wait for each other: \
             use more threads, more agents or fewer phones",
            grouped(busy * 100.0),
            grouped(GENERATOR_BUSY_MAX * 100.0)
        ));
    }
    let late = report.generator_late_p99_ms;
    if late.is_nan() || late > GENERATOR_LATE_P99_MS_MAX {
        vetoes.push(format!(
            "1 of 100 taps was sent {} ms or more after it was due, {} ms above the bound of {} ms: \
             the generator's machine was too busy",
            grouped(late),
            grouped(late - GENERATOR_LATE_P99_MS_MAX),
            grouped(GENERATOR_LATE_P99_MS_MAX)
        ));
    }
    vetoes
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
