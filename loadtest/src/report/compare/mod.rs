//! What changed between two runs, or between two sets of runs, and what of it is no more than noise.

mod figures;
mod noise;
mod file;
mod markdown;

pub use figures::Command;
pub use file::{FileError, ReportFile};

use figures::{Better, Figure};
use noise::Side;
use serde::Serialize;

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// By more than noise.
    Better,
    /// By more than noise.
    Worse,
    /// By more than noise; which way is better cannot be said.
    Changed,
    /// It may as well be the same.
    WithinNoise,
    /// One side did not measure it.
    Unknown,
}

/// A figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name in the JSON.
    pub figure: String,
    /// The mean of the first side.
    pub before: Option<f64>,
    /// The mean of the second side.
    pub after: Option<f64>,
    /// By how much it went up, in percent; none from zero.
    pub change_percent: Option<f64>,
    /// By how much it may differ with nothing changed, in its own unit.
    pub noise: Option<f64>,
    /// What became of it.
    pub verdict: Verdict,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The command whose reports were compared.
    pub command: String,
    /// Reports of the first side.
    pub before: Vec<String>,
    /// Reports of the second side.
    pub after: Vec<String>,
    /// What speaks against comparing them.
    pub warnings: Vec<String>,
    /// What differs between them on purpose, perhaps.
    pub differences: Vec<String>,
    /// The figures.
    pub rows: Vec<Row>,
    /// How many became better,
    pub better: usize,
    /// worse,
    pub worse: usize,
    /// or may as well be the same.
    pub within_noise: usize,
}

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A side without reports.
    #[error("each side needs a report")]
    Empty,
    /// Reports of different commands.
    #[error("{first} is of {one} and {second} is of {other}: compare two of the same")]
    Mixed {
        /// A file.
        first: String,
        /// Its command.
        one: &'static str,
        /// Another file.
        second: String,
        /// Its command.
        other: &'static str,
    },
}

/// Compares two sides, of one report each or of several.
///
/// # Errors
/// A side is empty, or the reports are of different commands.
pub fn compare(before: &[ReportFile], after: &[ReportFile]) -> Result<Comparison, CompareError> {
    let (Some(first), false) = (before.first(), after.is_empty()) else {
        return Err(CompareError::Empty);
    };
    let all = || before.iter().chain(after);
    if let Some(other) = all().find(|file| file.command != first.command) {
        return Err(CompareError::Mixed {
            first: first.name.clone(),
            one: first.command.name(),
            second: other.name.clone(),
            other: other.command.name(),
        });
    }
    let figures = first.command.figures().iter();
    let rows: Vec<Row> = figures
        .filter_map(|figure| row(figure, before, after))
        .collect();
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let names = |files: &[ReportFile]| files.iter().map(|file| file.name.clone()).collect();
    Ok(Comparison {
        command: first.command.name().to_owned(),
        before: names(before),
        after: names(after),
        warnings: warnings(before, after),
        differences: differences(before, after),
        better: count(Verdict::Better),
        worse: count(Verdict::Worse),
        within_noise: count(Verdict::WithinNoise),
        rows,
    })
}

/// None where neither side has the figure.
fn row(figure: &Figure, before: &[ReportFile], after: &[ReportFile]) -> Option<Row> {
    let [one, other] = [side(figure, before), side(figure, after)];
    if one.values.is_empty() && other.values.is_empty() {
        return None;
    }
    let mean = |side: &Side| (!side.values.is_empty()).then(|| side.mean());
    let mut row = Row {
        figure: figure.name.to_owned(),
        before: mean(&one),
        after: mean(&other),
        change_percent: None,
        noise: None,
        verdict: Verdict::Unknown,
    };
    if let (Some(from), Some(to)) = (row.before, row.after) {
        let noise = noise::noise(&one, &other, figure.varies);
        row.noise = Some(noise);
        row.change_percent = (from != 0.0).then(|| (to - from) / from.abs() * 100.0);
        row.verdict = verdict(figure.better, to - from, noise);
    }
    Some(row)
}

fn side(figure: &Figure, files: &[ReportFile]) -> Side {
    let values: Vec<f64> = files
        .iter()
        .filter_map(|file| file.figure(figure.name))
        .collect();
    // With several reports their spread says more, and this is not asked.
    let own_error = match (files.first(), values.first()) {
        (Some(file), Some(value)) => file.own_error(*value, figure.varies),
        _ => None,
    };
    Side { values, own_error }
}

