//! Sockets.

use crate::app::App;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::{Request, Response};
use shared::room::RoomCode;
use std::net::IpAddr;
use std::sync::Arc;

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
    _app: &Arc<App>,
    _request: Request<Incoming>,
    _code: RoomCode,
    _peer: IpAddr,
) -> Result<Response<Empty<Bytes>>, UpgradeError> {
    todo!()
}
