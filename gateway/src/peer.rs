//! One viewer, as all who write to it see it: a phone, a stage or a host, on a socket or on a stream of events.
//!
//! What is kept for a viewer does not grow with what happens in the room: the unfinished tail of one frame, a few
//! frames for it alone (acks, pongs), and a mark that it has fallen behind. Whoever is behind gets the whole room,
//! all totals included, once it can take it. All of it lies under a mutex that is never held across an await; no
//! write waits.

use crate::app::{App, Pass};
use crate::clock::Tenths;
use crate::encoded::{Encoded, append_text, encode_close};
use crate::rooms::RoomCopy;
use bytes::Bytes;
use shared::protocol::{Bye, ServerFrame};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::net::TcpStream;

/// Frames that may wait for one viewer alone: all acks of a re-send after an outage, and a few pongs. Whoever lets more
/// pile up does not read.
const OWN_FRAMES_MAX: usize = 80;
/// Bytes of such frames; a room frame of a large palette fits twice.
const OWN_BYTES_MAX: usize = 16 * 1024;
/// Ticks that may wait for a stream of events before it counts as behind: two seconds of them.
const EVENTS_MAX: usize = 8;

/// A viewer.
#[derive(Debug)]
pub(crate) struct Peer {
    sink: Sink,
    outgoing: Mutex<Outgoing>,
    /// When it was last heard, in tenths of a second.
    heard_at: AtomicU32,
    opened_at: Tenths,
    taps_in_flight: AtomicU32,
    _pass: Option<Pass>,
}

/// Where frames go.
#[derive(Debug)]
enum Sink {
    Socket(TcpStream),
    /// `Outgoing::own` is what the response body yields.
    Events,
}

#[derive(Debug)]
struct Outgoing {
    /// The rest of a frame that was written in part: nothing may come before it.
    tail: Bytes,
    own: Vec<Bytes>,
    own_bytes: usize,
    /// It missed a frame of its room, and gets the whole room when it can take it.
    behind: bool,
    /// Since when it has taken nothing of what waits for it.
    stalled_since: Option<Tenths>,
    pinged_at: Option<Tenths>,
    joined: bool,
    phase: Phase,
    /// Of the connection's task, or of the response body.
    waker: Option<Waker>,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// It was told to go; its taps that are on their way are still acknowledged.
    Leaving,
    /// The close frame is written, or waits to be; then the other side is given some time to close.
    Closing(Tenths),
    /// To be dropped without further ado.
    Dead,
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

/// What the sweeper finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// No join in time.
    Join,
    /// Nothing was heard for too long, not even a pong.
    Silent,
    /// It takes nothing of what is sent.
    Stalled,
    /// It was told to close and does not.
    Closing,
}

/// What the sweeper holds a viewer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) join: std::time::Duration,
    pub(crate) ping_after: std::time::Duration,
    pub(crate) silence: std::time::Duration,
    pub(crate) stalled: std::time::Duration,
    pub(crate) closing: std::time::Duration,
}

impl Peer {
    /// A socket that has not joined yet.
    pub(crate) fn socket(stream: TcpStream, pass: Pass, now: Tenths) -> Self {
        Peer::new(Sink::Socket(stream), Some(pass), now)
    }

    /// A stream of events; it joins with its request.
    pub(crate) fn events(pass: Option<Pass>, now: Tenths) -> Self {
        Peer::new(Sink::Events, pass, now)
    }

