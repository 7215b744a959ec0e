//! The gateway's HTTP API, as far as the commands use it.

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use shared::room::{Palette, RoomCode};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A gateway that does not answer within this time is as good as dead to whoever waits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A room as it was made.
#[derive(Debug, Clone, Deserialize)]
pub struct MadeRoom {
    /// Its code.
    pub code: RoomCode,
    /// Opens its host page.
    pub host_token: String,
    /// Its pages.
    pub links: Links,
}

/// The pages of a room.
#[derive(Debug, Clone, Deserialize)]
pub struct Links {
    /// For phones.
    pub audience: String,
    /// For the slides.
    pub stage: String,
    /// For whoever runs it; holds the token.
    pub host: String,
}

/// Makes a room: `room` as the API takes it, such as `{"title":"…","code":"PARTY7"}`.
///
/// # Errors
/// No answer, or a refusal, with what the gateway said.
pub async fn make_room(
    gateway: SocketAddr,
    admin_key: &str,
    room: &Value,
) -> anyhow::Result<MadeRoom> {
    let body = serde_json::to_vec(room)?;
    let answer = request(gateway, Method::POST, "/v1/rooms", Some(admin_key), body).await?;
    serde_json::from_slice(&answer).context("the gateway answered something else than a room")
}

/// A room as anybody may see it.
#[derive(Debug, Clone, Deserialize)]
pub struct ShownRoom {
    /// The buttons.
    pub palette: Palette,
    /// The least time between two taps.
    pub cooldown_ms: u32,
}

/// Looks at a room.
///
/// # Errors
/// No answer, or a refusal, with what the gateway said.
pub async fn room(gateway: SocketAddr, code: &RoomCode) -> anyhow::Result<ShownRoom> {
    let path = format!("/v1/rooms/{code}");
    let answer = request(gateway, Method::GET, &path, None, Vec::new()).await?;
    serde_json::from_slice(&answer).context("the gateway answered something else than a room")
}

/// Changes a room: `change` as the API takes it, such as `{"state":"paused"}`.
///
/// # Errors
/// No answer, or a refusal, with what the gateway said.
pub async fn change_room(
    gateway: SocketAddr,
    room: &MadeRoom,
    change: &Value,
) -> anyhow::Result<()> {
    let path = format!("/v1/rooms/{}", room.code);
    let body = serde_json::to_vec(change)?;
    request(gateway, Method::PATCH, &path, Some(&room.host_token), body).await?;
    Ok(())
}

async fn request(
    gateway: SocketAddr,
    method: Method,
    path: &str,
    bearer: Option<&str>,
    body: Vec<u8>,
) -> anyhow::Result<Bytes> {
    let what = format!("{method} {path}");
    let asking = async {
        let stream = TcpStream::connect(gateway).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", gateway.to_string())
            .header("content-type", "application/json");
        if let Some(bearer) = bearer {
            request = request.header("authorization", format!("Bearer {bearer}"));
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let answering = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            // Lets the connection below come to its end.
            drop(sender);
            anyhow::Ok((status, body))
        };
        let (answer, _) = tokio::join!(answering, connection);
        answer
    };
    let answer = timeout(ANSWER_TIMEOUT, asking).await;
    let (status, body) = answer.with_context(|| format!("no answer to {what}"))??;
    if !status.is_success() {
        bail!(
            "{what} was answered {status}: {}",
            String::from_utf8_lossy(&body)
        );
    }
    Ok(body)
}
