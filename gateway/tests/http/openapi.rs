//! The OpenAPI document against a running gateway: what it promises is there, and answers as it says.

use crate::support::{ADMIN_KEY, Gateway, text};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn every_path_answers_as_the_document_says() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let reply = gateway.get("/v1/openapi.json").await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, "application/json")
    );
    let document = reply.json();
    let mut walked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let concrete = path.replace("{code}", &code).replace("{name}", "server");
        for (method, operation) in item
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, _)| *key != "parameters")
        {
            walk(
                &gateway,
                &document,
                &method.to_uppercase(),
                &concrete,
                operation,
                &token,
            )
            .await;
            walked += 1;
        }
    }
    assert_eq!(walked, 10);
}

/// Sends the operation's own example, with credentials and without; each answer must be one that is described.
async fn walk(
    gateway: &Gateway,
    document: &Value,
    method: &str,
    path: &str,
    operation: &Value,
    token: &str,
) {
    let example = &operation["requestBody"]["content"]["application/json"]["example"];
    let query = "?client=00112233445566778899aabbccddeeff&page=0badcafe";
    let path = if path.ends_with("/events") {
        format!("{path}{query}")
    } else {
        path.to_owned()
    };
    let success = operation["responses"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    let bearer = if operation["security"].to_string().contains("adminKey") {
        ADMIN_KEY
    } else {
        token
    };
    let with = |body: &Value| {
        let call = gateway.call(method, &path).bearer(bearer);
        if example.is_null() {
            call
        } else {
            call.json(body)
        }
    };
    if path.ends_with("/socket") {
        let reply = with(example).send().await;
        described(document, operation, 426, reply.header("content-type"));
        assert_eq!(reply.status, 426);
        return;
    }
    if path.contains("/events?") {
        let response = with(example).open().await;
        assert_eq!(response.status().as_str(), success);
        described(
            document,
            operation,
            200,
            response.headers()["content-type"].to_str().unwrap(),
        );
        return;
    }
    let reply = with(example).send().await;
    assert_eq!(
        reply.status.to_string(),
        success,
        "{method} {path}: {}",
        reply.text
    );
    described(
        document,
        operation,
        reply.status,
        reply.header("content-type"),
    );
    if !example.is_null() {
        let reply = with(&json!({"no_such_field": 1})).send().await;
        assert_eq!(reply.status, 422, "{method} {path}");
        described(
            document,
            operation,
            reply.status,
            reply.header("content-type"),
        );
    }
    if !operation["security"].is_null() {
        let reply = gateway.call(method, &path).send().await;
        assert_eq!(reply.status, 401, "{method} {path}");
        described(
            document,
            operation,
            reply.status,
            reply.header("content-type"),
        );
    }
}

fn described(document: &Value, operation: &Value, status: u16, kind: &str) {
    let mut response = &operation["responses"][status.to_string()];
    assert!(
        !response.is_null(),
        "{status} is not described for {}",
        operation["operationId"]
    );
    if let Some(reference) = response["$ref"].as_str() {
        response = document.pointer(&reference[1..]).unwrap();
    }
    let content = response["content"].as_object().unwrap();
    assert!(
        content.contains_key(kind),
        "{kind} is not described for {}",
        operation["operationId"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_frames_have_schemas() {
    let gateway = Gateway::start().await;
    for (name, frame) in [("client", "join"), ("server", "tick")] {
        let reply = gateway.get(&format!("/v1/schemas/{name}.json")).await;
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, "application/schema+json")
        );
        let schema = reply.json();
        assert!(text(&schema["$schema"]).contains("json-schema.org"));
        assert!(schema["oneOf"].to_string().contains(frame));
    }
}
