//! One viewer, as all who write to it see it: a phone, a stage or a host, on a socket or on a stream of events.
//!
//! What is kept for a viewer does not grow with what happens in the room: the unfinished tail of one frame, a few
//! frames for it alone (acks, pongs), and a mark that it has fallen behind. Whoever is behind gets the whole room,
//! all totals included, once it can take it. All of it lies under a mutex that is never held across an await; no
//! write waits.

mod outgoing;
mod patience;

pub(crate) use patience::{Overdue, Patience};

use crate::app::{App, Pass};
use crate::clock::{Clock, Tenths};
use crate::encoded::{Encoded, append_text, encode_close, encode_ping};
use crate::rooms::RoomCopy;
use bytes::Bytes;
use nix::sys::socket::{MsgFlags, recv};
use outgoing::{Outgoing, Phase};
use shared::protocol::{Bye, ServerFrame};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Ticks that may wait for a stream of events before it counts as behind: two seconds of them.
const EVENTS_MAX: usize = 8;

/// A viewer.
#[derive(Debug)]
// In this order, and with the counts of its `Arc` before it, it takes two cache lines: what is written under the mutex
// is the second.
#[repr(C)]
pub(crate) struct Peer {
    sink: Sink,
    /// When it was last heard, in tenths of a second.
    heard_at: AtomicU32,
    taps_in_flight: AtomicU32,
    _pass: Option<Pass>,
    outgoing: Mutex<Outgoing>,
}

/// A frame for all members of a room.
#[derive(Debug, Clone)]
pub(crate) struct SharedFrame {
    frame: Encoded,
    /// The same with a ping behind it: for those to whom one is due, this saves a write.
    with_ping: Bytes,
    /// It is due to those who had the last one at this time or before.
    ping_due: Tenths,
}

impl SharedFrame {
    /// A frame that is sent from now on; pings are due after so long.
    pub(crate) fn new(frame: Encoded, clock: Clock, ping_after: Duration) -> Self {
        let with_ping = [frame.wire().as_ref(), &encode_ping(clock.now_ms())].concat();
        SharedFrame {
            frame,
            with_ping: Bytes::from(with_ping),
            ping_due: clock.tenths().before(ping_after),
        }
    }
}

/// Where frames go.
#[derive(Debug)]
enum Sink {
    Socket(TcpStream),
    /// What waits in `Outgoing` is what the response body yields.
    Events,
}

/// What became of a shared frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The socket or the stream has it.
    Done,
    /// It had to be left out: the viewer gets all totals later.
    Behind,
    /// The viewer is going or gone.
    Gone,
}

impl Peer {
    /// A socket that has not joined yet, and counts as pinged at this time.
    pub(crate) fn socket(stream: TcpStream, pass: Pass, now: Tenths, pinged_at: Tenths) -> Self {
        Peer::new(Sink::Socket(stream), Some(pass), now, pinged_at)
    }

    /// A stream of events; it joins with its request.
    pub(crate) fn events(pass: Option<Pass>, now: Tenths) -> Self {
        Peer::new(Sink::Events, pass, now, now)
    }

