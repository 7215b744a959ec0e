//! The bytes of both sides' frames, as far as measuring needs them.

/// The largest payload of a frame whose header has two bytes (and a mask).
const SHORT_MAX: usize = 125;

/// A frame of a server, whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerBytes<'a> {
    pub(super) opcode: u8,
    pub(super) payload: &'a [u8],
    /// Header and payload.
    pub(super) length: usize,
}

pub(super) const TEXT: u8 = 0x1;
pub(super) const CLOSE: u8 = 0x8;
pub(super) const PING: u8 = 0x9;
const PONG: u8 = 0xA;

/// The frame at the start of `bytes`, which a server does not mask; none if it is not whole yet.
pub(super) fn first_frame(bytes: &[u8]) -> Option<ServerBytes<'_>> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    let (header, payload) = match second & 0x7F {
        126 => (4, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
        127 => (
            10,
            usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).ok()?,
        ),
        short => (2, usize::from(short)),
    };
    let length = header + payload;
    Some(ServerBytes {
        opcode: first & 0x0F,
        payload: bytes.get(header..length)?,
        length,
    })
}

/// A server's text frame.
pub(super) fn server_text(json: &str) -> Vec<u8> {
    assert!(json.len() <= SHORT_MAX, "only short frames are sent");
    let mut wire = vec![0x80 | TEXT, json.len().to_le_bytes()[0]];
    wire.extend_from_slice(json.as_bytes());
    wire
}

/// A client's text frame, masked.
pub(super) fn client_text(json: &str, mask: [u8; 4]) -> Vec<u8> {
    client_frame(TEXT, json.as_bytes(), mask)
}

/// A client's answer to a ping.
pub(super) fn client_pong(payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    client_frame(PONG, payload, mask)
}

fn client_frame(opcode: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut wire = vec![0x80 | opcode];
    match u16::try_from(payload.len()) {
        Ok(length) if usize::from(length) > SHORT_MAX => {
            wire.push(0x80 | 126);
            wire.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            assert!(payload.len() <= SHORT_MAX, "no such long frame is sent");
            wire.push(0x80 | payload.len().to_le_bytes()[0]);
        }
    }
    wire.extend_from_slice(&mask);
    let start = wire.len();
    wire.extend_from_slice(payload);
    unmask(&mut wire[start..], mask);
    wire
}

/// Masks or unmasks, eight bytes at a time: the floor is not to be a slow one.
pub(super) fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut chunks = payload.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        chunk.copy_from_slice(&(u64::from_ne_bytes(eight) ^ wide).to_ne_bytes());
    }
    for (byte, mask) in chunks.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_once_they_are_whole() {
        let frame = server_text(r#"{"ack":17}"#);
        for end in 0..frame.len() {
            assert_eq!(first_frame(&frame[..end]), None);
        }
        let two = [frame.clone(), frame.clone()].concat();
        let found = first_frame(&two).unwrap();
        assert_eq!((found.opcode, found.length), (TEXT, frame.len()));
        assert_eq!(found.payload, br#"{"ack":17}"#);
        let mut long = vec![0x81, 126, 1, 0];
        assert_eq!(first_frame(&long), None);
        long.extend([b'x'; 256]);
        assert_eq!(first_frame(&long).unwrap().length, 260);
        let mut longer = vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0];
        longer.extend([b'x'; 65_536]);
        assert_eq!(first_frame(&longer).unwrap().payload.len(), 65_536);
    }

    #[test]
    fn masking_twice_gives_the_same_again() {
        for length in 0..40u8 {
            let plain: Vec<u8> = (0..length).collect();
            let mut bytes = plain.clone();
            unmask(&mut bytes, [1, 2, 3, 250]);
            for (at, (masked, plain)) in bytes.iter().zip(&plain).enumerate() {
                assert_eq!(*masked, plain ^ [1, 2, 3, 250][at % 4]);
            }
            unmask(&mut bytes, [1, 2, 3, 250]);
            assert_eq!(bytes, plain);
        }
    }

    #[test]
    fn client_frames_have_their_header() {
        let mask = [9, 8, 7, 6];
        let short = client_text("hello", mask);
        assert_eq!(short[..6], [0x81, 0x85, 9, 8, 7, 6]);
        assert_eq!(short.len(), 11);
        let long = client_text(&"x".repeat(200), mask);
        assert_eq!(long[..8], [0x81, 0xFE, 0, 200, 9, 8, 7, 6]);
        assert_eq!(client_pong(b"", mask), [0x8A, 0x80, 9, 8, 7, 6]);
    }
}
