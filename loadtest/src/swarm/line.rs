//! A phone's connection: what was read in part, and what could not be written yet.

use super::phone::Ending;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A connection.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    /// The beginning of a frame whose end has not come yet.
    rest: Vec<u8>,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filled {
    /// So far the buffer is filled.
    pub(super) until: usize,
    /// Bytes that are new.
    pub(super) read: usize,
    /// Whether the socket held no more.
    pub(super) is_drained: bool,
}

impl Line {
    /// Begins to connect; whoever polls the registry hears of it under this token.
    ///
    /// # Errors
    /// There is no socket or port to be had, or the other side refuses at once.
    pub(super) fn open(
        target: SocketAddr,
        source: Option<Ipv4Addr>,
        registry: &Registry,
        token: Token,
    ) -> Result<Line, Ending> {
        let socket = new_socket(target, source).map_err(Ending::NoSocket)?;
        match socket.connect(&target.into()) {
            Err(error) if error.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
            // All ports of the source are in use with this target.
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                return Err(Ending::NoSocket(error));
            }
            connected => connected.map_err(Ending::Lost)?,
        }
        let mut stream = TcpStream::from_std(socket.into());
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = registry.register(&mut stream, token, interest);
        registered.map_err(Ending::NoSocket)?;
        Ok(Line {
            stream,
            rest: Vec::new(),
            unsent: Vec::new(),
        })
    }

    /// Whether it stands; false: not yet.
    ///
    /// # Errors
    /// It could not be had.
    pub(super) fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads once, behind the unfinished frame that was there before; none: there is nothing to read.
    ///
    /// # Errors
    /// It broke; its end is an [`ErrorKind::UnexpectedEof`].
    #[inline]
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<Filled>> {
        let before = self.rest.len();
        if before > 0 {
            buffer[..before].copy_from_slice(&self.rest);
        }
        match self.stream.read(&mut buffer[before..]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                let until = before + read;
                // A short read says as much as another one that finds nothing.
                let is_drained = until < buffer.len();
                Ok(Some(Filled {
                    until,
                    read,
                    is_drained,
                }))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps what is left of the bytes after the last whole frame.
    #[inline]
    pub(super) fn keep(&mut self, rest: &[u8]) {
        if self.rest.is_empty() && rest.is_empty() {
            return;
        }
        // An idle phone holds nothing.
        self.rest = rest.to_vec();
    }

    /// Writes, now or once the socket takes it.
    ///
    /// # Errors
    /// It broke.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.unsent.is_empty() {
            let written = self.try_write(bytes)?;
            self.unsent.extend_from_slice(&bytes[written..]);
        } else {
            self.unsent.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Writes what could not be written before.
    ///
    /// # Errors
    /// It broke.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            self.write(&unsent)?;
        }
        Ok(())
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.write(&bytes[written..]) {
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Ends it with a reset, as a network does that has forgotten it.
    pub(super) fn reset(self) {
        // Without it the end is orderly, which no test of outages is wrong by.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }
}

fn new_socket(target: SocketAddr, source: Option<Ipv4Addr>) -> io::Result<Socket> {
    let domain = Domain::for_address(target);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source {
        // The port is chosen when it connects: then only the pair with the target's has to be free.
        setsockopt(&socket, IpBindAddressNoPort, &true)?;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Poll;
    use std::net::TcpListener;

    fn connected(source: Option<Ipv4Addr>) -> (Line, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (target, poll) = (listener.local_addr().unwrap(), Poll::new().unwrap());
        let line = Line::open(target, source, poll.registry(), Token(0)).unwrap();
        let (other, _) = listener.accept().unwrap();
        while !line.is_connected().unwrap() {
            std::thread::yield_now();
        }
        (line, other)
    }

    #[test]
    fn whose_fault_it_is_that_there_is_none_is_known() {
        let poll = Poll::new().unwrap();
        let open = |target: &str, source: Option<Ipv4Addr>| {
            Line::open(target.parse().unwrap(), source, poll.registry(), Token(0))
        };
        // An address for documentation: this machine has no other of that kind to come from.
        let foreign = Some(Ipv4Addr::new(192, 0, 2, 1));
        assert!(matches!(
            open("127.0.0.1:1", foreign),
            Err(Ending::NoSocket(_))
        ));
        match open("127.0.0.1:1", None) {
            Ok(line) => while matches!(line.is_connected(), Ok(false)) {},
            Err(ending) => assert!(matches!(ending, Ending::Lost(_)), "{ending:?}"),
        }
    }

    #[test]
    fn it_comes_from_the_address_it_was_told() {
        let source = Ipv4Addr::new(127, 0, 0, 77);
        let (_line, other) = connected(Some(source));
        assert_eq!(other.peer_addr().unwrap().ip(), source);
    }

    #[test]
    fn an_unfinished_frame_comes_before_what_is_read_next() {
        let (mut line, mut other) = connected(None);
        let mut buffer = [0; 16];
        let mut read = |line: &mut Line| loop {
            if let Some(filled) = line.read(&mut buffer).unwrap() {
                return (buffer[..filled.until].to_vec(), filled.is_drained);
            }
        };
        other.write_all(b"abc").unwrap();
        assert_eq!(read(&mut line), (b"abc".to_vec(), true));
        line.keep(b"bc");
        other.write_all(b"d").unwrap();
        assert_eq!(read(&mut line), (b"bcd".to_vec(), true));
        line.keep(b"");
        other.write_all(&[b'x'; 16]).unwrap();
        assert_eq!(read(&mut line), (vec![b'x'; 16], false));
        drop(other);
        let end = loop {
            match line.read(&mut [0; 16]) {
                Ok(None) => {}
                end => break end,
            }
        };
        assert_eq!(end.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_the_socket_does_not_take_is_written_later_and_in_order() {
        let (mut line, mut other) = connected(None);
        let block: Vec<u8> = (0..1 << 20)
            .map(|index: u32| index.to_le_bytes()[1])
            .collect();
        for _ in 0..16 {
            line.write(&block).unwrap();
        }
        assert!(!line.unsent.is_empty(), "16 MiB fit into no socket");
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            other.read_to_end(&mut all).unwrap();
            all
        });
        while !line.unsent.is_empty() {
            line.flush().unwrap();
        }
        drop(line);
        assert_eq!(reader.join().unwrap(), block.repeat(16));
    }

    #[test]
    fn a_reset_is_seen_as_one() {
        let (line, mut other) = connected(None);
        line.reset();
        let error = other.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}
