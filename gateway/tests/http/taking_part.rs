//! The fallback and the door to the sockets, as HTTP sees them.

use crate::support::{Gateway, PATIENCE, text};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CLIENT: &str = "00112233445566778899aabbccddeeff";
const PAGE: &str = "0badcafe";

async fn tap(gateway: &Gateway, code: &str, taps: Value) -> crate::support::Reply {
    let body = json!({"client": CLIENT, "page": PAGE, "taps": taps});
    gateway
        .call("POST", &format!("/v1/rooms/{code}/taps"))
        .json(&body)
        .send()
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn taps_by_post_are_settled_one_by_one() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let reply = tap(
        &gateway,
        &code,
        json!([
            {"key": "clap", "seq": 1},
            {"key": "heart", "seq": 2},
            {"key": "nothing", "seq": 3},
            {"key": "clap", "seq": 4, "age_ms": 90_000},
        ]),
    )
    .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let results = reply.json()["results"].clone();
    assert_eq!(results[0], json!({"ack": 1}));
    for (index, why) in [(1, "cooldown"), (2, "unknown_reaction"), (3, "too_old")] {
        assert_eq!(results[index]["refused"]["why"], why, "{results}");
        assert_eq!(results[index]["refused"]["seq"], index + 1);
    }
    let again = tap(
        &gateway,
        &code,
        json!([{"key": "clap", "seq": 1, "age_ms": 500}]),
    )
    .await;
    assert_eq!(
        again.json()["results"][0],
        json!({"ack": 1}),
        "sent again, it is the same tap"
    );
    for state in ["paused", "closed"] {
        assert_eq!(
            gateway
                .patch(&code, &token, &json!({"state": state}))
                .await
                .status,
            200
        );
        let reply = tap(&gateway, &code, json!([{"key": "clap", "seq": 9}])).await;
        assert_eq!(reply.json()["results"][0]["refused"]["why"], state);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn taps_that_were_long_under_way_are_not_taken() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let room = gateway.get(&format!("/v1/rooms/{code}")).await;
    let now = room.json()["time"].as_u64().unwrap();
    let post = |time: Value| {
        let taps = json!([{"key": "clap", "seq": 1}]);
        let body = json!({"client": CLIENT, "page": PAGE, "time": time, "taps": taps});
        let call = gateway.call("POST", &format!("/v1/rooms/{code}/taps"));
        call.json(&body).send()
    };
    for time in [0, now - 25_001, now + 60_000, u64::MAX] {
        let reply = post(json!(time)).await;
        let problem = reply.problem(503, "stale");
        assert!(text(&problem["detail"]).contains("send the taps again"));
        assert_eq!(reply.header("retry-after"), "1");
    }
    assert_eq!(
        gateway.metric("uproar_gateway_taps_total", "").await,
        0.0,
        "none was taken"
    );
    // The same tap, with a time that is good: as told, from a slow line, and from a clock somewhat ahead.
    for time in [
        json!(now),
        json!(now - 10_000),
        json!(now + 5_000),
        json!(null),
    ] {
        let reply = post(time.clone()).await;
        assert_eq!(
            reply.json(),
            json!({"results": [{"ack": 1}]}),
            "{time}: {}",
            reply.text
        );
    }
    let without = tap(&gateway, &code, json!([{"key": "clap", "seq": 1}])).await;
    assert_eq!(without.json()["results"][0], json!({"ack": 1}));
    assert_eq!(gateway.metric("uproar_gateway_taps_total", "").await, 5.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn taps_of_a_wrong_shape() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let path = format!("/v1/rooms/{code}/taps");
    let good = json!([{"key": "clap", "seq": 1}]);
    let many: Vec<Value> = (1..66)
        .map(|seq| json!({"key": "clap", "seq": seq}))
        .collect();
    for (body, pointer) in [
        (json!({"page": PAGE, "taps": good}), "/client"),
        (
            json!({"client": "xyz", "page": PAGE, "taps": good}),
            "/client",
        ),
        (
            json!({"client": CLIENT, "page": "0", "taps": good}),
            "/page",
        ),
        (json!({"client": CLIENT, "page": PAGE}), "/taps"),
        (
            json!({"client": CLIENT, "page": PAGE, "taps": many}),
            "/taps",
        ),
        (
            json!({"client": CLIENT, "page": PAGE, "taps": [{"key": "No", "seq": 1}]}),
            "/taps/0",
        ),
    ] {
        let reply = gateway.call("POST", &path).json(&body).send().await;
        let problem = reply.problem(422, "invalid-fields");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    tap(&gateway, "NOROOM25", good)
        .await
        .problem(404, "unknown-room");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_begin_with_the_room_and_bring_its_changes() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let path = format!("/v1/rooms/{code}/events?client={CLIENT}&page={PAGE}");
    let response = gateway.call("GET", &path).open().await;
    assert_eq!(response.status(), 200);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert!(header("cache-control").contains("no-store"));
    assert_eq!(header("x-accel-buffering"), "no");
    let mut body = response.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(PATIENCE, body.frame())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let event = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let data = event.strip_prefix("data: ").unwrap();
        assert!(data.ends_with("\n\n"));
        serde_json::from_str::<Value>(data).unwrap()
    };
    assert_eq!(next().await["room"]["state"], "open");
    assert!(next().await["time"].is_u64());
    gateway
        .patch(&code, &token, &json!({"state": "paused"}))
        .await;
    assert_eq!(next().await["room"]["state"], "paused");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_ask_who_it_is() {
    let gateway = Gateway::start().await;
    let (code, token) = gateway.room().await;
    let path = |query: &str| format!("/v1/rooms/{code}/events?{query}");
    for query in [
        "",
        "client=xyz&page=0badcafe",
        "client=00112233445566778899aabbccddeeff",
        "role=king",
    ] {
        gateway.get(&path(query)).await.problem(400, "bad-request");
    }
    let host = path(&format!("client={CLIENT}&page={PAGE}&role=host"));
    gateway.get(&host).await.problem(401, "credentials");
    let (_, foreign) = gateway.room().await;
    gateway
        .call("GET", &host)
        .bearer(&foreign)
        .send()
        .await
        .problem(403, "foreign-token");
    assert_eq!(
        gateway
            .call("GET", &host)
            .bearer(&token)
            .open()
            .await
            .status(),
        200
    );
    let unknown = format!("/v1/rooms/NOROOM26/events?client={CLIENT}&page={PAGE}");
    gateway.get(&unknown).await.problem(404, "unknown-room");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_is_none_is_told_why() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    let path = format!("/v1/rooms/{code}/socket");
    let plain = gateway.get(&path).await;
    plain.problem(426, "upgrade-required");
    assert_eq!(plain.header("upgrade"), "websocket");
    let stripped = gateway
        .call("GET", &path)
        .header("sec-websocket-key", "x")
        .header("via", "1.1 cafe")
        .send()
        .await;
    let detail = text(&stripped.problem(426, "upgrade-required")["detail"]);
    assert!(
        detail.contains("127.0.0.1") && detail.contains("1.1 cafe"),
        "{detail}"
    );

    let handshake = |subprotocol: &str, version: &str| {
        let call = gateway
            .call("GET", &path)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket");
        let call = call.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        call.header("sec-websocket-version", version)
            .header("sec-websocket-protocol", subprotocol)
    };
    let wrong = handshake("chat", "13")
        .send()
        .await
        .problem(400, "bad-request");
    assert!(text(&wrong["detail"]).contains("uproar.v1"), "{wrong}");
    let old = handshake("uproar.v1", "8")
        .send()
        .await
        .problem(400, "bad-request");
    assert!(text(&old["detail"]).contains("13"), "{old}");
    let good = handshake("chat, uproar.v1", "13").open().await;
    assert_eq!(good.status(), 101);
    assert_eq!(good.headers()["sec-websocket-protocol"], "uproar.v1");
    gateway
        .get("/v1/rooms/!!/socket")
        .await
        .problem(404, "unknown-room");
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_without_http_1_1_is_named() {
    let gateway = Gateway::start().await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let request = b"GET /v1/rooms/PARTY7/socket HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 426"), "{answer}");
    assert!(answer.contains("proxy_http_version 1.1"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_gateway_says_so_and_goes_on_answering() {
    let gateway = Gateway::start_with("connections_max = 1").await;
    let (code, _) = gateway.room().await;
    let handshake = || {
        let call = gateway.call("GET", &format!("/v1/rooms/{code}/socket"));
        let call = call
            .header("connection", "Upgrade")
            .header("upgrade", "websocket");
        let call = call.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        call.header("sec-websocket-version", "13")
            .header("sec-websocket-protocol", "uproar.v1")
    };
    let first = handshake().open().await;
    assert_eq!(first.status(), 101);
    let _held = hyper::upgrade::on(first).await.unwrap();
    let second = handshake().send().await;
    second.problem(503, "unavailable");
    assert!(second.headers.contains_key("retry-after"));
    assert_eq!(gateway.get(&format!("/v1/rooms/{code}")).await.status, 200);
}
