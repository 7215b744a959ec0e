//! Sockets: from the handshake to the last byte.
//!
//! hyper reads the handshake; then the connection is taken back from it as plain TCP. `parse` reads what nearly all
//! traffic consists of in place, `slow` everything else through `fastwebsockets`, behind `guard`.

mod limits;
mod guard;
mod parse;
mod farewell;
mod socket;
mod slow;

pub(crate) use farewell::Farewell;

use crate::app::{App, Pass};
use crate::http::guesses::Guess;
use crate::peer::Peer;
use crate::rooms::RoomError;
use bytes::Bytes;
use fastwebsockets::upgrade::{UpgradeFut, is_upgrade_request};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use hyper::upgrade::Parts;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use shared::protocol::SUBPROTOCOL;
use shared::room::RoomCode;
use socket::Socket;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// Tells in the answer to a handshake which gateway serves the socket: behind a load balancer nothing else does.
pub(crate) const GATEWAY_HEADER: HeaderName = HeaderName::from_static("uproar-gateway");

/// What the kernel may hold for a phone that does not read; it doubles this. By default it would swallow 4 MB.
const SEND_BUFFER_BYTES: usize = 4096;

/// How long a socket waits for its room: the failover of a Redis master, and no longer, as it could not be told meanwhile.
const ROOM_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a request does not become a socket; `http` answers it, with the status beside each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpgradeError {
    /// 426: plain HTTP, or a proxy in between dropped the upgrade headers.
    #[error(
        "this address takes WebSockets only: the request has no upgrade headers (a proxy may have dropped them)"
    )]
    NotAnUpgrade,
    /// 400: no key, or not version 13.
    #[error("the WebSocket handshake is wrong: version 13 and a key are needed")]
    Handshake,
    /// 400: offers no subprotocol, or none that we speak.
    #[error("offer the subprotocol uproar.v1")]
    Subprotocol,
    /// 503 with Retry-After: at the connection cap.
    #[error("this gateway is full")]
    Full,
    /// 503 with Retry-After: the gateway drains.
    #[error("this gateway is shutting down")]
    Draining,
}

/// Upgrades a request for `/v1/rooms/CODE/socket`; the socket then lives in a task of its own. An unknown room is
/// told on the socket (close 4404). The caller has checked the origin.
///
/// # Errors
/// See [`UpgradeError`].
pub fn upgrade(
    app: &Arc<App>,
    mut request: Request<Incoming>,
    code: RoomCode,
    from: IpAddr,
) -> Result<Response<Empty<Bytes>>, UpgradeError> {
    if !is_upgrade_request(&request) {
        return Err(UpgradeError::NotAnUpgrade);
    }
    if !offers_subprotocol(request.headers()) {
        return Err(UpgradeError::Subprotocol);
    }
    if app.draining.is_cancelled() {
        return Err(UpgradeError::Draining);
    }
    let pass = app.connections.enter().ok_or_else(|| {
        app.metrics.full.inc();
        UpgradeError::Full
    })?;
    let (mut response, upgraded) =
        fastwebsockets::upgrade::upgrade(&mut request).map_err(|_| UpgradeError::Handshake)?;
    let headers = response.headers_mut();
    headers.insert(
        SEC_WEBSOCKET_PROTOCOL,
        HeaderValue::from_static(SUBPROTOCOL),
    );
    headers.insert(GATEWAY_HEADER, app.id.clone());
    // Before the answer is sent: the client's frames come after it.
    let accepted_ms = app.clock.now_ms();
    app.tracker.spawn(begin(
        Arc::clone(app),
        upgraded,
        code,
        from,
        pass,
        accepted_ms,
    ));
    Ok(response)
}

fn offers_subprotocol(headers: &HeaderMap) -> bool {
    let offered = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    offered
        .flat_map(|value| value.split(','))
        .any(|offer| offer.trim() == SUBPROTOCOL)
}

/// Takes the connection back from hyper, and finds its room. This task ends once the socket has its own, which is
/// much smaller.
async fn begin(
    app: Arc<App>,
    upgraded: UpgradeFut,
    code: RoomCode,
    from: IpAddr,
    pass: Pass,
    accepted_ms: u64,
) {
    let (stream, first) = match take_back(upgraded).await {
        Ok(taken) => taken,
        Err(error) => {
            // The client is gone before it had the answer; or the accept loop serves over another type than TCP.
            tracing::debug!(%error, "a handshake did not become a socket");
            return;
        }
    };
    let now = app.clock.tenths();
    // Those who come together are not pinged together: their answers would come all at once.
    let spread = rand::random_range(0.0..1.0);
    let pinged_at = now.before(app.settings.ping_after.mul_f64(spread));
    let peer = Arc::new(Peer::socket(stream, pass, now, pinged_at));
    let socket = Socket::new(Arc::clone(&app), peer, accepted_ms, first);
    // Cancel-safe, see `Rooms::open`.
    let opened = tokio::time::timeout(ROOM_TIMEOUT, app.rooms.open(&code)).await;
    let farewell = match opened.unwrap_or(Err(RoomError::Unavailable)) {
        Ok(copy) => {
            app.tracker.spawn(socket::run(socket, copy));
            return;
        }
        Err(RoomError::Unknown(_)) => match app.guesses.another(from) {
            Guess::Free => Farewell::Unknown,
            Guess::Limited(_) => Farewell::Guessing,
        },
        Err(RoomError::Unavailable) => {
            let retry_ms = crate::appender::busy_retry_ms();
            Farewell::Overload("the room cannot be read at the moment", retry_ms)
        }
    };
    socket::turn_away(socket, farewell).await;
}

/// The TCP connection, and what the client sent right behind its handshake.
async fn take_back(upgraded: UpgradeFut) -> anyhow::Result<(TcpStream, Vec<u8>)> {
    let upgraded = upgraded.await?.into_inner().into_inner();
    let Ok(Parts { io, read_buf, .. }) = upgraded.downcast::<TokioIo<TcpStream>>() else {
        anyhow::bail!("the connection is not plain TCP");
    };
    let stream = io.into_inner();
    stream.set_nodelay(true)?;
    socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES)?;
    Ok((stream, read_buf.into()))
}
