//! What `fastwebsockets` lets pass and we do not: unmasked frames, control frames beyond 125 bytes, fragments in the
//! wrong order, and a message that is too long only in the sum of its fragments.
//!
//! The guard looks at the frames' headers as the bytes go by, and stops the stream before a frame that breaks a rule.

use super::limits::Limits;
use crate::encoded::SHORT_MAX;

/// Why the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// 1002.
    #[error("{0}")]
    Protocol(&'static str),
    /// 1003.
    #[error("messages are text, not binary")]
    Binary,
    /// 1007.
    #[error("a text message is not UTF-8")]
    NotUtf8,
    /// 1009.
    #[error("a message has at most {0} bytes")]
    TooLong(usize),
    /// 1008.
    #[error("a message has at most {FRAGMENTS_MAX} fragments")]
    TooManyFragments,
}

/// Fragments of one message: an honest sender needs two or three for a message of 1 KiB. Without a bound, empty ones
/// would go on for ever inside one message, and only whole messages count against the connection's pace.
const FRAGMENTS_MAX: u32 = 32;

impl Violation {
    /// The close code.
    pub(crate) fn code(self) -> u16 {
        match self {
            Violation::Protocol(_) => 1002,
            Violation::Binary => 1003,
            Violation::NotUtf8 => 1007,
            Violation::TooLong(_) => 1009,
            Violation::TooManyFragments => 1008,
        }
    }
}

/// Follows the headers of one connection.
#[derive(Debug)]
pub(crate) struct Guard {
    limits: Limits,
    header: [u8; HEADER_MAX],
    header_bytes: usize,
    payload_left: u64,
    /// Bytes of the message so far, while one is fragmented.
    message: Option<u64>,
    /// Fragments of that message so far.
    fragments: u32,
}

/// Two bytes, eight of length, four of mask.
const HEADER_MAX: usize = 14;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PONG: u8 = 0xA;

impl Guard {
    /// At the start of a frame.
    pub(crate) fn new(limits: Limits) -> Self {
        Guard {
            limits,
            header: [0; HEADER_MAX],
            header_bytes: 0,
            payload_left: 0,
            message: None,
            fragments: 0,
        }
    }

