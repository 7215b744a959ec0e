//! The rest of a socket's life once it has sent anything but short whole messages: through `fastwebsockets`.

use super::Farewell;
use super::guard::{Guard, Violation};
use super::limits::BROWSERS;
use super::parse::Kind;
use super::socket::{Flow, InRoom};
use crate::app::App;
use crate::peer::Peer;
use crate::rooms::RoomCopy;
use fastwebsockets::{
    FragmentCollectorRead, Frame, OpCode, Role, WebSocketError, after_handshake_split,
};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

/// Reads until the connection is gone (`Continue`) or told to close.
///
/// # Cancel safety
/// Not cancel-safe, as `read_frame` is not: it runs in the socket's own task and nothing else is selected beside it.
/// Whoever wants it to end kills the peer, which ends the stream.
pub(super) async fn run(socket: &mut InRoom) -> Flow {
    let stream = Guarded {
        app: Arc::clone(&socket.socket.app),
        copy: Arc::clone(&socket.copy),
        peer: Arc::clone(&socket.socket.peer),
        first: socket.take_rest(),
        guard: Guard::new(BROWSERS),
        violation: None,
    };
    let (mut read, _) = after_handshake_split(stream, tokio::io::sink(), Role::Server);
    read.set_auto_close(false);
    read.set_auto_pong(false);
    // It refuses what is as long as this; the guard has refused what is longer before.
    read.set_max_message_size(BROWSERS.message_bytes_max + 1);
    let mut read = FragmentCollectorRead::new(read);
    loop {
        // Nothing is obliged to be sent, as both automatic answers are off.
        let mut oblige = |_: Frame<'_>| -> Ready<Result<(), Infallible>> { ready(Ok(())) };
        let flow = match read.read_frame(&mut oblige).await {
            Ok(frame) => {
                let now = socket.socket.app.clock.now();
                match frame.opcode {
                    OpCode::Text | OpCode::Continuation => {
                        socket.handle(Kind::Text, &frame.payload, now)
                    }
                    OpCode::Binary => socket.close(Farewell::Violation(Violation::Binary)),
                    OpCode::Ping => socket.handle(Kind::Ping, &frame.payload, now),
                    OpCode::Pong => socket.handle(Kind::Pong, &frame.payload, now),
                    OpCode::Close => socket.handle(Kind::Close, &frame.payload, now),
                }
            }
            Err(error) => match violation(&error) {
                Some(violation) => socket.close(Farewell::Violation(violation)),
                None => return Flow::Continue,
            },
        };
        if flow == Flow::Closed {
            return Flow::Closed;
        }
    }
}

/// What an error says of the client; none if the connection is merely gone.
fn violation(error: &WebSocketError) -> Option<Violation> {
    match error {
        WebSocketError::IoError(error) => error.get_ref()?.downcast_ref::<Violation>().copied(),
        WebSocketError::UnexpectedEOF | WebSocketError::ConnectionClosed => None,
        WebSocketError::InvalidUTF8 => Some(Violation::NotUtf8),
        WebSocketError::FrameTooLarge => Some(Violation::TooLong(BROWSERS.message_bytes_max)),
        // The guard sees all of these before; should it miss one, it is a protocol error all the same.
        _ => Some(Violation::Protocol(
            "the frames are not as the protocol has them",
        )),
    }
}

/// The socket as `fastwebsockets` reads it: first what was read before, and nothing that the guard refuses.
struct Guarded {
    app: Arc<App>,
    copy: Arc<RoomCopy>,
    peer: Arc<Peer>,
    first: Vec<u8>,
    guard: Guard,
    violation: Option<Violation>,
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(violation) = this.violation {
            return Poll::Ready(Err(io::Error::other(violation)));
        }
        let space = buffer.initialize_unfilled();
        let bytes = if this.first.is_empty() {
            let read = this
                .peer
                .poll_read(context, &this.app, Some(&this.copy), space);
            let bytes = std::task::ready!(read)?;
            this.peer.heard(this.app.clock.tenths());
            bytes
        } else {
            let bytes = this.first.len().min(space.len());
            space[..bytes].copy_from_slice(&this.first[..bytes]);
            this.first.drain(..bytes);
            bytes
        };
        match this.guard.pass(&space[..bytes]) {
            Ok(()) => buffer.advance(bytes),
            Err((0, violation)) => return Poll::Ready(Err(io::Error::other(violation))),
            Err((good, violation)) => {
                this.violation = Some(violation);
                buffer.advance(good);
            }
        }
        Poll::Ready(Ok(()))
    }
}