    fn new(sink: Sink, pass: Option<Pass>, now: Tenths, pinged_at: Tenths) -> Self {
        Peer {
            sink,
            heard_at: AtomicU32::new(now.0),
            taps_in_flight: AtomicU32::new(0),
            _pass: pass,
            outgoing: Mutex::new(Outgoing::new(pinged_at)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something came from it.
    pub(crate) fn heard(&self, now: Tenths) {
        self.heard_at.store(now.0, Ordering::Relaxed);
    }

    /// Its room is there: from now on its join is waited for.
    pub(crate) fn await_join(&self, now: Tenths) {
        self.lock().join_awaited_since = Some(now);
    }

    /// It joins: before it stands among its room's members, so that no frame of the room can come before the first,
    /// which [`Peer::poll_flush`] sends.
    pub(crate) fn join(&self) {
        let mut outgoing = self.lock();
        outgoing.join_awaited_since = None;
        outgoing.behind = true;
    }

    /// A tap of it is on its way to the log.
    pub(crate) fn tap_sent(&self) {
        self.taps_in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// The fate of that many taps is known.
    pub(crate) fn taps_settled(&self, taps: u32) {
        self.taps_in_flight.fetch_sub(taps, Ordering::Relaxed);
    }

    /// Taps on their way.
    pub(crate) fn taps_in_flight(&self) -> u32 {
        self.taps_in_flight.load(Ordering::Relaxed)
    }

    /// Offers a frame that all members of a room get.
    pub(crate) fn deliver(&self, shared: &SharedFrame, now: Tenths) -> Delivery {
        let mut outgoing = self.lock();
        if !outgoing.is_served() {
            return Delivery::Gone;
        }
        if outgoing.behind {
            return Delivery::Behind;
        }
        match &self.sink {
            Sink::Events if outgoing.frames() < EVENTS_MAX => {
                outgoing.push(shared.frame.json(), now);
                outgoing.wake();
                Delivery::Done
            }
            Sink::Socket(stream) if outgoing.is_idle() => {
                outgoing.write_shared(stream, shared, now)
            }
            Sink::Events | Sink::Socket(_) => {
                outgoing.behind = true;
                Delivery::Behind
            }
        }
    }

    /// Sends a frame to this viewer alone. False if too many wait already: then it is to be closed, since it does not
    /// read and nothing of this may be left out.
    #[must_use]
    pub(crate) fn send(&self, frame: &Encoded, now: Tenths) -> bool {
        let mut outgoing = self.lock();
        match &self.sink {
            _ if !outgoing.is_served() => true,
            Sink::Socket(stream) => outgoing.send(stream, frame.wire().clone(), now),
            Sink::Events => {
                outgoing.push(frame.json(), now);
                outgoing.wake();
                true
            }
        }
    }

    /// Sends ready WebSocket frames (acks of a batch, a pong) in one write, as [`Peer::send`] does.
    #[must_use]
    pub(crate) fn send_wire(&self, frames: Bytes, now: Tenths) -> bool {
        let mut outgoing = self.lock();
        match &self.sink {
            Sink::Socket(stream) if outgoing.is_served() => outgoing.send(stream, frames, now),
            Sink::Socket(_) | Sink::Events => true,
        }
    }

    /// Tells it to come back later; its taps that are on their way are still acknowledged. Close it soon after. False
    /// if it was told before, or is closed.
    pub(crate) fn say_bye(&self, bye: Bye, now: Tenths) -> bool {
        {
            let mut outgoing = self.lock();
            if outgoing.phase != Phase::Open {
                return false;
            }
            outgoing.phase = Phase::Leaving;
        }
        // Whoever has no room for it does not read it either.
        let _ = self.send(&Encoded::new(&ServerFrame::Bye(bye)), now);
        true
    }

    /// Closes it, after a farewell if there is one. The other side then has some time to close too. False if it was
    /// closed before.
    pub(crate) fn close(&self, code: u16, reason: &str, bye: Option<Bye>, now: Tenths) -> bool {
        let mut outgoing = self.lock();
        if !outgoing.is_served() {
            return false;
        }
        outgoing.behind = false;
        match &self.sink {
            Sink::Socket(stream) => {
                let mut last = Vec::new();
                if let Some(bye) = bye {
                    append_text(&mut last, |json| {
                        json.extend_from_slice(&ServerFrame::Bye(bye).encode());
                    });
                }
                last.extend_from_slice(&encode_close(code, reason));
                outgoing.push(Bytes::from(last), now);
                outgoing.phase = Phase::Closing(now);
                outgoing.write_waiting(stream, now);
            }
            Sink::Events => {
                if let Some(bye) = bye {
                    outgoing.push(Encoded::new(&ServerFrame::Bye(bye)).json(), now);
                }
                outgoing.phase = Phase::Closing(now);
            }
        }
        outgoing.wake();
        true
    }

    /// Drops it without a word.
    pub(crate) fn kill(&self) {
        let mut outgoing = self.lock();
        outgoing.phase = Phase::Dead;
        outgoing.release();
        outgoing.wake();
    }

    /// Whether it is still to be served.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().is_served()
    }

    /// Reads from the socket, and meanwhile writes what waits for it as it becomes writable. Zero bytes: it is over.
    pub(crate) fn poll_read(
        &self,
        context: &mut Context<'_>,
        app: &App,
        room: Option<&RoomCopy>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Sink::Socket(stream) = &self.sink else {
            return Poll::Ready(Ok(0));
        };
        if self.poll_flush(context, stream, app, room) {
            return Poll::Ready(Ok(0));
        }
        loop {
            std::task::ready!(stream.poll_read_ready(context))?;
            match read(stream, buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }

    /// Writes what waits, as far as the socket takes it; true if the connection is dead.
    fn poll_flush(
        &self,
        context: &mut Context<'_>,
        stream: &TcpStream,
        app: &App,
        room: Option<&RoomCopy>,
    ) -> bool {
        let mut outgoing = self.lock();
        outgoing.register(context);
        loop {
            if outgoing.phase == Phase::Dead {
                return true;
            }
            if outgoing.is_idle() {
                match room {
                    Some(room) if outgoing.behind => {
                        outgoing.behind = false;
                        outgoing.push(room.encoded().wire().clone(), app.clock.tenths());
                    }
                    Some(_) | None => return false,
                }
            }
            match stream.poll_write_ready(context) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) => outgoing.write_waiting(stream, app.clock.tenths()),
                Poll::Ready(Err(_)) => outgoing.phase = Phase::Dead,
            }
        }
    }

    /// The next frame of a stream of events, as JSON; none at its end.
    pub(crate) fn poll_event(
        &self,
        context: &mut Context<'_>,
        room: &RoomCopy,
        now: Tenths,
    ) -> Poll<Option<Bytes>> {
        let mut outgoing = self.lock();
        outgoing.register(context);
        if outgoing.phase == Phase::Dead {
            return Poll::Ready(None);
        }
        outgoing.stalled_since = None;
        self.heard(now);
        if let Some(event) = outgoing.pop() {
            return Poll::Ready(Some(event));
        }
        if outgoing.behind {
            outgoing.behind = false;
            return Poll::Ready(Some(room.encoded().json()));
        }
        match outgoing.phase {
            Phase::Open | Phase::Leaving => Poll::Pending,
            Phase::Closing(_) | Phase::Dead => Poll::Ready(None),
        }
    }
}

/// Reads once. A socket that has less than was asked for is empty: the runtime is told so at once, and the next read waits
/// for it instead of trying in vain, which would cost each tap a second system call. What arrives in between is a new
/// edge for epoll, and the end of a stream stays on the runtime's record.
fn read(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut short = None;
    let whole = stream.try_io(Interest::READABLE, || {
        match recv(stream.as_raw_fd(), buffer, MsgFlags::empty())? {
            bytes if 0 < bytes && bytes < buffer.len() => {
                short = Some(bytes);
                Err(ErrorKind::WouldBlock.into())
            }
            bytes => Ok(bytes),
        }
    });
    short.map_or(whole, Ok)
}
