//! Names that nothing reads: most are typing errors, and a setting that silently does nothing is worse than none.

use super::source::{PREFIX, Source};
use super::variable;
use std::collections::BTreeSet;

/// The sections of all services: one file may serve them all, so those of others are no mistake.
const SECTIONS: [&str; 6] = [
    "redis",
    "log",
    "postgres",
    "gateway",
    "aggregator",
    "persister",
];

/// A line for each name in the sections of `known` that is not among them, for each section that no service has, and
/// for each variable that looks like one of these sections but has a single underscore. Never a value: it may be a secret.
pub(super) fn report(source: &Source, known: &[&str]) -> Vec<String> {
    let sections: BTreeSet<&str> = known
        .iter()
        .filter_map(|name| Some(name.split_once('.')?.0))
        .collect();
    let mut lines = Vec::new();
    for (section, is_table) in source.sections() {
        if sections.contains(section) && !is_table {
            lines.push(format!(
                "{section} is a section: should be a table of settings"
            ));
        } else if !sections.contains(section) && !SECTIONS.contains(&section) {
            let all = SECTIONS.iter().copied().chain(sections.iter().copied());
            lines.push(format!(
                "section {section} is unknown{}",
                suggestion(section, all)
            ));
        }
    }
    for section in &sections {
        for key in source
            .section(section)
            .into_iter()
            .flat_map(|table| table.keys())
        {
            let name = format!("{section}.{key}");
            if !known.contains(&name.as_str()) {
                let origin = source.origin(&name).unwrap_or_default();
                let suggestion = suggestion(&name, known.iter().copied());
                lines.push(format!("{name} (from {origin}) is unknown{suggestion}"));
            }
        }
    }
    for stray in source.strays() {
        let name = stray[PREFIX.len()..].to_ascii_lowercase();
        let Some(section) = sections.iter().find(|section| {
            name.strip_prefix(**section)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        }) else {
            continue;
        };
        let name = format!(
            "{section}.{}",
            name[section.len()..].trim_start_matches('_')
        );
        let nearest = nearest(&name, known.iter().copied()).unwrap_or(&name);
        lines.push(format!(
            "{stray} sets nothing; did you mean {}?",
            variable(nearest)
        ));
    }
    lines.sort();
    lines
}

fn suggestion<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known)
        .map(|near| format!("; did you mean {near}?"))
        .unwrap_or_default()
}

/// The known name that is nearest, if it is near enough to be meant.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|known| (distance(name, known), known)).min()?;
    // A third of the letters wrong is no typing error any more.
    (near.0 <= name.len().div_ceil(3)).then_some(near.1)
}

/// How many letters to put in, take out or change (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn suggests_only_what_is_near() {
        let known = || ["log.level", "log.format"].into_iter();
        assert_eq!(nearest("log.lvel", known()), Some("log.level"));
        assert_eq!(nearest("log.colour_of_the_sky", known()), None);
    }
}
