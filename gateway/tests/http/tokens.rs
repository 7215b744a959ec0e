//! Who may do what: admin key and host tokens.

use crate::support::{ADMIN_KEY, Gateway, text};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn rooms_are_made_with_the_admin_key_only() {
    let gateway = Gateway::start().await;
    let body = json!({"title": "Keynote"});
    let none = gateway.call("POST", "/v1/rooms").json(&body).send().await;
    none.problem(401, "credentials");
    assert_eq!(none.header("www-authenticate"), "Bearer");
    let (code, token) = gateway.room().await;
    for wrong in ["wrong", &ADMIN_KEY[1..], &token] {
        let reply = gateway
            .call("POST", "/v1/rooms")
            .bearer(wrong)
            .json(&body)
            .send()
            .await;
        reply.problem(401, "credentials");
        let path = format!("/v1/rooms/{code}/host-tokens");
        gateway
            .call("POST", &path)
            .bearer(wrong)
            .send()
            .await
            .problem(401, "credentials");
    }
    let closed = Gateway::start_with("admin_key = \"\"").await;
    closed
        .call("POST", "/v1/rooms")
        .bearer("")
        .json(&body)
        .send()
        .await
        .problem(403, "no-admin-key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_is_run_with_its_own_token_only() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let (_, foreign) = gateway.room().await;
    let body = json!({"title": "Mine now"});
    let none = gateway
        .call("PATCH", &format!("/v1/rooms/{code}"))
        .json(&body)
        .send()
        .await;
    none.problem(401, "credentials");
    gateway
        .patch(&code, &foreign, &body)
        .await
        .problem(403, "foreign-token");
    let cut = &token[..token.len() - 4];
    for wrong in ["garbage", "a.b.c", cut, ADMIN_KEY] {
        let problem = gateway
            .patch(&code, wrong, &body)
            .await
            .problem(401, "credentials");
        assert!(
            !text(&problem["detail"]).contains(wrong),
            "tokens are not repeated"
        );
    }
    let room = gateway.get(&format!("/v1/rooms/{code}")).await.json();
    assert_eq!(room["title"], "Keynote");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_gets_another_token() {
    let gateway = Gateway::start().await;
    let (code, first) = gateway.room().await;
    let path = format!("/v1/rooms/{code}/host-tokens");
    let reply = gateway.call("POST", &path).bearer(ADMIN_KEY).send().await;
    assert_eq!(reply.status, 201);
    let second = text(&reply.json()["host_token"]);
    assert!(text(&reply.json()["links"]["host"]).ends_with(&format!("#token={second}")));
    for token in [first, second] {
        assert_eq!(gateway.patch(&code, &token, &json!({})).await.status, 200);
    }
    let unknown = gateway
        .call("POST", "/v1/rooms/NOROOM22/host-tokens")
        .bearer(ADMIN_KEY)
        .send()
        .await;
    unknown.problem(404, "unknown-room");
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_keys_rotate() {
    let both = r#"
host_token_keys = { old = "the old key, of 32 bytes or more!", new = "the new key, of 32 bytes or more!" }
host_token_key_id = "ID"
"#;
    let only_new = r#"host_token_keys = { new = "the new key, of 32 bytes or more!" }"#;
    let before = Gateway::start_with(&both.replace("ID", "old")).await;
    let (code, old) = before.room().await;
    let during = Gateway::start_with(&both.replace("ID", "new")).await;
    assert_eq!(during.patch(&code, &old, &json!({})).await.status, 200);
    let path = format!("/v1/rooms/{code}/host-tokens");
    let reply = during.call("POST", &path).bearer(ADMIN_KEY).send().await;
    let new = text(&reply.json()["host_token"]);
    let after = Gateway::start_with(only_new).await;
    assert_eq!(after.patch(&code, &new, &json!({})).await.status, 200);
    let problem = after
        .patch(&code, &old, &json!({}))
        .await
        .problem(401, "credentials");
    assert!(
        text(&problem["detail"]).contains("new host link"),
        "{problem}"
    );
}
