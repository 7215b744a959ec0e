//! The pages: they are built into the binary, filled in per language and room, and answered with what keeps them from
//! talking to any other host.
//!
//! `language` picks the visitor's language, `template` fills in a page, `assets` holds what the pages load. The router
//! asks here for whole responses, so that no other file knows about caching and compression.

mod language;
mod template;
mod assets;

use crate::app::App;
use crate::http::body::{Body, full};
use assets::Assets;
use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use language::Language;
use shared::protocol::RoomFrame;
use shared::room::RoomCode;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use template::{Kind, Templates};
use url::Url;

/// How many filled-in pages are remembered. A room needs one per kind and language, so this serves some hundred busy
/// rooms; beyond that the memory is dropped and built again, at a fraction of a millisecond a page.
const REMEMBERED_MAX: usize = 512;

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
    /// `/-/HASH/NAME`: the part after `/-/`.
    Asset(&'a str),
}

/// Which page of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum View {
    /// The audience page.
    Audience,
    /// The overlay.
    Stage,
    /// The host's console.
    Host,
}

/// Answers a GET. `headers` are the request's (language, encodings), `query` is its query (`lang`, `slides`). The caller
/// answers HEAD by leaving the body out, checks the method, and adds the security headers.
pub fn respond(
    app: &App,
    headers: &HeaderMap,
    query: Option<&str>,
    page: Page<'_>,
) -> Response<Body> {
    app.http.pages.respond(&Visitor { headers, query }, page)
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
struct Visitor<'a> {
    headers: &'a HeaderMap,
    query: Option<&'a str>,
}

impl Visitor<'_> {
    fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// One value of the query, percent-decoded.
    fn asked(&self, name: &str) -> Option<String> {
        url::form_urlencoded::parse(self.query?.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }

    fn language(&self) -> Language {
        Language::choose(
            self.asked("lang").as_deref(),
            self.header(header::ACCEPT_LANGUAGE),
        )
    }

    fn takes_gzip(&self) -> bool {
        self.header(header::ACCEPT_ENCODING)
            .is_some_and(|accepted| {
                accepted.split(',').any(|one| {
                    let mut parts = one.split(';').map(str::trim);
                    parts.next() == Some("gzip") && !parts.any(|weight| weight == "q=0")
                })
            })
    }
}

/// A page or an asset, ready to be sent.
#[derive(Debug, Clone)]
struct Ready {
    plain: Bytes,
    gzip: Bytes,
}

impl Ready {
    fn new(plain: Vec<u8>) -> Self {
        let gzip = assets::gzip(&plain).into();
        Ready {
            plain: plain.into(),
            gzip,
        }
    }

