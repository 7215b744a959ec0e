//! Bounds of what a host may set: title and cooldown.

/// The longest title, in characters: two lines on a slide.
pub const TITLE_CHARS_MAX: usize = 120;
/// Bounds of the cooldown, in milliseconds. Below, a thumb cannot tap faster anyway; above, people think it broken.
pub const COOLDOWN_MS: std::ops::RangeInclusive<u32> = 250..=60_000;
/// The cooldown of a room that named none: often enough to join an applause, seldom enough that nobody alone is it.
pub const COOLDOWN_MS_STANDARD: u32 = 3_000;

/// Why a title is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TitleError {
    /// Nothing visible in it, or too much.
    #[error("a title has 1 to {TITLE_CHARS_MAX} characters, this one has {0}")]
    Length(usize),
    /// A control character, a line break included.
    #[error("a title is one line without control characters, this one has {0:?}")]
    Control(char),
}

/// A title as it is stored: trimmed, and without the invisible marks that would turn the text around it.
///
/// # Errors
/// See [`TitleError`].
pub fn check_title(typed: &str) -> Result<String, TitleError> {
    let title = without_bidi_controls(typed);
    let title = title.trim_matches(|symbol: char| symbol.is_whitespace() || is_invisible(symbol));
    if let Some(control) = title.chars().find(|symbol| is_control(*symbol)) {
        return Err(TitleError::Control(control));
    }
    match title.chars().count() {
        length if (1..=TITLE_CHARS_MAX).contains(&length) => Ok(title.to_owned()),
        length => Err(TitleError::Length(length)),
    }
}

/// A cooldown out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a cooldown has 250 to 60000 milliseconds, not {0}")]
pub struct CooldownError(pub u64);

/// A cooldown within its bounds.
///
/// # Errors
/// See [`CooldownError`].
pub fn check_cooldown(milliseconds: u64) -> Result<u32, CooldownError> {
    u32::try_from(milliseconds)
        .ok()
        .filter(|milliseconds| COOLDOWN_MS.contains(milliseconds))
        .ok_or(CooldownError(milliseconds))
}

/// Control characters, and the two separators that some renderers break lines at.
pub(super) fn is_control(symbol: char) -> bool {
    symbol.is_control() || matches!(symbol, '\u{2028}' | '\u{2029}')
}

/// Embeddings, overrides and isolates turn what stands behind them around, and come along unseen with copied text.
/// Dropping them keeps the words. The single marks (LRM, RLM, ALM) are harmless and stay.
pub(super) fn without_bidi_controls(text: &str) -> String {
    text.chars()
        .filter(|symbol| !matches!(symbol, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'))
        .collect()
}

/// What shows nothing by itself: around a title it is noise, and a title of nothing else is empty.
fn is_invisible(symbol: char) -> bool {
    matches!(
        symbol,
        '\u{AD}' | '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FEFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_in_any_language() {
        for title in [
            "Keynote",
            "مؤتمر 2026",
            "東京 👩🏽\u{200D}🚀",
            "a",
            "O'Brien & <b>",
            &"ß".repeat(120),
        ] {
            assert_eq!(check_title(title).as_deref(), Ok(title));
        }
        assert_eq!(check_title("  Keynote \n").as_deref(), Ok("Keynote"));
        assert_eq!(
            check_title("\u{FEFF}Key\u{202E}note\u{2069}").as_deref(),
            Ok("Keynote")
        );
    }

    #[test]
    fn what_is_no_title() {
        assert_eq!(check_title(""), Err(TitleError::Length(0)));
        assert_eq!(
            check_title(" \u{A0}\u{200B}\u{202E}"),
            Err(TitleError::Length(0))
        );
        assert_eq!(check_title(&"ß".repeat(121)), Err(TitleError::Length(121)));
        assert_eq!(check_title("a\nb"), Err(TitleError::Control('\n')));
        assert_eq!(check_title("a\0b"), Err(TitleError::Control('\0')));
        assert_eq!(
            check_title("a\u{2028}b"),
            Err(TitleError::Control('\u{2028}'))
        );
    }

    #[test]
    fn cooldowns() {
        assert_eq!(check_cooldown(250), Ok(250));
        assert_eq!(check_cooldown(60_000), Ok(60_000));
        for wrong in [0, 249, 60_001, u64::MAX] {
            assert_eq!(check_cooldown(wrong), Err(CooldownError(wrong)));
        }
        assert!(COOLDOWN_MS.contains(&COOLDOWN_MS_STANDARD));
    }
}
