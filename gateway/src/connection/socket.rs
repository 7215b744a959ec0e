//! One socket's task: reads what comes, lets the session decide, and does what follows. It holds no buffer while idle.

use super::Farewell;
use super::guard::Violation;
use super::parse::{Kind, Parsed, parse};
use super::slow;
use crate::app::App;
use crate::appender::busy_retry_ms;
use crate::clock::Moment;
use crate::encoded::{Encoded, decode_pong, encode_pong};
use crate::metrics::WhyLabel;
use crate::peer::Peer;
use crate::rooms::{Membership, RoomCopy};
use crate::session::{Action, Member, Session, Taken, too_many_frames};
use shared::protocol::{Join, Refused, Role, ServerFrame, Why};
use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What one read may bring: far more than any phone sends at once.
const READ_BYTES: usize = 16 * 1024;

thread_local! {
    /// All sockets of a thread read into this, one at a time: only the beginning of a frame is ever kept.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// A socket, from its handshake on.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) app: Arc<App>,
    pub(super) peer: Arc<Peer>,
    session: Session,
    /// Where it stands among all viewers of the gateway.
    place: usize,
    /// Read but not parsed: the beginning of a frame. Empty while idle.
    rest: Vec<u8>,
}

/// Whether a socket goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    /// It was told to close.
    Closed,
}

/// Why reading in place ends.
enum End {
    /// The connection is gone.
    Gone,
    /// It was told to close; the other side is given some time.
    Closed,
    /// Something that is not read in place; it begins `rest`.
    Other,
    /// More has to be read.
    NotYet,
}

impl Socket {
    pub(super) fn new(app: Arc<App>, peer: Arc<Peer>, accepted_ms: u64, first: Vec<u8>) -> Self {
        app.metrics.sockets.inc();
        let place = app.peers.join(Arc::clone(&peer));
        Socket {
            app,
            peer,
            session: Session::new(accepted_ms),
            place,
            rest: first,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.app.peers.leave(self.place);
        self.peer.kill();
        self.app.metrics.sockets.dec();
    }
}

/// A socket in its room.
pub(super) struct InRoom {
    pub(super) socket: Socket,
    pub(super) copy: Arc<RoomCopy>,
    membership: Option<Membership>,
}

impl Drop for InRoom {
    fn drop(&mut self) {
        if let Some(membership) = &self.membership {
            self.copy.leave(membership, self.socket.app.clock.tenths());
        }
    }
}

/// Serves a socket until it ends.
pub(super) async fn run(socket: Socket, copy: Arc<RoomCopy>) {
    let mut socket = InRoom {
        socket,
        copy,
        membership: None,
    };
    socket
        .socket
        .peer
        .await_join(socket.socket.app.clock.tenths());
    let mut end = socket.parse_first();
    if let End::NotYet = end {
        end = poll_fn(|context| socket.poll_in_place(context)).await;
    }
    if let End::Other = end {
        socket.socket.app.metrics.slow_path.inc();
        // In a box: few sockets need it, and its state would make each task larger.
        end = match Box::pin(slow::run(&mut socket)).await {
            Flow::Closed => End::Closed,
            Flow::Continue => End::Gone,
        };
    }
    if let End::Closed = end {
        poll_fn(|context| poll_discard(&socket.socket, context)).await;
    }
}

/// Closes a socket that has no room.
pub(super) async fn turn_away(socket: Socket, farewell: Farewell) {
    socket.app.close(&socket.peer, farewell);
    poll_fn(|context| poll_discard(&socket, context)).await;
}

/// Reads until the other side has closed too: closing with bytes unread would reset the connection, and the close frame
/// might never arrive. The sweeper ends it if that takes too long.
fn poll_discard(socket: &Socket, context: &mut Context<'_>) -> Poll<()> {
    BUFFER.with_borrow_mut(|buffer| {
        loop {
            match std::task::ready!(socket.peer.poll_read(context, &socket.app, None, buffer)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
        }
    })
}

impl InRoom {
    /// What came right behind the handshake.
    fn parse_first(&mut self) -> End {
        let mut first = std::mem::take(&mut self.socket.rest);
        self.parse_all(&mut first, self.socket.app.clock.now())
    }

    fn poll_in_place(&mut self, context: &mut Context<'_>) -> Poll<End> {
        BUFFER.with_borrow_mut(|buffer| {
            loop {
                let kept = self.socket.rest.len();
                buffer[..kept].copy_from_slice(&self.socket.rest);
                let read = self.poll_read(context, &mut buffer[kept..]);
                let bytes = match std::task::ready!(read) {
                    Ok(0) | Err(_) => return Poll::Ready(End::Gone),
                    Ok(bytes) => kept + bytes,
                };
                let now = self.socket.app.clock.now();
                self.socket.peer.heard(now.tenths());
                match self.parse_all(&mut buffer[..bytes], now) {
                    End::NotYet => {}
                    end => return Poll::Ready(end),
                }
            }
        })
    }

    /// Reads, and meanwhile writes what waits.
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        let Socket { app, peer, .. } = &self.socket;
        peer.poll_read(context, app, Some(&self.copy), buffer)
    }

    /// Parses and handles all frames that `bytes` holds; keeps the beginning of one.
    fn parse_all(&mut self, bytes: &mut [u8], now: Moment) -> End {
        let mut at = 0;
        let end = loop {
            match parse(&mut bytes[at..]) {
                Parsed::Frame(kind, payload, length) => {
                    if self.handle(kind, payload, now) == Flow::Closed {
                        return End::Closed;
                    }
                    at += length;
                }
                Parsed::Incomplete => break End::NotYet,
                Parsed::Other => break End::Other,
            }
        };
        // A new vector rather than a cleared one, which would keep its memory.
        self.socket.rest = bytes[at..].to_vec();
        end
    }

    /// Takes what has been read but not parsed.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.socket.rest)
    }

