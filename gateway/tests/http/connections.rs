//! Connections: limits of the handshake, what is no HTTP, too many of them, and the end.

use crate::support::{Gateway, PATIENCE, eventually, rig};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

const REQUEST: &[u8] = b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";

/// What comes back until the other side closes.
async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The other side may close while we still send.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends a request and reads its whole answer; the connection stays open.
async fn ask(stream: &mut TcpStream) -> bool {
    if stream.write_all(REQUEST).await.is_err() {
        return false;
    }
    let mut answer = Vec::new();
    let mut buffer = vec![0; 65_536];
    loop {
        let Ok(Ok(count @ 1..)) = timeout(PATIENCE, stream.read(&mut buffer)).await else {
            return false;
        };
        answer.extend_from_slice(&buffer[..count]);
        // The document's own last bytes.
        if answer.ends_with(b"}\n") {
            return answer.starts_with(b"HTTP/1.1 200");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn huge_headers_are_refused() {
    let gateway = Gateway::start().await;
    let large = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "x".repeat(100_000)
    );
    let answer = exchange(gateway.address, large.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    let many = format!(
        "GET / HTTP/1.1\r\nHost: x\r\n{}\r\n",
        "X: y\r\n".repeat(200)
    );
    let answer = exchange(gateway.address, many.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(100_000));
    let answer = exchange(gateway.address, long.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer:?}");
    assert_eq!(
        gateway.get("/v1/openapi.json").await.status,
        200,
        "nobody else is harmed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_http_is_refused() {
    let gateway = Gateway::start().await;
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ] {
        let answer = exchange(gateway.address, garbage).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer:?}"
        );
    }
    assert_eq!(gateway.get("/v1/openapi.json").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_handshake_is_cut_off() {
    let gateway = Gateway::start_with("join_timeout_seconds = 1").await;
    let mut slow = TcpStream::connect(gateway.address).await.unwrap();
    let mut silent = TcpStream::connect(gateway.address).await.unwrap();
    let mut patient = TcpStream::connect(gateway.address).await.unwrap();
    assert!(ask(&mut patient).await);
    let started = Instant::now();
    slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    for stream in [&mut slow, &mut silent] {
        let read = timeout(PATIENCE, stream.read(&mut [0; 64])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "closed without an answer");
    }
    assert!(started.elapsed() >= Duration::from_millis(900));
    assert_eq!(
        gateway
            .metric("uproar_gateway_http_slow_handshakes_total", "")
            .await,
        2.0
    );
    assert!(
        ask(&mut patient).await,
        "a connection that has asked once may idle for longer"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_route_and_status() {
    let gateway = Gateway::start().await;
    let (code, _) = gateway.room().await;
    gateway.get(&format!("/v1/rooms/{code}")).await;
    gateway.get("/v1/rooms/NOROOM27").await;
    gateway.get("/no/such/thing").await;
    let requests = async |labels: &str| {
        gateway
            .metric("uproar_gateway_http_requests_total", labels)
            .await
    };
    assert_eq!(
        requests("route=\"/v1/rooms/{code}\",status=\"200\"").await,
        1.0
    );
    assert_eq!(
        requests("route=\"/v1/rooms/{code}\",status=\"404\"").await,
        1.0
    );
    assert_eq!(requests("route=\"none\",status=\"404\"").await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_files_the_gateway_waits_and_serves_who_is_there() {
    let service = rig().await.service("gateway", &[]).unwrap();
    service.wait_ready().await.unwrap();
    let address = service.listen();
    let mut early = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut early).await);
    let limit = |files: &str| {
        let pid = service.pid().to_string();
        let done = Command::new("prlimit")
            .args(["--pid", &pid, &format!("--nofile={files}:20000")])
            .status();
        assert!(done.unwrap().success(), "prlimit of util-linux is there");
    };
    limit("60");
    let mut crowd = Vec::new();
    for _ in 0..100 {
        crowd.push(TcpStream::connect(address).await.unwrap());
    }
    let errors = || async {
        // The operations port needs a file for its answer, too: it can be out of reach for now.
        service
            .metric("uproar_gateway_http_accept_errors_total", "kind=\"files\"")
            .await
            .unwrap_or(0.0)
    };
    for _ in 0..10 {
        assert!(ask(&mut early).await, "who is there stays served");
        sleep(Duration::from_millis(200)).await;
    }
    drop(crowd);
    eventually("accept failed and was counted", || async {
        errors().await > 0.0
    })
    .await;
    let counted = errors().await;
    assert!(
        counted < 100.0,
        "it backs off instead of spinning: {counted} errors"
    );
    let mut late = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut late).await, "and then goes on");
    assert!(service.is_running());
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_end_idle_connections_are_closed() {
    let mut gateway = Gateway::start().await;
    let mut idle = TcpStream::connect(gateway.address).await.unwrap();
    assert!(ask(&mut idle).await);
    gateway.shutdown.cancel();
    let read = timeout(PATIENCE, idle.read(&mut [0; 64])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let ended = timeout(PATIENCE, &mut gateway.task).await.unwrap().unwrap();
    assert!(ended.is_ok(), "{ended:?}");
    assert!(
        TcpStream::connect(gateway.address).await.is_err(),
        "nobody listens any more"
    );
}
