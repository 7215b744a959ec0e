//! What a client sends, and how it is read: on the hot path, so a tap is read in one pass and without an allocation.

use crate::room::ReactionKey;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// Who joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Audience.
    Phone,
    /// The overlay on the slides.
    Stage,
    /// Runs the room.
    Host,
}

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientFrame {
    /// The first frame.
    Join(Join),
    /// One tap.
    Tap(TapFrame),
    /// Answered with a pong.
    Ping,
    /// Unknown: ignored.
    Unknown,
}

/// The first frame. Its ids are random bits, so a page can make them without any secure-context API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Join {
    /// 128 random bits in hex, stored in the browser.
    #[serde(deserialize_with = "client_text")]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{32}$"))]
    pub client: String,
    /// 32 random bits in hex, new at each load of the page.
    #[serde(deserialize_with = "page_text")]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{8}$"))]
    pub page: String,
    /// Who joins.
    pub role: Role,
    /// A host token, for hosts.
    #[serde(default)]
    pub token: Option<String>,
}

/// A tap, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TapFrame {
    /// The reaction's key (checked for form only).
    #[schemars(with = "String", regex(pattern = "^[a-z0-9_-]{1,24}$"))]
    pub key: ReactionKey,
    /// From 1, growing by one per page. A 0 can be read, to be refused as `seq`.
    #[schemars(range(min = 1))]
    pub seq: u32,
    /// How long ago it was first sent, in milliseconds.
    #[serde(default)]
    pub age_ms: u64,
}

/// A client id from its 32 hex digits, in either case.
pub fn client_id(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !is_hex(text) {
        return None;
    }
    Some(u128::from_str_radix(text, 16).ok()?.to_be_bytes())
}

/// A page id from its 8 hex digits, in either case.
pub fn page_id(text: &str) -> Option<u32> {
    if text.len() != 8 || !is_hex(text) {
        return None;
    }
    u32::from_str_radix(text, 16).ok()
}

/// The standard library's parser would take a sign.
fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn client_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    client_id(&text).ok_or_else(|| de::Error::custom("a client id has 32 hex digits"))?;
    Ok(text.to_ascii_lowercase())
}

fn page_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    page_id(&text).ok_or_else(|| de::Error::custom("a page id has 8 hex digits"))?;
    Ok(text.to_ascii_lowercase())
}

/// Why a frame is refused and the connection closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not JSON, or not an object with one key.
    #[error("not a frame: {0}")]
    NotAFrame(String),
    /// A known frame of a wrong shape.
    #[error("a {frame} frame of the wrong shape: {reason}")]
    Shape {
        /// Which frame.
        frame: &'static str,
        /// What is wrong.
        reason: String,
    },
}

impl ClientFrame {
    /// Reads one text frame. Unknown keys inside a known frame are ignored, and so is the content of an unknown one.
    ///
    /// # Errors
    /// See [`FrameError`].
    pub fn parse(text: &[u8]) -> Result<ClientFrame, FrameError> {
        if let Some(tap) = plain_tap(text) {
            return Ok(ClientFrame::Tap(tap));
        }
        ClientFrame::parse_any(text)
    }

    fn parse_any(text: &[u8]) -> Result<ClientFrame, FrameError> {
        let mut name = None;
        let mut json = serde_json::Deserializer::from_slice(text);
        let frame = FrameSeed { name: &mut name }.deserialize(&mut json);
        match frame.and_then(|frame| json.end().map(|()| frame)) {
            Ok(frame) => Ok(frame),
            Err(error) => Err(match name {
                Some(frame) if error.is_data() => FrameError::Shape {
                    frame,
                    reason: error.to_string(),
                },
                _ => FrameError::NotAFrame(error.to_string()),
            }),
        }
    }
}

