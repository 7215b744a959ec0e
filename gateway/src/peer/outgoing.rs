//! What waits to be written to one viewer: the part of it that lies under the mutex.

use super::Delivery;
use crate::clock::Tenths;
use bytes::Bytes;
use std::io::ErrorKind;
use std::task::{Context, Waker};
use tokio::net::TcpStream;

/// Frames that may wait for one viewer alone: all acks of a re-send after an outage, and a few pongs. Whoever lets more
/// pile up does not read.
const OWN_FRAMES_MAX: usize = 80;
/// Bytes of such frames; a room frame of a large palette fits twice.
const OWN_BYTES_MAX: usize = 16 * 1024;
/// What is kept for one viewer.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The rest of a frame that was written in part: nothing may come before it.
    pub(super) tail: Bytes,
    pub(super) own: Vec<Bytes>,
    pub(super) own_bytes: usize,
    /// It missed a frame of its room, and gets the whole room when it can take it.
    pub(super) behind: bool,
    /// Since when it has taken nothing of what waits for it.
    pub(super) stalled_since: Option<Tenths>,
    pub(super) pinged_at: Tenths,
    /// Since when its join has been waited for; none before its room is there, and afterwards.
    pub(super) join_awaited_since: Option<Tenths>,
    pub(super) phase: Phase,
    /// Of the connection's task, or of the response body.
    pub(super) waker: Option<Waker>,
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
    pub(super) fn new(now: Tenths) -> Self {
        Outgoing {
            tail: Bytes::new(),
            own: Vec::new(),
            own_bytes: 0,
            behind: false,
            stalled_since: None,
            pinged_at: now,
            join_awaited_since: None,
            phase: Phase::Open,
            waker: None,
        }
    }

    pub(super) fn is_served(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Leaving)
    }

    /// Nothing waits to be written (but perhaps the room, if it is behind).
    pub(super) fn is_idle(&self) -> bool {
        self.tail.is_empty() && self.own.is_empty()
    }

    pub(super) fn push_own(&mut self, frame: Bytes, now: Tenths) {
        self.own_bytes += frame.len();
        self.own.push(frame);
        self.stalled_since.get_or_insert(now);
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
        self.tail = Bytes::new();
        self.own = Vec::new();
        self.own_bytes = 0;
        self.behind = false;
    }

    pub(super) fn write_shared(
        &mut self,
        stream: &TcpStream,
        frame: &Bytes,
        now: Tenths,
    ) -> Delivery {
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

    pub(super) fn send(&mut self, stream: &TcpStream, frame: Bytes, now: Tenths) -> bool {
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
    pub(super) fn write_waiting(&mut self, stream: &TcpStream, now: Tenths) {
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
