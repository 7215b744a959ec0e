//! Host tokens: JSON Web Tokens that let one run one room until they expire.
//!
//! A token names the room and when that room was made, so a code that is used again after a room has expired does not
//! hand the new room to the host of the old one. Tokens are signed with one of several keys, named in the header's
//! `kid`: a new key is added, then made the signing one, and the old one is taken out when its last token has
//! expired. A token is a secret: it is never logged, and errors do not repeat it.

use crate::settings::Settings;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use shared::room::{Room, RoomCode};
use shared::service::settings::Secret;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

/// The longest text looked at: a token of ours has some 250 bytes, and one must fit into a join frame of 1 KiB.
const TOKEN_BYTES_MAX: usize = 800;

/// What a token says.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    /// The room's code.
    room: String,
    /// When that room was created.
    created_at_ms: u64,
    /// When the token was made, seconds since 1970.
    iat: u64,
    /// When it ends, seconds since 1970.
    exp: u64,
}

/// Why a host token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token of ours at all.
    #[error("the host token is malformed; use the host link as it was given")]
    Malformed,
    /// Signed by a key that the settings do not have (any more).
    #[error(
        "the host token was signed with a key that is no longer in use; ask for a new host link"
    )]
    UnknownKey,
    /// The signature does not fit.
    #[error("the host token's signature is wrong; use the host link as it was given")]
    Signature,
    /// Over.
    #[error("the host token has expired; ask for a new host link")]
    Expired,
    /// Good, but for another room.
    #[error("the host token is for room {0}, not for this one")]
    OtherRoom(RoomCode),
    /// Good, but for an earlier room of the same code.
    #[error("the host token is for an earlier room with this code; ask for a new host link")]
    EarlierRoom,
}

impl TokenError {
    /// Whether the token is good, but not here: 403 instead of 401.
    pub fn is_foreign(&self) -> bool {
        matches!(self, TokenError::OtherRoom(_) | TokenError::EarlierRoom)
    }
}

/// Why tokens cannot be made with these keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// No key has the id that should sign.
    #[error("no host token key has the id {0:?}")]
    NoSuchKey(String),
    /// The key cannot be used.
    #[error("the host token key {id:?} cannot be used")]
    Unusable {
        /// Its id.
        id: String,
        /// Why.
        #[source]
        source: jsonwebtoken::errors::Error,
    },
}

/// Makes and checks host tokens.
pub struct Tokens {
    signing_id: String,
    signing_key: EncodingKey,
    keys: BTreeMap<String, DecodingKey>,
    lifetime: Duration,
}

/// The keys stay out of it.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.keys().collect();
        f.debug_struct("Tokens")
            .field("signing_id", &self.signing_id)
            .field("ids", &ids)
            .finish()
    }
}

impl Tokens {
    /// With the keys of the settings.
    ///
    /// # Errors
    /// See [`KeyError`]; settings that were read with success never give one.
    pub fn new(settings: &Settings) -> Result<Self, KeyError> {
        Self::from_keys(
            &settings.host_token_keys,
            &settings.host_token_key_id,
            settings.host_token_hours,
        )
    }

    fn from_keys(
        secrets: &BTreeMap<String, Secret>,
        signing_id: &str,
        lifetime: Duration,
    ) -> Result<Self, KeyError> {
        let unusable = |id: &str, source| KeyError::Unusable {
            id: id.to_owned(),
            source,
        };
        let signing = secrets.get(signing_id);
        let signing = signing.ok_or_else(|| KeyError::NoSuchKey(signing_id.to_owned()))?;
        let signing_key = EncodingKey::from_secret(signing.reveal().as_bytes())
            .map_err(|error| unusable(signing_id, error))?;
        let mut keys = BTreeMap::new();
        for (id, secret) in secrets {
            let key = DecodingKey::from_secret(secret.reveal().as_bytes())
                .map_err(|error| unusable(id, error))?;
            keys.insert(id.clone(), key);
        }
        Ok(Tokens {
            signing_id: signing_id.to_owned(),
            signing_key,
            keys,
            lifetime,
        })
    }

    /// A new token for a room.
    ///
    /// # Errors
    /// Only if signing itself fails.
    pub fn issue(&self, room: &Room) -> Result<String, jsonwebtoken::errors::Error> {
        self.issue_at(room, now_seconds())
    }

    /// Whether a token lets one run this room.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn verify(&self, room: &Room, token: &str) -> Result<(), TokenError> {
        self.verify_at(room, token, now_seconds())
    }

    fn issue_at(&self, room: &Room, now: u64) -> Result<String, jsonwebtoken::errors::Error> {
        let claims = Claims {
            room: room.code.as_str().to_owned(),
            created_at_ms: room.created_at_ms,
            iat: now,
            exp: now.saturating_add(self.lifetime.as_secs()),
        };
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some(self.signing_id.clone());
        jsonwebtoken::encode(&header, &claims, &self.signing_key)
    }

    fn verify_at(&self, room: &Room, token: &str, now: u64) -> Result<(), TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Malformed)?;
        let id = header.kid.ok_or(TokenError::Malformed)?;
        let key = self.keys.get(&id).ok_or(TokenError::UnknownKey)?;
        let mut rules = Validation::new(Algorithm::HS256);
        // Compared below with the caller's clock, to the second: a token is good for days.
        rules.validate_exp = false;
        let claims = jsonwebtoken::decode::<Claims>(token, key, &rules)
            .map_err(|error| match error.kind() {
                jsonwebtoken::errors::ErrorKind::InvalidSignature => TokenError::Signature,
                _ => TokenError::Malformed,
            })?
            .claims;
        if now >= claims.exp {
            return Err(TokenError::Expired);
        }
        if claims.room != room.code.as_str() {
            // Signed by us, so it is a code; anything else would be a key shared with other software.
            let code = claims.room.parse().map_err(|_| TokenError::Malformed)?;
            return Err(TokenError::OtherRoom(code));
        }
        if claims.created_at_ms != room.created_at_ms {
            return Err(TokenError::EarlierRoom);
        }
        Ok(())
    }
}