    fn response(&self, visitor: &Visitor<'_>, kind: &'static str) -> Response<Body> {
        let zipped = visitor.takes_gzip();
        let body = if zipped { &self.gzip } else { &self.plain };
        let mut response = Response::new(full(body.clone()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if zipped {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// Under what a filled-in page is remembered, beside the room that it shows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    view: View,
    language: Language,
    code: RoomCode,
}

/// All pages, ready to be asked.
#[derive(Debug)]
pub(crate) struct Pages {
    assets: Assets,
    templates: Templates,
    slides_hosts: Vec<String>,
    remembered: Mutex<HashMap<Key, (RoomFrame, Ready)>>,
}

impl Pages {
    /// Reads the built-in files. `public_url` is where phones find this system; `slides_hosts` are the hosts
    /// (`docs.example.org`, `localhost:3000`, `*.example.org`) that a stage may show beneath its emoji.
    pub(crate) fn new(public_url: &str, slides_hosts: &[String]) -> Self {
        let assets = Assets::new();
        Pages {
            templates: Templates::new(public_url, assets.base()),
            assets,
            slides_hosts: slides_hosts.to_vec(),
            remembered: Mutex::new(HashMap::new()),
        }
    }

    /// See [`respond`].
    fn respond(&self, visitor: &Visitor<'_>, page: Page<'_>) -> Response<Body> {
        let language = visitor.language();
        let ready = match page {
            Page::Asset(path) => return self.assets.respond(visitor, path),
            Page::Home => Ready::new(self.templates.plain(Kind::Start, language, "")),
            Page::New => Ready::new(self.templates.plain(Kind::New, language, "")),
            Page::Failed {
                status,
                typed,
                retry_after_seconds,
            } => {
                return self.failed(visitor, status, typed, retry_after_seconds);
            }
            Page::Room { view, code, room } => match visitor.asked("slides") {
                Some(wanted) if view == View::Stage => {
                    let slides = self.allowed_slides(&wanted);
                    let shown = slides.as_ref().map(Url::as_str).ok_or(wanted.as_str());
                    Ready::new(self.templates.room(view, language, code, room, Some(shown)))
                }
                _ => self.room_page(view, language, code, room),
            },
        };
        html(visitor, &ready, language)
    }

    /// The start page, with a sentence for the person who asked for something else.
    fn failed(
        &self,
        visitor: &Visitor<'_>,
        status: StatusCode,
        typed: &str,
        retry: Option<u64>,
    ) -> Response<Body> {
        let language = visitor.language();
        let text = match status {
            StatusCode::NOT_FOUND if typed.starts_with('/') => "start.lost",
            StatusCode::NOT_FOUND => "start.js.missing",
            StatusCode::TOO_MANY_REQUESTS => "start.js.slowly",
            _ => "start.busy",
        };
        // A code is short; what is longer was no code, and need not be repeated in full.
        let typed: String = typed.chars().take(24).collect();
        let notice = self
            .templates
            .text(language, text)
            .replace("{code}", &typed);
        let ready = Ready::new(self.templates.plain(Kind::Start, language, &notice));
        let mut response = html(visitor, &ready, language);
        *response.status_mut() = status;
        if let Some(seconds) = retry
            && status == StatusCode::SERVICE_UNAVAILABLE
        {
            response
                .headers_mut()
                .insert(header::REFRESH, seconds.max(1).into());
        }
        response
    }

    /// A room's page, from memory where nothing that it shows has changed: a hall that opens the page at once costs one
    /// rendering and one compression, not thousands.
    fn room_page(
        &self,
        view: View,
        language: Language,
        code: &RoomCode,
        room: &RoomFrame,
    ) -> Ready {
        let key = Key {
            view,
            language,
            code: code.clone(),
        };
        // Another thread that panicked while it held the lock has ended the process.
        let mut remembered = self
            .remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((shown, ready)) = remembered.get(&key)
            && shown.title == room.title
            && shown.palette == room.palette
            && shown.cooldown_ms == room.cooldown_ms
            && shown.state == room.state
        {
            return ready.clone();
        }
        let ready = Ready::new(self.templates.room(view, language, code, room, None));
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        let shown = RoomFrame {
            totals: BTreeMap::new(),
            ..room.clone()
        };
        remembered.insert(key, (shown, ready.clone()));
        ready
    }

    /// The page to show beneath the stage, if it is http(s) and a setting allows its host.
    fn allowed_slides(&self, wanted: &str) -> Option<Url> {
        let url = Url::parse(wanted)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let host = url.host_str()?;
        let with_port = url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let allowed = self
            .slides_hosts
            .iter()
            .any(|allowed| match allowed.strip_prefix('*') {
                Some(suffix) => {
                    suffix.starts_with('.')
                        && [host, &with_port].iter().any(|host| host.ends_with(suffix))
                }
                None => [host, &with_port].contains(&allowed.as_str()),
            });
        allowed.then_some(url)
    }
}

fn html(visitor: &Visitor<'_>, ready: &Ready, language: Language) -> Response<Body> {
    let mut response = ready.response(visitor, "text/html; charset=utf-8");
    let headers = response.headers_mut();
    // Not `no-store`: that would keep the page out of the back-forward cache.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        header::VARY,
        HeaderValue::from_static("Accept-Encoding, Accept-Language"),
    );
    headers.insert(
        header::CONTENT_LANGUAGE,
        HeaderValue::from_static(language.code()),
    );
    response
}

#[cfg(test)]
mod tests;
