//! The floor: a server on one thread that does with its sockets what no gateway can do without, and nothing else.
//!
//! It runs as a process of its own and obeys lines on standard input: it sends the same bytes to each socket every 250
//! ms, or reads and unmasks what comes.

use super::wire;
use anyhow::{Context, bail};
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::fs::File;
use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Between two frames to each socket: the tick of the aggregators.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// As the gateway has it.
const SEND_BUFFER_BYTES: usize = 4096;
/// As the gateway has it.
const READ_BYTES: usize = 16 * 1024;
/// As the gateway's runtime has it.
const EVENTS: usize = 1024;

const LISTENER: Token = Token(usize::MAX - 1);
const ORDERS: Token = Token(usize::MAX - 2);

struct Server {
    listener: TcpListener,
    poll: Poll,
    sockets: Vec<TcpStream>,
    buffer: Box<[u8]>,
    /// The frame that is being sent, and when next.
    sending: Option<(Vec<u8>, Instant)>,
    /// Frames that were read and unmasked.
    taps: u64,
    /// Sockets that did not take a frame.
    blocked: u64,
}

/// Listens on a free port, prints its address and obeys the lines of standard input to its end:
/// `sockets` prints how many there are, `send TEXT` begins to send a text frame, `rest` ends that and prints how many
/// could not be sent, `taps` prints how many frames were read.
///
/// # Errors
/// No port is free, or an order is none of these.
pub fn run() -> anyhow::Result<()> {
    let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
    let poll = Poll::new()?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    // Without the buffer of the standard library, in which an order could lie unseen.
    let mut standard_input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let descriptor = standard_input.as_raw_fd();
    poll.registry()
        .register(&mut SourceFd(&descriptor), ORDERS, Interest::READABLE)?;
    println!("{}", listener.local_addr()?);
    let mut server = Server {
        listener,
        poll,
        sockets: Vec::new(),
        buffer: vec![0; READ_BYTES].into_boxed_slice(),
        sending: None,
        taps: 0,
        blocked: 0,
    };
    let mut events = Events::with_capacity(EVENTS);
    let mut lines = Vec::new();
    loop {
        let wait = server
            .sending
            .as_ref()
            .map(|(_, next)| next.saturating_duration_since(Instant::now()));
        match server.poll.poll(&mut events, wait) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            match event.token() {
                LISTENER => server.accept()?,
                ORDERS => {
                    let mut bytes = [0; 4096];
                    let read = standard_input.read(&mut bytes)?;
                    if read == 0 {
                        return Ok(());
                    }
                    lines.extend_from_slice(&bytes[..read]);
                    while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = lines.drain(..=end).collect();
                        server.obey(std::str::from_utf8(&line)?.trim_end())?;
                    }
                }
                Token(index) => server.read(index)?,
            }
        }
        server.send_when_due();
    }
}

impl Server {
    fn accept(&mut self) -> anyhow::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((mut socket, _)) => {
                    socket.set_nodelay(true)?;
                    socket2::SockRef::from(&socket).set_send_buffer_size(SEND_BUFFER_BYTES)?;
                    let token = Token(self.sockets.len());
                    let both = Interest::READABLE | Interest::WRITABLE;
                    self.poll.registry().register(&mut socket, token, both)?;
                    self.sockets.push(socket);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("the bare server cannot accept"),
            }
        }
    }

    fn obey(&mut self, order: &str) -> anyhow::Result<()> {
        match order.split_once(' ').unwrap_or((order, "")) {
            ("sockets", "") => println!("{}", self.sockets.len()),
            ("send", text) => {
                self.sending = Some((wire::server_text(text), Instant::now() + TICK));
            }
            ("rest", "") => {
                self.sending = None;
                println!("{}", std::mem::take(&mut self.blocked));
            }
            ("taps", "") => println!("{}", std::mem::take(&mut self.taps)),
            _ => bail!("{order:?} is none of sockets, send TEXT, rest, taps"),
        }
        Ok(())
    }

    fn send_when_due(&mut self) {
        let Some((frame, next)) = &mut self.sending else {
            return;
        };
        if Instant::now() < *next {
            return;
        }
        *next += TICK;
        for socket in &mut self.sockets {
            if !matches!(socket.write(frame), Ok(written) if written == frame.len()) {
                self.blocked += 1;
            }
        }
    }

    fn read(&mut self, index: usize) -> anyhow::Result<()> {
        let Some(socket) = self.sockets.get_mut(index) else {
            return Ok(());
        };
        loop {
            match socket.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(bytes) => {
                    self.taps += unmask_all(&mut self.buffer[..bytes]);
                    if bytes < self.buffer.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("the bare server cannot read"),
            }
        }
    }
}

/// Unmasks the short frames in `bytes`, which are whole; how many they are.
fn unmask_all(mut bytes: &mut [u8]) -> u64 {
    let mut frames = 0;
    while let Some((&mut [_, second, a, b, c, d], rest)) = bytes.split_first_chunk_mut() {
        let length = usize::from(second & 0x7F).min(rest.len());
        let (payload, rest) = rest.split_at_mut(length);
        wire::unmask(payload, [a, b, c, d]);
        black_box(payload);
        frames += 1;
        bytes = rest;
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_frames_of_a_read_are_unmasked() {
        let one = wire::client_text(r#"{"tap":{"key":"clap","seq":1}}"#, [1, 2, 3, 4]);
        let two = wire::client_text(r#"{"ping":1}"#, [9, 9, 9, 9]);
        let mut bytes = [one, two].concat();
        assert_eq!(unmask_all(&mut bytes), 2);
        assert!(bytes.ends_with(br#"{"ping":1}"#));
    }
}