    /// Looks at the next bytes of the stream. After a violation the guard is of no more use.
    ///
    /// # Errors
    /// How many of the bytes come before the frame that breaks a rule, or before the rest of its header; and the rule.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Result<(), (usize, Violation)> {
        let mut at = 0;
        while at < bytes.len() {
            if self.payload_left > 0 {
                let skip = usize::try_from(self.payload_left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len() - at);
                self.payload_left -= skip as u64;
                at += skip;
                continue;
            }
            self.header[self.header_bytes] = bytes[at];
            self.header_bytes += 1;
            at += 1;
            if self.header_bytes >= 2 {
                self.look()
                    .map_err(|violation| (at.saturating_sub(self.header_bytes), violation))?;
            }
        }
        Ok(())
    }

    /// Checks a header as far as it is there, and begins the payload once it is whole.
    fn look(&mut self) -> Result<(), Violation> {
        let [first, second, ..] = self.header;
        let (last, opcode, control) = (first & 0x80 != 0, first & 0x0F, first & 0x08 != 0);
        let extended = match second & 0x7F {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if self.header_bytes == 2 {
            self.check_kind(first, second)?;
        }
        if self.header_bytes < 2 + extended {
            return Ok(());
        }
        let length = match extended {
            0 => u64::from(second & 0x7F),
            _ => self.header[2..2 + extended]
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        let message = self.message.unwrap_or(0).saturating_add(length);
        if !control && message > self.limits.message_bytes_max as u64 {
            return Err(Violation::TooLong(self.limits.message_bytes_max));
        }
        if self.header_bytes < 2 + extended + 4 {
            return Ok(());
        }
        if !control {
            self.message = (!last).then_some(message);
            self.fragments = if last { 0 } else { self.fragments + 1 };
            if self.fragments > FRAGMENTS_MAX {
                return Err(Violation::TooManyFragments);
            }
        }
        debug_assert!(!control || matches!(opcode, CLOSE..=PONG));
        self.payload_left = length;
        self.header_bytes = 0;
        Ok(())
    }

    fn check_kind(&self, first: u8, second: u8) -> Result<(), Violation> {
        let (last, opcode) = (first & 0x80 != 0, first & 0x0F);
        if first & 0x70 != 0 {
            return Err(Violation::Protocol("a frame has reserved bits"));
        }
        match opcode {
            CONTINUATION if self.message.is_none() => {
                return Err(Violation::Protocol("a continuation without a beginning"));
            }
            TEXT | BINARY if self.message.is_some() => {
                return Err(Violation::Protocol("a message begins inside another"));
            }
            BINARY if !self.limits.binary => return Err(Violation::Binary),
            CONTINUATION | TEXT | BINARY => {}
            CLOSE..=PONG => {
                if !last {
                    return Err(Violation::Protocol("a control frame is fragmented"));
                }
                if usize::from(second & 0x7F) > SHORT_MAX {
                    return Err(Violation::Protocol(
                        "a control frame has more than 125 bytes",
                    ));
                }
            }
            _ => return Err(Violation::Protocol("a frame of an unknown kind")),
        }
        if second & 0x80 == 0 {
            return Err(Violation::Protocol("a frame is not masked"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        message_bytes_max: 1024,
        binary: false,
    };

    /// A masked frame (mask of zeros), or the same without a mask.
    fn frame(first: u8, length: usize, masked: bool) -> Vec<u8> {
        let mut bytes = vec![first];
        let bit = if masked { 0x80 } else { 0 };
        match length {
            0..126 => bytes.push(bit | u8::try_from(length).unwrap()),
            126..65536 => {
                bytes.push(bit | 126);
                bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            _ => {
                bytes.push(bit | 127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        if masked {
            bytes.extend([0; 4]);
        }
        bytes.extend(std::iter::repeat_n(b'x', length.min(2000)));
        bytes
    }

    fn judge(frames: &[Vec<u8>]) -> Option<u16> {
        let bytes = frames.concat();
        let mut whole = Guard::new(LIMITS);
        let verdict = whole.pass(&bytes).err();
        // One by one must say the same.
        let mut single = Guard::new(LIMITS);
        let by_one = bytes.iter().find_map(|byte| single.pass(&[*byte]).err());
        assert_eq!(
            verdict.map(|(_, violation)| violation),
            by_one.map(|(_, violation)| violation)
        );
        if let Some((before, _)) = verdict {
            let good: usize = frames[..frames.len() - 1].iter().map(Vec::len).sum();
            assert_eq!(before, good, "all that comes before the bad frame passes");
        }
        verdict.map(|(_, violation)| violation.code())
    }

    #[test]
    fn what_may_pass() {
        assert_eq!(judge(&[frame(0x81, 1024, true)]), None);
        assert_eq!(
            judge(&[
                frame(0x01, 500, true),
                frame(0x89, 125, true),
                frame(0x00, 500, true),
                frame(0x80, 24, true)
            ]),
            None
        );
        assert_eq!(judge(&[frame(0x81, 3, true), frame(0x88, 2, true)]), None);
    }

    #[test]
    fn what_may_not() {
        assert_eq!(
            judge(&[frame(0x81, 3, true), frame(0x81, 3, false)]),
            Some(1002),
            "unmasked"
        );
        assert_eq!(judge(&[frame(0xC1, 3, true)]), Some(1002), "reserved bit");
        assert_eq!(
            judge(&[frame(0x83, 3, true)]),
            Some(1002),
            "reserved opcode"
        );
        assert_eq!(
            judge(&[frame(0x8B, 3, true)]),
            Some(1002),
            "reserved control opcode"
        );
        assert_eq!(judge(&[frame(0x89, 126, true)]), Some(1002), "long ping");
        assert_eq!(judge(&[frame(0x8A, 126, true)]), Some(1002), "long pong");
        assert_eq!(judge(&[frame(0x88, 126, true)]), Some(1002), "long close");
        assert_eq!(
            judge(&[frame(0x09, 3, true)]),
            Some(1002),
            "fragmented ping"
        );
        assert_eq!(
            judge(&[frame(0x80, 3, true)]),
            Some(1002),
            "continuation of nothing"
        );
        assert_eq!(
            judge(&[frame(0x01, 3, true), frame(0x81, 3, true)]),
            Some(1002),
            "a message inside another"
        );
        assert_eq!(
            judge(&[frame(0x01, 3, true), frame(0x01, 3, true)]),
            Some(1002),
            "a fragment inside another"
        );
        assert_eq!(judge(&[frame(0x82, 3, true)]), Some(1003));
        assert_eq!(judge(&[frame(0x81, 1025, true)]), Some(1009));
        assert_eq!(judge(&[frame(0x81, 1 << 20, true)]), Some(1009));
        assert_eq!(
            judge(&[frame(0x01, 1000, true), frame(0x80, 25, true)]),
            Some(1009),
            "in the sum"
        );
        let empty = |count| vec![frame(0x00, 0, true); count];
        let message = |fragments| [vec![frame(0x01, 0, true)], empty(fragments)].concat();
        assert_eq!(judge(&message(31)), None);
        assert_eq!(judge(&message(32)), Some(1008), "fragments without end");
    }
}
