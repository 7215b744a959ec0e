//! The receiver: thousands of connections on one thread that reads and drops what comes, and taps when told to.
//!
//! It is driven by whoever measures, in the same thread: nothing is received but within its calls.

use super::Interrupted;
use super::beat::Beat;
use super::connection::{Connection, Counts, Service, TickSeen};
use anyhow::{Context, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Handshakes under way at a time: a hall, but not one that overruns the listen backlog of a small machine.
const HANDSHAKES_MAX: usize = 256;
/// How long anything may take to come that must come.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often Ctrl-C is looked for.
const POLL_MAX: Duration = Duration::from_millis(20);
/// Events taken from the system at a time.
const EVENTS: usize = 1024;
/// What one read may bring.
const READ_BYTES: usize = 64 * 1024;

/// The connections.
#[derive(Debug)]
pub(super) struct Phones {
    poll: Poll,
    events: Events,
    buffer: Box<[u8]>,
    connections: Vec<Option<Connection>>,
    /// What has come.
    pub(super) counts: Counts,
    /// What the first connection got.
    pub(super) tick: TickSeen,
    /// Taps that answer ticks, while there are to be any.
    pub(super) beat: Option<Beat>,
    /// The reaction that they tap.
    key: String,
    /// All client ids of this run begin with it.
    run: u64,
    interrupted: CancellationToken,
}

impl Phones {
    /// None yet. All calls end early once `interrupted`.
    ///
    /// # Errors
    /// No epoll instance is to be had.
    pub(super) fn new(key: &str, interrupted: CancellationToken) -> anyhow::Result<Self> {
        Ok(Phones {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            connections: Vec::new(),
            counts: Counts::default(),
            tick: TickSeen::default(),
            beat: None,
            key: key.to_owned(),
            run: rand::random(),
            interrupted,
        })
    }

    /// Connects so many, and waits until all are where they want to be; which they are. `receive_buffer`: how many
    /// bytes the system may hold for each that does not read.
    pub(super) fn connect(
        &mut self,
        service: &Service,
        count: usize,
        receive_buffer: Option<usize>,
    ) -> anyhow::Result<Range<usize>> {
        let first = self.connections.len();
        let ready_before = self.counts.ready;
        let mut deadline = Instant::now() + PATIENCE;
        let mut ready = 0;
        while ready < count {
            let begun = self.connections.len() - first;
            for _ in begun..count.min(ready + HANDSHAKES_MAX) {
                self.begin(service, receive_buffer)?;
            }
            self.turn(POLL_MAX)?;
            let now = usize::try_from(self.counts.ready - ready_before)?;
            if now > ready {
                deadline = Instant::now() + PATIENCE;
            }
            ready = now;
            ensure!(
                Instant::now() < deadline,
                "only {ready} of {count} connections to {} came about",
                service.address()
            );
        }
        Ok(first..first + count)
    }

    fn begin(&mut self, service: &Service, receive_buffer: Option<usize>) -> anyhow::Result<()> {
        let address = service.address();
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)
            .context("no more sockets are to be had: see ulimit -n")?;
        socket.set_nonblocking(true)?;
        if let Some(bytes) = receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(nix::libc::EINPROGRESS) => {
                return Err(error).with_context(|| format!("cannot connect to {address}"));
            }
            Ok(()) | Err(_) => {}
        }
        let mut stream = TcpStream::from_std(socket.into());
        let index = self.connections.len();
        self.poll.registry().register(
            &mut stream,
            Token(index),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let client = (u128::from(self.run) << 64) | index as u128;
        self.connections
            .push(Some(Connection::new(stream, service.clone(), client)));
        Ok(())
    }

    /// Each of these taps once.
    pub(super) fn tap(&mut self, which: Range<usize>) -> anyhow::Result<()> {
        let key = self.key.clone();
        self.tap_key(which, &key)
    }

    /// Each of these taps this reaction once.
    pub(super) fn tap_key(&mut self, which: Range<usize>, key: &str) -> anyhow::Result<()> {
        for connection in self.connections[which].iter_mut().flatten() {
            connection.tap(key)?;
        }
        Ok(())
    }

    /// Whether each of these taps again as soon as it has the answer.
    pub(super) fn set_eager(&mut self, which: Range<usize>, is_eager: bool) {
        for connection in self.connections[which].iter_mut().flatten() {
            connection.is_eager = is_eager;
        }
    }

    /// From now on nothing is read from these.
    pub(super) fn stall(&mut self, which: Range<usize>) -> anyhow::Result<()> {
        for connection in self.connections[which].iter_mut().flatten() {
            self.poll.registry().deregister(&mut connection.stream)?;
        }
        Ok(())
    }

    /// Closes these.
    pub(super) fn close(&mut self, which: Range<usize>) {
        self.connections[which].fill_with(|| None);
    }

    /// Receives until `is_done` says so of what has come.
    ///
    /// # Errors
    /// That it did not, within a minute or `patience`; a connection broke; [`Interrupted`].
    pub(super) fn until(
        &mut self,
        what: &str,
        patience: Option<Duration>,
        is_done: impl Fn(&Counts) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience.unwrap_or(PATIENCE);
        while !is_done(&self.counts) {
            self.turn(POLL_MAX)?;
            if Instant::now() > deadline {
                bail!("waited in vain for {what}; so far: {:?}", self.counts);
            }
        }
        Ok(())
    }

    /// Receives for so long.
    pub(super) fn linger(&mut self, duration: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + duration;
        while let Some(left) = end
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            self.turn(left.min(POLL_MAX))?;
        }
        Ok(())
    }

    /// Receives until no frame of the room has come for so long, at the most for some seconds.
    pub(super) fn until_quiet(&mut self, quiet: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut since = Instant::now();
        let mut before = self.counts.ticks;
        while since.elapsed() < quiet && Instant::now() < deadline {
            self.turn(Duration::from_millis(1))?;
            if self.counts.ticks != before {
                before = self.counts.ticks;
                since = Instant::now();
            }
        }
        Ok(())
    }

    /// Takes what has come, and waits for it at the most so long.
    pub(super) fn turn(&mut self, wait: Duration) -> anyhow::Result<()> {
        if self.interrupted.is_cancelled() {
            return Err(Interrupted.into());
        }
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        let Phones {
            connections,
            buffer,
            counts,
            tick,
            key,
            ..
        } = self;
        for event in &self.events {
            let index = event.token().0;
            let Some(Some(connection)) = connections.get_mut(index) else {
                continue;
            };
            if event.is_writable() {
                connection.connected(counts)?;
            }
            if event.is_readable() {
                let tick = (index == 0).then_some(&mut *tick);
                read(connection, buffer, counts, key, tick)?;
            }
        }
        ensure!(
            self.counts.closed == 0,
            "{} connections were closed by the other side",
            self.counts.closed
        );
        if let Some(mut beat) = self.beat.take() {
            let kept = beat.keep(self, self.tick.count);
            self.beat = Some(beat);
            kept?;
        }
        Ok(())
    }
}

fn read(
    connection: &mut Connection,
    buffer: &mut [u8],
    counts: &mut Counts,
    key: &str,
    mut tick: Option<&mut TickSeen>,
) -> anyhow::Result<()> {
    loop {
        match connection.stream.read(buffer) {
            Ok(0) => {
                counts.closed += 1;
                return Ok(());
            }
            Ok(bytes) => {
                connection.take(&buffer[..bytes], counts, key, tick.as_deref_mut())?;
                // What comes later makes a new event.
                if bytes < buffer.len() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("a connection broke"),
        }
    }
}
