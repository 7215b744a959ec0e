//! Guessing codes: the 21st unknown one within a minute is held back, a known one never.

use crate::support::Gateway;

#[tokio::test(flavor = "multi_thread")]
async fn the_21st_unknown_code_is_held_back_and_a_known_one_is_not() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    for number in 0..20 {
        gateway
            .get(&format!("/v1/rooms/GUESS{number}A"))
            .await
            .problem(404, "unknown-room");
    }
    let limited = gateway.get("/v1/rooms/GUESS99A").await;
    limited.problem(429, "too-many-guesses");
    let wait: u64 = limited.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    gateway
        .get("/v1/rooms/GUESS99A/qr.svg")
        .await
        .problem(429, "too-many-guesses");
    gateway
        .patch("GUESS99A", &token, &serde_json::json!({}))
        .await
        .problem(429, "too-many-guesses");
    let person = gateway
        .call("GET", "/GUESS99A")
        .header("accept", "text/html")
        .send()
        .await;
    assert_eq!(person.status, 429);
    assert!(person.header("content-type").starts_with("text/html"));
    assert_eq!(gateway.get(&format!("/v1/rooms/{code}")).await.status, 200);
    assert_eq!(gateway.get(&format!("/{code}")).await.status, 200);
    assert!(
        gateway
            .metric("uproar_gateway_http_guesses_limited_total", "")
            .await
            >= 4.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_trusted_proxy_each_client_has_its_own_counter() {
    let gateway = Gateway::start_with("trusted_proxies = [\"127.0.0.0/8\"]").await;
    let guess = async |client: &str, number: usize| {
        let call = gateway.call("GET", &format!("/v1/rooms/GUESS{number}B"));
        call.header("x-forwarded-for", client).send().await.status
    };
    for number in 0..20 {
        assert_eq!(guess("203.0.113.9", number).await, 404);
    }
    assert_eq!(guess("203.0.113.9", 20).await, 429);
    assert_eq!(guess("203.0.113.10", 20).await, 404);
    assert_eq!(
        guess("198.51.100.7, 203.0.113.9", 20).await,
        429,
        "what the client wrote itself is not believed"
    );

    let open = Gateway::start().await;
    for number in 0..20 {
        let call = open.call("GET", &format!("/v1/rooms/GUESS{number}C"));
        call.header("x-forwarded-for", &format!("203.0.113.{number}"))
            .send()
            .await
            .problem(404, "unknown-room");
    }
    let call = open
        .call("GET", "/v1/rooms/GUESS99C")
        .header("x-forwarded-for", "203.0.113.99");
    call.send().await.problem(429, "too-many-guesses");
}
