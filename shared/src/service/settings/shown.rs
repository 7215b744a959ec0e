//! Settings as people read them: a file to start from, and the table of the documentation.

use super::variable;
use std::fmt::Write;

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
    /// As TOML; secrets masked; empty where it is left out.
    pub value: String,
    /// As TOML; empty where there is none.
    pub default: String,
    /// What would be right.
    pub right: String,
    /// Its line of documentation.
    pub doc: &'static str,
    /// Whether its value is masked.
    pub secret: bool,
}

impl ShownSetting {
    fn section_and_key(&self) -> (&str, &str) {
        self.name.split_once('.').unwrap_or(("", self.name))
    }
}

impl Shown {
    /// As a settings file, each setting with its documentation; what is left out stands there as a comment.
    pub fn to_toml(&self) -> String {
        let mut toml = String::new();
        for section in self.sections() {
            let _ = writeln!(
                toml,
                "{}[{section}]",
                if toml.is_empty() { "" } else { "\n" }
            );
            for setting in self
                .settings
                .iter()
                .filter(|setting| setting.section_and_key().0 == section)
            {
                let (_, key) = setting.section_and_key();
                let default = match setting.default.as_str() {
                    "" => "none".to_owned(),
                    default => default.to_owned(),
                };
                let _ = writeln!(
                    toml,
                    "# {} ({}; default: {default})",
                    setting.doc, setting.right
                );
                let _ = match setting.value.as_str() {
                    "" => writeln!(toml, "# {key} ="),
                    value => writeln!(toml, "{key} = {value}"),
                };
            }
        }
        toml
    }

    /// As a table for the documentation: defaults, not values.
    pub fn to_markdown(&self) -> String {
        let mut table =
            "| setting | in the environment | default | meaning |\n|---|---|---|---|\n".to_owned();
        for setting in &self.settings {
            let default = match setting.default.as_str() {
                "" => String::new(),
                default => format!("`{default}`"),
            };
            let cell = |text: &str| text.replace('|', "\\|");
            let _ = writeln!(
                table,
                "| `{}` | `{}` | {} | {} ({}) |",
                setting.name,
                variable(setting.name),
                cell(&default),
                cell(setting.doc),
                cell(&setting.right)
            );
        }
        table
    }

    /// Each section once, in the order in which they were read.
    fn sections(&self) -> Vec<&str> {
        let mut sections = Vec::new();
        for setting in &self.settings {
            let (section, _) = setting.section_and_key();
            if !sections.contains(&section) {
                sections.push(section);
            }
        }
        sections
    }
}
