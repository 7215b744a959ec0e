//! Fills in the pages' HTML: `{{name}}` is a value, `{{t:key}}` a text of the visitor's language. Both are escaped;
//! `{{raw:name}}` is HTML or JSON made here.

use super::View;
use super::language::{LANGUAGES, Language};
use serde_json::{Map, Value, json};
use shared::protocol::RoomFrame;
use shared::room::{PaletteEntry, RoomCode, RoomState};
use std::fmt::Write;

/// A page's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Start,
    New,
    Room(View),
}

impl Kind {
    /// The name that its texts begin with, and its HTML.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            Kind::Start => ("start", include_str!("../../../web/pages/start.html")),
            Kind::New => ("new", include_str!("../../../web/pages/new.html")),
            Kind::Room(View::Audience) => {
                ("audience", include_str!("../../../web/pages/audience.html"))
            }
            Kind::Room(View::Stage) => ("stage", include_str!("../../../web/pages/stage.html")),
            Kind::Room(View::Host) => ("host", include_str!("../../../web/pages/host.html")),
        }
    }
}

/// All that the pages are filled from.
#[derive(Debug)]
pub(super) struct Templates {
    public_url: String,
    base: String,
    texts: Vec<Map<String, Value>>,
}

impl Templates {
    /// Reads the strings files.
    pub(super) fn new(public_url: &str, base: &str) -> Self {
        let texts = LANGUAGES
            .iter()
            .map(|(_, text)| serde_json::from_str(text).expect("a test reads the strings files"))
            .collect();
        Templates {
            public_url: public_url.trim_end_matches('/').to_owned(),
            base: base.to_owned(),
            texts,
        }
    }

    /// One text; its key where it is missing, so that a gap is seen and does not stop a page.
    pub(super) fn text<'a>(&'a self, language: Language, key: &'a str) -> &'a str {
        self.texts[language.index()]
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or(key)
    }

    /// A page without a room.
    pub(super) fn plain(&self, page: Kind, language: Language, notice: &str) -> Vec<u8> {
        let palette = shared::room::Palette::standard();
        let mut data = json!({ "public_url": self.public_url });
        if page == Kind::New {
            data["palette"] = json!(palette.entries());
        }
        self.fill(page, language, data, &|name, out| {
            if name == "notice" {
                escape(notice, out);
            }
        })
    }

    /// A room's page. `slides` is the page to show beneath a stage, or the one that is not allowed there.
    pub(super) fn room(
        &self,
        view: View,
        language: Language,
        code: &RoomCode,
        room: &RoomFrame,
        slides: Option<Result<&str, &str>>,
    ) -> Vec<u8> {
        let data = json!({
            "public_url": self.public_url,
            "code": code,
            "room": {
                "title": room.title,
                "palette": room.palette.entries(),
                "cooldown_ms": room.cooldown_ms,
                "state": room.state,
            },
            "slides": slides.and_then(Result::ok),
            "refused_slides": slides.and_then(Result::err),
        });
        let shown_url = self
            .public_url
            .split_once("://")
            .map_or(self.public_url.as_str(), |(_, rest)| rest);
        self.fill(Kind::Room(view), language, data, &|name, out| match name {
            "title" => escape(&room.title, out),
            "code" => out.push_str(code.as_str()),
            "site" => escape(shown_url, out),
            "state" => out.push_str(match room.state {
                RoomState::Open => "open",
                RoomState::Paused => "paused",
                RoomState::Closed => "closed",
            }),
            "raw:palette" => pads(room.palette.entries(), out),
            "count" => {
                let _ = write!(out, "{}", room.palette.entries().len());
            }
            _ => {}
        })
    }

    fn fill(
        &self,
        page: Kind,
        language: Language,
        mut data: Value,
        value: &dyn Fn(&str, &mut String),
    ) -> Vec<u8> {
        let (name, html) = page.source();
        data["lang"] = json!(language.code());
        data["texts"] = Value::Object(self.texts_of(name, language));
        let mut out = String::with_capacity(html.len() * 2);
        let mut rest = html;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((hole, after)) = after.split_once("}}") else {
                break;
            };
            out.push_str(before);
            match hole {
                "base" => out.push_str(&self.base),
                "lang" => out.push_str(language.code()),
                // Inside a script element only `<` could end it.
                "raw:data" => out.push_str(&data.to_string().replace('<', "\\u003c")),
                hole => match hole.strip_prefix("t:") {
                    Some(key) => escape(self.text(language, key), &mut out),
                    None => value(hole, &mut out),
                },
            }
            rest = after;
        }
        out.push_str(rest);
        out.into_bytes()
    }

    /// The texts that a page's modules need: those named `PAGE.js.…`, and on the pages with a palette editor
    /// `console.js.…`; without the prefix. All others stand in the HTML only.
    fn texts_of(&self, name: &str, language: Language) -> Map<String, Value> {
        let own = format!("{name}.js.");
        let has_editor = matches!(name, "new" | "host");
        let short = |key: &str| {
            let shared = key.strip_prefix("console.js.").filter(|_| has_editor);
            key.strip_prefix(&own).or(shared).map(str::to_owned)
        };
        self.texts[language.index()]
            .iter()
            .filter_map(|(key, text)| Some((short(key)?, text.clone())))
            .collect()
    }
}

/// The audience's buttons, as the page's module would make them: the palette is there before any script runs.
fn pads(entries: &[PaletteEntry], out: &mut String) {
    for entry in entries {
        out.push_str("<button type=\"button\" class=\"pad\" data-key=\"");
        escape(entry.key.as_str(), out);
        out.push_str("\"><span class=\"face\" aria-hidden=\"true\"><svg class=\"ring\" viewBox=\"0 0 40 40\"><circle cx=\"20\" cy=\"20\" r=\"18.5\" pathLength=\"100\"/></svg><span class=\"emoji\">");
        escape(&entry.emoji, out);
        out.push_str("</span></span><span class=\"label\" dir=\"auto\">");
        escape(&entry.label, out);
        out.push_str("</span><span class=\"total\" aria-hidden=\"true\">\u{a0}</span></button>");
    }
}

fn escape(text: &str, out: &mut String) {
    for symbol in text.chars() {
        match symbol {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            symbol => out.push(symbol),
        }
    }
}
