//! Making, reading and changing rooms, as it should go.

use crate::support::{Gateway, PUBLIC_URL, eventually, text};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_room_is_made_read_changed_and_read_by_another_gateway() {
    let gateway = Gateway::start().await;
    let palette = json!([
        {"key": "clap", "emoji": "👏", "label": "Applause"},
        {"key": "heart", "emoji": "❤", "label": "Love it"},
        {"key": "astronaut", "emoji": "👩🏽‍🚀"},
    ]);
    let made = gateway
        .make_room(json!({"title": " Keynote ", "palette": palette, "cooldown_ms": 1000}))
        .await;
    let code = text(&made["code"]);
    let token = text(&made["host_token"]);
    assert_eq!(code.len(), 6);
    assert_eq!(made["links"]["audience"], format!("{PUBLIC_URL}/{code}"));
    assert_eq!(made["links"]["stage"], format!("{PUBLIC_URL}/{code}/stage"));
    assert_eq!(
        made["links"]["host"],
        format!("{PUBLIC_URL}/{code}/host#token={token}")
    );

    let room = gateway.get(&format!("/v1/rooms/{code}")).await;
    assert_eq!(room.status, 200);
    assert_eq!(room.header("cache-control"), "no-store");
    let room = room.json();
    assert_eq!(room["title"], "Keynote", "trimmed");
    assert_eq!(room["palette"][1]["emoji"], "❤️", "canonical");
    assert!(
        room["palette"][2]["label"]
            .as_str()
            .is_some_and(|label| !label.is_empty()),
        "named"
    );
    assert_eq!(
        (&room["cooldown_ms"], &room["state"], &room["version"]),
        (&json!(1000), &json!("open"), &json!(1))
    );
    assert_eq!(room["totals"], json!({}));

    let changed = gateway
        .patch(
            &code,
            &token,
            &json!({"state": "paused", "cooldown_ms": 5000}),
        )
        .await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    let mut changed = changed.json();
    assert_eq!(
        (&changed["version"], &changed["state"]),
        (&json!(2), &json!("paused"))
    );
    assert_eq!(
        changed["title"], "Keynote",
        "what a patch does not name stays"
    );
    assert_eq!(changed["palette"], room["palette"]);
    let mut again = gateway.get(&format!("/v1/rooms/{code}")).await.json();
    assert!(take_time(&mut again) >= take_time(&mut changed));
    assert_eq!(again, changed, "the gateway's own copy has it at once");

    let other = Gateway::start().await;
    let mut seen = other.get(&format!("/v1/rooms/{code}")).await.json();
    take_time(&mut seen);
    assert_eq!(seen, changed);
}

/// Takes the server's time out of a room: it alone differs from one reading to the next.
fn take_time(room: &mut Value) -> u64 {
    room["time"].take().as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_can_be_chosen_once_and_typed_in_any_form() {
    let gateway = Gateway::start().await;
    let made = gateway
        .make_room(json!({"title": "Party", "code": "choose-7a"}))
        .await;
    assert_eq!(made["code"], "CHOOSE7A");
    for typed in [
        "CHOOSE7A",
        "choose7a",
        "Choose-7A",
        "%20choose%207a%20",
        "ch-oo-se-7-a",
    ] {
        let reply = gateway.get(&format!("/v1/rooms/{typed}")).await;
        assert_eq!(
            (reply.status, &reply.json()["code"]),
            (200, &json!("CHOOSE7A")),
            "{typed}"
        );
    }
    let again = gateway
        .call("POST", "/v1/rooms")
        .bearer(crate::support::ADMIN_KEY)
        .json(&json!({"title": "Other", "code": "Choose 7A"}))
        .send()
        .await;
    let problem = again.problem(409, "code-taken");
    assert!(text(&problem["detail"]).contains("CHOOSE7A"));
    assert_eq!(
        gateway.get("/v1/rooms/CHOOSE7A").await.json()["title"],
        "Party"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_asked_for_before_it_was_made_is_there_once_it_is() {
    let gateway = Gateway::start().await;
    assert_eq!(gateway.get("/v1/rooms/EARLY2BIRD").await.status, 404);
    gateway
        .make_room(json!({"title": "Early", "code": "EARLY2BIRD"}))
        .await;
    eventually("the room is known", || async {
        gateway.get("/v1/rooms/EARLY2BIRD").await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn titles_are_in_any_language() {
    let gateway = Gateway::start().await;
    for title in [
        "שלום עולם",
        "مرحبا بالعالم",
        "日本語のタイトル",
        "👩🏽‍🚀 “quoted” <b>&amp;",
    ] {
        let made = gateway.make_room(json!({"title": title})).await;
        let room = gateway
            .get(&format!("/v1/rooms/{}", text(&made["code"])))
            .await
            .json();
        assert_eq!(room["title"], title);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_qr_code_leads_to_the_public_address() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let reply = gateway
        .get(&format!("/v1/rooms/{}/qr.svg", code.to_lowercase()))
        .await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, "image/svg+xml")
    );
    assert!(
        reply.text.contains("<svg") && reply.text.contains("fill=\"#fff\""),
        "dark on light"
    );
    let other = gateway.make_room(json!({"title": "Other"})).await;
    let other = gateway
        .get(&format!("/v1/rooms/{}/qr.svg", text(&other["code"])))
        .await;
    assert_ne!(reply.text, other.text, "each room has its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn head_is_get_without_the_body() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    for path in [
        "/",
        "/new",
        "/v1/openapi.json",
        &format!("/v1/rooms/{code}"),
        &format!("/{code}"),
    ] {
        let get = gateway.get(path).await;
        let head = gateway.call("HEAD", path).send().await;
        assert_eq!(
            (head.status, head.text.as_str()),
            (get.status, ""),
            "{path}"
        );
        assert_eq!(
            head.header("content-length"),
            get.header("content-length"),
            "{path}"
        );
        assert_eq!(
            head.header("content-type"),
            get.header("content-type"),
            "{path}"
        );
    }
}
