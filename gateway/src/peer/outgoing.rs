//! What waits to be written to one viewer: the part of it that lies under the mutex.

use super::{Delivery, SharedFrame};
use crate::clock::Tenths;
use bytes::{Buf, Bytes};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::task::{Context, Waker};
use tokio::net::TcpStream;

/// Frames that may wait for one viewer alone: all acks of a re-send after an outage, and a few pongs. Whoever lets more
/// pile up does not read.
const OWN_FRAMES_MAX: usize = 80;
/// Bytes of such frames; a room frame of a large palette fits twice.
const OWN_BYTES_MAX: usize = 16 * 1024;

/// What is kept for one viewer: a cache line, since each frame of a room touches it for each member.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// What the socket did not take at once, or the stream of events has not asked for. Nearly always there is none.
    waiting: Option<Box<Waiting>>,
    /// Of the connection's task, or of the response body.
    waker: Option<Waker>,
    pub(super) phase: Phase,
    /// It missed a frame of its room, and gets the whole room when it can take it.
    pub(super) behind: bool,
    /// Since when it has taken nothing of what waits for it.
    pub(super) stalled_since: Option<Tenths>,
    pub(super) pinged_at: Tenths,
    /// Since when its join has been waited for; none before its room is there, and afterwards.
    pub(super) join_awaited_since: Option<Tenths>,
}

/// Frames in their order; of the first, the rest that is not written yet.
#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<Bytes>,
    bytes: usize,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// It was told to go; its taps that are on their way are still acknowledged.
    Leaving,
    /// The close frame is written, or waits to be; then the other side is given some time to close.
    Closing(Tenths),
    /// To be dropped without further ado.
    Dead,
}

impl Outgoing {
    pub(super) fn new(pinged_at: Tenths) -> Self {
        Outgoing {
            waiting: None,
            waker: None,
            phase: Phase::Open,
            behind: false,
            stalled_since: None,
            pinged_at,
            join_awaited_since: None,
        }
    }

    pub(super) fn is_served(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Leaving)
    }

    /// Nothing waits to be written (but perhaps the room, if it is behind).
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_none()
    }

    /// How many frames wait.
    pub(super) fn frames(&self) -> usize {
        self.waiting
            .as_ref()
            .map_or(0, |waiting| waiting.frames.len())
    }

    /// Has a frame wait behind the others.
    pub(super) fn push(&mut self, frame: Bytes, now: Tenths) {
        let waiting = self.waiting.get_or_insert_default();
        waiting.bytes += frame.len();
        waiting.frames.push_back(frame);
        self.stalled_since.get_or_insert(now);
    }

    /// The first that waits, for a stream of events.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let waiting = self.waiting.as_mut()?;
        let frame = waiting.frames.pop_front()?;
        waiting.bytes -= frame.len();
        if waiting.frames.is_empty() {
            self.waiting = None;
        }
        Some(frame)
    }

    /// Wakes the connection's task, which then waits for the socket to become writable.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn register(&mut self, context: &Context<'_>) {
        if !self
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            self.waker = Some(context.waker().clone());
        }
    }

    /// Lets go of all that waits.
    pub(super) fn release(&mut self) {
        self.waiting = None;
        self.behind = false;
    }

    /// Writes a frame of the room, and a ping behind it where one is due. Nothing may wait.
    pub(super) fn write_shared(
        &mut self,
        stream: &TcpStream,
        shared: &SharedFrame,
        now: Tenths,
    ) -> Delivery {
        let is_pinged = self.pinged_at <= shared.ping_due;
        let wire = if is_pinged {
            &shared.with_ping
        } else {
            shared.frame.wire()
        };
        match write(stream, wire) {
            Written::All => {}
            Written::Part(written) => {
                self.push(wire.slice(written..), now);
                self.wake();
            }
            Written::Nothing => {
                self.behind = true;
                self.stalled_since = Some(now);
                self.wake();
                return Delivery::Behind;
            }
            Written::Gone => {
                self.die();
                return Delivery::Gone;
            }
        }
        if is_pinged {
            self.pinged_at = now;
        }
        Delivery::Done
    }

    /// Writes a frame for this viewer alone, or has it wait; false if too much waits already.
    pub(super) fn send(&mut self, stream: &TcpStream, frame: Bytes, now: Tenths) -> bool {
        if let Some(waiting) = &self.waiting {
            if waiting.frames.len() >= OWN_FRAMES_MAX || waiting.bytes + frame.len() > OWN_BYTES_MAX
            {
                return false;
            }
            self.push(frame, now);
            return true;
        }
        let rest = match write(stream, &frame) {
            Written::All => return true,
            Written::Part(written) => frame.slice(written..),
            Written::Nothing => frame,
            Written::Gone => {
                self.die();
                return true;
            }
        };
        self.push(rest, now);
        self.wake();
        true
    }

    /// Writes what waits until the socket takes no more. After the last of a closing connection its writing side is shut.
    pub(super) fn write_waiting(&mut self, stream: &TcpStream, now: Tenths) {
        while let Some(waiting) = &mut self.waiting {
            let Some(frame) = waiting.frames.front_mut() else {
                self.waiting = None;
                break;
            };
            // Through the runtime: where the socket takes no more, it has to know.
            match stream.try_write(frame) {
                Ok(written) => {
                    self.stalled_since = Some(now);
                    waiting.bytes -= written;
                    frame.advance(written);
                    if frame.is_empty() {
                        waiting.frames.pop_front();
                    }
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
        if let Phase::Closing(_) = self.phase {
            // An error means that the connection is gone, which the next read finds.
            let _ = socket2::SockRef::from(stream).shutdown(std::net::Shutdown::Write);
        }
    }

    fn die(&mut self) {
        self.phase = Phase::Dead;
        self.release();
        self.wake();
    }
}

/// How much a socket took.
enum Written {
    All,
    Part(usize),
    Nothing,
    Gone,
}

/// Writes at once, past the runtime, whose record of the socket lies elsewhere in memory: to look there first costs a
/// hall as much as a twentieth of its frames. The runtime finds out that the socket is full as soon as the connection's
/// task, woken for that, tries to write the rest.
fn write(stream: &TcpStream, bytes: &[u8]) -> Written {
    match send(stream.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
        Ok(written) if written == bytes.len() => Written::All,
        Ok(written) => Written::Part(written),
        Err(Errno::EAGAIN | Errno::EINTR) => Written::Nothing,
        Err(_) => Written::Gone,
    }
}
