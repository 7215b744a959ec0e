//! Which language a visitor reads.

/// A language that the pages speak: the position in [`LANGUAGES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Language(usize);

/// Each language's code and its strings file. To add one, add its file and its line here.
pub(super) const LANGUAGES: [(&str, &str); 2] = [
    ("en", include_str!("../../../web/strings/en.json")),
    ("de", include_str!("../../../web/strings/de.json")),
];

impl Language {
    /// All of them, the fallback first.
    pub(super) fn all() -> impl Iterator<Item = Language> {
        (0..LANGUAGES.len()).map(Language)
    }

    /// Its code, as in `<html lang>`.
    pub(super) fn code(self) -> &'static str {
        LANGUAGES[self.0].0
    }

    /// Its place in tables of languages.
    pub(super) fn index(self) -> usize {
        self.0
    }

    /// `?lang=` wins, then the best weight of `Accept-Language`, then English.
    pub(super) fn choose(wanted: Option<&str>, accepted: Option<&str>) -> Language {
        wanted
            .and_then(Language::named)
            .or_else(|| accepted.and_then(Language::best))
            .unwrap_or(Language(0))
    }

    fn best(accepted: &str) -> Option<Language> {
        let mut best: Option<(f32, Language)> = None;
        for range in accepted.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let language = parts.next().and_then(Language::named);
            let weight = parts
                .find_map(|part| part.strip_prefix("q="))
                .map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            if let Some(language) = language
                && weight > best.map_or(0.0, |(weight, _)| weight)
            {
                best = Some((weight, language));
            }
        }
        best.map(|(_, language)| language)
    }

    /// By a tag such as `de` or `de-AT`.
    fn named(tag: &str) -> Option<Language> {
        let primary = tag.split(['-', '_']).next()?;
        Language::all().find(|language| language.code().eq_ignore_ascii_case(primary))
    }
}

/// The texts of a strings file, in the order of their names.
#[cfg(test)]
pub(super) fn texts(language: &str) -> std::collections::BTreeMap<String, String> {
    let (_, file) = LANGUAGES
        .iter()
        .find(|(code, _)| *code == language)
        .expect("a known language");
    serde_json::from_str(file).expect("a strings file is one flat object of texts")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_wins_then_the_best_weight_then_english() {
        for (wanted, accepted, code) in [
            (None, None, "en"),
            (Some("de"), Some("en"), "de"),
            (Some("xx"), Some("de-AT,de;q=0.9"), "de"),
            (None, Some("fr-FR, en;q=0.3, de;q=0.8"), "de"),
            (None, Some("fr, *;q=0.5"), "en"),
            (None, Some("de;q=0"), "en"),
            (None, Some(";;;=,"), "en"),
        ] {
            assert_eq!(
                Language::choose(wanted, accepted).code(),
                code,
                "{wanted:?} {accepted:?}"
            );
        }
    }
}
