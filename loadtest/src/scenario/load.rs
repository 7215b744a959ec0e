//! From a name or a path to a scenario without mistakes.

use super::built_in::{self, BuiltIn};
use super::lines::Source;
use super::mistake::{Mistake, Place};
use super::{Scenario, shape};
use serde_json::Value;
use std::fmt;
use std::path::Path;

/// Why there is no scenario. Its text is meant for whoever typed the name or wrote the file.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Neither a name nor a file.
    #[error(
        "there is no scenario {name:?}; these are part of the program:\n{}\nor give the path of a file",
        known()
    )]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("the scenario {path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It can be read, but not played.
    #[error("{}", Listed(name, mistakes))]
    Mistaken {
        /// The file, or "the scenario" after it was altered.
        name: String,
        /// All that is wrong, a line each.
        mistakes: Vec<String>,
    },
}

impl Scenario {
    /// The scenario with that name in the program, or in that file.
    ///
    /// # Errors
    /// There is none, or it has mistakes: the error's text lists them all.
    pub fn named_or_path(name: &str) -> Result<Scenario, ScenarioError> {
        if let Some(BuiltIn { text, .. }) = built_in::ALL.iter().find(|known| known.name == name) {
            return Scenario::from_toml(name, text);
        }
        let path = Path::new(name);
        if !path.exists() && !name.contains('/') && path.extension().is_none() {
            return Err(ScenarioError::Unknown {
                name: name.to_owned(),
            });
        }
        let text = std::fs::read_to_string(path).map_err(|source| ScenarioError::Unreadable {
            path: name.to_owned(),
            source,
        })?;
        Scenario::from_toml(name, &text)
    }

    /// The scenario in a text, which errors call `name`.
    ///
    /// # Errors
    /// It has mistakes: the error's text lists them all.
    pub fn from_toml(name: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let mistaken = |mistakes| ScenarioError::Mistaken {
            name: name.to_owned(),
            mistakes,
        };
        let source = Source::read(text).map_err(|errors| {
            let line = |(line, message): (Option<usize>, String)| match line {
                Some(line) => format!("line {line}: {message}"),
                None => message,
            };
            mistaken(errors.into_iter().map(line).collect())
        })?;
        read(Value::Object(source.values())).map_err(|mut mistakes| {
            source.locate(&mut mistakes);
            // As they stand in the file; what has no line concerns the whole.
            mistakes.sort_by_key(|mistake| mistake.line);
            mistaken(mistakes.iter().map(Mistake::to_string).collect())
        })
    }

    /// The scenario again, if it has no mistakes: for one that was altered, or came from elsewhere.
    ///
    /// # Errors
    /// The error's text lists all mistakes.
    pub fn checked(self) -> Result<Scenario, ScenarioError> {
        let values = serde_json::to_value(&self);
        let read = values
            .map_err(|error| vec![of_serde(&error)])
            .and_then(read);
        read.map_err(|mistakes| ScenarioError::Mistaken {
            name: format!("the scenario {:?}", self.title),
            mistakes: mistakes.iter().map(Mistake::to_string).collect(),
        })
    }
}

fn read(values: Value) -> Result<Scenario, Vec<Mistake>> {
    let Value::Object(table) = &values else {
        return Err(vec![Mistake::new(Place::root(), values, "give a table")]);
    };
    let mistakes = shape::mistakes(table, shape::SCENARIO);
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let scenario: Scenario =
        serde_json::from_value(values).map_err(|error| vec![of_serde(&error)])?;
    match scenario.contradictions() {
        none if none.is_empty() => Ok(scenario),
        contradictions => Err(contradictions),
    }
}

/// The shape is checked, so this is not expected; but better told than a panic.
fn of_serde(error: &serde_json::Error) -> Mistake {
    Mistake::missing(Place::root().key("scenario"), error.to_string())
}

/// The scenarios of the program with their titles, a line each.
pub fn known() -> String {
    let width = built_in::ALL.iter().map(|known| known.name.len()).max();
    let width = width.unwrap_or_default();
    let line = |known: &BuiltIn| {
        let title = Scenario::from_toml(known.name, known.text)
            .map_or_else(|_| String::new(), |scenario| scenario.title);
        format!("  {:width$}  {title}", known.name)
    };
    let lines: Vec<String> = built_in::ALL.iter().map(line).collect();
    lines.join("\n")
}

/// Mistakes below a heading, or beside it when there is only one.
struct Listed<'m>(&'m str, &'m [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Listed(name, mistakes) = self;
        match mistakes {
            [one] => write!(out, "{name} has a mistake: {one}"),
            many => {
                write!(out, "{name} has {} mistakes:", many.len())?;
                many.iter().try_for_each(|one| write!(out, "\n  {one}"))
            }
        }
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
