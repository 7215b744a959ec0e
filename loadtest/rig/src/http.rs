//! The least of HTTP: a GET of a short text from an operations port.

use anyhow::Context;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Status and body of a GET.
///
/// # Errors
/// No answer within two seconds, or one that is not HTTP.
pub async fn get(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let fetching = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = timeout(Duration::from_secs(2), fetching).await;
    let answer = answer.with_context(|| format!("no answer from {address}{path}"))??;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("the answer is not HTTP")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Ok((status.context("the answer has no status")?, body.to_owned()))
}
