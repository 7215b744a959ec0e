//! A short ASCII text that lives where it is used.
//!
//! Codes and keys are copied for every tap, between threads: kept inline, that costs neither an allocation nor a
//! reference count that all cores write to.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Up to `N` bytes of ASCII; `N` is at most 255.
#[derive(Clone, Copy)]
pub(super) struct ShortText<const N: usize> {
    length: u8,
    bytes: [u8; N],
}

impl<const N: usize> ShortText<N> {
    /// Of ASCII bytes; none if there are more than `N` of them or one is not ASCII.
    pub(super) fn new(ascii: &[u8]) -> Option<Self> {
        if !ascii.is_ascii() {
            return None;
        }
        let mut bytes = [0; N];
        bytes.get_mut(..ascii.len())?.copy_from_slice(ascii);
        Some(ShortText {
            length: u8::try_from(ascii.len()).ok()?,
            bytes,
        })
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)])
            .expect("only ASCII is taken in, and never changed")
    }
}

// Equality, order and hash are those of the text, so that maps can be asked with a `&str`.

impl<const N: usize> PartialEq for ShortText<N> {
    fn eq(&self, other: &Self) -> bool {
        // Bytes behind the text are zero, and a zero is in no text, so the whole arrays can be compared.
        self.bytes == other.bytes
    }
}

impl<const N: usize> Eq for ShortText<N> {}

impl<const N: usize> PartialOrd for ShortText<N> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<const N: usize> Ord for ShortText<N> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl<const N: usize> Hash for ShortText<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl<const N: usize> fmt::Debug for ShortText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_fits_and_is_ascii() {
        assert_eq!(ShortText::<4>::new(b"").unwrap().as_str(), "");
        assert_eq!(ShortText::<4>::new(b"clap").unwrap().as_str(), "clap");
        assert!(ShortText::<4>::new(b"claps").is_none());
        assert!(ShortText::<4>::new("é".as_bytes()).is_none());
    }

    #[test]
    fn orders_and_compares_as_text() {
        let text = |text: &str| ShortText::<4>::new(text.as_bytes()).unwrap();
        assert_eq!(text("ab"), text("ab"));
        assert_ne!(text("ab"), text("abc"));
        assert!(text("ab") < text("abc"));
        assert!(text("b") > text("abc"));
    }
}
