//! Who may do what: admin key and host tokens.

use crate::support::{ADMIN_KEY, Gateway, text};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

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

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_ended_and_tokens_for_an_earlier_room_are_told_apart() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let key = "the first key, of 32 bytes or more";
    let sign = |claims: &Value, id: &str| {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some(id.to_owned());
        let key = EncodingKey::from_secret(key.as_bytes()).unwrap();
        jsonwebtoken::encode(&header, claims, &key).unwrap()
    };
    let claims = jsonwebtoken::dangerous::insecure_decode_claims::<Value>(&token).unwrap();
    let with = |name: &str, value: Value| {
        let mut changed = claims.clone();
        changed[name] = value;
        changed
    };
    for (token, status, name, hint) in [
        (
            sign(&with("exp", json!(1_000_000)), "first"),
            401,
            "credentials",
            "expired",
        ),
        (
            sign(&with("created_at_ms", json!(1)), "first"),
            403,
            "foreign-token",
            "earlier room",
        ),
        (
            sign(&with("room", json!("OTHER22")), "first"),
            403,
            "foreign-token",
            "OTHER22",
        ),
        (
            sign(&claims, "another"),
            401,
            "credentials",
            "no longer in use",
        ),
        (
            sign(&json!({"room": code}), "first"),
            401,
            "credentials",
            "malformed",
        ),
    ] {
        let problem = gateway
            .patch(&code, &token, &json!({}))
            .await
            .problem(status, name);
        assert!(text(&problem["detail"]).contains(hint), "{problem}");
    }
    assert_eq!(
        gateway
            .patch(&code, &sign(&claims, "first"), &json!({}))
            .await
            .status,
        200
    );
}
