//! A TOML text as plain values, and the line of each of them.

use super::mistake::{Mistake, Place, Step};
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// A text, read.
pub(super) struct Source<'t> {
    text: &'t str,
    root: Spanned<DeTable<'t>>,
}

impl<'t> Source<'t> {
    /// Reads a text.
    ///
    /// # Errors
    /// Everything in it that is not TOML, each with its line.
    pub(super) fn read(text: &'t str) -> Result<Source<'t>, Vec<(Option<usize>, String)>> {
        let (root, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(Source { text, root });
        }
        let located = |error: &toml::de::Error| {
            let line = error.span().map(|span| line_at(text, span.start));
            (line, error.message().trim_end().replace('\n', ", "))
        };
        let mut errors: Vec<_> = errors.iter().map(located).collect();
        // The parser tells them by kind, not by place.
        errors.sort();
        Err(errors)
    }

    /// The values, without their places.
    pub(super) fn values(&self) -> Map<String, Value> {
        table(self.root.get_ref())
    }

    /// Writes the lines into mistakes: that of the value, or of the table in which it is missing.
    pub(super) fn locate(&self, mistakes: &mut [Mistake]) {
        for mistake in mistakes {
            mistake.line = self.line(&mistake.place);
        }
    }

    fn line(&self, place: &Place) -> Option<usize> {
        let mut at = None;
        let mut table = Some(self.root.get_ref());
        let mut list: Option<&DeArray<'t>> = None;
        for step in &place.0 {
            let value = match step {
                Step::Key(name) => table
                    .and_then(|table| table.iter().find(|(key, _)| key.get_ref() == name.as_str()))
                    .map(|(key, value)| (key.span().start, value)),
                Step::Index(index) => list
                    .and_then(|list| list.get(*index))
                    .map(|value| (value.span().start, value)),
            };
            let Some((start, value)) = value else { break };
            at = Some(start);
            table = value.get_ref().as_table();
            list = value.get_ref().as_array();
        }
        at.map(|start| line_at(self.text, start))
    }
}

/// Lines count from 1.
fn line_at(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    before.filter(|byte| **byte == b'\n').count() + 1
}

fn table(table: &DeTable<'_>) -> Map<String, Value> {
    table
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), plain(value.get_ref())))
        .collect()
}

/// What JSON cannot hold (infinite numbers, dates) becomes a text, which is then wrong where a number is wanted.
fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(integer) => integer_value(integer.as_str(), integer.radix()),
        DeValue::Float(float) => float
            .as_str()
            .parse()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map_or_else(|| Value::String(float.to_string()), Value::Number),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(moment) => Value::String(moment.to_string()),
        DeValue::Array(list) => list.iter().map(|value| plain(value.get_ref())).collect(),
        DeValue::Table(inner) => Value::Object(table(inner)),
    }
}

fn integer_value(digits: &str, radix: u32) -> Value {
    match i128::from_str_radix(digits, radix) {
        Ok(number) => u64::try_from(number)
            .map(Value::from)
            .or_else(|_| i64::try_from(number).map(Value::from))
            .unwrap_or_else(|_| Value::String(digits.to_owned())),
        Err(_) => Value::String(digits.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &str =
        "a = 1_000\nb = inf\n\n[c]\nd = [1.5, -2]\n\n[[e]]\nf = 0x10\n\n[[e]]\nf = 2\n";

    #[test]
    fn values_are_plain() {
        let source = Source::read(TEXT).unwrap();
        let wanted = json!({
            "a": 1000, "b": "inf", "c": { "d": [1.5, -2] }, "e": [{ "f": 16 }, { "f": 2 }],
        });
        assert_eq!(Value::Object(source.values()), wanted);
    }

    #[test]
    fn places_have_lines() {
        let source = Source::read(TEXT).unwrap();
        let root = Place::root();
        for (place, line) in [
            (root.key("a"), Some(1)),
            (root.key("c"), Some(4)),
            (root.key("c").key("d"), Some(5)),
            // Missing: where its table is.
            (root.key("c").key("x"), Some(4)),
            (root.key("e").index(0).key("f"), Some(8)),
            (root.key("e").index(1).key("f"), Some(11)),
            (root.key("e").index(1).key("x"), Some(10)),
            (root.key("x"), None),
        ] {
            assert_eq!(source.line(&place), line, "{place}");
        }
    }

    #[test]
    fn what_is_not_toml_has_lines_too() {
        let wrong = Source::read("a = 1\nb = = 2\nc = \"x\nd = 4\na = 2\n")
            .err()
            .unwrap();
        let lines: Vec<_> = wrong.iter().map(|(line, _)| *line).collect();
        assert!(
            lines.contains(&Some(2)) && lines.contains(&Some(3)),
            "{wrong:?}"
        );
        assert!(lines.contains(&Some(5)), "{wrong:?}");
    }
}