    /// Handles one frame: a whole message, or a control frame.
    pub(super) fn handle(&mut self, kind: Kind, payload: &[u8], now: Moment) -> Flow {
        match kind {
            Kind::Text => match std::str::from_utf8(payload) {
                Ok(_) => self.text(payload, now),
                Err(_) => self.close(Farewell::Violation(Violation::NotUtf8)),
            },
            Kind::Ping => {
                if !self.socket.session.keeps_pace(now.ms) {
                    return self.act(too_many_frames());
                }
                let sent = self
                    .socket
                    .peer
                    .send_wire(encode_pong(payload), now.tenths());
                self.sent(sent)
            }
            Kind::Pong => {
                if !self.socket.session.keeps_pace(now.ms) {
                    return self.act(too_many_frames());
                }
                if let Some(sent_ms) = decode_pong(payload) {
                    self.socket.session.answered(sent_ms, now.ms);
                }
                Flow::Continue
            }
            Kind::Close => self.close(match close_code(payload) {
                Ok(code) => Farewell::Answer(code),
                Err(violation) => Farewell::Violation(violation),
            }),
        }
    }

    fn text(&mut self, text: &[u8], now: Moment) -> Flow {
        let Socket { app, session, .. } = &mut self.socket;
        let action = session.receive(text, &app.surroundings(&self.copy, now));
        self.act(action)
    }

    fn act(&mut self, action: Action) -> Flow {
        match action {
            Action::Nothing => Flow::Continue,
            Action::Join(join) => self.join(&join),
            Action::Take(tap) => self.take(&tap),
            Action::Reply(frame) => self.reply(&frame),
            Action::Stale => {
                self.socket.app.metrics.stale.inc();
                self.close(Farewell::Stale(stale_retry_ms()))
            }
            Action::Close(reason) => self.close(Farewell::Rule(reason)),
        }
    }

    fn join(&mut self, join: &Join) -> Flow {
        let app = &self.socket.app;
        let (client, page) = match app.identify(&join.client, &join.page) {
            Ok(ids) => ids,
            Err(error) => return self.close(Farewell::Rule(error.to_string())),
        };
        if join.role == Role::Host {
            let token = join.token.as_deref().unwrap_or_default();
            if let Err(error) = app.tokens.verify(&self.copy.room(), token) {
                return self.close(Farewell::Rule(error.to_string()));
            }
        }
        app.metrics.joins.inc();
        self.socket
            .session
            .joined(Member::new(client, page, join.role));
        // The room itself is sent as soon as the socket is polled next, in `Peer::poll_read`.
        self.membership =
            Some(
                self.copy
                    .join(&self.socket.peer, client, join.role, app.clock.tenths()),
            );
        Flow::Continue
    }

    fn take(&mut self, tap: &Taken) -> Flow {
        let Socket { app, peer, .. } = &self.socket;
        if app.outboxes.take(&self.copy, tap, peer) {
            app.metrics.taps.inc();
            return Flow::Continue;
        }
        self.copy.refund(tap);
        self.reply(&ServerFrame::Refused(Refused {
            seq: tap.id.seq,
            why: Why::Busy,
            retry_ms: Some(busy_retry_ms()),
        }))
    }

    fn reply(&mut self, frame: &ServerFrame) -> Flow {
        let Socket { app, peer, .. } = &self.socket;
        if let ServerFrame::Refused(refused) = frame {
            app.metrics
                .refused
                .get_or_create(&WhyLabel {
                    why: refused.why.as_str(),
                })
                .inc();
        }
        let sent = peer.send(&Encoded::new(frame), app.clock.tenths());
        self.sent(sent)
    }

    fn sent(&self, sent: bool) -> Flow {
        if sent {
            return Flow::Continue;
        }
        self.socket.app.overflow(&self.socket.peer);
        Flow::Closed
    }

    pub(super) fn close(&self, farewell: Farewell) -> Flow {
        self.socket.app.close(&self.socket.peer, farewell);
        Flow::Closed
    }
}

/// When a phone whose connection had stalled comes back: at once, but not all those of a network that stalled.
fn stale_retry_ms() -> u64 {
    rand::random_range(0..1_000)
}

/// The code with which a close frame is answered: its own.
fn close_code(payload: &[u8]) -> Result<u16, Violation> {
    let (code, reason) = match payload {
        [] => return Ok(1000),
        [first, second, reason @ ..] => (u16::from_be_bytes([*first, *second]), reason),
        [_] => return Err(Violation::Protocol("a close frame with half a code")),
    };
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Violation::Protocol("a close code that may not be sent"));
    }
    std::str::from_utf8(reason).map_err(|_| Violation::NotUtf8)?;
    Ok(code)
}
