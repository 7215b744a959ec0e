//! What is wrong in a scenario: where, what is there, and what would be right.

use serde_json::Value;
use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Mistake {
    /// Where.
    pub place: Place,
    /// What is there; none: nothing is.
    pub value: Option<Value>,
    /// What would be right.
    pub right: String,
    /// Its line in the file, from 1, where it came from one.
    pub line: Option<usize>,
}

impl Mistake {
    pub(super) fn new(place: Place, value: impl Into<Value>, right: impl Into<String>) -> Mistake {
        Mistake {
            place,
            value: Some(value.into()),
            right: right.into(),
            line: None,
        }
    }

    pub(super) fn missing(place: Place, right: impl Into<String>) -> Mistake {
        Mistake {
            place,
            value: None,
            right: right.into(),
            line: None,
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(out, "line {line}: ")?;
        }
        write!(out, "{}", self.place)?;
        match &self.value {
            // A whole table or a long text would hide the message.
            Some(value @ (Value::Object(_) | Value::Null)) => write!(out, " is {}", kind(value))?,
            Some(value) => write!(out, " = {}", shortened(value))?,
            None => out.write_str(" is missing")?,
        }
        write!(out, "; {}", self.right)
    }
}

/// What a value is, for messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// The value as TOML has it, cut where it says enough.
fn shortened(value: &Value) -> String {
    const CHARS_MAX: usize = 40;
    let text = value.to_string();
    if text.chars().count() <= CHARS_MAX {
        return text;
    }
    text.chars()
        .take(CHARS_MAX)
        .chain(std::iter::once('…'))
        .collect()
}

/// The way to a value: keys and positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place(pub(super) Vec<Step>);

/// One step of the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a table.
    Key(String),
    /// Into a list, from 0.
    Index(usize),
}

impl Place {
    /// The scenario itself.
    pub(super) fn root() -> Place {
        Place::default()
    }

    pub(super) fn key(&self, key: &str) -> Place {
        self.with(Step::Key(key.to_owned()))
    }

    pub(super) fn index(&self, index: usize) -> Place {
        self.with(Step::Index(index))
    }

    fn with(&self, step: Step) -> Place {
        let mut steps = self.0.clone();
        steps.push(step);
        Place(steps)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if position == 0 => out.write_str(key)?,
                Step::Key(key) => write!(out, ".{key}")?,
                Step::Index(index) => write!(out, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_mistake_says_where_what_and_what_would_be_right() {
        let place = Place::root().key("arrive").index(2).key("percent");
        let mut mistake = Mistake::new(place, 120, "give 0 to 100");
        assert_eq!(
            mistake.to_string(),
            "arrive[2].percent = 120; give 0 to 100"
        );
        mistake.line = Some(14);
        assert_eq!(
            mistake.to_string(),
            "line 14: arrive[2].percent = 120; give 0 to 100"
        );
        let missing = Mistake::missing(Place::root().key("phones"), "give a number");
        assert_eq!(missing.to_string(), "phones is missing; give a number");
        let table = Mistake::new(Place::root().key("phones"), json!({"a": 1}), "give one");
        assert_eq!(table.to_string(), "phones is a table; give one");
    }

    #[test]
    fn long_values_are_cut() {
        let long = Mistake::new(Place::root().key("title"), "x".repeat(500), "shorter");
        assert!(long.to_string().chars().count() < 70, "{long}");
    }
}
