//! What the pages load: modules, styles and the icon, compressed once at start.
//!
//! They live under `/-/HASH/`, where HASH is taken from all of their contents, so browsers may keep them for ever.

use super::{Ready, Visitor};
use crate::http::body::{Body, full};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::Write;

/// Embeds files of `gateway/web` under their paths there.
macro_rules! embed {
    ($($path:literal),+ $(,)?) => {
        [$(($path, include_str!(concat!("../../../web/", $path)))),+]
    };
}

/// Every file that a browser may load. A test compares this list with the folders.
pub(super) const FILES: [(&str, &str); 25] = embed!(
    "icon.svg",
    "style/audience.css",
    "style/base.css",
    "style/console.css",
    "style/stage.css",
    "js/age.js",
    "js/api.js",
    "js/audience.js",
    "js/backoff.js",
    "js/chart.js",
    "js/connection.js",
    "js/editor.js",
    "js/events.js",
    "js/floats.js",
    "js/host.js",
    "js/ids.js",
    "js/new.js",
    "js/page.js",
    "js/particles.js",
    "js/presses.js",
    "js/share.js",
    "js/stage.js",
    "js/start.js",
    "js/taps.js",
    "js/transports.js",
);

/// The files, ready to be sent.
#[derive(Debug)]
pub(super) struct Assets {
    base: String,
    files: HashMap<&'static str, (&'static str, Ready)>,
}

impl Assets {
    /// Compresses every file.
    pub(super) fn new() -> Self {
        let mut hasher = DefaultHasher::new();
        let mut files = HashMap::new();
        for (path, text) in FILES {
            hasher.write(path.as_bytes());
            hasher.write(text.as_bytes());
            files.insert(
                path,
                (kind(path), Ready::new(lean(path, text).into_bytes())),
            );
        }
        Assets {
            base: format!("/-/{:016x}", hasher.finish()),
            files,
        }
    }

    /// Where the files are found: `/-/HASH`.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Answers `HASH/NAME`. While a new version is rolled out, a page of one gateway may ask another for its files: a hash
    /// that is not ours gets our file of that name, but nobody may keep it.
    pub(super) fn respond(&self, visitor: &Visitor<'_>, path: &str) -> Response<Body> {
        let found = path
            .split_once('/')
            .and_then(|(hash, name)| Some((hash, self.files.get(name)?)));
        let Some((hash, (kind, ready))) = found else {
            let mut response = Response::new(full("There is no such file."));
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        };
        let mut response = ready.response(visitor, kind);
        let ours = self.base.strip_prefix("/-/") == Some(hash);
        let caching = if ours {
            "public, max-age=31536000, immutable"
        } else {
            "no-store"
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        response
    }
}

/// A module or a style without the lines that only speak to developers: comments (which take lines of their own here)
/// and indentation are a third of what a phone would load. Lines stay lines, so nothing else can change its meaning;
/// the only texts that span lines, template literals, have none in these files (a test looks).
pub(super) fn lean(path: &str, text: &str) -> String {
    if path.ends_with(".svg") {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut in_comment = false;
    for line in text.lines().map(str::trim) {
        let opens = line.starts_with("/*") && (path.ends_with(".css") || line.starts_with("/**"));
        // A type cast, `/** @type {X} */ (value)`, is code; a comment's line ends with it.
        let whole = opens && line.ends_with("*/");
        let skip = in_comment
            || whole
            || (opens && !line.contains("*/"))
            || line.starts_with("//")
            || line.is_empty();
        in_comment = (in_comment || opens) && !line.contains("*/");
        if !skip {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    }
}

/// Compresses as well as gzip can: assets are compressed once, room pages once per version.
pub(super) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder
        .write_all(plain)
        .and_then(|()| encoder.finish())
        .expect("writing to memory does not fail")
}
