//! The key of a reaction.

use super::short::ShortText;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

/// Long enough for a word or two; it is stored in every batch.
const LENGTH_MAX: usize = 24;

/// The key of a reaction: 1 to 24 of `a-z0-9_-`. Well-formed keys count, whatever the palette says.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReactionKey(ShortText<LENGTH_MAX>);

impl ReactionKey {
    /// The key's text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Of a key's bytes; none if they are not one.
    pub fn from_ascii(text: &[u8]) -> Option<ReactionKey> {
        let is_symbol = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if text.is_empty() || !text.iter().all(is_symbol) {
            return None;
        }
        ShortText::new(text).map(ReactionKey)
    }
}

/// Why a text is no reaction key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a reaction key has 1 to 24 of a-z, 0-9, _ and -, not {0:?}")]
pub struct ReactionKeyError(pub String);

impl FromStr for ReactionKey {
    type Err = ReactionKeyError;

    fn from_str(text: &str) -> Result<Self, ReactionKeyError> {
        // The text came from outside and goes into messages and logs: its beginning is enough.
        ReactionKey::from_ascii(text.as_bytes())
            .ok_or_else(|| ReactionKeyError(text.chars().take(LENGTH_MAX + 8).collect()))
    }
}

impl TryFrom<String> for ReactionKey {
    type Error = ReactionKeyError;
    fn try_from(text: String) -> Result<Self, ReactionKeyError> {
        text.parse()
    }
}

impl From<ReactionKey> for String {
    fn from(key: ReactionKey) -> String {
        key.as_str().to_owned()
    }
}

impl Borrow<str> for ReactionKey {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl Serialize for ReactionKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// By hand, since the derived way through a `String` would allocate for every tap.
impl<'de> Deserialize<'de> for ReactionKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = ReactionKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a reaction key")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ReactionKey, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

impl fmt::Display for ReactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ReactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_keys() {
        for key in [
            "clap",
            "a",
            "0",
            "thumbs-up",
            "thumbs_up",
            "abcdefghijklmnopqrstuvwx",
        ] {
            assert_eq!(key.parse::<ReactionKey>().unwrap().as_str(), key);
        }
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "",
            "Clap",
            "cl ap",
            "klätsch",
            "a:b",
            "👏",
            "abcdefghijklmnopqrstuvwxy",
            "a\0",
        ] {
            assert_eq!(
                text.parse::<ReactionKey>(),
                Err(ReactionKeyError(text.to_owned()))
            );
        }
        let long = "x".repeat(5_000).parse::<ReactionKey>().unwrap_err();
        assert!(
            long.to_string().len() < 120,
            "an error repeats only the beginning"
        );
    }

    #[test]
    fn travels_as_text_and_as_the_key_of_a_map() {
        let totals: std::collections::BTreeMap<ReactionKey, u64> =
            serde_json::from_str(r#"{"clap":5,"hea\u0072t":7}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&totals).unwrap(),
            r#"{"clap":5,"heart":7}"#
        );
        assert_eq!(totals.get("heart"), Some(&7));
        assert!(serde_json::from_str::<ReactionKey>("\"Clap\"").is_err());
        assert!(serde_json::from_str::<ReactionKey>("5").is_err());
    }
}
