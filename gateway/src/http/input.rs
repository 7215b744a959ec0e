//! Bodies of the rooms API: from JSON to checked values, with everything that is wrong named at its place.
//!
//! Read by hand from a JSON value and not through derived deserialisation: that would stop at the first mistake, and
//! its message would name a line and a column instead of a field. Unknown fields are refused, since a misspelt
//! `cooldown` would otherwise be left out in silence.

use crate::fallback::TAPS_PER_REQUEST_MAX;
use crate::http::error::{ApiError, FieldError};
use serde::Deserialize;
use serde_json::{Map, Value};
use shared::protocol::TapFrame;
use shared::room::{
    COOLDOWN_MS, Palette, PaletteDraft, PaletteError, REACTIONS_MAX, RoomCode, RoomState,
    check_cooldown, check_title,
};

/// What makes a room.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CreateRoom {
    pub(crate) title: String,
    pub(crate) code: Option<RoomCode>,
    pub(crate) palette: Option<Palette>,
    pub(crate) cooldown_ms: Option<u32>,
}

/// What changes a room; a field that is missing stays as it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PatchRoom {
    pub(crate) title: Option<String>,
    pub(crate) palette: Option<Palette>,
    pub(crate) cooldown_ms: Option<u32>,
    pub(crate) state: Option<RoomState>,
    /// The version that the change was made for.
    pub(crate) version: Option<u64>,
}

impl CreateRoom {
    /// Reads and checks.
    ///
    /// # Errors
    /// [`ApiError::Fields`] with all that is wrong.
    pub(crate) fn read(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::new(body, &["title", "code", "palette", "cooldown_ms"])?;
        let title = fields.require("title", "1 to 120 characters", |value, at| {
            one(title(value), at)
        });
        let code = fields.take("code", code);
        let palette = fields.take_many("palette", palette);
        let cooldown_ms = fields.take("cooldown_ms", cooldown_ms);
        fields.finish(CreateRoom {
            title: title.unwrap_or_default(),
            code,
            palette,
            cooldown_ms,
        })
    }
}

impl PatchRoom {
    /// Reads and checks.
    ///
    /// # Errors
    /// [`ApiError::Fields`] with all that is wrong.
    pub(crate) fn read(body: Value) -> Result<Self, ApiError> {
        let known = ["title", "palette", "cooldown_ms", "state", "version"];
        let mut fields = Fields::new(body, &known)?;
        let patch = PatchRoom {
            title: fields.take("title", title),
            palette: fields.take_many("palette", palette),
            cooldown_ms: fields.take("cooldown_ms", cooldown_ms),
            state: fields.take("state", state),
            version: fields.take("version", version),
        };
        fields.finish(patch)
    }
}

/// Taps by the fallback. The ids are checked for their form where they are hashed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PostTaps {
    pub(crate) client: String,
    pub(crate) page: String,
    /// The last time that the client was told.
    pub(crate) time: Option<u64>,
    pub(crate) taps: Vec<TapFrame>,
}

impl PostTaps {
    /// Reads and checks.
    ///
    /// # Errors
    /// [`ApiError::Fields`] with all that is wrong.
    pub(crate) fn read(body: Value) -> Result<Self, ApiError> {
        let mut fields = Fields::new(body, &["client", "page", "time", "taps"])?;
        let id = |value: &Value| text(value).map(str::to_owned);
        let client = fields.require("client", "32 hex digits", |value, at| one(id(value), at));
        let page = fields.require("page", "8 hex digits", |value, at| one(id(value), at));
        let time = fields.take("time", time);
        let taps = fields.require("taps", "an array of taps", taps);
        fields.finish(PostTaps {
            client: client.unwrap_or_default(),
            page: page.unwrap_or_default(),
            time,
            taps: taps.unwrap_or_default(),
        })
    }
}

/// The fields of an object that are not read yet, and what was wrong so far.
struct Fields {
    object: Map<String, Value>,
    errors: Vec<FieldError>,
}

impl Fields {
    fn new(body: Value, known: &[&'static str]) -> Result<Self, ApiError> {
        let Value::Object(object) = body else {
            let detail = format!("must be an object, not {}", kind(&body));
            return Err(ApiError::Fields(vec![FieldError::new("", detail)]));
        };
        let mut errors = Vec::new();
        for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
            let detail = format!("is no field of this body; it has {}", known.join(", "));
            errors.push(FieldError::new(format!("/{}", escape(name)), detail));
        }
        Ok(Fields { object, errors })
    }

