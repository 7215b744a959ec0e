//! The pages as a browser gets them.

use super::*;
use http_body_util::BodyExt;
use serde_json::Value;
use shared::room::{Palette, PaletteEntry, RoomState};
use std::io::Read;

/// What one page may weigh in all, compressed: a hall on one access point loads it at once.
const PAGE_BYTES_MAX: usize = 20_000;

fn pages() -> Pages {
    Pages::new(
        "https://uproar.example",
        &[
            "slides.example".to_owned(),
            "*.decks.example:8443".to_owned(),
        ],
    )
}

fn room() -> RoomFrame {
    let entry = |key: &str, emoji: &str, label: &str| PaletteEntry {
        key: key.parse().unwrap(),
        emoji: emoji.to_owned(),
        label: label.to_owned(),
    };
    RoomFrame {
        title: "</script><b>\"R&D\" {{t:start.heading}}".to_owned(),
        palette: Palette::new(vec![
            entry("clap", "👏", "Applause"),
            entry("heart", "❤️", "<Love>"),
        ])
        .unwrap(),
        cooldown_ms: 3000,
        state: RoomState::Open,
        totals: BTreeMap::new(),
    }
}

fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (name.clone(), value.parse().unwrap()))
        .collect()
}

async fn body(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn page(query: Option<&str>, page: Page<'_>) -> String {
    let headers = HeaderMap::new();
    body(pages().respond(
        &Visitor {
            headers: &headers,
            query,
        },
        page,
    ))
    .await
}

fn data(html: &str) -> Value {
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn every_page<'a>(code: &'a RoomCode, room: &'a RoomFrame) -> Vec<Page<'a>> {
    let of = |view| Page::Room { view, code, room };
    vec![
        Page::Home,
        Page::New,
        of(View::Audience),
        of(View::Stage),
        of(View::Host),
    ]
}

#[tokio::test]
async fn a_title_is_shown_and_never_becomes_markup() {
    let (code, room) = ("KX7M2P".parse().unwrap(), room());
    for view in [View::Audience, View::Stage, View::Host] {
        let html = page(
            None,
            Page::Room {
                view,
                code: &code,
                room: &room,
            },
        )
        .await;
        assert!(
            html.contains("&lt;/script&gt;&lt;b&gt;&quot;R&amp;D&quot;"),
            "{view:?}"
        );
        assert!(
            html.contains("{{t:start.heading}}"),
            "a title is no template: {view:?}"
        );
        assert!(!html.contains("</script><b>"), "{view:?}");
        assert_eq!(data(&html)["room"]["title"], room.title, "{view:?}");
    }
}

#[tokio::test]
async fn the_palette_is_in_the_first_html() {
    let (code, room) = ("KX7M2P".parse().unwrap(), room());
    let html = page(
        None,
        Page::Room {
            view: View::Audience,
            code: &code,
            room: &room,
        },
    )
    .await;
    assert!(html.contains("data-key=\"heart\"") && html.contains(">❤️</span>"));
    assert!(html.contains("dir=\"auto\">&lt;Love&gt;</span>"));
}

#[tokio::test]
async fn no_hole_stays_open_and_no_text_is_missing() {
    let (code, mut room) = ("KX7M2P".parse().unwrap(), room());
    room.title = "Plain".to_owned();
    for language in ["en", "de"] {
        for one in every_page(&code, &room) {
            let html = page(Some(&format!("lang={language}")), one).await;
            assert!(!html.contains("{{"), "{one:?}");
            assert!(
                html.contains(&format!("<html lang=\"{language}\">")),
                "{one:?}"
            );
            for (key, _) in language::texts(language) {
                assert!(
                    !html.contains(&format!(">{key}<")),
                    "{one:?} shows the name of {key}"
                );
            }
        }
    }
}

#[test]
fn every_language_has_the_same_texts() {
    let names = |language: &str| language::texts(language).into_keys().collect::<Vec<_>>();
    assert_eq!(names("en"), names("de"));
}

/// What a page loads: itself and each file that it names, and each module that those import.
async fn weight(html: &str, pages: &Pages) -> usize {
    let mut wanted: Vec<String> = html
        .split(pages.assets.base())
        .skip(1)
        .filter_map(|rest| Some(rest.strip_prefix('/')?.split_once('"')?.0.to_owned()))
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    let mut total = assets::gzip(html.as_bytes()).len();
    while let Some(name) = wanted.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let (_, text) = assets::FILES
            .iter()
            .find(|(path, _)| *path == name)
            .expect("a page names a file that is there");
        total += assets::gzip(assets::lean(&name, text).as_bytes()).len();
        let imports = text
            .split("from \"./")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'));
        for (import, _) in imports {
            let path = format!("js/{import}");
            assert!(
                html.contains(&path),
                "{path} is imported by {name} and not preloaded"
            );
            wanted.push(path);
        }
    }
    total
}

#[tokio::test]
async fn each_page_weighs_less_than_20_kb_in_all() {
    let (code, mut room) = ("KX7M2P".parse().unwrap(), room());
    room.palette = Palette::standard();
    let pages = pages();
    for one in every_page(&code, &room) {
        let html = page(Some("lang=de"), one).await;
        let bytes = weight(&html, &pages).await;
        println!(
            "{bytes} bytes: {:?}",
            html.split_once("<title>").map(|(_, rest)| &rest[..20])
        );
        assert!(bytes < PAGE_BYTES_MAX, "{bytes} bytes: {one:?}");
    }
}

#[test]
fn every_file_of_the_folders_is_built_in() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
    let mut found = vec!["icon.svg".to_owned()];
    for inner in ["js", "style"] {
        for entry in std::fs::read_dir(folder.join(inner)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if !name.ends_with(".d.ts") {
                found.push(format!("{inner}/{name}"));
            }
        }
    }
    found.sort();
    let mut built_in: Vec<_> = assets::FILES
        .iter()
        .map(|(path, _)| (*path).to_owned())
        .collect();
    built_in.sort();
    assert_eq!(built_in, found);
}

