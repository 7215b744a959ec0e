//! Paths: what each names, and which methods it has.

use crate::http::pages::View;
use std::borrow::Cow;

/// What a path names. Codes are as they were typed, percent-decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    Home,
    New,
    RoomPage(Cow<'a, str>, View),
    Asset(&'a str),
    Rooms,
    Room(Cow<'a, str>),
    HostTokens(Cow<'a, str>),
    Qr(Cow<'a, str>),
    Events(Cow<'a, str>),
    Taps(Cow<'a, str>),
    Socket(Cow<'a, str>),
    OpenApi,
    Schema(&'a str),
}

impl<'a> Resource<'a> {
    /// None: nothing has this path.
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let first = segments.next()?;
        match first {
            "" => segments.next().is_none().then_some(Resource::Home),
            "-" => path.strip_prefix("/-/").map(Resource::Asset),
            "v1" => Self::parse_api(path.strip_prefix("/v1/")?),
            "new" => matches!(segments.next(), None | Some("")).then_some(Resource::New),
            code => {
                let view = match (segments.next(), segments.next(), segments.next()) {
                    (None | Some(""), None, None) => View::Audience,
                    (Some("stage"), None | Some(""), None) => View::Stage,
                    (Some("host"), None | Some(""), None) => View::Host,
                    _ => return None,
                };
                Some(Resource::RoomPage(decoded(code)?, view))
            }
        }
    }

    fn parse_api(rest: &'a str) -> Option<Self> {
        let mut segments = rest.split('/');
        let resource = match (segments.next()?, segments.next(), segments.next()) {
            ("openapi.json", None, None) => Resource::OpenApi,
            ("schemas", Some(file), None) => Resource::Schema(file.strip_suffix(".json")?),
            ("rooms", None, None) => Resource::Rooms,
            ("rooms", Some(code), None) => Resource::Room(decoded(code)?),
            ("rooms", Some(code), Some(part)) => {
                let code = decoded(code)?;
                match part {
                    "host-tokens" => Resource::HostTokens(code),
                    "qr.svg" => Resource::Qr(code),
                    "events" => Resource::Events(code),
                    "taps" => Resource::Taps(code),
                    "socket" => Resource::Socket(code),
                    _ => return None,
                }
            }
            _ => return None,
        };
        segments.next().is_none().then_some(resource)
    }

    /// The route, for metrics and the OpenAPI document.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Resource::Home => "/",
            Resource::New => "/new",
            Resource::RoomPage(_, View::Audience) => "/{code}",
            Resource::RoomPage(_, View::Stage) => "/{code}/stage",
            Resource::RoomPage(_, View::Host) => "/{code}/host",
            Resource::Asset(_) => "/-/{asset}",
            Resource::Rooms => "/v1/rooms",
            Resource::Room(_) => "/v1/rooms/{code}",
            Resource::HostTokens(_) => "/v1/rooms/{code}/host-tokens",
            Resource::Qr(_) => "/v1/rooms/{code}/qr.svg",
            Resource::Events(_) => "/v1/rooms/{code}/events",
            Resource::Taps(_) => "/v1/rooms/{code}/taps",
            Resource::Socket(_) => "/v1/rooms/{code}/socket",
            Resource::OpenApi => "/v1/openapi.json",
            Resource::Schema(_) => "/v1/schemas/{name}.json",
        }
    }

    /// The methods it has, as an `Allow` header.
    pub(crate) fn allow(&self) -> &'static str {
        match self {
            Resource::Rooms | Resource::HostTokens(_) | Resource::Taps(_) => "POST, OPTIONS",
            Resource::Room(_) => "GET, HEAD, PATCH, OPTIONS",
            Resource::Events(_) | Resource::Socket(_) => "GET, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }

    /// Whether it has a method.
    pub(crate) fn has(&self, method: &str) -> bool {
        self.allow().split(", ").any(|allowed| allowed == method)
    }

    /// Whether a GET of it lets a page take part in a room, and not only read what everybody may.
    pub(crate) fn takes_part(&self) -> bool {
        matches!(self, Resource::Events(_) | Resource::Socket(_))
    }

    /// Whether it is for people, who are answered by a page when something is wrong.
    pub(crate) fn is_page(&self) -> bool {
        matches!(
            self,
            Resource::Home | Resource::New | Resource::RoomPage(..)
        )
    }
}

/// A path segment without its percent signs; none where they are wrong or hide no text.
fn decoded(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = rest else {
            return None;
        };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_the_guide_has_its_resource() {
        for (path, name) in [
            ("/", "/"),
            ("/new", "/new"),
            ("/new/", "/new"),
            ("/party-7", "/{code}"),
            ("/PARTY7/", "/{code}"),
            ("/PARTY7/stage", "/{code}/stage"),
            ("/PARTY7/host/", "/{code}/host"),
            ("/-/0badcafe/phone.js", "/-/{asset}"),
            ("/v1/rooms", "/v1/rooms"),
            ("/v1/rooms/PARTY7", "/v1/rooms/{code}"),
            (
                "/v1/rooms/PARTY7/host-tokens",
                "/v1/rooms/{code}/host-tokens",
            ),
            ("/v1/rooms/PARTY7/qr.svg", "/v1/rooms/{code}/qr.svg"),
            ("/v1/rooms/PARTY7/events", "/v1/rooms/{code}/events"),
            ("/v1/rooms/PARTY7/taps", "/v1/rooms/{code}/taps"),
            ("/v1/rooms/PARTY7/socket", "/v1/rooms/{code}/socket"),
            ("/v1/openapi.json", "/v1/openapi.json"),
            ("/v1/schemas/client.json", "/v1/schemas/{name}.json"),
        ] {
            assert_eq!(
                Resource::parse(path).map(|resource| resource.name()),
                Some(name),
                "{path}"
            );
        }
    }

    #[test]
    fn other_paths_have_none() {
        for path in [
            "",
            "*",
            "//",
            "/PARTY7/admin",
            "/PARTY7/stage/x",
            "/PARTY7/stage//",
            "/new/x",
            "/-",
            "/v1",
            "/v1/",
            "/v1/rooms/PARTY7/",
            "/v1/rooms/PARTY7/taps/1",
            "/v1/rooms/PARTY7/Taps",
            "/v1/schemas/client",
            "/v2/rooms",
            "/%zz",
            "/%",
            "/%ff",
        ] {
            assert_eq!(Resource::parse(path), None, "{path}");
        }
    }

    #[test]
    fn codes_are_decoded() {
        let Some(Resource::RoomPage(code, View::Audience)) = Resource::parse("/party%207%2D")
        else {
            panic!("a code with a space in it is a room's page");
        };
        assert_eq!(code, "party 7-");
    }
}
