//! Who may do what: bearer tokens of the `Authorization` header, and the admin key.

use crate::http::error::ApiError;
use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{self, HeaderMap};
use sha2::Sha256;
use shared::service::settings::Secret;
use std::fmt;

/// The key with which rooms are made, kept as a keyed hash and compared in constant time: neither how much of a
/// guess is right nor how long the key is shows in how long the answer takes.
pub struct AdminKey {
    hasher: Hmac<Sha256>,
    expected: Option<[u8; 32]>,
}

impl fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminKey")
            .field("is_set", &self.expected.is_some())
            .finish()
    }
}

impl AdminKey {
    /// `key` is the setting; an empty one is none.
    pub(crate) fn new(key: Option<&Secret>) -> Self {
        let salt: [u8; 32] = rand::random();
        let hasher = Hmac::new_from_slice(&salt).expect("HMAC takes keys of any length");
        let key = key.filter(|key| !key.reveal().is_empty());
        let expected = key.map(|key| hash(&hasher, key.reveal()).finalize().into_bytes().into());
        AdminKey { hasher, expected }
    }

    /// Whether a request carries the key.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(expected) = &self.expected else {
            return Err(ApiError::NoAdminKey);
        };
        let given = bearer(headers).ok_or(ApiError::NoCredentials("the admin key"))?;
        hash(&self.hasher, given)
            .verify_slice(expected)
            .map_err(|_| ApiError::WrongAdminKey)
    }
}

fn hash(hasher: &Hmac<Sha256>, text: &str) -> Hmac<Sha256> {
    hasher.clone().chain_update(text)
}

/// The token of `Authorization: Bearer TOKEN`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: Option<&str>, header: Option<&str>) -> Result<(), ApiError> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(header::AUTHORIZATION, header.parse().unwrap());
        }
        AdminKey::new(key.map(Secret::new).as_ref()).check(&headers)
    }

    #[test]
    fn only_the_whole_key_opens() {
        assert!(check(Some("correct horse"), Some("Bearer correct horse")).is_ok());
        assert!(check(Some("correct horse"), Some("bearer  correct horse ")).is_ok());
        for wrong in [
            "Bearer correct",
            "Bearer correct horse battery",
            "Bearer Correct horse",
        ] {
            let error = check(Some("correct horse"), Some(wrong)).unwrap_err();
            assert!(matches!(error, ApiError::WrongAdminKey), "{wrong}");
        }
        for none in [
            None,
            Some("correct horse"),
            Some("Basic correct horse"),
            Some("Bearer "),
        ] {
            let error = check(Some("correct horse"), none).unwrap_err();
            assert!(matches!(error, ApiError::NoCredentials(_)), "{none:?}");
        }
    }

    #[test]
    fn without_a_key_nothing_opens() {
        for key in [None, Some("")] {
            assert!(matches!(
                check(key, Some("Bearer ")),
                Err(ApiError::NoAdminKey)
            ));
            assert!(matches!(
                check(key, Some("Bearer x")),
                Err(ApiError::NoAdminKey)
            ));
        }
    }
}
