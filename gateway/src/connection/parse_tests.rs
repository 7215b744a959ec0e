use super::*;
use fastwebsockets::{Frame, OpCode, Payload, Role, WebSocketRead, after_handshake_split};
use proptest::prelude::*;
use std::convert::Infallible;

fn wire(first: u8, mask: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first, 0x80 | u8::try_from(payload.len()).unwrap()];
    bytes.extend(mask);
    bytes.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    bytes
}

#[test]
fn what_is_parsed_in_place() {
    for (first, kind) in [
        (0x81, Kind::Text),
        (0x88, Kind::Close),
        (0x89, Kind::Ping),
        (0x8A, Kind::Pong),
    ] {
        for length in [0, 1, 7, 125] {
            let payload = vec![b'x'; length];
            let mut bytes = wire(first, [1, 2, 3, 4], &payload);
            let total = bytes.len();
            bytes.push(0x81);
            let Parsed::Frame(parsed, unmasked, consumed) = parse(&mut bytes) else {
                panic!("a whole frame of {length} bytes");
            };
            assert_eq!((parsed, &*unmasked, consumed), (kind, &*payload, total));
        }
    }
}

#[test]
fn the_beginning_of_a_frame_is_left_as_it_is() {
    let bytes = wire(0x81, [9, 8, 7, 6], b"{\"ping\":1}");
    for end in 0..bytes.len() {
        let mut part = bytes[..end].to_vec();
        assert_eq!(parse(&mut part), Parsed::Incomplete);
        assert_eq!(part, bytes[..end]);
    }
}

#[test]
fn everything_else_is_left_to_others() {
    for first in [0x01, 0x00, 0x80, 0x82, 0x83, 0xC1, 0xA1, 0x91, 0x8B, 0x08] {
        let mut bytes = wire(first, [1, 2, 3, 4], b"x");
        let before = bytes.clone();
        assert_eq!(parse(&mut bytes), Parsed::Other, "{first:#x}");
        assert_eq!(bytes, before);
    }
    assert_eq!(parse(&mut [0x81, 1, b'x']), Parsed::Other, "unmasked");
    assert_eq!(
        parse(&mut [0x81, 0x80 | 126, 0, 200, 0, 0, 0, 0]),
        Parsed::Other,
        "a long one"
    );
}

/// All that both read of these bytes, until they end or something else comes.
fn read_in_place(mut bytes: Vec<u8>, cuts: &[usize]) -> Vec<(Kind, Vec<u8>)> {
    let mut read = Vec::new();
    let mut kept = Vec::new();
    let mut cuts = cuts.iter().cycle();
    while !bytes.is_empty() {
        let cut = (*cuts.next().unwrap()).clamp(1, bytes.len());
        kept.extend(bytes.drain(..cut));
        let mut at = 0;
        while let Parsed::Frame(kind, payload, length) = parse(&mut kept[at..]) {
            read.push((kind, payload.to_vec()));
            at += length;
        }
        kept.drain(..at);
    }
    read
}

fn read_by_fastwebsockets(bytes: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (mut socket, _): (WebSocketRead<&[u8]>, _) =
        after_handshake_split(bytes, tokio::io::sink(), Role::Server);
    socket.set_auto_close(false);
    socket.set_auto_pong(false);
    let mut read = Vec::new();
    let mut oblige = |_: Frame<'_>| std::future::ready(Ok::<(), Infallible>(()));
    while let Ok(frame) = runtime.block_on(socket.read_frame(&mut oblige)) {
        let kind = match frame.opcode {
            OpCode::Text => Kind::Text,
            OpCode::Close => Kind::Close,
            OpCode::Ping => Kind::Ping,
            OpCode::Pong => Kind::Pong,
            OpCode::Binary | OpCode::Continuation => break,
        };
        let Payload::Bytes(payload) = frame.payload else {
            panic!("read from a stream")
        };
        read.push((kind, payload.to_vec()));
    }
    read
}

proptest! {
    /// However the bytes are cut, both see the same frames.
    #[test]
    fn it_reads_what_fastwebsockets_reads(
        frames in proptest::collection::vec(
            (prop_oneof![Just(0x81u8), Just(0x88), Just(0x89), Just(0x8A)], any::<[u8; 4]>(), "[ -~ü]{0,60}"),
            0..20,
        ),
        cuts in proptest::collection::vec(1usize..200, 1..10),
    ) {
        let bytes: Vec<u8> =
            frames.iter().flat_map(|(first, mask, payload)| wire(*first, *mask, payload.as_bytes())).collect();
        let read = read_in_place(bytes.clone(), &cuts);
        prop_assert_eq!(read.len(), frames.len());
        prop_assert_eq!(read, read_by_fastwebsockets(&bytes));
    }

    /// No bytes make it panic, and none that it leaves to others are changed.
    #[test]
    fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut parsed = bytes.clone();
        if !matches!(parse(&mut parsed), Parsed::Frame(..)) {
            prop_assert_eq!(parsed, bytes);
        }
    }
}
