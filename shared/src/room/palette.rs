//! The palette: the buttons on the phones.

use super::emoji;
use super::key::ReactionKey;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// As many buttons as fit a phone without scrolling, three in a row.
pub const REACTIONS_MAX: usize = 12;
/// The longest label, in characters: what a button still shows.
pub const LABEL_CHARS_MAX: usize = 40;

/// One reaction of a palette, its emoji in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PaletteEntry {
    /// Names the reaction in taps, totals and tables.
    #[schemars(with = "String", regex(pattern = "^[a-z0-9_-]{1,24}$"))]
    pub key: ReactionKey,
    /// One emoji, canonical (fully qualified).
    pub emoji: String,
    /// What a screen reader says.
    #[schemars(length(min = 1, max = 40))]
    pub label: String,
}

/// A reaction as somebody wrote it down, nothing of it checked yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct PaletteDraft {
    /// 1 to 24 of `a-z0-9_-`.
    pub key: String,
    /// One emoji, in any spelling.
    pub emoji: String,
    /// 1 to 40 characters; left out, it is the emoji's English name.
    pub label: Option<String>,
}

impl From<PaletteEntry> for PaletteDraft {
    fn from(entry: PaletteEntry) -> Self {
        PaletteDraft {
            key: entry.key.into(),
            emoji: entry.emoji,
            label: Some(entry.label),
        }
    }
}

/// 1 to 12 reactions with unique keys and unique emoji.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<PaletteDraft>", into = "Vec<PaletteEntry>")]
pub struct Palette(Arc<[PaletteEntry]>);

impl Palette {
    /// Checks and canonicalises.
    ///
    /// # Errors
    /// The first entry that is wrong, and what would be right.
    pub fn new(entries: Vec<PaletteEntry>) -> Result<Self, PaletteError> {
        Self::from_drafts(entries.into_iter().map(PaletteDraft::from).collect())
    }

    /// Checks and canonicalises what somebody wrote down.
    ///
    /// # Errors
    /// The first entry that is wrong, and what would be right.
    pub fn from_drafts(drafts: Vec<PaletteDraft>) -> Result<Self, PaletteError> {
        if !(1..=REACTIONS_MAX).contains(&drafts.len()) {
            return Err(PaletteError::Length(drafts.len()));
        }
        let mut entries = Vec::<PaletteEntry>::with_capacity(drafts.len());
        for (index, draft) in drafts.into_iter().enumerate() {
            let wrong = |reason| PaletteError::Entry { index, reason };
            let entry = checked(&draft).map_err(wrong)?;
            if let Some(first) = entries.iter().position(|other| other.key == entry.key) {
                let key = &entry.key;
                return Err(wrong(format!(
                    "the key {:?} is already that of reaction {}; give each its own",
                    key.as_str(),
                    first + 1
                )));
            }
            if let Some(first) = entries.iter().position(|other| other.emoji == entry.emoji) {
                let emoji = &entry.emoji;
                return Err(wrong(format!(
                    "{emoji} is already the emoji of reaction {}; give each its own",
                    first + 1
                )));
            }
            entries.push(entry);
        }
        Ok(Palette(entries.into()))
    }

    /// The entries in the order of the buttons.
    pub fn entries(&self) -> &[PaletteEntry] {
        &self.0
    }

    /// The position of a key, if the palette has it.
    pub fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|entry| entry.key.as_str() == key)
    }

    /// The palette of a room that named none.
    pub fn standard() -> Self {
        let draft = |(key, emoji, label): (&str, &str, &str)| PaletteDraft {
            key: key.to_owned(),
            emoji: emoji.to_owned(),
            label: Some(label.to_owned()),
        };
        let drafts = STANDARD.into_iter().map(draft).collect();
        Self::from_drafts(drafts).expect("the standard palette is right; a test reads it")
    }
}

/// What audiences show: approval in three strengths, joy, surprise, and a question.
const STANDARD: [(&str, &str, &str); 6] = [
    ("clap", "👏", "Applause"),
    ("heart", "❤️", "Love it"),
    ("fire", "🔥", "On fire"),
    ("laugh", "😂", "Funny"),
    ("wow", "😮", "Surprised"),
    ("think", "🤔", "Not sure"),
];

/// One entry by itself, or what is wrong with it.
fn checked(draft: &PaletteDraft) -> Result<PaletteEntry, String> {
    if draft.key.is_empty() {
        return Err("its key is missing; a key has 1 to 24 of a-z, 0-9, _ and -".to_owned());
    }
    let key: ReactionKey = draft.key.parse().map_err(|error| format!("{error}"))?;
    if draft.emoji.is_empty() {
        return Err("its emoji is missing; give one emoji, such as 👏".to_owned());
    }
    let Some((emoji, name)) = emoji::canonical(&draft.emoji) else {
        let shown: String = draft.emoji.chars().take(16).collect();
        return Err(format!(
            "{shown:?} is not one emoji; give exactly one, such as 👏"
        ));
    };
    let label = draft.label.as_deref().unwrap_or_default().trim();
    let label = if label.is_empty() {
        shortened(name)
    } else {
        checked_label(label)?
    };
    Ok(PaletteEntry {
        key,
        emoji: emoji.to_owned(),
        label,
    })
}

fn checked_label(label: &str) -> Result<String, String> {
    let label = super::limits::without_bidi_controls(label);
    let length = label.chars().count();
    if !(1..=LABEL_CHARS_MAX).contains(&length) {
        return Err(format!(
            "a label has 1 to {LABEL_CHARS_MAX} characters, this one has {length}"
        ));
    }
    match label
        .chars()
        .find(|symbol| super::limits::is_control(*symbol))
    {
        Some(control) => Err(format!(
            "a label has no control characters, this one has {control:?}"
        )),
        None => Ok(label),
    }
}

