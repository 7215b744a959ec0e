//! The door to the sockets: what is wrong with a handshake is said over HTTP, with the hop that broke it.

use crate::app::App;
use crate::connection::{self, UpgradeError};
use crate::http::body::Body;
use crate::http::error::ApiError;
use crate::http::rooms::code;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Request, Response, Version};
use shared::protocol::SUBPROTOCOL;
use std::net::IpAddr;
use std::sync::Arc;

/// How much of a header that a client sent is repeated to it.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// `GET /v1/rooms/CODE/socket`. `peer` is the other end of the connection, `from` the client.
pub(crate) fn upgrade(
    app: &Arc<App>,
    typed: &str,
    peer: IpAddr,
    from: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let code = code(typed)?;
    let version = request.version();
    let headers = request.headers().clone();
    match connection::upgrade(app, request, code, from) {
        Ok(response) => Ok(response.map(BodyExt::boxed_unsync)),
        Err(UpgradeError::NotAnUpgrade) => Err(ApiError::UpgradeRequired(broken_hop(
            version, &headers, peer,
        ))),
        Err(UpgradeError::Handshake) => Err(ApiError::BadRequest(format!(
            "the WebSocket handshake needs Sec-WebSocket-Key and Sec-WebSocket-Version: 13, not version {}",
            shown(&headers, header::SEC_WEBSOCKET_VERSION)
        ))),
        Err(UpgradeError::Subprotocol) => Err(ApiError::BadRequest(format!(
            "the WebSocket handshake needs Sec-WebSocket-Protocol: {SUBPROTOCOL}, not {}",
            shown(&headers, header::SEC_WEBSOCKET_PROTOCOL)
        ))),
        Err(error @ (UpgradeError::Full | UpgradeError::Draining)) => {
            Err(ApiError::Unavailable(error.to_string()))
        }
    }
}

/// Why a request for a socket came without a handshake. `Sec-WebSocket-Key` travels end to end, `Upgrade` and
/// `Connection` only from hop to hop: with the one there and the others gone, the last hop has dropped them.
fn broken_hop(version: Version, headers: &HeaderMap, peer: IpAddr) -> String {
    let via = headers
        .get(header::VIA)
        .map(|_| format!(" (Via: {})", shown(headers, header::VIA)));
    let hop = format!("the proxy at {peer}{}", via.unwrap_or_default());
    if headers.contains_key(header::SEC_WEBSOCKET_KEY) || version < Version::HTTP_11 {
        return format!(
            "the WebSocket handshake arrived as {version:?} without its Upgrade and Connection headers: {hop}, the \
             last hop before this gateway, does not pass them on; in nginx that takes proxy_http_version 1.1, \
             proxy_set_header Upgrade $http_upgrade and proxy_set_header Connection \"upgrade\""
        );
    }
    let forwarded =
        headers.contains_key("x-forwarded-for") || headers.contains_key(header::FORWARDED);
    if forwarded || headers.contains_key(header::VIA) {
        return format!(
            "this address takes WebSockets only, and no handshake arrived; if one was sent, {hop}, the last hop before \
             this gateway, or one before it does not pass WebSockets on"
        );
    }
    "this address takes WebSockets only, and no handshake arrived; where WebSockets are blocked, use the events and taps \
     beside this address"
        .to_owned()
}

fn shown(headers: &HeaderMap, name: header::HeaderName) -> String {
    let Some(value) = headers.get(name) else {
        return "nothing".to_owned();
    };
    let text = String::from_utf8_lossy(value.as_bytes());
    format!(
        "{:?}",
        text.chars().take(SHOWN_CHARACTERS_MAX).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(version: Version, headers: &[(&'static str, &'static str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        broken_hop(version, &map, "10.1.2.3".parse().unwrap())
    }

    #[test]
    fn a_proxy_that_drops_the_handshake_is_named() {
        let dropped = hop(
            Version::HTTP_11,
            &[("sec-websocket-key", "x"), ("via", "1.1 cafe")],
        );
        assert!(
            dropped.contains("the proxy at 10.1.2.3 (Via: \"1.1 cafe\")"),
            "{dropped}"
        );
        assert!(dropped.contains("proxy_set_header Upgrade"), "{dropped}");
        let nginx = hop(Version::HTTP_10, &[]);
        assert!(
            nginx.contains("HTTP/1.0") && nginx.contains("10.1.2.3"),
            "{nginx}"
        );
        let forwarded = hop(Version::HTTP_11, &[("x-forwarded-for", "203.0.113.9")]);
        assert!(forwarded.contains("the proxy at 10.1.2.3"), "{forwarded}");
    }

    #[test]
    fn without_a_proxy_none_is_blamed() {
        assert!(!hop(Version::HTTP_11, &[]).contains("proxy"));
    }
}