/// Seconds since 1970. Every gateway's own clock: a token is good for days, so seconds between clocks do not matter.
fn now_seconds() -> u64 {
    SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::room::{Palette, RoomState};

    const NOW: u64 = 1_790_000_000;
    const HOURS: Duration = Duration::from_secs(72 * 3600);

    fn tokens(keys: &[&str], signing: &str) -> Tokens {
        let secrets = keys
            .iter()
            .map(|id| {
                (
                    (*id).to_owned(),
                    Secret::new(format!("{id} is a key of 32 bytes at the least")),
                )
            })
            .collect();
        Tokens::from_keys(&secrets, signing, HOURS).unwrap()
    }

    fn room(code: &str) -> Room {
        Room {
            code: code.parse().unwrap(),
            title: "Keynote".to_owned(),
            palette: Palette::standard(),
            cooldown_ms: 3000,
            state: RoomState::Open,
            version: 1,
            created_at_ms: 1_789_999_999_000,
        }
    }

    #[test]
    fn a_token_is_good_for_its_room_until_it_ends() {
        let tokens = tokens(&["a"], "a");
        let room = room("PARTY7");
        let token = tokens.issue_at(&room, NOW).unwrap();
        assert_eq!(tokens.verify_at(&room, &token, NOW), Ok(()));
        assert_eq!(tokens.verify_at(&room, &token, NOW + 72 * 3600 - 1), Ok(()));
        assert_eq!(
            tokens.verify_at(&room, &token, NOW + 72 * 3600),
            Err(TokenError::Expired)
        );
        assert!(token.len() < 300, "it must fit into a join frame of 1 KiB");
    }

    #[test]
    fn another_room_and_an_earlier_room_of_the_same_code_are_foreign() {
        let tokens = tokens(&["a"], "a");
        let token = tokens.issue_at(&room("PARTY7"), NOW).unwrap();
        let error = tokens.verify_at(&room("OTHER2"), &token, NOW).unwrap_err();
        assert_eq!(error, TokenError::OtherRoom("PARTY7".parse().unwrap()));
        assert!(error.is_foreign());
        let mut reused = room("PARTY7");
        reused.created_at_ms += 1;
        let error = tokens.verify_at(&reused, &token, NOW).unwrap_err();
        assert_eq!(error, TokenError::EarlierRoom);
        assert!(error.is_foreign());
    }

    #[test]
    fn keys_rotate() {
        let room = room("PARTY7");
        let old = tokens(&["a"], "a").issue_at(&room, NOW).unwrap();
        let both = tokens(&["a", "b"], "b");
        assert_eq!(
            both.verify_at(&room, &old, NOW),
            Ok(()),
            "the old key still counts"
        );
        let new = both.issue_at(&room, NOW).unwrap();
        let only_new = tokens(&["b"], "b");
        assert_eq!(only_new.verify_at(&room, &new, NOW), Ok(()));
        assert_eq!(
            only_new.verify_at(&room, &old, NOW),
            Err(TokenError::UnknownKey)
        );
    }

    #[test]
    fn what_was_not_signed_by_us_is_refused() {
        let tokens = tokens(&["a"], "a");
        let room = room("PARTY7");
        let good = tokens.issue_at(&room, NOW).unwrap();
        let parts: Vec<&str> = good.split('.').collect();
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        for text in [
            "",
            ".",
            "..",
            "a.b.c",
            parts[0],
            &parts[..2].join("."),
            &long,
            "é.é.é",
        ] {
            assert_eq!(
                tokens.verify_at(&room, text, NOW),
                Err(TokenError::Malformed),
                "{text:?}"
            );
        }
        let mut tampered = good.clone();
        let last = if tampered.pop() == Some('A') {
            'E'
        } else {
            'A'
        };
        tampered.push(last);
        assert_eq!(
            tokens.verify_at(&room, &tampered, NOW),
            Err(TokenError::Signature)
        );
        // A token whose header says that it needs no signature, or one of another kind.
        for header in [
            r#"{"alg":"none","kid":"a"}"#,
            r#"{"alg":"HS384","kid":"a"}"#,
        ] {
            let header = base64_url(header.as_bytes());
            let forged = format!("{header}.{}.{}", parts[1], parts[2]);
            assert_eq!(
                tokens.verify_at(&room, &forged, NOW),
                Err(TokenError::Malformed)
            );
        }
    }

    #[test]
    fn without_the_signing_key_there_are_no_tokens() {
        let error = Tokens::from_keys(&BTreeMap::new(), "a", HOURS).unwrap_err();
        assert!(matches!(error, KeyError::NoSuchKey(_)));
    }

    #[test]
    fn keys_are_never_shown() {
        assert!(!format!("{:?}", tokens(&["a"], "a")).contains("32 bytes"));
    }

    fn base64_url(bytes: &[u8]) -> String {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let mut bits = 0_u32;
            for index in 0..3 {
                bits = bits << 8 | u32::from(chunk.get(index).copied().unwrap_or(0));
            }
            for index in 0..=chunk.len() {
                text.push(char::from(
                    ALPHABET[(bits >> (18 - 6 * index) & 63) as usize],
                ));
            }
        }
        text
    }
}
