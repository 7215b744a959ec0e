//! Headers that every response carries, so that a browser takes it for no more than it is.

use crate::settings::Settings;
use hyper::header::{self, HeaderMap, HeaderValue};
use std::fmt::Write;

/// For everything that is no page: nothing of it runs, loads or is framed.
const DATA_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// Adds the headers. A `Content-Security-Policy` that is there already stays.
pub(crate) fn secure(settings: &Settings, request: &HeaderMap, response: &mut HeaderMap) {
    response.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    if !response.contains_key(header::CONTENT_SECURITY_POLICY) {
        let policy = if is_page(response) {
            page_policy(settings, request)
        } else {
            HeaderValue::from_static(DATA_POLICY)
        };
        response.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
}

/// What a page may do: load its own files and talk to its own gateway. A stage may frame slides of the hosts in the
/// settings; pages of allowed origins may frame ours.
pub fn page_policy(settings: &Settings, request: &HeaderMap) -> HeaderValue {
    let mut policy = String::from(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
         manifest-src 'self'; base-uri 'none'; form-action 'self'; connect-src 'self'",
    );
    // Safari before 15.4 does not count a WebSocket to the same host as 'self'.
    if let Some(host) = request
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        && is_host(host)
    {
        let _ = write!(policy, " ws://{host} wss://{host}");
    }
    policy.push_str("; frame-src");
    let mut hosts = settings
        .slides_hosts
        .iter()
        .filter(|host| is_host(host))
        .peekable();
    if hosts.peek().is_none() {
        policy.push_str(" 'none'");
    }
    for host in hosts {
        let _ = write!(policy, " {host}");
    }
    policy.push_str("; frame-ancestors 'self'");
    for origin in settings.origins.allowed() {
        let _ = write!(policy, " {origin}");
    }
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static(DATA_POLICY))
}

fn is_page(response: &HeaderMap) -> bool {
    let kind = response
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/html"))
}

/// A host, perhaps with a port or a `*.` before it, and nothing that would end a source or a directive of a policy.
fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]*".contains(&byte);
    !text.is_empty() && text.len() <= 255 && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_a_policy() {
        for host in [
            "slides.example",
            "*.slides.example",
            "10.0.0.7:8080",
            "[::1]:8080",
        ] {
            assert!(is_host(host), "{host}");
        }
        for text in [
            "",
            "a b",
            "a;script-src *",
            "a,b",
            "'unsafe-inline'",
            "https://a/",
            "é.example",
        ] {
            assert!(!is_host(text), "{text}");
        }
    }
}
