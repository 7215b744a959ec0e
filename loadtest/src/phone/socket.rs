//! A WebSocket as a browser would open it.

use anyhow::{Context, bail};
use bytes::Bytes;
use fastwebsockets::{FragmentCollectorRead, Frame, OpCode, Payload, WebSocketError, handshake};
use http_body_util::Empty;
use hyper::Request;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use shared::protocol::{Join, SUBPROTOCOL, ServerFrame, TapFrame};
use shared::room::RoomCode;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// How long connecting and the handshake may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Frames that wait for the phone; the socket is not read further beyond that, as in a busy browser.
const EVENTS_MAX: usize = 64;

/// What came over the socket.
#[derive(Debug)]
pub enum Event {
    /// A frame of the protocol.
    Frame(ServerFrame),
    /// A ping of the WebSocket protocol, to be answered.
    Ping(Vec<u8>),
    /// The server closed, with this code; none: the connection broke.
    Closed(Option<u16>),
}

/// An open socket.
pub struct Socket {
    writer: fastwebsockets::WebSocketWrite<WriteHalf<TokioIo<Upgraded>>>,
    events: mpsc::Receiver<Event>,
    _reader: AbortOnDropHandle<()>,
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Socket")
    }
}

impl Socket {
    /// Connects and shakes hands; does not join yet.
    ///
    /// # Errors
    /// Nobody listens, or what listens does not speak the protocol.
    pub async fn open(gateway: SocketAddr, room: &RoomCode) -> anyhow::Result<Socket> {
        timeout(OPEN_TIMEOUT, Self::shake_hands(gateway, room))
            .await
            .context("no answer")?
    }

    async fn shake_hands(gateway: SocketAddr, room: &RoomCode) -> anyhow::Result<Socket> {
        let stream = TcpStream::connect(gateway).await?;
        stream.set_nodelay(true)?;
        let request = Request::get(format!("/v1/rooms/{room}/socket"))
            .header("host", gateway.to_string())
            .header("upgrade", "websocket")
            .header("connection", "upgrade")
            .header("sec-websocket-key", handshake::generate_key())
            .header("sec-websocket-version", "13")
            .header("sec-websocket-protocol", SUBPROTOCOL)
            .body(Empty::<Bytes>::new())?;
        let shaken = handshake::client(&TokioExecutor::new(), request, stream).await;
        let (socket, response) = shaken.context("the handshake failed")?;
        if response
            .headers()
            .get("sec-websocket-protocol")
            .is_none_or(|name| name != SUBPROTOCOL)
        {
            bail!("the gateway did not choose the subprotocol {SUBPROTOCOL}");
        }
        let (mut reader, writer) = socket.split(tokio::io::split);
        reader.set_auto_close(false);
        reader.set_auto_pong(false);
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let reader = tokio::spawn(read(FragmentCollectorRead::new(reader), sender));
        Ok(Socket {
            writer,
            events,
            _reader: AbortOnDropHandle::new(reader),
        })
    }

    /// The first frame.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn join(&mut self, join: &Join) -> Result<(), WebSocketError> {
        self.send(json!({ "join": join }).to_string()).await
    }

    /// One tap.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn tap(&mut self, tap: &TapFrame) -> Result<(), WebSocketError> {
        let TapFrame { key, seq, age_ms } = tap;
        let tap = match age_ms {
            0 => json!({ "tap": { "key": key, "seq": seq } }),
            _ => json!({ "tap": { "key": key, "seq": seq, "age_ms": age_ms } }),
        };
        self.send(tap.to_string()).await
    }

    /// Asks for a pong of the browser protocol.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn ping(&mut self) -> Result<(), WebSocketError> {
        self.send(r#"{"ping":1}"#.to_owned()).await
    }

    /// Answers a ping of the WebSocket protocol.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn pong(&mut self, payload: Vec<u8>) -> Result<(), WebSocketError> {
        self.writer
            .write_frame(Frame::pong(Payload::Owned(payload)))
            .await
    }

    /// Says goodbye.
    pub async fn close(mut self) {
        let _ = self.writer.write_frame(Frame::close(1000, b"")).await;
    }

    /// What comes next.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped: a task of its own reads the socket.
    pub async fn next(&mut self) -> Event {
        self.events.recv().await.unwrap_or(Event::Closed(None))
    }

    async fn send(&mut self, text: String) -> Result<(), WebSocketError> {
        self.writer
            .write_frame(Frame::text(Payload::Owned(text.into_bytes())))
            .await
    }
}

/// Reads to the end. `read_frame` must not be cancelled, so it has this task for itself.
async fn read(
    mut reader: FragmentCollectorRead<ReadHalf<TokioIo<Upgraded>>>,
    events: mpsc::Sender<Event>,
) {
    loop {
        // Nothing is written from here: pings and closes are passed on as events.
        let frame = reader
            .read_frame(&mut |_| async { Ok::<_, std::io::Error>(()) })
            .await;
        let event = match frame {
            Err(_) => Event::Closed(None),
            Ok(frame) => match frame.opcode {
                OpCode::Text => match serde_json::from_slice(&frame.payload) {
                    Ok(frame) => Event::Frame(frame),
                    // Unknown frames are ignored.
                    Err(_) => continue,
                },
                OpCode::Ping => Event::Ping(frame.payload.to_vec()),
                OpCode::Close => Event::Closed(close_code(&frame.payload)),
                _ => continue,
            },
        };
        let ends = matches!(event, Event::Closed(_));
        if events.send(event).await.is_err() || ends {
            return;
        }
    }
}

fn close_code(payload: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*payload.first_chunk()?))
}
