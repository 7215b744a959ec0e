//! A WebSocket client that can do everything wrong: it writes the bytes itself.

use crate::support::{Gateway, PATIENCE};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    /// As every browser does by itself.
    pub(crate) answers_pings: bool,
}

/// What came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Received {
    Text(Value),
    Ping,
    Pong(Vec<u8>),
    Close(u16, String),
    End,
}

pub(crate) const TEXT: u8 = 0x81;

impl Client {
    /// A handshake for a room's socket; its answer's head, and the connection.
    pub(crate) async fn handshake(
        address: SocketAddr,
        code: &str,
        headers: &str,
        first: &[u8],
    ) -> (String, Client) {
        Self::handshake_over(
            TcpStream::connect(address).await.unwrap(),
            code,
            headers,
            first,
        )
        .await
    }

    async fn handshake_over(
        mut stream: TcpStream,
        code: &str,
        headers: &str,
        first: &[u8],
    ) -> (String, Client) {
        let mut request =
            format!("GET /v1/rooms/{code}/socket HTTP/1.1\r\nHost: uproar\r\n{headers}\r\n")
                .into_bytes();
        request.extend_from_slice(first);
        stream.write_all(&request).await.unwrap();
        let mut client = Client {
            stream,
            buffer: Vec::new(),
            answers_pings: true,
        };
        loop {
            if let Some(end) = client
                .buffer
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            {
                let head = String::from_utf8(client.buffer.drain(..end + 4).collect()).unwrap();
                return (head, client);
            }
            assert!(
                client.fill().await,
                "the connection ended before the answer"
            );
        }
    }

    /// A socket to a room.
    pub(crate) async fn open(gateway: &Gateway, code: &str) -> Client {
        Self::open_with(gateway, code, &[]).await
    }

    /// A socket whose first frames come in one packet with the handshake.
    pub(crate) async fn open_with(gateway: &Gateway, code: &str, first: &[u8]) -> Client {
        let (head, client) = Self::handshake(gateway.address, code, UPGRADE, first).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(
            head.to_lowercase()
                .contains("sec-websocket-protocol: uproar.v1"),
            "{head}"
        );
        client
    }

    /// A socket for which the client's kernel takes next to nothing while the client does not read.
    pub(crate) async fn open_narrow(gateway: &Gateway, code: &str) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(1024).unwrap();
        let stream = socket.connect(gateway.address).await.unwrap();
        let (head, client) = Self::handshake_over(stream, code, UPGRADE, &[]).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        client
    }

    /// A phone that has joined and has its room; the room frame.
    pub(crate) async fn phone(gateway: &Gateway, code: &str, id: u32) -> (Client, Value) {
        let mut client = Client::open(gateway, code).await;
        client.send(&join(id, "phone", None)).await;
        let room = client.text().await;
        assert!(room.get("room").is_some(), "{room}");
        (client, room)
    }

    pub(crate) async fn send(&mut self, frame: &Value) {
        self.send_bytes(&masked(TEXT, frame.to_string().as_bytes()))
            .await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn tap(&mut self, seq: u32) {
        self.send(&json!({"tap": {"key": "clap", "seq": seq}}))
            .await;
    }

    /// The next frame of any kind, or the end.
    pub(crate) async fn next(&mut self) -> Received {
        tokio::time::timeout(PATIENCE, self.read())
            .await
            .expect("nothing came")
    }

    /// As [`Client::next`], for as long as the caller likes.
    pub(crate) async fn stream_next(&mut self) -> Received {
        self.read().await
    }

    /// The next text frame; pings are passed over.
    pub(crate) async fn text(&mut self) -> Value {
        loop {
            match self.next().await {
                Received::Text(frame) => return frame,
                Received::Ping => {}
                other => panic!("a text frame, not {other:?}"),
            }
        }
    }

    /// The first text frame with this name; others are passed over.
    pub(crate) async fn named(&mut self, name: &str) -> Value {
        loop {
            let mut frame = self.text().await;
            if let Some(found) = frame.get_mut(name) {
                return found.take();
            }
        }
    }

    /// The close frame, after which the connection ends; text frames before it are passed over.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                Received::Close(code, reason) => {
                    assert_eq!(
                        self.next().await,
                        Received::End,
                        "nothing comes behind a close"
                    );
                    return (code, reason);
                }
                Received::End => panic!("it ended without a close frame"),
                Received::Text(_) | Received::Ping | Received::Pong(_) => {}
            }
        }
    }

    async fn read(&mut self) -> Received {
        loop {
            if let Some((first, payload)) = self.take_frame() {
                return match first {
                    0x81 => Received::Text(serde_json::from_slice(&payload).unwrap()),
                    0x88 => Received::Close(
                        u16::from_be_bytes([payload[0], payload[1]]),
                        String::from_utf8(payload[2..].to_vec()).unwrap(),
                    ),
                    0x89 => {
                        if self.answers_pings {
                            // It may be on its way out.
                            let _ = self.stream.write_all(&masked(0x8A, &payload)).await;
                        }
                        Received::Ping
                    }
                    0x8A => Received::Pong(payload),
                    other => panic!("a frame that begins with {other:#x}"),
                };
            }
            if !self.fill().await {
                assert!(
                    self.buffer.is_empty(),
                    "it ended within a frame: {:?}",
                    self.buffer
                );
                return Received::End;
            }
        }
    }

    fn take_frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let [first, second, ..] = self.buffer[..] else {
            return None;
        };
        let (header, length) = match second {
            126 => (
                4,
                usize::from(u16::from_be_bytes([
                    *self.buffer.get(2)?,
                    *self.buffer.get(3)?,
                ])),
            ),
            length => (2, usize::from(length)),
        };
        let payload = self.buffer.get(header..header + length)?.to_vec();
        self.buffer.drain(..header + length);
        Some((first, payload))
    }

    async fn fill(&mut self) -> bool {
        // A reset is an end too.
        self.stream.read_buf(&mut self.buffer).await.unwrap_or(0) > 0
    }
}

/// The headers of a good handshake.
pub(crate) const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: uproar.v1\r\n";

/// A join; `id` makes client and page.
pub(crate) fn join(id: u32, role: &str, token: Option<&str>) -> Value {
    json!({"join": {"client": client_id(id), "page": format!("{id:08x}"), "role": role, "token": token}})
}

pub(crate) fn client_id(id: u32) -> String {
    format!("{id:032x}")
}

/// A frame with a mask.
pub(crate) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first, payload.len(), true);
    let mask = [0x11, 0x22, 0x33, 0x44];
    bytes.extend(mask);
    bytes.extend(
        payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    bytes
}

/// A frame without one.
pub(crate) fn unmasked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = head(first, payload.len(), false);
    bytes.extend_from_slice(payload);
    bytes
}

fn head(first: u8, length: usize, masked: bool) -> Vec<u8> {
    let bit = if masked { 0x80 } else { 0 };
    let mut bytes = vec![first];
    match u16::try_from(length) {
        Ok(short @ 0..126) => bytes.push(bit | short.to_be_bytes()[1]),
        Ok(length) => {
            bytes.push(bit | 126);
            bytes.extend(length.to_be_bytes());
        }
        Err(_) => {
            bytes.push(bit | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes
}
