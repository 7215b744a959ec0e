//! WebSocket frames, as far as a phone needs them: whole, unmasked ones are read in place, and masked ones written.

/// Longer frames are no part of the protocol: a room frame with the longest palette has some 4 KB.
pub(super) const PAYLOAD_BYTES_MAX: usize = 32 * 1024;

/// The payload of a close frame that means nothing but the end.
pub(super) const NORMAL_END: [u8; 2] = 1000_u16.to_be_bytes();

/// Frame types.
pub(super) mod opcode {
    pub(crate) const TEXT: u8 = 1;
    pub(crate) const CLOSE: u8 = 8;
    pub(crate) const PING: u8 = 9;
    pub(crate) const PONG: u8 = 10;
}

/// What stands at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// A frame, and how many bytes it takes.
    Frame(u8, &'a [u8], usize),
    /// The beginning of one.
    Unfinished,
    /// Something that a server must not send: why.
    Wrong(&'static str),
}

/// The next frame.
#[inline]
pub(super) fn next(bytes: &[u8]) -> Next<'_> {
    let [first, second, ..] = *bytes else {
        return Next::Unfinished;
    };
    if first & 0xf0 != 0x80 {
        return Next::Wrong("the server sent a frame that is not whole");
    }
    let (head, length) = match second {
        0..126 => (2, usize::from(second)),
        126 => match *bytes {
            [_, _, high, low, ..] => (4, usize::from(u16::from_be_bytes([high, low]))),
            _ => return Next::Unfinished,
        },
        127 => return Next::Wrong("the server sent a frame that is too long"),
        128.. => return Next::Wrong("the server sent a masked frame"),
    };
    if length > PAYLOAD_BYTES_MAX {
        return Next::Wrong("the server sent a frame that is too long");
    }
    match bytes.get(head..head + length) {
        Some(payload) => Next::Frame(first & 0x0f, payload, head + length),
        None => Next::Unfinished,
    }
}

/// Appends a masked frame.
pub(super) fn append(out: &mut Vec<u8>, opcode: u8, payload: &[u8], mask: [u8; 4]) {
    debug_assert!(payload.len() < 1 << 16, "phones send short frames");
    let [high, low] = u16::try_from(payload.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes();
    out.push(0x80 | opcode);
    if payload.len() < 126 {
        out.push(0x80 | low);
    } else {
        out.extend_from_slice(&[0x80 | 126, high, low]);
    }
    out.extend_from_slice(&mask);
    out.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
}

/// The number of `{"ack":17}`.
#[inline]
pub(super) fn ack(payload: &[u8]) -> Option<u32> {
    let digits = payload.strip_prefix(b"{\"ack\":")?.strip_suffix(b"}")?;
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// The code of a close frame.
pub(super) fn close_code(payload: &[u8]) -> Option<u16> {
    match *payload {
        [high, low, ..] => Some(u16::from_be_bytes([high, low])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastwebsockets::{Frame, OpCode, Payload};

    fn by_server(opcode: OpCode, payload: &[u8]) -> Vec<u8> {
        let mut frame = Frame::new(true, opcode, None, Payload::Borrowed(payload));
        frame.write(&mut Vec::new()).to_vec()
    }

    #[test]
    fn frames_are_walked_whatever_their_length_and_wherever_they_are_cut() {
        for length in [0, 1, 62, 125, 126, 127, 300, 4000] {
            let payload = vec![b'x'; length];
            let mut bytes = by_server(OpCode::Text, &payload);
            let whole = bytes.len();
            bytes.extend(by_server(OpCode::Ping, b"next"));
            assert_eq!(next(&bytes), Next::Frame(opcode::TEXT, &payload, whole));
            assert_eq!(next(&bytes[whole..]), Next::Frame(opcode::PING, b"next", 6));
            for cut in 0..whole {
                assert_eq!(
                    next(&bytes[..cut]),
                    Next::Unfinished,
                    "{length} cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn what_a_server_must_not_send_is_told() {
        let mut masked = Vec::new();
        append(&mut masked, opcode::TEXT, b"x", [1, 2, 3, 4]);
        let long = by_server(OpCode::Text, &vec![0; 70_000]);
        let reserved = [0xc1, 0];
        let fragment = [0x01, 0];
        for wrong in [&masked, &long, &reserved[..], &fragment] {
            assert!(matches!(next(wrong), Next::Wrong(_)), "{:?}", &wrong[..2]);
        }
    }

    #[test]
    fn a_masked_frame_is_read_back() {
        for length in [0, 5, 125, 126, 900] {
            let payload: Vec<u8> = (0..length)
                .map(|index: u32| index.to_le_bytes()[0])
                .collect();
            let mut out = Vec::new();
            let mask = [9, 8, 7, 200];
            append(&mut out, opcode::PONG, &payload, mask);
            let head = if payload.len() < 126 { 2 } else { 4 };
            assert_eq!(out[0], 0x8a);
            assert_eq!(out[head..head + 4], mask);
            let unmasked = out[head + 4..].iter().zip(mask.iter().cycle());
            let unmasked: Vec<u8> = unmasked.map(|(byte, mask)| byte ^ mask).collect();
            assert_eq!(unmasked, payload);
        }
    }

    #[test]
    fn acks_are_read_as_serde_reads_them() {
        for (payload, number) in [
            (&b"{\"ack\":1}"[..], Some(1)),
            (b"{\"ack\":4294967295}", Some(u32::MAX)),
            (b"{\"ack\":4294967296}", None),
            (b"{\"ack\":}", None),
            (b"{\"ack\":-1}", None),
            (b"{\"ack\":1", None),
            (b"{\"tick\":1}", None),
        ] {
            assert_eq!(ack(payload), number, "{}", String::from_utf8_lossy(payload));
        }
    }

    #[test]
    fn a_close_frame_may_have_no_code() {
        assert_eq!(close_code(&[0x03, 0xf4, b'!']), Some(1012));
        assert_eq!(close_code(&[]), None);
    }
}