fn verdict(better: Better, change: f64, noise: f64) -> Verdict {
    if change.abs() <= noise {
        return Verdict::WithinNoise;
    }
    match better {
        Better::Neither => Verdict::Changed,
        Better::Lower if change < 0.0 => Verdict::Better,
        Better::Higher if change > 0.0 => Verdict::Better,
        Better::Lower | Better::Higher => Verdict::Worse,
    }
}

/// What makes the comparison one of apples with pears, or of something that cannot be believed.
fn warnings(before: &[ReportFile], after: &[ReportFile]) -> Vec<String> {
    let mut warnings = Vec::new();
    let first = &before[0];
    for (field, what) in [
        ("scenario", "scenario"),
        ("phones", "number of phones"),
        ("producers", "number of producers"),
        ("planned_taps_per_second", "number of taps planned"),
        ("rooms", "number of rooms"),
    ] {
        let mut others = before.iter().chain(after).skip(1);
        let shown = |file: &ReportFile| match file.values.get(field) {
            Some(serde_json::Value::Array(list)) => list.len().to_string(),
            Some(value) => value.to_string(),
            None => "none".to_owned(),
        };
        let own = shown(first);
        if let Some(other) = others.find(|file| shown(file) != own) {
            let (first, name, other) = (&first.name, &other.name, shown(other));
            warnings.push(format!(
                "the {what} differs: {own} in {first}, {other} in {name}"
            ));
        }
    }
    let machine = first.circumstances("machine");
    let differs = |file: &&ReportFile| file.circumstances("machine") != machine;
    if let Some(other) = before.iter().chain(after).find(differs) {
        let (one, two) = (pairs(&machine), pairs(&other.circumstances("machine")));
        let (first, name) = (&first.name, &other.name);
        warnings.push(format!(
            "the machine differs: {one} in {first}, {two} in {name}"
        ));
    }
    for file in before.iter().chain(after) {
        let name = &file.name;
        if file.complaints("vetoes") + file.complaints("remarks") > 0 {
            warnings.push(format!("{name} is not to be believed: it says so itself"));
        }
        if file.complaints("crossed") > 0 {
            warnings.push(format!("{name} did not pass: not all thresholds held"));
        }
        if file
            .values
            .get("interrupted")
            .and_then(serde_json::Value::as_bool)
            == Some(true)
        {
            warnings.push(format!("{name} was interrupted"));
        }
    }
    warnings.extend(other_lengths(before, after));
    warnings
}

/// Runs of another length have another tail.
fn other_lengths(before: &[ReportFile], after: &[ReportFile]) -> Option<String> {
    let seconds = |file: &ReportFile| {
        let (from, until) = file.run.as_ref()?.window;
        Some((until - from).round())
    };
    let first = &before[0];
    let own = seconds(first)?;
    let differs = |file: &&ReportFile| seconds(file).is_some_and(|other| (other - own).abs() > 1.0);
    let other = before.iter().chain(after).find(differs)?;
    let theirs = seconds(other)?;
    let (first, name) = (&first.name, &other.name);
    Some(format!(
        "the measured time differs: {own} s in {first}, {theirs} s in {name}"
    ))
}

/// Versions and settings, of the first report of each side.
fn differences(before: &[ReportFile], after: &[ReportFile]) -> Vec<String> {
    let mut differences = Vec::new();
    for which in ["versions", "settings"] {
        let one = before[0].circumstances(which);
        let other = after[0].circumstances(which);
        let get = |list: &[(String, String)], name: &str| {
            let found = list.iter().find(|(other, _)| other == name);
            found.map_or("none".to_owned(), |(_, value)| value.clone())
        };
        let mut names: Vec<&String> = one.iter().chain(&other).map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        for name in names {
            let (from, to) = (get(&one, name), get(&other, name));
            if from != to {
                differences.push(format!("{name}: {from}, then {to}"));
            }
        }
    }
    differences
}

fn pairs(list: &[(String, String)]) -> String {
    let shown: Vec<&str> = list.iter().map(|(_, value)| value.as_str()).collect();
    if shown.is_empty() {
        return "not said".to_owned();
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests;
