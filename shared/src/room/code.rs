//! Room codes: short enough to read off a slide from the last row and to type with a thumb.

use super::short::ShortText;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

/// Bounds of a code's length. Below four, guessing finds rooms; above twelve nobody types it.
const LENGTH: std::ops::RangeInclusive<usize> = 4..=LENGTH_MAX;
const LENGTH_MAX: usize = 12;
/// 28 symbols to the sixth are 481 million codes: with 10,000 rooms one guess in 48,000 hits.
const GENERATED_LENGTH: usize = 6;
/// Without the look-alikes 0 O 1 I L, and without the other vowels, so that no code on a screen spells a word.
const GENERATED_SYMBOLS: &[u8; 28] = b"BCDFGHJKMNPQRSTVWXYZ23456789";

/// The code by which people find a room, in its canonical form: 4 to 12 of `A-Z0-9`, upper case.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoomCode(ShortText<LENGTH_MAX>);

impl RoomCode {
    /// A new code of six symbols without look-alikes (no 0, O, 1, I, L).
    pub fn generate(rng: &mut impl rand::Rng) -> Self {
        let symbols: [u8; GENERATED_LENGTH] = std::array::from_fn(|_| {
            GENERATED_SYMBOLS[rng.random_range(0..GENERATED_SYMBOLS.len())]
        });
        RoomCode(ShortText::new(&symbols).expect("six ASCII symbols fit into twelve"))
    }

    /// The canonical form.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// Why a typed room code is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoomCodeError {
    /// Not 4 to 12 letters and digits once spaces and dashes are taken out.
    #[error("a room code has 4 to 12 letters and digits, this one has {0}")]
    Length(usize),
    /// A symbol that is no letter and no digit.
    #[error("a room code has letters and digits only, not {0:?}")]
    Symbol(char),
}

/// Takes what a person typed: any case, with spaces or dashes around or inside.
impl FromStr for RoomCode {
    type Err = RoomCodeError;

    fn from_str(typed: &str) -> Result<Self, RoomCodeError> {
        let mut symbols = [0; LENGTH_MAX];
        let mut length = 0;
        for symbol in typed.chars().filter(|symbol| !is_filler(*symbol)) {
            let symbol = narrow(symbol);
            if !symbol.is_ascii_alphanumeric() {
                return Err(RoomCodeError::Symbol(symbol));
            }
            if let Some(place) = symbols.get_mut(length) {
                // An ASCII character is one byte.
                *place = symbol.to_ascii_uppercase() as u8;
            }
            length += 1;
        }
        if !LENGTH.contains(&length) {
            return Err(RoomCodeError::Length(length));
        }
        ShortText::new(&symbols[..length])
            .map(RoomCode)
            .ok_or(RoomCodeError::Length(length))
    }
}

/// What keyboards, messengers and slides put around or between the symbols: spaces of any width, dashes of any length,
/// and the invisible marks that come along with a copied text.
fn is_filler(symbol: char) -> bool {
    symbol.is_whitespace()
        || matches!(symbol,
            '-' | '\u{AD}' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}'
            | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

/// East Asian keyboards type letters and digits in full width: those are meant as their ASCII twins.
fn narrow(symbol: char) -> char {
    match symbol {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(symbol) - 0xFEE0).unwrap_or(symbol),
        _ => symbol,
    }
}

impl TryFrom<String> for RoomCode {
    type Error = RoomCodeError;
    fn try_from(text: String) -> Result<Self, RoomCodeError> {
        text.parse()
    }
}

impl From<RoomCode> for String {
    fn from(code: RoomCode) -> String {
        code.as_str().to_owned()
    }
}

impl Borrow<str> for RoomCode {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for RoomCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for RoomCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_code_is_found_however_it_is_typed() {
        for typed in [
            "KX7M2P",
            "kx7m2p",
            "Kx7m2p",
            " kx7-m2p ",
            "KX7 M2P",
            "k x 7 m 2 p",
            "-KX7M2P-",
            "KX7\u{2013}M2P",
            "KX7\u{2014}M2P",
            "KX7\u{2011}M2P",
            "KX7\u{2212}M2P",
            "KX7\u{A0}M2P",
            "KX7\u{202F}M2P",
            "\tKX7M2P\r\n",
            "KX7\u{3000}M2P",
            "\u{200E}KX7M2P\u{200B}",
            "\u{FEFF}KX7M2P",
            "ＫＸ７ｍ２ｐ",
            "KX7\u{AD}M2P",
        ] {
            assert_eq!(
                typed.parse::<RoomCode>().map(String::from),
                Ok("KX7M2P".to_owned()),
                "{typed:?}"
            );
        }
    }

    #[test]
    fn chosen_codes_may_have_any_letter_and_digit() {
        for chosen in ["PARTY7", "OIL0", "RUST2026", "ABCDEFGHIJKL"] {
            assert_eq!(chosen.parse::<RoomCode>().unwrap().as_str(), chosen);
        }
    }

    #[test]
    fn what_is_no_code_is_told_why() {
        let why = |typed: &str| typed.parse::<RoomCode>().unwrap_err();
        assert_eq!(why(""), RoomCodeError::Length(0));
        assert_eq!(why(" - "), RoomCodeError::Length(0));
        assert_eq!(why("a-b-c"), RoomCodeError::Length(3));
        assert_eq!(why("ABCDEFGHIJKLM"), RoomCodeError::Length(13));
        assert_eq!(why(&"A".repeat(100_000)), RoomCodeError::Length(100_000));
        assert_eq!(why("KÄFER"), RoomCodeError::Symbol('Ä'));
        assert_eq!(why("KX7M2P!"), RoomCodeError::Symbol('!'));
        assert_eq!(why("../../x"), RoomCodeError::Symbol('.'));
        // Upper-casing would make "SS" of it; it is no letter of a code.
        assert_eq!(why("STRAßE"), RoomCodeError::Symbol('ß'));
        assert_eq!(
            why("KX7_M2P").to_string(),
            "a room code has letters and digits only, not '_'"
        );
    }

    #[test]
    fn generated_codes_have_no_look_alikes() {
        let mut rng = rand::rng();
        let mut used = HashMap::<char, u32>::new();
        for _ in 0..100_000 {
            let code = RoomCode::generate(&mut rng);
            assert_eq!(code.as_str().len(), 6);
            assert_eq!(code.as_str().parse(), Ok(code.clone()));
            for symbol in code.as_str().chars() {
                assert!(!"0O1IL".contains(symbol), "{code}");
                *used.entry(symbol).or_default() += 1;
            }
        }
        assert_eq!(used.len(), GENERATED_SYMBOLS.len(), "every symbol comes up");
        // 600,000 draws of 28 symbols: 21,429 each, with a standard deviation of 144.
        assert!(
            used.values().all(|times| (20_000..23_000).contains(times)),
            "{used:?}"
        );
    }

    #[test]
    fn travels_as_text() {
        let code: RoomCode = serde_json::from_str("\"party7\"").unwrap();
        assert_eq!(serde_json::to_string(&code).unwrap(), "\"PARTY7\"");
        assert!(serde_json::from_str::<RoomCode>("\"x\"").is_err());
        let map = HashMap::from([(code, 1)]);
        assert_eq!(map.get("PARTY7"), Some(&1));
    }
}