/// [`assets::lean`] works line by line, so no text may span lines: backticks come in pairs.
#[test]
fn what_a_phone_does_not_need_is_left_out() {
    for (path, text) in assets::FILES {
        let lean = assets::lean(path, text);
        assert!(
            !lean.contains("\n\n") && !lean.contains("\n//") && !lean.contains("\n * "),
            "{path}"
        );
        if path.ends_with(".js") {
            for line in lean.lines() {
                assert_eq!(line.matches('`').count() % 2, 0, "{path}: {line}");
            }
        }
    }
    let text = "// a\nlet x = 1; // b\n/** c\n * d\n */\n  f(/** @type {X} */ (y));\n/** @type {X} */ (z).g();\n";
    assert_eq!(
        assets::lean("a.js", text),
        "let x = 1; // b\nf(/** @type {X} */ (y));\n/** @type {X} */ (z).g();\n"
    );
    assert_eq!(
        assets::lean("a.css", "/* a\n b */\n p { x: y; }\n"),
        "p { x: y; }\n"
    );
}

#[tokio::test]
async fn assets_are_kept_for_ever_under_todays_hash_and_not_under_another() {
    let pages = pages();
    let headers = headers(&[(header::ACCEPT_ENCODING, "br, gzip")]);
    let visitor = Visitor {
        headers: &headers,
        query: None,
    };
    let hash = pages.assets.base().trim_start_matches("/-/").to_owned();
    let ours = pages.respond(&visitor, Page::Asset(&format!("{hash}/js/taps.js")));
    assert!(
        ours.headers()[header::CACHE_CONTROL]
            .to_str()
            .unwrap()
            .contains("immutable")
    );
    assert_eq!(ours.headers()[header::CONTENT_ENCODING], "gzip");
    let bytes = ours.into_body().collect().await.unwrap().to_bytes();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("export class Taps"));
    let theirs = pages.respond(&visitor, Page::Asset("0123456789abcdef/js/taps.js"));
    assert_eq!(theirs.status(), StatusCode::OK);
    assert_eq!(theirs.headers()[header::CACHE_CONTROL], "no-store");
    for wrong in ["", "x", "x/", "x/js/../strings/en.json", "x/js/none.js"] {
        assert_eq!(
            pages.respond(&visitor, Page::Asset(wrong)).status(),
            StatusCode::NOT_FOUND,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn a_changed_room_is_rendered_anew() {
    let (code, mut room) = ("KX7M2P".parse().unwrap(), room());
    let pages = pages();
    let headers = HeaderMap::new();
    let visitor = Visitor {
        headers: &headers,
        query: None,
    };
    let first = body(pages.respond(
        &visitor,
        Page::Room {
            view: View::Audience,
            code: &code,
            room: &room,
        },
    ))
    .await;
    let again = body(pages.respond(
        &visitor,
        Page::Room {
            view: View::Audience,
            code: &code,
            room: &room,
        },
    ))
    .await;
    assert_eq!(first, again);
    room.state = RoomState::Paused;
    let paused = body(pages.respond(
        &visitor,
        Page::Room {
            view: View::Audience,
            code: &code,
            room: &room,
        },
    ))
    .await;
    assert!(paused.contains("data-state=\"paused\"") && first.contains("data-state=\"open\""));
}

#[tokio::test]
async fn slides_are_shown_only_from_allowed_hosts() {
    let (code, room) = ("KX7M2P".parse().unwrap(), room());
    let pages = pages();
    for (asked, allowed) in [
        ("https://slides.example/deck", true),
        ("https://a.decks.example:8443/x?y=1", true),
        ("https://a.decks.example/x", false),
        ("https://evil.example/", false),
        ("https://notslides.example/", false),
        ("javascript:alert(1)", false),
        ("data:text/html,x", false),
        ("nonsense", false),
    ] {
        let query: String = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("slides", asked)
            .finish();
        let headers = HeaderMap::new();
        let visitor = Visitor {
            headers: &headers,
            query: Some(&query),
        };
        let response = pages.respond(
            &visitor,
            Page::Room {
                view: View::Stage,
                code: &code,
                room: &room,
            },
        );
        let data = data(&body(response).await);
        assert_eq!(data["slides"].is_string(), allowed, "{asked}");
        assert_eq!(data["refused_slides"].is_string(), !allowed, "{asked}");
    }
}

#[tokio::test]
async fn failures_are_told_to_a_person() {
    let pages = pages();
    let headers = headers(&[(header::ACCEPT_LANGUAGE, "de-AT")]);
    let visitor = Visitor {
        headers: &headers,
        query: None,
    };
    let failed = |status, retry_after_seconds| Page::Failed {
        status,
        typed: "<NOPE>",
        retry_after_seconds,
    };
    let missing = pages.respond(&visitor, failed(StatusCode::NOT_FOUND, None));
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    assert!(
        body(missing)
            .await
            .contains("Einen Raum „&lt;NOPE&gt;“ gibt es nicht")
    );
    let busy = pages.respond(&visitor, failed(StatusCode::SERVICE_UNAVAILABLE, Some(2)));
    assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(busy.headers()[header::REFRESH], "2");
}