    fn new(sink: Sink, pass: Option<Pass>, now: Tenths) -> Self {
        Peer {
            sink,
            outgoing: Mutex::new(Outgoing {
                tail: Bytes::new(),
                own: Vec::new(),
                own_bytes: 0,
                behind: false,
                stalled_since: None,
                pinged_at: None,
                joined: false,
                phase: Phase::Open,
                waker: None,
            }),
            heard_at: AtomicU32::new(now.0),
            opened_at: now,
            taps_in_flight: AtomicU32::new(0),
            _pass: pass,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something came from it.
    pub(crate) fn heard(&self, now: Tenths) {
        self.heard_at.store(now.0, Ordering::Relaxed);
    }

    /// It joins: before it stands among its room's members, so that no frame of the room can come before the first,
    /// which [`Peer::poll_flush`] sends.
    pub(crate) fn join(&self) {
        let mut outgoing = self.lock();
        outgoing.joined = true;
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
    pub(crate) fn deliver(&self, frame: &Encoded, now: Tenths) -> Delivery {
        let mut outgoing = self.lock();
        if !outgoing.is_served() {
            return Delivery::Gone;
        }
        if outgoing.behind {
            return Delivery::Behind;
        }
        match &self.sink {
            Sink::Events if outgoing.own.len() < EVENTS_MAX => {
                outgoing.push_own(frame.json(), now);
                outgoing.wake();
                Delivery::Done
            }
            Sink::Socket(stream) if outgoing.is_idle() => {
                outgoing.write_shared(stream, frame.wire(), now)
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
                outgoing.push_own(frame.json(), now);
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

    /// Tells it to come back later; its taps that are on their way are still acknowledged. Close it soon after.
    pub(crate) fn say_bye(&self, bye: Bye, now: Tenths) {
        if self.send(&Encoded::new(&ServerFrame::Bye(bye)), now) {
            let mut outgoing = self.lock();
            if outgoing.phase == Phase::Open {
                outgoing.phase = Phase::Leaving;
            }
        }
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
                outgoing.push_own(Bytes::from(last), now);
                outgoing.phase = Phase::Closing(now);
                outgoing.write_waiting(stream, now);
            }
            Sink::Events => {
                if let Some(bye) = bye {
                    outgoing.push_own(Encoded::new(&ServerFrame::Bye(bye)).json(), now);
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
            match stream.try_read(buffer) {
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
                        outgoing.push_own(room.encoded().wire().clone(), app.clock.tenths());
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
        if !outgoing.own.is_empty() {
            let event = outgoing.own.remove(0);
            outgoing.own_bytes -= event.len();
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

    /// What the sweeper does about it now; pings it where that is due.
    pub(crate) fn sweep(&self, patience: &Patience, now: Tenths) -> Option<Overdue> {
        let heard = Tenths(self.heard_at.load(Ordering::Relaxed));
        let mut outgoing = self.lock();
        match outgoing.phase {
            Phase::Dead => return None,
            Phase::Closing(since) => {
                return (now.since(since) >= patience.closing).then_some(Overdue::Closing);
            }
            Phase::Open | Phase::Leaving => {}
        }
        if outgoing
            .stalled_since
            .is_some_and(|since| now.since(since) >= patience.stalled)
        {
            return Some(Overdue::Stalled);
        }
        let Sink::Socket(stream) = &self.sink else {
            return None;
        };
        if !outgoing.joined && now.since(self.opened_at) >= patience.join {
            return Some(Overdue::Join);
        }
        let silent = now.since(heard);
        if silent >= patience.silence {
            return Some(Overdue::Silent);
        }
        let quiet_since_ping = outgoing
            .pinged_at
            .map_or(silent, |at| now.since(at).min(silent));
        if quiet_since_ping >= patience.ping_after {
            outgoing.pinged_at = Some(now);
            // Whoever cannot take the ping is stalled already, and found by that.
            if outgoing.is_idle() {
                outgoing.send(stream, crate::encoded::PING, now);
            }
        }
        None
    }
}

impl Outgoing {
    fn is_served(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Leaving)
    }

    /// Nothing waits to be written (but perhaps the room, if it is behind).
    fn is_idle(&self) -> bool {
        self.tail.is_empty() && self.own.is_empty()
    }

    fn push_own(&mut self, frame: Bytes, now: Tenths) {
        self.own_bytes += frame.len();
        self.own.push(frame);
        self.stalled_since.get_or_insert(now);
    }

    /// Wakes the connection's task, which then waits for the socket to become writable.
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn register(&mut self, context: &Context<'_>) {
        if !self
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            self.waker = Some(context.waker().clone());
        }
    }

    /// Lets go of all that waits.
    fn release(&mut self) {
        self.tail = Bytes::new();
        self.own = Vec::new();
        self.own_bytes = 0;
        self.behind = false;
    }

    fn write_shared(&mut self, stream: &TcpStream, frame: &Bytes, now: Tenths) -> Delivery {
        match stream.try_write(frame) {
            Ok(written) if written == frame.len() => return Delivery::Done,
            Ok(written) => self.tail = frame.slice(written..),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.behind = true,
            Err(_) => {
                self.phase = Phase::Dead;
                self.release();
                self.wake();
                return Delivery::Gone;
            }
        }
        self.stalled_since = Some(now);
        self.wake();
        if self.behind {
            Delivery::Behind
        } else {
            Delivery::Done
        }
    }

    fn send(&mut self, stream: &TcpStream, frame: Bytes, now: Tenths) -> bool {
        if self.own.len() >= OWN_FRAMES_MAX || self.own_bytes + frame.len() > OWN_BYTES_MAX {
            return false;
        }
        let idle = self.is_idle();
        self.push_own(frame, now);
        if idle {
            self.write_waiting(stream, now);
            if !self.is_idle() || self.phase == Phase::Dead {
                self.wake();
            }
        }
        true
    }

    /// Writes what waits until the socket takes no more. After the last of a closing connection its writing side is shut.
    fn write_waiting(&mut self, stream: &TcpStream, now: Tenths) {
        loop {
            if self.tail.is_empty() {
                if self.own.is_empty() {
                    break;
                }
                self.tail = self.own.remove(0);
                self.own_bytes -= self.tail.len();
            }
            match stream.try_write(&self.tail) {
                Ok(written) => {
                    self.stalled_since = Some(now);
                    self.tail = self.tail.slice(written..);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.phase = Phase::Dead;
                    self.release();
                    return;
                }
            }
        }
        self.stalled_since = None;
        self.own = Vec::new();
        if let Phase::Closing(_) = self.phase {
            // An error means that the connection is gone, which the next read finds.
            let _ = socket2::SockRef::from(stream).shutdown(std::net::Shutdown::Write);
        }
    }
}
