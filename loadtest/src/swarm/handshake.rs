//! The handshake: one request, and as much of the answer as a phone looks at.

use super::assignment::Assignment;
use fastwebsockets::handshake::generate_key;
use shared::protocol::SUBPROTOCOL;

/// An answer whose head is longer is none.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The request, ready but for the key.
#[derive(Debug)]
pub(super) struct Request {
    before_key: String,
}

impl Request {
    /// For a room, by its index.
    pub(super) fn new(assignment: &Assignment, room: usize) -> Request {
        let (code, host) = (&assignment.rooms[room].code, &assignment.host);
        let before_key = format!(
            "GET /v1/rooms/{code}/socket HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {SUBPROTOCOL}\r\nSec-WebSocket-Key: "
        );
        Request { before_key }
    }

    /// Appends it with a new key.
    pub(super) fn append(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.before_key.as_bytes());
        out.extend_from_slice(generate_key().as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
    }
}

/// The head of the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// 101, and the gateway that serves the socket, empty if it did not say.
    Switched(&'a str),
    /// Another status.
    Refused(u16),
    /// There is more to come.
    Unfinished,
    /// Not HTTP.
    Wrong,
}

/// Reads the head of the answer; how many bytes it takes.
pub(super) fn answer(bytes: &[u8]) -> (Answer<'_>, usize) {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end else {
        let unfinished = bytes.len() <= HEAD_BYTES_MAX;
        return (
            if unfinished {
                Answer::Unfinished
            } else {
                Answer::Wrong
            },
            0,
        );
    };
    let answer = std::str::from_utf8(&bytes[..end]).map_or(Answer::Wrong, head);
    (answer, end + 4)
}

fn head(head: &str) -> Answer<'_> {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let is_http = words.next() == Some("HTTP/1.1");
    match words.next().and_then(|status| status.parse().ok()) {
        Some(101) if is_http => {
            let gateway = lines
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("uproar-gateway"));
            Answer::Switched(gateway.map_or("", |(_, id)| id.trim()))
        }
        Some(status) if is_http => Answer::Refused(status),
        _ => Answer::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_and_the_gateway_are_read_once_the_head_is_whole() {
        let switched = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\
                         Uproar-Gateway: 0badcafe\r\n\r\n\x81\x00";
        for cut in 0..switched.len() - 2 {
            assert_eq!(answer(&switched[..cut]), (Answer::Unfinished, 0));
        }
        assert_eq!(
            answer(switched),
            (Answer::Switched("0badcafe"), switched.len() - 2)
        );
        let mute = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
        assert_eq!(answer(mute).0, Answer::Switched(""));
        let full = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\r\n{}";
        assert_eq!(answer(full).0, Answer::Refused(503));
        assert_eq!(answer(b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n").0, Answer::Wrong);
        assert_eq!(answer(&[b'x'; HEAD_BYTES_MAX + 1]).0, Answer::Wrong);
    }
}
