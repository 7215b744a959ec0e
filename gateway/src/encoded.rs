//! A frame for browsers, encoded once and shared by all who get it.

use bytes::Bytes;
use shared::protocol::ServerFrame;

/// One final WebSocket text frame; its payload is also the data of a server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded(Bytes);

/// First byte of a final text frame.
const TEXT: u8 = 0x81;
/// First byte of a close frame.
const CLOSE: u8 = 0x88;
/// First byte of a ping.
const PING: u8 = 0x89;
/// First byte of a pong.
const PONG: u8 = 0x8A;
/// The largest payload of a control frame, and of a frame with a header of two bytes.
pub(crate) const SHORT_MAX: usize = 125;

impl Encoded {
    /// Encodes a frame.
    pub(crate) fn new(frame: &ServerFrame) -> Self {
        Encoded::written(|json| json.extend_from_slice(&frame.encode()))
    }

    /// A frame whose JSON `write` appends.
    pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut wire = Vec::with_capacity(128);
        append_text(&mut wire, write);
        Encoded(Bytes::from(wire))
    }

    /// The WebSocket frame as it goes over the wire.
    pub(crate) fn wire(&self) -> &Bytes {
        &self.0
    }

    /// The JSON in it.
    pub(crate) fn json(&self) -> Bytes {
        let header = match self.0[1] {
            126 => 4,
            127 => 10,
            _ => 2,
        };
        self.0.slice(header..)
    }
}

/// Appends one frame whose JSON `write` appends; several of them make one write to one socket.
pub(crate) fn append_text(wire: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let header = wire.len();
    let json = header + 2;
    wire.extend_from_slice(&[TEXT, 0]);
    write(wire);
    let length = wire.len() - json;
    if length <= SHORT_MAX {
        wire[header + 1] = length.to_le_bytes()[0];
    } else if let Ok(length) = u16::try_from(length) {
        wire[header + 1] = 126;
        wire.splice(json..json, length.to_be_bytes());
    } else {
        // Only the totals of a room whose palette was changed thousands of times.
        wire[header + 1] = 127;
        wire.splice(json..json, (length as u64).to_be_bytes());
    }
}

/// A close frame. A reason longer than fits is cut at a character.
pub(crate) fn encode_close(code: u16, reason: &str) -> Bytes {
    let mut end = reason.len().min(SHORT_MAX - 2);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let mut wire = vec![CLOSE, (end + 2).to_le_bytes()[0]];
    wire.extend_from_slice(&code.to_be_bytes());
    wire.extend_from_slice(&reason.as_bytes()[..end]);
    Bytes::from(wire)
}

/// A pong with the payload of its ping, which has at most 125 bytes.
pub(crate) fn encode_pong(payload: &[u8]) -> Bytes {
    let mut wire = vec![PONG, payload.len().to_le_bytes()[0]];
    wire.extend_from_slice(payload);
    Bytes::from(wire)
}

/// A ping that carries the time at which it was sent, by the gateway's clock: its pong brings it back.
pub(crate) fn encode_ping(now_ms: u64) -> Bytes {
    let mut wire = vec![PING, 8];
    wire.extend_from_slice(&now_ms.to_be_bytes());
    Bytes::from(wire)
}

/// The time that a pong brings back; none if it answers no ping of ours.
pub(crate) fn decode_pong(payload: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(payload.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::protocol::Bye;

    #[test]
    fn short_and_long_frames_have_the_right_header() {
        let short = Encoded::new(&ServerFrame::Ack(17));
        assert_eq!(short.wire().as_ref(), b"\x81\x0a{\"ack\":17}");
        assert_eq!(short.json().as_ref(), b"{\"ack\":17}");
        let long = Encoded::new(&ServerFrame::Bye(Bye {
            why: "x".repeat(300),
            retry_ms: None,
        }));
        assert_eq!(long.wire()[1], 126);
        assert_eq!(
            usize::from(u16::from_be_bytes([long.wire()[2], long.wire()[3]])),
            long.wire().len() - 4
        );
        assert!(long.json().starts_with(b"{\"bye\""));
        let huge = Encoded::written(|json| json.extend([b' '; 70_000]));
        assert_eq!(
            (huge.wire()[1], huge.wire().len(), huge.json().len()),
            (127, 70_010, 70_000)
        );
        assert_eq!(huge.wire()[2..10], 70_000u64.to_be_bytes());
    }

    #[test]
    fn several_frames_follow_each_other() {
        let mut wire = Vec::new();
        for seq in 1..=2 {
            append_text(&mut wire, |json| shared::protocol::write_ack(json, seq));
        }
        assert_eq!(wire, b"\x81\x09{\"ack\":1}\x81\x09{\"ack\":2}");
    }

    #[test]
    fn a_pong_brings_back_the_time_of_its_ping() {
        let ping = encode_ping(3_600_123);
        assert_eq!(ping[..2], [0x89, 8]);
        assert_eq!(decode_pong(&ping[2..]), Some(3_600_123));
        assert_eq!(decode_pong(b""), None);
        assert_eq!(decode_pong(b"longer than eight"), None);
    }

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let wire = encode_close(1008, &"ü".repeat(100));
        assert_eq!(wire.len(), 2 + 2 + 122);
        assert!(std::str::from_utf8(&wire[4..]).is_ok());
    }
}
