//! A report in a file, of whichever command.

use super::figures::{Command, Varies};
use super::noise;
use crate::report::RunReport;
use crate::report::number::float;
use serde_json::Value;
use std::path::Path;

/// A report.
#[derive(Debug, Clone)]
pub struct ReportFile {
    /// Its path, for messages.
    pub name: String,
    /// Which command made it.
    pub command: Command,
    pub(super) values: Value,
    /// The same, typed, where it is of `run`.
    pub(super) run: Option<Box<RunReport>>,
}

/// Why a file is no report.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{name} cannot be read: {source}")]
    Unreadable {
        /// The file.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no JSON.
    #[error(
        "{name} is no JSON ({source}); give what --json wrote, or the last line of the command's standard output"
    )]
    NoJson {
        /// The file.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// It is JSON of something else.
    #[error(
        "{name} is JSON, but no result of run, floor, giant-room or backlog: it has none of their figures"
    )]
    Foreign {
        /// The file.
        name: String,
    },
    /// It has the figures, but not as a run has them.
    #[error("{name} looks like a result of run, but is not: {source}")]
    Malformed {
        /// The file.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
}

impl ReportFile {
    /// Reads a file: what `--json` wrote, or a command's standard output.
    ///
    /// # Errors
    /// It is no report.
    pub fn read(path: &Path) -> Result<ReportFile, FileError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => ReportFile::parse(name, &text),
            Err(source) => Err(FileError::Unreadable { name, source }),
        }
    }

    /// Reads a text.
    ///
    /// # Errors
    /// It is no report.
    pub fn parse(name: String, text: &str) -> Result<ReportFile, FileError> {
        let values: Value = match serde_json::from_str(text) {
            Ok(values) => values,
            Err(source) => {
                // The result is the last line that a command prints.
                let last = text.lines().rev().find(|line| !line.trim().is_empty());
                match last.map(serde_json::from_str) {
                    Some(Ok(values)) => values,
                    _ => return Err(FileError::NoJson { name, source }),
                }
            }
        };
        let is_of = |command: &Command| {
            command
                .marks()
                .iter()
                .all(|mark| values.get(mark).is_some())
        };
        let Some(command) = Command::ALL.into_iter().find(is_of) else {
            return Err(FileError::Foreign { name });
        };
        let run = match command {
            Command::Run => match serde_json::from_value(values.clone()) {
                Ok(run) => Some(Box::new(run)),
                Err(source) => return Err(FileError::Malformed { name, source }),
            },
            _ => None,
        };
        Ok(ReportFile {
            name,
            command,
            values,
            run,
        })
    }

    /// A figure, if it was measured.
    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        match (&self.run, name) {
            (Some(run), "missing") => Some(float(run.expected.saturating_sub(run.delivered))),
            (Some(run), "gateway_memory_bytes") => {
                let gateways = run.processes.iter().filter(|one| one.kind == "gateway");
                let bytes: u64 = gateways.map(|one| one.memory_bytes_max).sum();
                (bytes > 0).then(|| float(bytes))
            }
            _ => self.values.get(name).and_then(Value::as_f64),
        }
    }

    /// The standard error of a figure, as far as this report itself shows it.
    pub(super) fn own_error(&self, value: f64, varies: Varies) -> Option<f64> {
        match (varies, &self.run) {
            (Varies::Percentile(name, share), Some(run)) => {
                let distribution = run.distributions.iter().find(|one| one.name == name)?;
                let by_rank = noise::of_percentile(distribution, share);
                // Waits of the same tick are long or short together: there are fewer observations than waits.
                let by_second = noise::of_seconds(&measured_seconds(run, name));
                Some(by_rank.max(by_second.map_or(0.0, |(_, error)| error)))
            }
            (Varies::Cpu, Some(run)) => {
                let gateway = run.processes.iter().find(|one| one.kind == "gateway")?;
                let (from, until) = run.window;
                let inside = gateway.seconds.iter();
                let inside = inside.filter(|(at, ..)| (from..until).contains(&f64::from(*at)));
                let cores: Vec<f64> = inside.map(|(_, cores, _)| *cores).collect();
                let (mean, error) = noise::of_seconds(&cores)?;
                (mean > 0.0).then(|| error / mean * value)
            }
            (Varies::Pairs(name), _) => {
                let pairs = self.values.get(name)?.as_array()?;
                let ratio = |pair: &Value| Some(pair.get(0)?.as_f64()? / pair.get(1)?.as_f64()?);
                let ratios: Vec<f64> = pairs.iter().filter_map(ratio).collect();
                // Too few to show anything: as CPU time by itself.
                let alone = noise::between_runs(Varies::Cpu) * value;
                Some(noise::of_median(&ratios).unwrap_or(alone))
            }
            _ => None,
        }
    }

    /// A line of circumstances: what it says of the machine, the versions or the settings.
    pub(super) fn circumstances(&self, which: &str) -> Vec<(String, String)> {
        let nested = self
            .values
            .get("circumstances")
            .and_then(|all| all.get(which));
        let list = nested.or_else(|| self.values.get(which));
        list.and_then(|list| serde_json::from_value(list.clone()).ok())
            .unwrap_or_default()
    }

    /// Sentences in the report that say that it is not to be believed, or did not pass.
    pub(super) fn complaints(&self, which: &str) -> usize {
        self.values
            .get(which)
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    }
}

/// The 99th percentile of each second in the measured window.
fn measured_seconds(run: &RunReport, name: &str) -> Vec<f64> {
    let (from, until) = run.window;
    let inside = run.seconds.iter();
    let inside = inside.filter(|second| (from..until).contains(&f64::from(second.at)));
    inside
        .filter_map(|second| match name {
            "ack" => second.ack_ms,
            // What is beyond the window varies with what is seen.
            "tick" | "beyond_window" => second.tick_ms,
            _ => None,
        })
        .map(|(_, p99)| p99)
        .collect()
}