/// A tap as pages write it, `{"tap":{"key":"clap","seq":17,"age_ms":0}}` with or without the age: nearly all that a
/// gateway reads, and read by a few comparisons. None for all else, right or wrong.
fn plain_tap(text: &[u8]) -> Option<TapFrame> {
    let rest = text.strip_prefix(br#"{"tap":{"key":""#)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    let (key, rest) = rest.split_at(end);
    let key = ReactionKey::from_ascii(key)?;
    let (seq, rest) = plain_number(rest.strip_prefix(br#"","seq":"#)?)?;
    let (age_ms, rest) = match rest.strip_prefix(br#","age_ms":"#) {
        Some(rest) => plain_number(rest)?,
        None => (0, rest),
    };
    (rest == b"}}").then_some(TapFrame {
        key,
        seq: u32::try_from(seq).ok()?,
        age_ms,
    })
}

/// A whole number as JSON has it, and what follows.
fn plain_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    Some((number, rest))
}

/// Reads a frame, and notes which one it is in, so that an error can say it.
struct FrameSeed<'a> {
    name: &'a mut Option<&'static str>,
}

impl<'de> DeserializeSeed<'de> for FrameSeed<'_> {
    type Value = ClientFrame;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ClientFrame, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FrameSeed<'_> {
    type Value = ClientFrame;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one key that names the frame")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ClientFrame, A::Error> {
        let Some(name) = map.next_key::<FrameName>()? else {
            return Err(de::Error::custom(
                "an object with no key; one key names the frame",
            ));
        };
        let frame = match name {
            FrameName::Tap => {
                *self.name = Some("tap");
                ClientFrame::Tap(map.next_value::<Object<TapFrame>>()?.0)
            }
            FrameName::Join => {
                *self.name = Some("join");
                ClientFrame::Join(map.next_value::<Object<Join>>()?.0)
            }
            FrameName::Ping => {
                map.next_value::<IgnoredAny>()?;
                ClientFrame::Ping
            }
            FrameName::Unknown => {
                map.next_value::<IgnoredAny>()?;
                ClientFrame::Unknown
            }
        };
        *self.name = None;
        if map.next_key::<IgnoredAny>()?.is_some() {
            return Err(de::Error::custom(
                "an object with more than one key; one key names the frame",
            ));
        }
        Ok(frame)
    }
}

