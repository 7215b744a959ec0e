//! What is one emoji, and which of its spellings is the canonical one.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The canonical (fully qualified) form of one emoji, and its English name; none if the text is not exactly one emoji.
///
/// Keyboards disagree on variation selectors: some send a heart without one, some put one behind a skin tone. They
/// never tell two emoji apart, so both sides of the look-up are without any, and the canonical form has them where
/// Unicode wants them.
pub(super) fn canonical(typed: &str) -> Option<(&'static str, &'static str)> {
    // The longest canonical emoji has 35 bytes; whatever is much longer need not be copied.
    if typed.len() > 128 {
        return None;
    }
    let emoji = EMOJI.get(&bare(typed.trim()))?;
    Some((emoji.as_str(), emoji.name()))
}

/// All emoji by their form without selectors. The crate's own look-up (0.9.1) takes that form too, but gives some kisses
/// and couples other skin tones than were asked for.
static EMOJI: LazyLock<HashMap<String, &'static emojis::Emoji>> =
    LazyLock::new(|| all().map(|emoji| (bare(emoji.as_str()), emoji)).collect());

fn all() -> impl Iterator<Item = &'static emojis::Emoji> {
    emojis::iter().flat_map(|base| {
        // The tones of an emoji that has any include the plain one.
        let toned = base.skin_tones().into_iter().flatten();
        std::iter::once(base).chain(toned.filter(move |emoji| *emoji != base))
    })
}

fn bare(text: &str) -> String {
    text.chars()
        .filter(|symbol| !matches!(symbol, '\u{FE0E}' | '\u{FE0F}'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(typed: &str) -> Option<&'static str> {
        canonical(typed).map(|(form, _)| form)
    }

    #[test]
    fn spellings_of_one_emoji_are_one() {
        let heart = Some("\u{2764}\u{FE0F}");
        assert_eq!(form("\u{2764}"), heart);
        assert_eq!(form("\u{2764}\u{FE0F}"), heart);
        assert_eq!(
            form("\u{2764}\u{FE0E}"),
            heart,
            "asked for as text, shown as an emoji"
        );
        assert_eq!(form(" \u{2764} "), heart);
        let pointing = Some("\u{261D}\u{1F3FE}");
        assert_eq!(form("\u{261D}\u{1F3FE}"), pointing);
        assert_eq!(form("\u{261D}\u{1F3FE}\u{FE0F}"), pointing);
        assert_eq!(form("\u{261D}\u{FE0F}\u{1F3FE}"), pointing);
    }

    #[test]
    fn sequences_are_taken_whole() {
        for emoji in [
            "🇧🇷",
            "1\u{FE0F}\u{20E3}",
            "👩🏽\u{200D}🚀",
            "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
            "👨‍👩‍👧‍👦",
            "🏳\u{FE0F}\u{200D}🌈",
            "🏴‍☠️",
            "👁️‍🗨️",
        ] {
            assert_eq!(form(emoji), Some(emoji), "{emoji}");
        }
        assert_eq!("🏴󠁧󠁢󠁳󠁣󠁴󠁿".chars().count(), 7);
    }

    #[test]
    fn what_is_not_exactly_one_emoji_is_none() {
        for text in [
            "",
            " ",
            "1",
            "#",
            "*",
            "a",
            "ab",
            "\u{200D}",
            "\u{FE0F}",
            "\u{FE0E}",
            "\u{20E3}",
            "\u{1F1E7}",
            "👏👏",
            "👏a",
            "👏\u{200D}",
            "\u{200D}👏",
            "🇧🇷🇧🇷",
            "🏴\u{E0067}\u{E007F}",
            "clap",
            ":)",
            "<b>",
            "\u{1F3FE}\u{1F3FE}",
        ] {
            assert_eq!(form(text), None, "{text:?}");
        }
        assert_eq!(form(&"👏".repeat(1000)), None);
    }

    #[test]
    fn every_emoji_of_the_standard_is_found_with_and_without_selectors() {
        for emoji in all() {
            assert_eq!(form(emoji.as_str()), Some(emoji.as_str()));
            assert_eq!(
                form(&bare(emoji.as_str())),
                Some(emoji.as_str()),
                "{emoji:?}"
            );
        }
        assert_eq!(
            EMOJI.len(),
            all().count(),
            "no two emoji differ by selectors only"
        );
        assert!(EMOJI.len() > 3_000, "{}", EMOJI.len());
    }
}
