//! Where settings come from: a file and the environment, layered by the `config` crate.

use super::{SettingsError, variable};
use config::{Config, Environment, File, FileFormat, Map, Value, ValueKind};
use std::collections::BTreeMap;
use std::path::Path;

/// What the names of our variables begin with.
pub(super) const PREFIX: &str = "UPROAR_";
/// Read where no file is named.
const FILE_STANDARD: &str = "uproar.toml";

/// All that is set, known or not.
#[derive(Debug)]
pub(super) struct Source {
    /// The sections, each a table.
    sections: Map<String, Value>,
    /// The variables set, by the name of the setting.
    variables: BTreeMap<String, String>,
    /// Variables of ours without `__`, which name no setting.
    strays: Vec<String>,
    /// The file read, for messages.
    file: String,
}

impl Source {
    pub(super) fn new(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        let path = match file {
            Some(path) => path,
            None if Path::new(FILE_STANDARD).exists() => Path::new(FILE_STANDARD),
            None => return Self::from_toml("", environment),
        };
        let name = path.display().to_string();
        let toml = std::fs::read_to_string(path).map_err(|error| {
            SettingsError(vec![format!(
                "the settings file {name} cannot be read: {error}"
            )])
        })?;
        Self::layered(name, &toml, environment)
    }

    pub(super) fn from_toml(
        toml: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        Self::layered("the file".to_owned(), toml, environment)
    }

    fn layered(
        file: String,
        toml: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        let (set, strays): (Vec<_>, Vec<_>) = environment
            .into_iter()
            .filter(|(name, _)| name.starts_with(PREFIX))
            .partition(|(name, _)| name.contains("__"));
        let variables = set
            .iter()
            .map(|(name, _)| (setting(name), name.clone()))
            .collect::<BTreeMap<_, _>>();
        let environment = Environment::with_prefix("UPROAR")
            .prefix_separator("_")
            .separator("__")
            .source(Some(set.into_iter().collect()));
        let sections = Config::builder()
            .add_source(File::from_str(toml, FileFormat::Toml))
            .add_source(environment)
            .build()
            .and_then(|config| config.cache.into_table())
            .map_err(|error| {
                SettingsError(vec![format!("{file} is not a settings file: {error}")])
            })?;
        let strays = strays.into_iter().map(|(name, _)| name).collect();
        Ok(Source {
            sections,
            variables,
            strays,
            file,
        })
    }

    /// What is set under `section.name`.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let (section, key) = name.split_once('.')?;
        self.section(section)?.get(key)
    }

    /// The table of a section; none if there is none, or if it is no table.
    pub(super) fn section(&self, section: &str) -> Option<&Map<String, Value>> {
        match &self.sections.get(section)?.kind {
            ValueKind::Table(table) => Some(table),
            _ => None,
        }
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = (&str, bool)> {
        self.sections
            .iter()
            .map(|(name, value)| (name.as_str(), matches!(value.kind, ValueKind::Table(_))))
    }

    pub(super) fn strays(&self) -> &[String] {
        &self.strays
    }

    /// Where the value of a setting comes from; none if it is not set.
    pub(super) fn origin(&self, name: &str) -> Option<String> {
        let within = format!("{name}.");
        let of_variable = self
            .variables
            .iter()
            .find(|(set, _)| *set == name || set.starts_with(&within))
            .map(|(_, variable)| variable.clone());
        of_variable.or_else(|| self.get(name).map(|_| self.file.clone()))
    }
}

/// The name of the setting that a variable sets.
fn setting(variable_name: &str) -> String {
    let name = variable_name[PREFIX.len()..]
        .replace("__", ".")
        .to_ascii_lowercase();
    debug_assert!(!variable(&name).is_empty());
    name
}