/// A value that is written as an object: what serde derives would take an array of the fields, too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum FrameName {
    Tap,
    Join,
    Ping,
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLIENT: &str = "00112233445566778899aabbccddeeff";

    fn tap(key: &str, seq: u32, age_ms: u64) -> ClientFrame {
        ClientFrame::Tap(TapFrame {
            key: key.parse().unwrap(),
            seq,
            age_ms,
        })
    }

    fn parse(text: &str) -> Result<ClientFrame, FrameError> {
        ClientFrame::parse(text.as_bytes())
    }

    #[test]
    fn the_frames_of_the_protocol_page() {
        let join = format!(
            r#"{{"join":{{"client":"{CLIENT}","page":"0badcafe","role":"phone","token":null}}}}"#
        );
        assert_eq!(
            parse(&join),
            Ok(ClientFrame::Join(Join {
                client: CLIENT.into(),
                page: "0badcafe".into(),
                role: Role::Phone,
                token: None
            }))
        );
        assert_eq!(
            parse(r#"{"tap":{"key":"clap","seq":17,"age_ms":0}}"#),
            Ok(tap("clap", 17, 0))
        );
        assert_eq!(
            parse(r#"{"tap":{"key":"clap","seq":17}}"#),
            Ok(tap("clap", 17, 0))
        );
        assert_eq!(parse(r#"{"ping":1}"#), Ok(ClientFrame::Ping));
    }

    #[test]
    fn what_is_unknown_is_ignored() {
        assert_eq!(
            parse(r#"{"wave":{"to":["everybody"]}}"#),
            Ok(ClientFrame::Unknown)
        );
        assert_eq!(parse(r#"{"Tap":{}}"#), Ok(ClientFrame::Unknown));
        let more = r#" { "tap" : {"colour":{"r":[1]},"seq":1,"key":"clap","age_ms":9} } "#;
        assert_eq!(parse(more), Ok(tap("clap", 1, 9)));
        assert_eq!(
            parse(r#"{"t\u0061p":{"key":"cl\u0061p","seq":1}}"#),
            Ok(tap("clap", 1, 0))
        );
    }

    #[test]
    fn a_join_is_read_strictly() {
        let join = |client: &str, page: &str, rest: &str| {
            parse(&format!(
                r#"{{"join":{{"client":"{client}","page":"{page}",{rest}}}}}"#
            ))
        };
        let role = r#""role":"stage""#;
        let Ok(ClientFrame::Join(read)) = join(&CLIENT.to_uppercase(), "0BADCAFE", role) else {
            panic!("upper case is hex too");
        };
        assert_eq!(
            (read.client.as_str(), read.page.as_str()),
            (CLIENT, "0badcafe"),
            "one form of one id"
        );
        for (client, page, rest) in [
            (&CLIENT[1..], "0badcafe", role),
            ("g0112233445566778899aabbccddeeff", "0badcafe", role),
            ("+0112233445566778899aabbccddeeff", "0badcafe", role),
            (CLIENT, "+badcafe", role),
            (CLIENT, "badcafe", role),
            (CLIENT, "0badcafe0", role),
            (CLIENT, "0badcafe", r#""role":"king""#),
            (CLIENT, "0badcafe", r#""token":null"#),
            (CLIENT, "0badcafe", r#""role":"host","token":7"#),
        ] {
            let error = join(client, page, rest).unwrap_err();
            assert!(
                matches!(error, FrameError::Shape { frame: "join", .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn a_tap_is_read_strictly() {
        for inside in [
            r#""seq":1"#,
            r#""key":"clap""#,
            r#""key":"Clap","seq":1"#,
            r#""key":"","seq":1"#,
            r#""key":7,"seq":1"#,
            r#""key":"clap","seq":-1"#,
            r#""key":"clap","seq":1.5"#,
            r#""key":"clap","seq":"1""#,
            r#""key":"clap","seq":4294967296"#,
            r#""key":"clap","seq":null"#,
            r#""key":"clap","seq":1,"age_ms":-5"#,
            r#""key":"clap","seq":1,"age_ms":null"#,
            r#""key":"clap","seq":1,"seq":2"#,
        ] {
            let error = parse(&format!(r#"{{"tap":{{{inside}}}}}"#)).unwrap_err();
            assert!(
                matches!(error, FrameError::Shape { frame: "tap", .. }),
                "{inside}: {error}"
            );
        }
        for wrong in [
            r#"{"tap":null}"#,
            r#"{"tap":[]}"#,
            r#"{"tap":["clap",1,0]}"#,
            r#"{"tap":"clap"}"#,
            r#"{"tap":17}"#,
        ] {
            assert!(
                matches!(parse(wrong), Err(FrameError::Shape { frame: "tap", .. })),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_is_no_frame() {
        for text in [
            "",
            " ",
            "hello",
            "null",
            "1",
            "\"tap\"",
            "[]",
            "{}",
            "{",
            r#"{"tap""#,
            r#"{"tap":{"key":"clap""#,
            r#"{"ping":1,"tap":{"key":"clap","seq":1}}"#,
            r#"{"ping":1} {"ping":1}"#,
            r#"{"ping":1}x"#,
            "{1:2}",
            r#"{"tap":{"key":"clap","seq":1},"ping":1}"#,
        ] {
            assert!(
                matches!(parse(text), Err(FrameError::NotAFrame(_))),
                "{text:?}: {:?}",
                parse(text)
            );
        }
        assert!(matches!(
            ClientFrame::parse(b"{\"\xFF\":1}"),
            Err(FrameError::NotAFrame(_))
        ));
        // The parser of JSON bounds its own depth.
        let deep = format!("{{\"x\":{}", "[".repeat(100_000));
        assert!(matches!(parse(&deep), Err(FrameError::NotAFrame(_))));
    }

    #[test]
    fn a_tap_as_pages_write_it_takes_the_short_way() {
        let read = |text: &str| plain_tap(text.as_bytes()).map(ClientFrame::Tap);
        assert_eq!(
            read(r#"{"tap":{"key":"clap","seq":17,"age_ms":340}}"#),
            Some(tap("clap", 17, 340))
        );
        assert_eq!(
            read(r#"{"tap":{"key":"big-ovation","seq":4294967295}}"#),
            Some(tap("big-ovation", u32::MAX, 0))
        );
        for other in [
            r#"{"tap":{"key":"clap","seq":017}}"#,
            r#"{"tap":{"key":"clap","seq":4294967296}}"#,
            r#"{"tap":{"key":"clap","seq":1,"age_ms":18446744073709551616}}"#,
            r#"{"tap":{"key":"clap","seq":1}} "#,
            r#"{"tap":{"key":"clap","seq":}}"#,
            r#"{"tap":{"key":"Clap","seq":1}}"#,
            r#"{"tap":{"key":"","seq":1}}"#,
            r#"{"tap":{"key":"clap","seq":1,"age_ms":1,"more":1}}"#,
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    proptest! {
        /// Whatever a tap's text is changed to, the short way says what the parser says, or nothing.
        #[test]
        fn the_short_way_says_what_the_parser_says(
            key in "[a-z0-9_-]{1,24}",
            seq in any::<u32>(),
            age_ms in proptest::option::of(any::<u64>()),
            changes in proptest::collection::vec((any::<u16>(), "[0-9a-z{}\",:.+-]{0,2}"), 0..3),
        ) {
            let age = age_ms.map_or(String::new(), |age| format!(r#","age_ms":{age}"#));
            let mut text = format!(r#"{{"tap":{{"key":"{key}","seq":{seq}{age}}}}}"#);
            prop_assert!(plain_tap(text.as_bytes()).is_some());
            for (place, with) in &changes {
                let place = usize::from(*place) % text.len();
                text.replace_range(place..=place, with);
            }
            if let Some(tap) = plain_tap(text.as_bytes()) {
                let parsed = ClientFrame::parse_any(text.as_bytes());
                prop_assert_eq!(parsed, Ok(ClientFrame::Tap(tap)), "{}", text);
            }
        }
    }

    #[test]
    fn ids_become_numbers() {
        assert_eq!(client_id(CLIENT).unwrap()[..3], [0x00, 0x11, 0x22]);
        assert_eq!(page_id("0badcafe"), Some(0x0bad_cafe));
        assert_eq!((client_id("ü"), page_id("-badcafe")), (None, None));
    }
}
