//! Which sites' pages may talk to this gateway.
//!
//! Nothing here is protected by cookies, so a foreign page could do no more than its visitor could without it; but it
//! could make visitors' browsers tap. Programs that are no browsers send no `Origin` and are let in.

use hyper::header::{self, HeaderMap, HeaderValue};

/// What a page of another site may send along.
const ALLOWED_HEADERS: &str = "authorization, content-type, last-event-id";

/// How long a browser may remember the answer to a preflight request, in seconds: an hour, since the setting
/// changes with a restart only.
const PREFLIGHT_MAX_AGE_SECONDS: &str = "3600";

/// The origins that are allowed, and what is the same site.
#[derive(Debug, Clone)]
pub struct Origins {
    public: String,
    allowed: Vec<String>,
    any: bool,
}

/// How a request's origin relates to ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// No page sent it, or a page of ours.
    Same,
    /// A page of an allowed site.
    Allowed,
    /// Some other site.
    Foreign,
}

impl Origins {
    /// `public_url` is where phones reach the gateway.
    pub fn new(public_url: &str) -> Self {
        let public = normal(public_url).unwrap_or_default();
        Origins {
            public,
            allowed: Vec::new(),
            any: false,
        }
    }

    /// Adds an origin such as `https://slides.example`, or `*` for any. False: it is neither.
    #[must_use]
    pub fn allow(&mut self, text: &str) -> bool {
        self.any |= text.trim() == "*";
        let origin = normal(text);
        let fits = text.trim() == "*" || origin.is_some();
        self.allowed.extend(origin);
        fits
    }

    /// The origins that are allowed besides our own, as browsers write them; `*` where any is.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = &str> {
        let any = self.any.then_some("*");
        any.into_iter()
            .chain(self.allowed.iter().map(String::as_str))
    }

    /// Compares a request's `Origin` with ours.
    pub fn relation(&self, headers: &HeaderMap) -> Relation {
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Relation::Same;
        };
        let Some(origin) = origin.to_str().ok().and_then(normal) else {
            // Also "null", which sandboxed frames and local files send.
            return if self.any {
                Relation::Allowed
            } else {
                Relation::Foreign
            };
        };
        if origin == self.public || is_host(&origin, headers) {
            return Relation::Same;
        }
        if self.any || self.allowed.contains(&origin) {
            return Relation::Allowed;
        }
        Relation::Foreign
    }

    /// Lets a page of an allowed site read the answer to its request.
    pub fn allow_reading(&self, request: &HeaderMap, response: &mut HeaderMap) {
        // Said even when there is no Origin: a cache must not hand one site's answer to another.
        response.append(header::VARY, HeaderValue::from_static("origin"));
        if self.relation(request) == Relation::Allowed
            && let Some(origin) = request.get(header::ORIGIN)
        {
            response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            response.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("retry-after, location"),
            );
        }
    }

    /// What a browser asks before it sends more than a form could.
    pub fn allow_sending(
        &self,
        request: &HeaderMap,
        methods: &'static str,
        response: &mut HeaderMap,
    ) {
        if self.relation(request) == Relation::Foreign {
            return;
        }
        let mut insert = |name, text| response.insert(name, HeaderValue::from_static(text));
        insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
        insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_MAX_AGE_SECONDS);
    }
}

/// Scheme, host and port of a URL, as browsers write an origin.
fn normal(text: &str) -> Option<String> {
    let url = url::Url::parse(text.trim()).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    is_web.then(|| url.origin().ascii_serialization())
}

/// Whether an origin is the host that was asked: a page reached by another name than `public_url`, such as a LAN
/// address. The scheme is left aside, as TLS may have ended before us.
fn is_host(origin: &str, headers: &HeaderMap) -> bool {
    let Some((scheme, rest)) = origin.split_once("://") else {
        return false;
    };
    let Some(host) = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
    else {
        return false;
    };
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(default_port).unwrap_or(host);
    rest.eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(allowed: &[&str], origin: Option<&str>, host: &str) -> Relation {
        let mut origins = Origins::new("https://uproar.example/");
        assert!(allowed.iter().all(|text| origins.allow(text)));
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        origins.relation(&headers)
    }

    #[test]
    fn our_own_pages_and_programs_are_the_same_site() {
        for origin in [
            None,
            Some("https://uproar.example"),
            Some("https://uproar.example:443"),
        ] {
            assert_eq!(
                relation(&[], origin, "10.0.0.1:8080"),
                Relation::Same,
                "{origin:?}"
            );
        }
        assert_eq!(
            relation(&[], Some("http://10.0.0.1:8080"), "10.0.0.1:8080"),
            Relation::Same
        );
        assert_eq!(
            relation(&[], Some("http://uproar.lan"), "UPROAR.lan:80"),
            Relation::Same
        );
        assert_eq!(
            relation(&[], Some("http://[::1]:8080"), "[::1]:8080"),
            Relation::Same
        );
    }

    #[test]
    fn other_sites_are_foreign_unless_listed() {
        let host = "uproar.example";
        for origin in [
            "https://evil.example",
            "http://uproar.example:8080",
            "https://uproar.example.evil.example",
            "null",
            "garbage",
        ] {
            assert_eq!(
                relation(&[], Some(origin), host),
                Relation::Foreign,
                "{origin}"
            );
        }
        let listed = ["https://Slides.example/"];
        assert_eq!(
            relation(&listed, Some("https://slides.example"), host),
            Relation::Allowed
        );
        assert_eq!(
            relation(&listed, Some("http://slides.example"), host),
            Relation::Foreign
        );
        assert_eq!(relation(&["*"], Some("null"), host), Relation::Allowed);
    }

    #[test]
    fn the_setting_is_checked() {
        for wrong in ["", "slides.example", "ftp://slides.example", "**"] {
            assert!(
                !Origins::new("https://uproar.example").allow(wrong),
                "{wrong}"
            );
        }
    }
}
