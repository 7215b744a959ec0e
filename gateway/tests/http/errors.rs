//! Bad requests: each gets one clear answer that says what was wrong, where, and what would be right.

use crate::support::{ADMIN_KEY, Call, Gateway, PATIENCE, text};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn create(gateway: &Gateway) -> Call {
    gateway.call("POST", "/v1/rooms").bearer(ADMIN_KEY)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_none() {
    let gateway = Gateway::start().await;
    for body in [
        "",
        "hello",
        "{",
        "{\"title\":\"x\"} x",
        "{\"title\":\"\u{1}\"}",
    ] {
        let reply = create(&gateway).body("application/json", body).send().await;
        reply.problem(400, "not-json");
    }
    let reply = create(&gateway)
        .body("application/json", &b"{\"title\":\"\xff\"}"[..])
        .send()
        .await;
    reply.problem(400, "not-json");
    let deep = "[".repeat(10_000);
    create(&gateway)
        .body("application/json", deep)
        .send()
        .await
        .problem(400, "not-json");
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ] {
        let reply = create(&gateway)
            .body(kind, "{\"title\":\"x\"}")
            .send()
            .await;
        let problem = reply.problem(415, "media-type");
        assert!(text(&problem["detail"]).contains("application/json"));
    }
    let large = json!({"title": "x".repeat(20_000)});
    create(&gateway)
        .json(&large)
        .send()
        .await
        .problem(413, "body-too-large");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_are_wrong_are_named() {
    let gateway = Gateway::start().await;
    let entry = |key: &str, emoji: &str| json!({"key": key, "emoji": emoji, "label": key});
    let thirteen: Vec<Value> = (0..13)
        .map(|number| entry(&format!("k{number}"), "👏"))
        .collect();
    let palette = |palette: Value| json!({"title": "x", "palette": palette});
    for (body, pointer, hint) in [
        (json!([]), "", "object"),
        (json!({}), "/title", "missing"),
        (json!({"title": ""}), "/title", "1 to 120"),
        (json!({"title": "x".repeat(121)}), "/title", "121"),
        (json!({"title": "a\u{7}b"}), "/title", "control"),
        (
            json!({"title": "x", "cooldown": 1000}),
            "/cooldown",
            "cooldown_ms",
        ),
        (
            json!({"title": "x", "cooldown_ms": 249}),
            "/cooldown_ms",
            "250",
        ),
        (
            json!({"title": "x", "cooldown_ms": "1000"}),
            "/cooldown_ms",
            "whole number",
        ),
        (json!({"title": "x", "code": "abc"}), "/code", "4 to 12"),
        (
            json!({"title": "x", "code": "ROOM!!"}),
            "/code",
            "letters and digits",
        ),
        (palette(json!([])), "/palette", "1 to 12"),
        (palette(json!(thirteen)), "/palette", "13"),
        (palette(json!("👏")), "/palette", "array"),
        (
            palette(json!([entry("a", "👏"), entry("a", "🎉")])),
            "/palette/1",
            "already",
        ),
        (
            palette(json!([entry("a", "❤️"), entry("b", "❤")])),
            "/palette/1",
            "already",
        ),
        (
            palette(json!([{"key": "a"}])),
            "/palette/0",
            "emoji is missing",
        ),
        (
            palette(json!([entry("a", "1")])),
            "/palette/0",
            "not one emoji",
        ),
        (
            palette(json!([entry("a", "#")])),
            "/palette/0",
            "not one emoji",
        ),
        (
            palette(json!([entry("a", "\u{200d}")])),
            "/palette/0",
            "not one emoji",
        ),
        (
            palette(json!([entry("a", "\u{fe0f}")])),
            "/palette/0",
            "not one emoji",
        ),
        (
            palette(json!([entry("a", "👏👏")])),
            "/palette/0",
            "not one emoji",
        ),
        (
            palette(json!([entry("a", "clap")])),
            "/palette/0",
            "not one emoji",
        ),
        (palette(json!([entry("No Key", "👏")])), "/palette/0", "a-z"),
    ] {
        let problem = create(&gateway)
            .json(&body)
            .send()
            .await
            .problem(422, "invalid-fields");
        let errors = problem["errors"].as_array().unwrap();
        assert_eq!(errors[0]["pointer"], pointer, "{body}: {problem}");
        assert!(
            text(&errors[0]["detail"]).contains(hint),
            "{body}: {problem}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_that_are_wrong_change_nothing() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    for (body, pointer) in [
        (json!({"title": "New", "state": "ended"}), "/state"),
        (json!({"title": "New", "version": 0}), "/version"),
        (json!({"title": "New", "code": "OTHER22"}), "/code"),
        (
            json!({"title": "New", "palette": [{"key": "a", "emoji": "x"}]}),
            "/palette/0",
        ),
    ] {
        let problem = gateway
            .patch(&code, &token, &body)
            .await
            .problem(422, "invalid-fields");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    let room = gateway.get(&format!("/v1/rooms/{code}")).await.json();
    assert_eq!(
        (&room["title"], &room["version"]),
        (&json!("Keynote"), &json!(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_and_methods_that_are_none() {
    let gateway = Gateway::start().await;
    for path in [
        "/v1/nothing",
        "/v2/rooms",
        "/v1/rooms/PARTY7/nothing",
        "/v1/schemas/nobody.json",
        "/a/b/c",
        "/-/no",
    ] {
        let reply = gateway.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        if path != "/-/no" {
            assert_eq!(reply.problem(404, "no-such-path")["instance"], path);
        }
    }
    for (method, path, allow) in [
        ("GET", "/v1/rooms", "POST, OPTIONS"),
        ("DELETE", "/v1/rooms/PARTY7", "GET, HEAD, PATCH, OPTIONS"),
        ("PUT", "/v1/rooms/PARTY7", "GET, HEAD, PATCH, OPTIONS"),
        ("POST", "/", "GET, HEAD, OPTIONS"),
        ("GET", "/v1/rooms/PARTY7/taps", "POST, OPTIONS"),
        ("HEAD", "/v1/rooms/PARTY7/events", "GET, OPTIONS"),
        ("FROBNICATE", "/PARTY7", "GET, HEAD, OPTIONS"),
    ] {
        let reply = gateway.call(method, path).send().await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, allow),
            "{method} {path}"
        );
    }
    let odd = gateway
        .get("/v1/rooms/NOROOM22?client=secret")
        .await
        .problem(404, "unknown-room");
    assert_eq!(odd["instance"], "/v1/rooms/NOROOM22", "without the query");
    gateway
        .get("/v1/rooms/!!")
        .await
        .problem(404, "unknown-room");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_not_waited_for_for_long() {
    let gateway = Gateway::start().await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head = format!(
        "POST /v1/rooms HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"title\""
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(PATIENCE, read)
        .await
        .expect("it ends by itself")
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(
        answer.contains("urn:uproar:problem:body-timeout"),
        "{answer}"
    );
}
