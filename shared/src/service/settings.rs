//! Settings: defaults, then `uproar.toml`, then `UPROAR_…` variables; all bad ones are reported at once.
//!
//! `gateway.flush_interval_ms` in the file is `UPROAR_GATEWAY__FLUSH_INTERVAL_MS` in the environment.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// Reads settings one by one, each with its default, bounds and a line of documentation, and keeps what was wrong.
#[derive(Debug)]
pub struct Reader {}

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
        f.write_str("***")
    }
}

impl Reader {
    /// From a file (none: `uproar.toml` in the working directory, if it is there) and the environment given.
    ///
    /// # Errors
    /// The file cannot be read or is not TOML.
    pub fn new(
        _file: Option<&Path>,
        _environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        todo!()
    }

    /// A text.
    pub fn text(&mut self, _name: &'static str, _default: &str, _doc: &'static str) -> String {
        todo!()
    }

    /// A text that may be left out (empty counts as left out).
    pub fn optional_text(&mut self, _name: &'static str, _doc: &'static str) -> Option<String> {
        todo!()
    }

    /// A secret that may be left out; masked wherever settings are shown.
    pub fn secret(&mut self, _name: &'static str, _doc: &'static str) -> Option<Secret> {
        todo!()
    }

    /// A list of texts: an array in the file, comma-separated in the environment.
    pub fn list(
        &mut self,
        _name: &'static str,
        _default: &[&str],
        _doc: &'static str,
    ) -> Vec<String> {
        todo!()
    }

    /// A map of secrets, such as signing keys by id: a table in the file, `UPROAR_SECTION__NAME__ID` in the environment.
    pub fn secrets(
        &mut self,
        _name: &'static str,
        _doc: &'static str,
    ) -> std::collections::BTreeMap<String, Secret> {
        todo!()
    }

    /// A switch.
    pub fn switch(&mut self, _name: &'static str, _default: bool, _doc: &'static str) -> bool {
        todo!()
    }

    /// A whole number within bounds.
    pub fn number(
        &mut self,
        _name: &'static str,
        _default: u64,
        _bounds: RangeInclusive<u64>,
        _doc: &'static str,
    ) -> u64 {
        todo!()
    }

    /// A time; its name ends in `_ms`, `_seconds`, `_minutes`, `_hours` or `_days`, which is its unit.
    pub fn duration(
        &mut self,
        _name: &'static str,
        _default: u64,
        _bounds: RangeInclusive<u64>,
        _doc: &'static str,
    ) -> Duration {
        todo!()
    }

    /// An address to listen on.
    pub fn address(
        &mut self,
        _name: &'static str,
        _default: &str,
        _doc: &'static str,
    ) -> SocketAddr {
        todo!()
    }

    /// Reports something wrong about a setting that only its reader can see (`right`: what would be right).
    pub fn wrong(&mut self, _name: &'static str, _value: &str, _right: &str) {
        todo!()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// All that was wrong, unknown names in this service's sections included.
    pub fn finish(self) -> Result<Shown, SettingsError> {
        todo!()
    }
}

/// The settings as read, for `--print-config`, `--check-config` and the documentation's table.
#[derive(Debug, Clone)]
pub struct Shown {
    /// In the order in which they were read.
    pub settings: Vec<ShownSetting>,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct ShownSetting {
    /// `section.name`.
    pub name: &'static str,
    /// As TOML; secrets masked.
    pub value: String,
    /// As TOML.
    pub default: String,
    /// Its line of documentation.
    pub doc: &'static str,
}

/// Section `[redis]`, used by all services.
pub fn read_redis(_reader: &mut Reader) -> crate::cluster::RedisSettings {
    todo!()
}