    /// A field with one thing that can be wrong about it. `null` is the same as leaving it out.
    fn take<T>(&mut self, name: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        self.take_many(name, |value, at| one(read(value), at))
    }

    /// A field with several things that can be wrong in it; `read` is given the field's pointer.
    fn take_many<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value, &str) -> Result<T, Vec<FieldError>>,
    ) -> Option<T> {
        let value = self.object.remove(name).filter(|value| !value.is_null())?;
        match read(&value, &format!("/{name}")) {
            Ok(value) => Some(value),
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }

    /// As [`Fields::take_many`], for a field that must be there.
    fn require<T>(
        &mut self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&Value, &str) -> Result<T, Vec<FieldError>>,
    ) -> Option<T> {
        if self.object.get(name).is_none_or(Value::is_null) {
            let detail = format!("is missing: {wanted}");
            self.errors
                .push(FieldError::new(format!("/{name}"), detail));
        }
        self.take_many(name, read)
    }

    fn finish<T>(self, value: T) -> Result<T, ApiError> {
        if self.errors.is_empty() {
            Ok(value)
        } else {
            Err(ApiError::Fields(self.errors))
        }
    }
}

fn title(value: &Value) -> Result<String, String> {
    check_title(text(value)?).map_err(|error| error.to_string())
}

fn code(value: &Value) -> Result<RoomCode, String> {
    text(value)?
        .parse()
        .map_err(|error: shared::room::RoomCodeError| error.to_string())
}

fn cooldown_ms(value: &Value) -> Result<u32, String> {
    let number = value.as_u64().ok_or_else(|| {
        let (least, most) = (COOLDOWN_MS.start(), COOLDOWN_MS.end());
        format!(
            "must be a whole number of milliseconds from {least} to {most}, not {}",
            show(value)
        )
    })?;
    check_cooldown(number).map_err(|error| error.to_string())
}

fn state(value: &Value) -> Result<RoomState, String> {
    match value.as_str() {
        Some("open") => Ok(RoomState::Open),
        Some("paused") => Ok(RoomState::Paused),
        Some("closed") => Ok(RoomState::Closed),
        _ => Err(format!(
            r#"must be "open", "paused" or "closed", not {}"#,
            show(value)
        )),
    }
}

fn version(value: &Value) -> Result<u64, String> {
    value.as_u64().filter(|number| *number > 0).ok_or_else(|| {
        format!(
            "must be the version of the room as it was read, not {}",
            show(value)
        )
    })
}

fn time(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| {
        format!(
            "must be the last time that the event stream told, in milliseconds, not {}",
            show(value)
        )
    })
}

fn palette(value: &Value, at: &str) -> Result<Palette, Vec<FieldError>> {
    let Value::Array(items) = value else {
        let detail = format!("must be an array of reactions, not {}", kind(value));
        return Err(vec![FieldError::new(at, detail)]);
    };
    if items.len() > REACTIONS_MAX {
        // Said once, instead of whatever else is wrong with the thousandth.
        return Err(vec![FieldError::new(
            at,
            PaletteError::Length(items.len()).to_string(),
        )]);
    }
    let mut errors = Vec::new();
    let mut drafts = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        drafts.push(palette_draft(item, &format!("{at}/{index}"), &mut errors));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Palette::from_drafts(drafts).map_err(|error| {
        vec![match error {
            PaletteError::Entry { index, reason } => {
                FieldError::new(format!("{at}/{index}"), reason)
            }
            PaletteError::Length(_) => FieldError::new(at, error.to_string()),
        }]
    })
}

