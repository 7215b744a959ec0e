//! The frames that nearly all of a phone's traffic consists of, parsed and unmasked where they lie.

use crate::encoded::SHORT_MAX;

/// What such a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A whole text message.
    Text,
    /// To be answered with a pong.
    Ping,
    /// An answer to our ping.
    Pong,
    /// The other side closes.
    Close,
}

/// What lies at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// A frame, its payload unmasked in place, and how many bytes it took.
    Frame(Kind, &'a mut [u8], usize),
    /// The beginning of a frame, or nothing.
    Incomplete,
    /// Something else, right or wrong: a fragment, a longer or binary message, reserved bits, no mask. The buffer is
    /// as it was.
    Other,
}

/// Bytes before the payload of a masked frame of at most 125 bytes.
const HEADER: usize = 6;

/// Looks at the start of `buffer` for a final, masked frame of at most 125 bytes.
pub(crate) fn parse(buffer: &mut [u8]) -> Parsed<'_> {
    let [first, second, ..] = *buffer else {
        return Parsed::Incomplete;
    };
    let kind = match first {
        0x81 => Kind::Text,
        0x88 => Kind::Close,
        0x89 => Kind::Ping,
        0x8A => Kind::Pong,
        _ => return Parsed::Other,
    };
    let length = usize::from(second & 0x7F);
    if second & 0x80 == 0 || length > SHORT_MAX {
        return Parsed::Other;
    }
    let Some(frame) = buffer.get_mut(2..HEADER + length) else {
        return Parsed::Incomplete;
    };
    let (mask, payload) = frame.split_at_mut(4);
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Parsed::Frame(kind, payload, HEADER + length)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