/// A few emoji have names longer than a label.
fn shortened(name: &str) -> String {
    if name.chars().count() <= LABEL_CHARS_MAX {
        return name.to_owned();
    }
    name.chars()
        .take(LABEL_CHARS_MAX - 1)
        .chain(['…'])
        .collect()
}

impl TryFrom<Vec<PaletteDraft>> for Palette {
    type Error = PaletteError;
    fn try_from(drafts: Vec<PaletteDraft>) -> Result<Self, PaletteError> {
        Palette::from_drafts(drafts)
    }
}

impl TryFrom<Vec<PaletteEntry>> for Palette {
    type Error = PaletteError;
    fn try_from(entries: Vec<PaletteEntry>) -> Result<Self, PaletteError> {
        Palette::new(entries)
    }
}

impl From<Palette> for Vec<PaletteEntry> {
    fn from(palette: Palette) -> Self {
        palette.0.to_vec()
    }
}

/// Why a palette is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PaletteError {
    /// No entry, or more than twelve.
    #[error("a palette has 1 to 12 reactions, this one has {0}")]
    Length(usize),
    /// One entry is wrong.
    #[error("reaction {}: {reason}", index + 1)]
    Entry {
        /// Which entry, from 0; the message counts from 1, as people do.
        index: usize,
        /// What is wrong and what would be right.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(key: &str, emoji: &str, label: Option<&str>) -> PaletteDraft {
        PaletteDraft {
            key: key.into(),
            emoji: emoji.into(),
            label: label.map(Into::into),
        }
    }

    fn wrong(drafts: Vec<PaletteDraft>) -> String {
        Palette::from_drafts(drafts).unwrap_err().to_string()
    }

    #[test]
    fn the_standard_palette_has_six() {
        let palette = Palette::standard();
        assert_eq!(palette.entries().len(), 6);
        assert_eq!(palette.position("clap"), Some(0));
        assert_eq!(palette.position("think"), Some(5));
        assert_eq!(palette.position("boo"), None);
    }

    #[test]
    fn emoji_become_canonical_and_labels_get_a_name() {
        let palette = Palette::from_drafts(vec![
            draft("heart", "\u{2764}", None),
            draft("up", "\u{261D}\u{1F3FE}\u{FE0F}", Some("  Look up  ")),
            draft("flag", "🇬🇸", Some("")),
        ])
        .unwrap();
        let [heart, up, flag] = palette.entries() else {
            panic!("three entries")
        };
        assert_eq!(
            (heart.emoji.as_str(), heart.label.as_str()),
            ("❤\u{FE0F}", "red heart")
        );
        assert_eq!(
            (up.emoji.as_str(), up.label.as_str()),
            ("\u{261D}\u{1F3FE}", "Look up")
        );
        assert_eq!(flag.label.chars().count(), LABEL_CHARS_MAX);
        assert!(flag.label.ends_with('…'));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        assert_eq!(
            wrong(vec![]),
            "a palette has 1 to 12 reactions, this one has 0"
        );
        let thirteen = (0..13)
            .map(|n| draft(&format!("k{n}"), "👏", None))
            .collect();
        assert_eq!(
            wrong(thirteen),
            "a palette has 1 to 12 reactions, this one has 13"
        );
        let ok = || draft("clap", "👏", None);
        assert_eq!(
            wrong(vec![ok(), draft("clap", "🔥", None)]),
            "reaction 2: the key \"clap\" is already that of reaction 1; give each its own"
        );
        assert_eq!(
            wrong(vec![
                draft("a", "\u{2764}\u{FE0F}", None),
                ok(),
                draft("b", "\u{2764}", None)
            ]),
            "reaction 3: ❤\u{FE0F} is already the emoji of reaction 1; give each its own"
        );
        for no_emoji in ["1", "#", "\u{200D}", "\u{FE0F}", "ab", "👏👏"] {
            let message = wrong(vec![ok(), draft("x", no_emoji, None)]);
            assert!(
                message.starts_with("reaction 2: ") && message.contains("is not one emoji"),
                "{message}"
            );
        }
        assert!(wrong(vec![draft("x", "", None)]).contains("emoji is missing"));
        assert!(wrong(vec![draft("", "👏", None)]).contains("key is missing"));
        assert!(wrong(vec![draft("Clap", "👏", None)]).contains("a reaction key has 1 to 24"));
        assert!(wrong(vec![draft("x", "👏", Some(&"x".repeat(41)))]).contains("this one has 41"));
        assert!(wrong(vec![draft("x", "👏", Some("a\u{7}b"))]).contains("control"));
    }

    #[test]
    fn travels_as_a_list_and_is_checked_on_arrival() {
        let palette: Palette = serde_json::from_str(
            r#"[{"key":"clap","emoji":"👏","label":"Applause"},{"key":"heart","emoji":"❤"}]"#,
        )
        .unwrap();
        let json = serde_json::to_string(&palette).unwrap();
        assert_eq!(
            json,
            "[{\"key\":\"clap\",\"emoji\":\"👏\",\"label\":\"Applause\"},\
             {\"key\":\"heart\",\"emoji\":\"❤\u{FE0F}\",\"label\":\"red heart\"}]"
        );
        let error = serde_json::from_str::<Palette>(r#"[{"key":"clap","emoji":"1"}]"#).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("reaction 1: \"1\" is not one emoji"),
            "{error}"
        );
        let error = serde_json::from_str::<Palette>(r#"[{"emoji":"👏"}]"#).unwrap_err();
        assert!(
            error.to_string().contains("reaction 1: its key is missing"),
            "{error}"
        );
    }
}
