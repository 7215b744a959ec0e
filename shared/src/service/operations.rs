//! The operations port: `/livez`, `/readyz`, `/metrics`.
//!
//! `/livez` says only that the process runs. `/readyz` names every condition that does not hold. Services set no
//! condition on what all replicas share: with Redis gone, all would become unready together, and nothing would be won.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Probes and scrapers are few; more connections than this wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 64;
/// A probe gives up after a few seconds anyway.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// What an accept error (no descriptors left) costs, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The media type of what `prometheus-client` writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Whether the service is ready, as a set of named conditions that must all hold.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    conditions: Arc<Mutex<BTreeMap<&'static str, Result<(), String>>>>,
}

impl Readiness {
    /// Sets one condition: `Ok`, or why not.
    pub fn set(&self, condition: &'static str, state: Result<(), String>) {
        self.lock().insert(condition, state);
    }

    /// All that does not hold.
    pub fn failing(&self) -> Vec<(&'static str, String)> {
        self.lock()
            .iter()
            .filter_map(|(name, state)| Some((*name, state.clone().err()?)))
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Result<(), String>>> {
        // Every critical section is one call on a map: a panic elsewhere cannot leave it half done.
        self.conditions
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The registries that `/metrics` shows. The port is open before everything behind it is: parts add theirs when they are.
#[derive(Debug, Clone, Default)]
pub struct Registries {
    all: Arc<Mutex<Vec<Arc<Registry>>>>,
}

impl Registries {
    /// Shows one more.
    pub fn add(&self, registry: impl Into<Arc<Registry>>) {
        self.lock().push(registry.into());
    }

    fn encode(&self) -> Result<String, std::fmt::Error> {
        let all = self.lock().clone();
        let mut text = String::new();
        for registry in &all {
            encode_registry(&mut text, registry)?;
        }
        encode_eof(&mut text)?;
        Ok(text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Registry>>> {
        self.all
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl From<Arc<Registry>> for Registries {
    fn from(registry: Arc<Registry>) -> Self {
        let registries = Registries::default();
        registries.add(registry);
        registries
    }
}

/// Serves the operations port until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    readiness: Readiness,
    registries: impl Into<Registries>,
    shutdown: CancellationToken,
) {
    let registries = registries.into();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, readiness.clone(), registries.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "the operations port cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn connection(stream: TcpStream, readiness: Readiness, registries: Registries) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(
            request.method(),
            request.uri().path(),
            &readiness,
            &registries,
        );
        async move { Ok::<_, Infallible>(response) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // Both ends of the timeout mean the same to a probe: it gets no answer and asks again.
    if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_TIMEOUT, served).await {
        tracing::debug!(%error, "a connection to the operations port ended early");
    }
}

fn respond(
    method: &Method,
    path: &str,
    readiness: &Readiness,
    registries: &Registries,
) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return answer(
            StatusCode::METHOD_NOT_ALLOWED,
            PLAIN_TEXT,
            "GET or HEAD\n".to_owned(),
        );
    }
    match path {
        "/livez" => answer(StatusCode::OK, PLAIN_TEXT, "alive\n".to_owned()),
        "/readyz" => ready(&readiness.failing()),
        "/metrics" => metrics(registries),
        _ => answer(
            StatusCode::NOT_FOUND,
            PLAIN_TEXT,
            "here are /livez, /readyz and /metrics\n".to_owned(),
        ),
    }
}

fn ready(failing: &[(&str, String)]) -> Response<Full<Bytes>> {
    if failing.is_empty() {
        return answer(StatusCode::OK, PLAIN_TEXT, "ready\n".to_owned());
    }
    let lines = failing
        .iter()
        .map(|(name, why)| format!("{name}: {why}\n"))
        .collect();
    answer(StatusCode::SERVICE_UNAVAILABLE, PLAIN_TEXT, lines)
}

fn metrics(registries: &Registries) -> Response<Full<Bytes>> {
    match registries.encode() {
        Ok(text) => answer(StatusCode::OK, OPEN_METRICS, text),
        Err(error) => answer(
            StatusCode::INTERNAL_SERVER_ERROR,
            PLAIN_TEXT,
            format!("{error}\n"),
        ),
    }
}

fn answer(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static(content_type),
    );
    headers.insert(
        CACHE_CONTROL,
        hyper::header::HeaderValue::from_static("no-store"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn exchange(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn answers_probes_and_scrapers_until_shut_down() {
        let mut registry = Registry::default();
        let taps = Counter::<u64>::default();
        registry.register("uproar_test_taps", "Taps that count", taps.clone());
        taps.inc_by(7);
        let registries = Registries::from(Arc::new(registry));
        let mut later = Registry::default();
        later.register(
            "uproar_test_late",
            "Of a part that came later",
            Counter::<u64>::default(),
        );
        registries.clone().add(later);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (readiness, shutdown) = (Readiness::default(), CancellationToken::new());
        let serving = tokio::spawn(serve(
            listener,
            readiness.clone(),
            registries,
            shutdown.clone(),
        ));
        let get = async |path: &str| {
            exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await
        };

        readiness.set("feeds", Err("shard 3 is silent".to_owned()));
        readiness.set("started", Ok(()));
        assert!(get("/livez").await.starts_with("HTTP/1.1 200"));
        let unready = get("/readyz").await;
        assert!(
            unready.starts_with("HTTP/1.1 503")
                && unready.ends_with("\r\n\r\nfeeds: shard 3 is silent\n")
        );
        readiness.set("feeds", Ok(()));
        assert!(get("/readyz").await.starts_with("HTTP/1.1 200"));

        let metrics = get("/metrics").await;
        assert!(
            metrics.contains("content-type: application/openmetrics-text; version=1.0.0"),
            "{metrics}"
        );
        assert!(
            metrics.contains("# HELP uproar_test_taps Taps that count.\n"),
            "{metrics}"
        );
        assert!(metrics.contains("uproar_test_taps_total 7\n"), "{metrics}");
        assert!(
            metrics.ends_with("uproar_test_late_total 0\n# EOF\n"),
            "{metrics}"
        );
        assert_eq!(metrics.matches("# EOF").count(), 1, "{metrics}");
        assert!(get("/").await.starts_with("HTTP/1.1 404"));
        let posted = exchange(
            address,
            "POST /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
        )
        .await;
        assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
        assert!(
            exchange(address, "nonsense\r\n\r\n")
                .await
                .starts_with("HTTP/1.1 400")
        );

        shutdown.cancel();
        serving.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