/// The shape of one reaction; what it says is checked by the palette as a whole.
fn palette_draft(item: &Value, at: &str, errors: &mut Vec<FieldError>) -> PaletteDraft {
    let Value::Object(object) = item else {
        let detail = format!(
            "must be an object with key, emoji and label, not {}",
            kind(item)
        );
        errors.push(FieldError::new(at, detail));
        return PaletteDraft::default();
    };
    for name in object
        .keys()
        .filter(|name| !["key", "emoji", "label"].contains(&name.as_str()))
    {
        let pointer = format!("{at}/{}", escape(name));
        errors.push(FieldError::new(
            pointer,
            "is no field of a reaction; it has key, emoji, label",
        ));
    }
    let mut field = |name: &str| {
        let value = object.get(name).filter(|value| !value.is_null())?;
        let text = text(value).map(str::to_owned);
        text.map_err(|detail| errors.push(FieldError::new(format!("{at}/{name}"), detail)))
            .ok()
    };
    PaletteDraft {
        key: field("key").unwrap_or_default(),
        emoji: field("emoji").unwrap_or_default(),
        label: field("label"),
    }
}

/// The taps of one request. What they say is decided by the same rules as on a socket; here only their form is read.
fn taps(value: &Value, at: &str) -> Result<Vec<TapFrame>, Vec<FieldError>> {
    let Value::Array(items) = value else {
        let detail = format!("must be an array of taps, not {}", kind(value));
        return Err(vec![FieldError::new(at, detail)]);
    };
    if !(1..=TAPS_PER_REQUEST_MAX).contains(&items.len()) {
        let detail = format!(
            "must have 1 to {TAPS_PER_REQUEST_MAX} taps, this has {}",
            items.len()
        );
        return Err(vec![FieldError::new(at, detail)]);
    }
    let mut errors = Vec::new();
    let mut taps = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match TapFrame::deserialize(item) {
            Ok(tap) => taps.push(tap),
            Err(error) => errors.push(FieldError::new(format!("{at}/{index}"), error.to_string())),
        }
    }
    if errors.is_empty() {
        Ok(taps)
    } else {
        Err(errors)
    }
}

/// The one mistake of a field, at its place.
fn one<T>(read: Result<T, String>, at: &str) -> Result<T, Vec<FieldError>> {
    read.map_err(|detail| vec![FieldError::new(at, detail)])
}

fn text(value: &Value) -> Result<&str, String> {
    value
        .as_str()
        .ok_or_else(|| format!("must be a text, not {}", kind(value)))
}

/// What a value is, for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value as it was sent, where it is short; what it is, where it is not.
fn show(value: &Value) -> String {
    let sent = value.to_string();
    if sent.len() <= 40 {
        sent
    } else {
        kind(value).to_owned()
    }
}

