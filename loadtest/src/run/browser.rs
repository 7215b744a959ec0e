//! A real browser in a room: whether a person's page shows what the servers count.
//!
//! Chromium is driven by its DevTools protocol over one WebSocket.

use anyhow::{Context, bail};
use bytes::Bytes;
use fastwebsockets::{FragmentCollector, Frame, OpCode, Payload, handshake};
use http_body_util::Empty;
use hyper::Request;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Names under which Chromium is installed.
const PROGRAMS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Starting takes a second or two, more on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the page may take to answer while its machine is loaded.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// What the audience page shows, by reaction.
const TOTALS: &str = "JSON.stringify(Object.fromEntries([...document.querySelectorAll('button[data-key]')]
    .map(button => [button.dataset.key, Number(button.querySelector('.total').dataset.total ?? 0)])))";

/// A browser with one page open.
pub struct Browser {
    child: Child,
    devtools: FragmentCollector<TokioIo<Upgraded>>,
    session: String,
    last_id: u64,
    /// Removed when dropped, after the browser has ended.
    _profile: TempDir,
}

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Browser")
    }
}

/// The browser of this machine, if there is one.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut candidates = PROGRAMS
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    candidates.find(|program| program.is_file())
}

impl Browser {
    /// Opens a page.
    ///
    /// # Errors
    /// The browser did not start or does not answer.
    pub async fn open(program: &Path, url: &str) -> anyhow::Result<Browser> {
        let profile = tempfile::tempdir().context("no folder for the browser's profile")?;
        let mut child = Command::new(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
            ])
            .args([
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .args(["--disable-sync", "--disable-dev-shm-usage", "--mute-audio"])
            // What the page does costs as little as it can: it shares the machine with what is measured.
            .args(["--force-prefers-reduced-motion", "--window-size=390,844"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(["--remote-debugging-port=0", "about:blank"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let address = timeout(START_TIMEOUT, devtools_address(&mut child)).await;
        let address = address.context("the browser did not start in time")??;
        let devtools = connect(&address).await?;
        let mut browser = Browser {
            child,
            devtools,
            session: String::new(),
            last_id: 0,
            _profile: profile,
        };
        let target = browser
            .call("Target.createTarget", json!({ "url": url }))
            .await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach).await?;
        let session = attached["sessionId"]
            .as_str()
            .context("the page cannot be attached to")?;
        browser.session = session.to_owned();
        Ok(browser)
    }

    /// Its process; others descend from it.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The totals that the page shows now.
    ///
    /// # Errors
    /// The browser is gone or does not answer.
    pub async fn totals(&mut self) -> anyhow::Result<BTreeMap<String, u64>> {
        let question = json!({ "expression": TOTALS, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", question).await?;
        let text = answer["result"]["value"].as_str();
        let text = text.with_context(|| format!("the page cannot be read: {answer}"))?;
        serde_json::from_str(text).context("the page shows something else than totals")
    }

    /// Asks, and waits for the answer; what else the browser tells meanwhile is passed over.
    async fn call(&mut self, method: &str, parameters: Value) -> anyhow::Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut question = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            question["sessionId"] = json!(self.session);
        }
        let text = question.to_string().into_bytes();
        let exchange = async {
            self.devtools
                .write_frame(Frame::text(Payload::Owned(text)))
                .await?;
            loop {
                let frame = self.devtools.read_frame().await?;
                match frame.opcode {
                    OpCode::Text => {}
                    OpCode::Close => bail!("the browser hung up"),
                    _ => continue,
                }
                let answer: Value = serde_json::from_slice(&frame.payload)?;
                if answer["id"] != json!(id) {
                    continue;
                }
                if let Some(error) = answer.get("error") {
                    bail!("{method}: {error}");
                }
                return Ok(answer["result"].clone());
            }
        };
        // On a time-out the connection is of no more use, and the run says so.
        let answer = timeout(ANSWER_TIMEOUT, exchange).await;
        answer.with_context(|| {
            format!("the browser did not answer {method} within {ANSWER_TIMEOUT:?}")
        })?
    }
}

/// The browser says on its standard error where it listens.
async fn devtools_address(child: &mut Child) -> anyhow::Result<String> {
    let output = child
        .stderr
        .take()
        .context("the browser has no standard error")?;
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some((_, address)) = line.split_once("DevTools listening on ") {
            let address = address.trim().to_owned();
            // What it says from now on is read, so that it is never held up, and dropped.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(address);
        }
    }
    bail!("the browser ended before it was ready")
}

async fn connect(address: &str) -> anyhow::Result<FragmentCollector<TokioIo<Upgraded>>> {
    let rest = address
        .strip_prefix("ws://")
        .context("the browser gave no ws:// address")?;
    let (host, path) = rest
        .split_once('/')
        .context("the browser's address has no path")?;
    let stream = TcpStream::connect(host).await?;
    let request = Request::get(format!("/{path}"))
        .header("host", host)
        .header("upgrade", "websocket")
        .header("connection", "upgrade")
        .header("sec-websocket-key", handshake::generate_key())
        .header("sec-websocket-version", "13")
        .body(Empty::<Bytes>::new())?;
    let shaken = handshake::client(&TokioExecutor::new(), request, stream).await;
    let (socket, _) = shaken.context("the browser refused the connection")?;
    Ok(FragmentCollector::new(socket))
}
