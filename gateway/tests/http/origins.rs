//! Pages of other sites, and the headers that every answer carries.

use crate::support::{ADMIN_KEY, Gateway, PUBLIC_URL};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_may_not_write() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let evil = "https://evil.example";
    let body = json!({"title": "x"});
    let create = || {
        gateway
            .call("POST", "/v1/rooms")
            .bearer(ADMIN_KEY)
            .json(&body)
    };
    create()
        .header("origin", evil)
        .send()
        .await
        .problem(403, "origin");
    let patch = gateway
        .call("PATCH", &format!("/v1/rooms/{code}"))
        .bearer(&token)
        .json(&body);
    patch
        .header("origin", evil)
        .send()
        .await
        .problem(403, "origin");
    for part in ["socket", "events"] {
        let call = gateway.call("GET", &format!("/v1/rooms/{code}/{part}"));
        call.header("origin", "null")
            .send()
            .await
            .problem(403, "origin");
    }
    assert!(
        gateway
            .metric("uproar_gateway_http_foreign_origins_total", "")
            .await
            >= 4.0
    );
    let own_host = format!("http://{}", gateway.address);
    for origin in [PUBLIC_URL, &own_host] {
        assert_eq!(
            create().header("origin", origin).send().await.status,
            201,
            "{origin}"
        );
    }
    assert_eq!(create().send().await.status, 201, "programs send no origin");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_listed_sites_may() {
    let gateway = Gateway::start_with("origins = [\"https://slides.example\"]").await;
    let origin = "https://slides.example";
    let preflight = gateway
        .call("OPTIONS", "/v1/rooms")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .send()
        .await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), origin);
    assert_eq!(
        preflight.header("access-control-allow-methods"),
        "POST, OPTIONS"
    );
    assert!(
        preflight
            .header("access-control-allow-headers")
            .contains("authorization")
    );
    assert!(preflight.header("vary").contains("origin"));
    let call = gateway
        .call("POST", "/v1/rooms")
        .bearer(ADMIN_KEY)
        .json(&json!({"title": "x"}));
    let reply = call.header("origin", origin).send().await;
    assert_eq!(
        (reply.status, reply.header("access-control-allow-origin")),
        (201, origin)
    );
    let error = gateway
        .call("GET", "/v1/rooms/NOROOM23")
        .header("origin", origin)
        .send()
        .await;
    assert_eq!(
        error.header("access-control-allow-origin"),
        origin,
        "errors can be read too"
    );

    let foreign = gateway
        .call("OPTIONS", "/v1/rooms")
        .header("origin", "https://evil.example");
    let foreign = foreign
        .header("access-control-request-method", "POST")
        .send()
        .await;
    assert_eq!(foreign.header("access-control-allow-origin"), "");
    assert_eq!(foreign.header("access-control-allow-methods"), "");
    assert!(
        foreign.header("vary").contains("origin"),
        "a cache must not mix them up"
    );
    let plain = gateway.call("OPTIONS", "/v1/rooms").send().await;
    assert_eq!(
        (plain.status, plain.header("allow")),
        (204, "POST, OPTIONS")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_the_security_headers() {
    let gateway = Gateway::start_with("slides_hosts = [\"slides.example\"]").await;
    let (code, _) = gateway.room().await;
    let paths = [
        "/".to_owned(),
        format!("/{code}"),
        format!("/{code}/stage"),
        "/v1/openapi.json".to_owned(),
    ];
    for path in paths
        .into_iter()
        .chain([format!("/v1/rooms/{code}/qr.svg"), "/v1/none".to_owned()])
    {
        let reply = gateway.get(&path).await;
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("referrer-policy"), "no-referrer", "{path}");
        let policy = reply.header("content-security-policy");
        assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
    }
    let stage = gateway.get(&format!("/{code}/stage")).await;
    let policy = stage.header("content-security-policy");
    assert!(
        policy.contains("frame-src") && policy.contains("slides.example"),
        "{policy}"
    );
}
