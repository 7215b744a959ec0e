//! The pages: HTML with what each needs in it, and the assets that they load.

use crate::app::App;
use crate::http::body::{Body, full};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use shared::protocol::RoomFrame;
use shared::room::RoomCode;

/// What a browser asked for.
#[derive(Debug, Clone, Copy)]
pub enum Page<'a> {
    /// `/`: enter a code.
    Home,
    /// `/new`: make a room.
    New,
    /// `/CODE`, `/CODE/stage`, `/CODE/host` of a room that exists.
    Room {
        /// For whom.
        view: View,
        /// Its code, canonical.
        code: &'a RoomCode,
        /// The room and its totals, as a socket would send them.
        room: &'a RoomFrame,
    },
    /// Instead of one of those: no such room (404), too many guesses (429), or the store does not answer (503). The
    /// page says so to a person and, for 503, tries again by itself after `retry_after_seconds`.
    Failed {
        /// The status to answer with.
        status: StatusCode,
        /// What was in the code's place.
        typed: &'a str,
        /// When it makes sense to try again.
        retry_after_seconds: Option<u64>,
    },
    /// `/-/HASH/NAME`: the part after `/-/`. Whoever asks with another hash than today's gets 404.
    Asset(&'a str),
}

/// Which page of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The audience page.
    Audience,
    /// The overlay.
    Stage,
    /// The host's console.
    Host,
}

/// Answers a GET. `headers` are the request's (language, encodings, If-None-Match). The caller answers HEAD by leaving
/// the body out, checks the method, and adds the security headers: a `Content-Security-Policy` that the page set
/// itself stays (it knows the hashes of its inline parts); otherwise the one of [`super::security`] is set.
pub fn respond(_app: &App, _headers: &HeaderMap, page: Page<'_>) -> Response<Body> {
    let (status, text) = match page {
        Page::Failed { status, .. } => (status, "This page is not there yet."),
        Page::Asset(_) => (StatusCode::NOT_FOUND, "No such file."),
        _ => (StatusCode::OK, "This page is not there yet."),
    };
    let mut response = Response::new(full(text));
    *response.status_mut() = status;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}
