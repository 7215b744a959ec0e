//! One connection of the receiver: what it has to say, and what it makes of the bytes that come.

use super::wire::{self, ServerBytes};
use anyhow::{Context, bail, ensure};
use mio::net::TcpStream;
use serde_json::json;
use shared::protocol::SUBPROTOCOL;
use shared::room::RoomCode;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;

/// What is at the other end, and so what is said to it.
#[derive(Debug, Clone)]
pub(super) enum Service {
    /// A gateway: this is a phone in a room.
    Room(SocketAddr, RoomCode),
    /// The bare server, which sends frames to whoever connects.
    Bare(SocketAddr),
    /// A gateway: taps are posted.
    Post(SocketAddr, RoomCode),
}

impl Service {
    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Service::Room(address, _) | Service::Bare(address) | Service::Post(address, _) => {
                *address
            }
        }
    }
}

/// What has come over all connections so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Connections on which the room, or for others the connection itself, is there.
    pub(super) ready: u64,
    pub(super) ticks: u64,
    pub(super) acks: u64,
    pub(super) refused: u64,
    pub(super) pings: u64,
    /// Closed by the other side.
    pub(super) closed: u64,
}

/// The last tick frame of one connection, and how many came.
#[derive(Debug, Clone, Default)]
pub(super) struct TickSeen {
    pub(super) wire: Vec<u8>,
    pub(super) count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting,
    ShakingHands,
    Joining,
    Ready,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    service: Service,
    state: State,
    client: u128,
    seq: u32,
    /// An answer to a tap is followed by the next tap.
    pub(super) is_eager: bool,
    /// Came, but is no whole frame yet.
    rest: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, service: Service, client: u128) -> Self {
        Connection {
            stream,
            service,
            state: State::Connecting,
            client,
            seq: 0,
            is_eager: false,
            rest: Vec::new(),
        }
    }

    /// The system says that it is connected, or that it is not.
    pub(super) fn connected(&mut self, counts: &mut Counts) -> anyhow::Result<()> {
        if self.state != State::Connecting {
            return Ok(());
        }
        if let Some(error) = self.stream.take_error()? {
            return Err(error).with_context(|| format!("cannot connect to {}", self.address()));
        }
        self.stream.set_nodelay(true)?;
        match &self.service {
            Service::Room(address, code) => {
                let handshake = format!(
                    "GET /v1/rooms/{code}/socket HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: \
                     Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n"
                );
                self.send(handshake.as_bytes())?;
                self.state = State::ShakingHands;
            }
            Service::Bare(_) | Service::Post(..) => {
                self.state = State::Ready;
                counts.ready += 1;
            }
        }
        Ok(())
    }

    fn address(&self) -> SocketAddr {
        self.service.address()
    }

    /// Taps, with the next seq of its page.
    pub(super) fn tap(&mut self, key: &str) -> anyhow::Result<()> {
        self.seq += 1;
        let seq = self.seq;
        if let Service::Post(address, code) = &self.service {
            let body = json!({
                "client": self.client_text(),
                "page": "0badcafe",
                "taps": [{ "key": key, "seq": seq }],
            })
            .to_string();
            let request = format!(
                "POST /v1/rooms/{code}/taps HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            return self.send(request.as_bytes());
        }
        let tap = format!(r#"{{"tap":{{"key":"{key}","seq":{seq}}}}}"#);
        let frame = wire::client_text(&tap, self.mask());
        self.send(&frame)
    }

    /// Taken from the seq: as good as random for the one who has to undo it.
    fn mask(&self) -> [u8; 4] {
        self.seq.wrapping_mul(0x9E37_79B9).to_le_bytes()
    }

    fn client_text(&self) -> String {
        format!("{:032x}", self.client)
    }

    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self.stream.write(bytes) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) => bail!("{} takes no more bytes", self.address()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("{} takes no more bytes", self.address())
            }
            Err(error) => Err(error).with_context(|| format!("cannot write to {}", self.address())),
        }
    }

    /// Takes what was read; tick frames are noted in `tick`, if somebody wants them.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        counts: &mut Counts,
        key: &str,
        tick: Option<&mut TickSeen>,
    ) -> anyhow::Result<()> {
        if self.rest.is_empty() {
            let taken = self.take_whole(bytes, counts, key, tick)?;
            self.rest.extend_from_slice(&bytes[taken..]);
        } else {
            let mut all = std::mem::take(&mut self.rest);
            all.extend_from_slice(bytes);
            let taken = self.take_whole(&all, counts, key, tick)?;
            all.drain(..taken);
            self.rest = all;
        }
        Ok(())
    }

    fn take_whole(
        &mut self,
        bytes: &[u8],
        counts: &mut Counts,
        key: &str,
        mut tick: Option<&mut TickSeen>,
    ) -> anyhow::Result<usize> {
        if let Service::Post(..) = self.service {
            return self.take_answer(bytes, counts, key);
        }
        let mut at = 0;
        if self.state == State::ShakingHands {
            let Some(end) = end_of_head(bytes) else {
                return Ok(0);
            };
            self.shaken(&bytes[..end])?;
            at = end;
        }
        while let Some(frame) = wire::first_frame(&bytes[at..]) {
            if let Some(tick) = &mut tick
                && is_tick(&frame)
            {
                tick.wire.clear();
                tick.wire.extend_from_slice(&bytes[at..at + frame.length]);
                tick.count += 1;
            }
            self.take_frame(&frame, counts, key)?;
            at += frame.length;
        }
        Ok(at)
    }

    fn shaken(&mut self, head: &[u8]) -> anyhow::Result<()> {
        ensure!(
            head.starts_with(b"HTTP/1.1 101 "),
            "{} refused a handshake: {}",
            self.address(),
            String::from_utf8_lossy(head).lines().next().unwrap_or("")
        );
        let join = json!({ "join": {
            "client": self.client_text(), "page": "0badcafe", "role": "phone", "token": null
        }});
        self.state = State::Joining;
        self.send(&wire::client_text(&join.to_string(), self.mask()))
    }

    fn take_frame(
        &mut self,
        frame: &ServerBytes<'_>,
        counts: &mut Counts,
        key: &str,
    ) -> anyhow::Result<()> {
        match frame.opcode {
            wire::TEXT if is_tick(frame) => counts.ticks += 1,
            wire::TEXT if frame.payload.starts_with(b"{\"ack\"") => {
                counts.acks += 1;
                if self.is_eager {
                    self.tap(key)?;
                }
            }
            wire::TEXT if frame.payload.starts_with(b"{\"refused\"") => counts.refused += 1,
            wire::TEXT if self.state == State::Joining => {
                self.state = State::Ready;
                counts.ready += 1;
            }
            wire::PING => {
                counts.pings += 1;
                self.send(&wire::client_pong(frame.payload, self.mask()))?;
            }
            wire::CLOSE => counts.closed += 1,
            _ => {}
        }
        Ok(())
    }

    /// An answer to a POST.
    fn take_answer(
        &mut self,
        bytes: &[u8],
        counts: &mut Counts,
        key: &str,
    ) -> anyhow::Result<usize> {
        let Some(head) = end_of_head(bytes) else {
            return Ok(0);
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
        ensure!(
            text.starts_with("http/1.1 200 "),
            "posted taps were answered {}",
            text.lines().next().unwrap_or("")
        );
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length
            .context("an answer to posted taps tells no length")?
            .trim()
            .parse()?;
        let Some(body) = bytes.get(head..head + length) else {
            return Ok(0);
        };
        if body.windows(5).any(|five| five == b"\"ack\"") {
            counts.acks += 1;
            if self.is_eager {
                self.tap(key)?;
            }
        } else {
            counts.refused += 1;
        }
        Ok(head + length)
    }
}

fn is_tick(frame: &ServerBytes<'_>) -> bool {
    frame.opcode == wire::TEXT && frame.payload.starts_with(b"{\"tick\"")
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(end + 4)
}