/// A name as part of a JSON pointer; cut, as it comes from the client.
fn escape(name: &str) -> String {
    let short: String = name.chars().take(40).collect();
    short.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors<T: std::fmt::Debug>(result: Result<T, ApiError>) -> Vec<(String, String)> {
        match result {
            Err(ApiError::Fields(errors)) => errors
                .into_iter()
                .map(|error| (error.pointer, error.detail))
                .collect(),
            other => panic!("expected wrong fields, got {other:?}"),
        }
    }

    fn pointers<T: std::fmt::Debug>(result: Result<T, ApiError>) -> Vec<String> {
        errors(result)
            .into_iter()
            .map(|(pointer, _)| pointer)
            .collect()
    }

    #[test]
    fn a_full_body_is_read() {
        let body = json!({
            "title": "  Keynote ", "code": "party-7", "cooldown_ms": 1000,
            "palette": [{"key": "clap", "emoji": "👏", "label": "Applause"}],
        });
        let room = CreateRoom::read(body).unwrap();
        assert_eq!(room.title, "Keynote");
        assert_eq!(room.code.unwrap().as_str(), "PARTY7");
        assert_eq!(room.cooldown_ms, Some(1000));
        assert_eq!(room.palette.unwrap().entries().len(), 1);
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let body = json!({
            "titel": "x", "code": "a!", "cooldown_ms": 10,
            "palette": [{"key": 7, "emoji": 7, "labl": ""}, "x"],
        });
        let found = pointers(CreateRoom::read(body));
        let expected = [
            "/titel",
            "/title",
            "/code",
            "/palette/0/labl",
            "/palette/0/key",
            "/palette/0/emoji",
            "/palette/1",
            "/cooldown_ms",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn bodies_of_another_shape_are_named_for_what_they_are() {
        for (body, what) in [
            (json!([]), "an array"),
            (json!(null), "null"),
            (json!("x"), "a text"),
        ] {
            let found = errors(PatchRoom::read(body));
            assert_eq!(
                found,
                [(String::new(), format!("must be an object, not {what}"))]
            );
        }
    }

    #[test]
    fn titles_have_bounds_and_any_language() {
        for good in [
            "x",
            "שלום עולם",
            "مرحبا",
            "日本語",
            &"é".repeat(120),
            "👩🏽‍🚀 day",
        ] {
            assert!(title(&json!(good)).is_ok(), "{good}");
        }
        for bad in [
            json!(""),
            json!("  "),
            json!("x".repeat(121)),
            json!("a\u{0}b"),
            json!(7),
        ] {
            assert!(title(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_have_bounds() {
        for good in [250, 3000, 60_000] {
            assert_eq!(cooldown_ms(&json!(good)), Ok(good));
        }
        for bad in [
            json!(249),
            json!(60_001),
            json!(-1),
            json!(1e3),
            json!(u64::MAX),
            json!("1000"),
        ] {
            assert!(cooldown_ms(&bad).is_err(), "{bad}");
        }
        assert!(version(&json!(0)).is_err());
    }

    #[test]
    fn an_empty_patch_and_nulls_change_nothing() {
        assert_eq!(PatchRoom::read(json!({})).unwrap(), PatchRoom::default());
        let nulls = json!({"title": null, "palette": null, "state": null, "version": null});
        assert_eq!(PatchRoom::read(nulls).unwrap(), PatchRoom::default());
    }

    #[test]
    fn wrong_palettes_say_which_entry() {
        let entry = |key: &str, emoji: &str| json!({"key": key, "emoji": emoji, "label": key});
        let thirteen: Vec<_> = (0..13).map(|n| entry(&format!("k{n}"), "👏")).collect();
        for (palette, pointer) in [
            (json!([]), "/palette"),
            (json!(thirteen), "/palette"),
            (json!({"clap": "👏"}), "/palette"),
            (json!([entry("a", "👏"), entry("a", "🎉")]), "/palette/1"),
            (json!([entry("a", "👏"), entry("b", "")]), "/palette/1"),
            (json!([entry("a", "1")]), "/palette/0"),
            (json!([entry("A", "👏")]), "/palette/0"),
            (json!([{"key": "a", "label": "a"}]), "/palette/0"),
        ] {
            let found = pointers(PatchRoom::read(json!({"palette": palette})));
            assert_eq!(found, [pointer], "{palette}");
        }
    }

    #[test]
    fn taps_are_read_by_the_rules_of_frames() {
        let body = |taps: Value| json!({"client": "c", "page": "p", "taps": taps});
        let tap = |seq: u64| json!({"key": "clap", "seq": seq});
        let read = PostTaps::read(body(
            json!([tap(1), {"key": "heart", "seq": 2, "age_ms": 9}]),
        ));
        let read = read.unwrap();
        assert_eq!((read.taps[1].age_ms, read.time), (9, None));
        for (time, expected) in [(json!(17), Some(17)), (json!(null), None)] {
            let body = json!({"client": "c", "page": "p", "time": time, "taps": json!([tap(1)])});
            assert_eq!(PostTaps::read(body).unwrap().time, expected);
        }
        for time in [json!(-1), json!("17"), json!(1.5)] {
            let body = json!({"client": "c", "page": "p", "time": time, "taps": json!([tap(1)])});
            assert_eq!(pointers(PostTaps::read(body)), ["/time"], "{time}");
        }
        let many: Vec<_> = (0..65).map(tap).collect();
        for (taps, pointer) in [
            (json!([]), "/taps"),
            (json!(many), "/taps"),
            (json!({}), "/taps"),
            (json!([tap(1), {"key": "clap", "seq": -1}]), "/taps/1"),
            (json!([{"key": "Clap", "seq": 1}]), "/taps/0"),
            (json!([7]), "/taps/0"),
        ] {
            assert_eq!(
                pointers(PostTaps::read(body(taps.clone()))),
                [pointer],
                "{taps}"
            );
        }
        assert_eq!(
            pointers(PostTaps::read(json!({}))),
            ["/client", "/page", "/taps"]
        );
    }

    #[test]
    fn pointers_are_escaped_and_cut() {
        let name = format!("a/b~c{}", "x".repeat(100));
        let found = pointers(PatchRoom::read(json!({name: 1})));
        assert_eq!(found[0], format!("/a~1b~0c{}", "x".repeat(35)));
    }
}
