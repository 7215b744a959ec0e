//! A gateway in this process on the binary's one rig, and a client that shows all of an answer.

use bytes::Bytes;
use gateway::settings::Settings;
use gateway::{Listeners, run};
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use rig::Rig;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Opens `POST /v1/rooms` in all of these tests.
pub(crate) const ADMIN_KEY: &str = "an admin key for tests";

/// What links begin with: not where the gateway listens, so that a test sees which of the two is used.
pub(crate) const PUBLIC_URL: &str = "https://uproar.example";

/// However slow the machine is, what is waited for has happened by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

static RIG: OnceCell<Rig> = OnceCell::const_new();

/// Redis without Postgres, which the gateway does not know.
pub(crate) async fn rig() -> &'static Rig {
    let options = rig::Options {
        postgres: false,
        ..rig::Options::default()
    };
    RIG.get_or_try_init(|| Rig::start(options)).await.unwrap()
}

/// A gateway that runs in this process until it is dropped.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) operations: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<anyhow::Result<()>>,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// With further lines for the section `[gateway]`.
    pub(crate) async fn start_with(lines: &str) -> Self {
        Self::start_on(rig().await, lines).await
    }

    /// On another rig than the binary's.
    pub(crate) async fn start_on(rig: &Rig, lines: &str) -> Self {
        let mut toml = String::new();
        if !lines.contains("admin_key") {
            toml.push_str(&format!("admin_key = \"{ADMIN_KEY}\"\n"));
        }
        if !lines.contains("host_token_keys") {
            toml.push_str("host_token_keys = { first = \"the first key, of 32 bytes or more\" }\n");
        }
        let toml = format!(
            r#"
[redis]
nodes = {nodes:?}
[gateway]
listen = "127.0.0.1:0"
operations_listen = "127.0.0.1:0"
public_url = "{PUBLIC_URL}"
client_hash_key = "0123456789abcdef"
drain_seconds = 2
{toml}
{lines}
"#,
            nodes = rig.redis_nodes(),
        );
        let settings = shared::service::main::settings_from_toml(&toml, Settings::read).unwrap();
        let listeners = Listeners::bind(&settings).await.unwrap();
        let address = listeners.public.local_addr().unwrap();
        let operations = listeners.operations.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(settings, listeners, shutdown.clone()));
        let gateway = Gateway {
            address,
            operations,
            shutdown,
            task,
        };
        gateway.wait_ready().await;
        gateway
    }

    async fn wait_ready(&self) {
        eventually("the gateway is ready", || async {
            rig::get(self.operations, "/readyz")
                .await
                .is_ok_and(|(status, _)| status == 200)
        })
        .await;
    }

    /// A request; see [`Call`].
    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        let mut headers = HeaderMap::new();
        headers.insert(
            "host",
            HeaderValue::from_str(&self.address.to_string()).unwrap(),
        );
        Call {
            address: self.address,
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            body: Bytes::new(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call("GET", path).send().await
    }

    /// Makes a room; the answer's JSON.
    pub(crate) async fn make_room(&self, body: Value) -> Value {
        let reply = self
            .call("POST", "/v1/rooms")
            .bearer(ADMIN_KEY)
            .json(&body)
            .send()
            .await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()
    }

    /// Makes a room of the standard palette; its code and host token.
    pub(crate) async fn room(&self) -> (String, String) {
        let made = self.make_room(json!({"title": "Keynote"})).await;
        (text(&made["code"]), text(&made["host_token"]))
    }

    pub(crate) async fn patch(&self, code: &str, token: &str, body: &Value) -> Reply {
        self.call("PATCH", &format!("/v1/rooms/{code}"))
            .bearer(token)
            .json(body)
            .send()
            .await
    }

    /// The sum of a metric's lines that hold `labels`.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> f64 {
        let (_, text) = rig::get(self.operations, "/metrics").await.unwrap();
        text.lines()
            .filter(|line| line.starts_with(name) && line.contains(labels))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// One request on a connection of its own.
pub(crate) struct Call {
    address: SocketAddr,
    method: String,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Call {
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        );
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        let name = AUTHORIZATION.as_str();
        let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        let mut call = self;
        call.headers
            .insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        call
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub(crate) fn body(mut self, kind: &str, body: impl Into<Bytes>) -> Self {
        self.headers
            .insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
        self.body = body.into();
        self
    }

    /// Sends it and gives the head of the answer, its body still to come.
    pub(crate) async fn open(self) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection.with_upgrades());
        let mut request = Request::builder()
            .method(self.method.as_str())
            .uri(&self.path)
            .body(Full::new(self.body))
            .unwrap();
        *request.headers_mut() = self.headers;
        tokio::time::timeout(PATIENCE, sender.send_request(request))
            .await
            .unwrap()
            .unwrap()
    }

    pub(crate) async fn send(self) -> Reply {
        let (head, body) = self.open().await.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect())
            .await
            .unwrap()
            .unwrap();
        Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8(body.to_bytes().to_vec()).unwrap(),
        }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Checks that it is a problem document of this name and status; gives the document.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, name: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let document = self.json();
        assert_eq!(
            document["type"],
            format!("urn:uproar:problem:{name}"),
            "{document}"
        );
        assert_eq!(document["status"], status);
        for field in ["title", "detail", "instance"] {
            assert!(
                document[field]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{document}"
            );
        }
        document
    }
}

/// A JSON text.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Waits until something holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let patience = tokio::time::Instant::now() + PATIENCE;
    while !holds().await {
        assert!(
            tokio::time::Instant::now() < patience,
            "waited in vain: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
