//! Settings: defaults, then `uproar.toml`, then `UPROAR_…` variables; all bad ones are reported at once.
//!
//! `gateway.flush_interval_ms` in the file is `UPROAR_GATEWAY__FLUSH_INTERVAL_MS` in the environment.

mod source;
mod value;
mod unknown;
mod shown;
mod redis;

pub use redis::read_redis;
pub use shown::{Shown, ShownSetting};

use source::Source;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use value::{as_address, as_list, as_number, as_secrets, as_switch, as_text, quoted};

/// How a secret is shown.
const MASK: &str = "***";

/// Reads settings one by one, each with its default, bounds and a line of documentation, and keeps what was wrong.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    settings: Vec<ShownSetting>,
    wrong: Vec<String>,
}

/// All settings that were wrong, a line each: name, value, what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct SettingsError(pub Vec<String>);

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// From a text.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(MASK)
    }
}

impl Reader {
    /// From a file (none: `uproar.toml` in the working directory, if it is there) and the environment given.
    ///
    /// # Errors
    /// The file cannot be read or is not TOML.
    pub fn new(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        Source::new(file, environment).map(Self::from_source)
    }

    /// From a TOML text and the environment given.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn from_toml(
        toml: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        Source::from_toml(toml, environment).map(Self::from_source)
    }

    fn from_source(source: Source) -> Self {
        Reader {
            source,
            settings: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// A text.
    pub fn text(&mut self, name: &'static str, default: &str, doc: &'static str) -> String {
        let right = "a text";
        let value = self
            .parse(name, right, as_text)
            .unwrap_or_else(|| default.to_owned());
        self.show(name, quoted(&value), quoted(default), right, doc);
        value
    }

    /// A text that may be left out (empty counts as left out).
    pub fn optional_text(&mut self, name: &'static str, doc: &'static str) -> Option<String> {
        let right = "a text";
        let value = self
            .parse(name, right, as_text)
            .filter(|text| !text.is_empty());
        let shown = value.as_deref().map(quoted).unwrap_or_default();
        self.show(name, shown, String::new(), right, doc);
        value
    }

    /// One of a few words.
    pub fn choice(
        &mut self,
        name: &'static str,
        default: &'static str,
        choices: &[&'static str],
        doc: &'static str,
    ) -> &'static str {
        let right = choices.join(" or ");
        let find = |value: &config::Value| {
            let text = as_text(value)?;
            choices
                .iter()
                .copied()
                .find(|choice| choice.eq_ignore_ascii_case(text.trim()))
        };
        let value = self.parse(name, &right, find).unwrap_or(default);
        self.show(name, quoted(value), quoted(default), &right, doc);
        value
    }

    /// A secret that may be left out; masked wherever settings are shown.
    pub fn secret(&mut self, name: &'static str, doc: &'static str) -> Option<Secret> {
        // Told before the value is looked at, so that even a message about it is masked.
        self.show(name, String::new(), String::new(), "a secret text", doc);
        self.mask(name, String::new());
        let value = self
            .parse(name, "a text", as_text)
            .filter(|text| !text.is_empty());
        if value.is_some() {
            self.mask(name, quoted(MASK));
        }
        value.map(Secret)
    }

    /// A list of texts: an array in the file, comma-separated in the environment.
    pub fn list(&mut self, name: &'static str, default: &[&str], doc: &'static str) -> Vec<String> {
        let right = "a list of texts";
        let shown = |list: &[String]| {
            format!(
                "[{}]",
                list.iter()
                    .map(|text| quoted(text))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        };
        let default: Vec<String> = default.iter().map(|&text| text.to_owned()).collect();
        let value = self
            .parse(name, right, as_list)
            .unwrap_or_else(|| default.clone());
        self.show(name, shown(&value), shown(&default), right, doc);
        value
    }

    /// A map of secrets, such as signing keys by id: a table in the file, `UPROAR_SECTION__NAME__ID` in the environment.
    pub fn secrets(&mut self, name: &'static str, doc: &'static str) -> BTreeMap<String, Secret> {
        self.show(
            name,
            String::new(),
            String::new(),
            "a table of secret texts by id",
            doc,
        );
        self.mask(name, String::new());
        let value = self
            .parse(
                name,
                "a table of texts by id (in the environment a variable for each, …__ID)",
                as_secrets,
            )
            .unwrap_or_default();
        if !value.is_empty() {
            let ids: Vec<_> = value
                .keys()
                .map(|id| format!("{} = {}", quoted(id), quoted(MASK)))
                .collect();
            self.mask(name, format!("{{ {} }}", ids.join(", ")));
        }
        value
    }

    /// A switch.
    pub fn switch(&mut self, name: &'static str, default: bool, doc: &'static str) -> bool {
        let right = "true or false";
        let value = self.parse(name, right, as_switch).unwrap_or(default);
        self.show(name, value.to_string(), default.to_string(), right, doc);
        value
    }

    /// A whole number within bounds.
    pub fn number(
        &mut self,
        name: &'static str,
        default: u64,
        bounds: RangeInclusive<u64>,
        doc: &'static str,
    ) -> u64 {
        let right = match (*bounds.start(), *bounds.end()) {
            (0, u64::MAX) => "a whole number".to_owned(),
            (least, u64::MAX) => format!("a whole number from {least}"),
            (least, most) => format!("a whole number from {least} to {most}"),
        };
        let within =
            |value: &config::Value| as_number(value).filter(|number| bounds.contains(number));
        let value = self.parse(name, &right, within).unwrap_or(default);
        self.show(name, value.to_string(), default.to_string(), &right, doc);
        value
    }

    /// A time; its name ends in `_ms`, `_seconds`, `_minutes`, `_hours` or `_days`, which is its unit. Default and
    /// bounds are in that unit.
    ///
    /// # Panics
    /// Where the name has no unit: a mistake of the caller.
    pub fn duration(
        &mut self,
        name: &'static str,
        default: u64,
        bounds: RangeInclusive<u64>,
        doc: &'static str,
    ) -> Duration {
        let unit_ms = unit_ms(name).expect("the name of a time ends in its unit");
        let number = self.number(name, default, bounds, doc);
        Duration::from_millis(number.saturating_mul(unit_ms))
    }

    /// An address to listen on.
    pub fn address(&mut self, name: &'static str, default: &str, doc: &'static str) -> SocketAddr {
        let right = "an address with a port, such as 0.0.0.0:8080 or [::]:8080";
        let value = self
            .parse(name, right, as_address)
            .unwrap_or_else(|| default.parse().expect("the default of an address is one"));
        self.show(
            name,
            quoted(&value.to_string()),
            quoted(default),
            right,
            doc,
        );
        value
    }

    /// Reports something wrong about a setting that only its reader can see (`right`: what would be right).
    pub fn wrong(&mut self, name: &'static str, value: &str, right: &str) {
        let secret = self
            .settings
            .iter()
            .any(|setting| setting.name == name && setting.secret);
        let line = match self.source.origin(name) {
            None if value.is_empty() => {
                format!(
                    "{name} is missing: should be {right} (or {} in the environment)",
                    variable(name)
                )
            }
            origin => {
                let value = if secret { MASK } else { value };
                let origin = origin.unwrap_or_else(|| "the default".to_owned());
                format!("{name} = {value} (from {origin}): should be {right}")
            }
        };
        self.wrong.push(line);
    }

    /// The settings read so far, whether or not all of them are right.
    pub fn shown(&self) -> Shown {
        Shown {
            settings: self.settings.clone(),
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// All that was wrong, unknown names in this service's sections included.
    pub fn finish(mut self) -> Result<Shown, SettingsError> {
        let names: Vec<&str> = self.settings.iter().map(|setting| setting.name).collect();
        self.wrong.extend(unknown::report(&self.source, &names));
        if self.wrong.is_empty() {
            Ok(Shown {
                settings: self.settings,
            })
        } else {
            Err(SettingsError(self.wrong))
        }
    }

    /// What is set, read by `read`; none if it is not set, or wrong, which is noted.
    fn parse<T>(
        &mut self,
        name: &'static str,
        right: &str,
        read: impl FnOnce(&config::Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.source.get(name)?;
        let read = read(value);
        if read.is_none() {
            let shown = value::shown(value);
            self.wrong(name, &shown, right);
        }
        read
    }

    fn show(
        &mut self,
        name: &'static str,
        value: String,
        default: String,
        right: &str,
        doc: &'static str,
    ) {
        let right = right.to_owned();
        self.settings.push(ShownSetting {
            name,
            value,
            default,
            right,
            doc,
            secret: false,
        });
    }

    /// Marks the setting shown last as a secret.
    fn mask(&mut self, name: &'static str, value: String) {
        let last = self.settings.last_mut().expect("called after show");
        debug_assert_eq!(last.name, name);
        last.secret = true;
        last.value = value;
    }
}

/// The name of a setting in the environment.
fn variable(name: &str) -> String {
    format!(
        "{}{}",
        source::PREFIX,
        name.replace('.', "__").to_ascii_uppercase()
    )
}

fn unit_ms(name: &str) -> Option<u64> {
    let (_, unit) = name.rsplit_once('_')?;
    Some(match unit {
        "ms" => 1,
        "seconds" => 1_000,
        "minutes" => 60_000,
        "hours" => 3_600_000,
        "days" => 86_400_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
