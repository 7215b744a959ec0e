//! The accept loop. Whatever accept says, it goes on: those connected stay served, and those who wait are let in as
//! soon as there is room for them.

use crate::app::App;
use crate::http::metrics::AcceptErrorLabels;
use crate::http::router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::errno::Errno;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a connection may wait for its next request: longer than load balancers keep theirs (60 s), so that it is
/// never us who close one just as it is used again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// The most that request line and headers may take: browsers send 1 to 2 KB; hyper answers more with 431.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// The most headers; hyper answers more with 431.
const HEADERS_MAX: usize = 64;

/// How much of a request hyper reads ahead.
const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// Connections with HTTP beyond the cap of sockets and streams: room to tell them that the gateway is full.
const CONNECTIONS_BEYOND_CAP: usize = 1024;

/// The first wait after accept has failed for want of files or memory; doubled up to [`BACKOFF_MAX`].
const BACKOFF: Duration = Duration::from_millis(10);

/// The longest wait: phones whose handshake is done by the kernel wait about this long without noticing.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// How often a run of accept errors is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// How long requests under way may still take once accepting has stopped: as long as a room change may take.
const LAST_REQUESTS_TIMEOUT: Duration = Duration::from_secs(9);

/// Accepts connections until `stop`, then lets requests that are under way end (sockets have left hyper by then).
///
/// Each connection is served with `hyper::server::conn::http1::Builder` over `TokioIo<TcpStream>` and
/// `with_upgrades()`: the sockets take exactly that type back out of the upgrade.
pub async fn serve(app: Arc<App>, listener: TcpListener, stop: CancellationToken) {
    let tasks = TaskTracker::new();
    let give_up = CancellationToken::new();
    let places = Arc::new(Semaphore::new(places(&app)));
    let mut trouble = Trouble::default();
    loop {
        let Some(place) = place(&app, &places, &stop).await else {
            break;
        };
        // Cancel-safe: an accept that loses to `stop` has taken no connection.
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                trouble.over();
                let (stop, give_up) = (stop.clone(), give_up.clone());
                tasks.spawn(connection(app.clone(), stream, peer, place, stop, give_up));
            }
            Err(error) => {
                let wait = trouble.happened(&app, &error);
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
    }
    // From here on the kernel refuses new connections, and the load balancer takes others.
    drop(listener);
    tasks.close();
    if tokio::time::timeout(LAST_REQUESTS_TIMEOUT, tasks.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            connections = tasks.len(),
            "requests that did not end in time were cut off"
        );
        give_up.cancel();
        tasks.wait().await;
    }
}

fn places(app: &App) -> usize {
    let wanted = app
        .settings
        .connections_max
        .saturating_add(CONNECTIONS_BEYOND_CAP);
    wanted.min(Semaphore::MAX_PERMITS)
}

/// A place for one more connection with HTTP; none once stopped. At the cap the next ones wait in the kernel's queue
/// instead of costing memory here.
async fn place(
    app: &App,
    places: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<OwnedSemaphorePermit> {
    if let Ok(place) = places.clone().try_acquire_owned() {
        return Some(place);
    }
    app.http.metrics.accept_waits.inc();
    tracing::warn!("as many connections as the settings allow: accepting waits for one to end");
    // Both are cancel-safe.
    tokio::select! {
        () = stop.cancelled() => None,
        place = places.clone().acquire_owned() => place.ok(),
    }
}

/// Serves one connection until it ends or has become a socket.
async fn connection(
    app: Arc<App>,
    stream: TcpStream,
    peer: SocketAddr,
    _place: OwnedSemaphorePermit,
    stop: CancellationToken,
    give_up: CancellationToken,
) {
    prepare(&app, &stream);
    let open = app.http.metrics.connections.clone();
    open.inc();
    let has_asked = Arc::new(AtomicBool::new(false));
    let handler = {
        let (app, has_asked) = (app.clone(), has_asked.clone());
        service_fn(move |request| {
            has_asked.store(true, Ordering::Relaxed);
            handle(app.clone(), peer.ip(), request)
        })
    };
    let connection = builder()
        .serve_connection(TokioIo::new(stream), handler)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let mut handshake_ends = std::pin::pin!(tokio::time::sleep(app.settings.join_timeout));
    let (mut is_waiting, mut is_stopping) = (true, false);
    loop {
        // The connection is a future that is polled on, never dropped by a branch that does not end it.
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tracing::debug!(%peer, %error, "a connection broke");
                }
                break;
            }
            () = handshake_ends.as_mut(), if is_waiting => {
                is_waiting = false;
                if !has_asked.load(Ordering::Relaxed) {
                    app.http.metrics.slow_handshakes.inc();
                    break;
                }
            }
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = give_up.cancelled() => break,
        }
    }
    open.dec();
}

/// hyper's own timeout runs both while a header arrives and while a connection idles, so it is the longer of the two;
/// the first request has a shorter one of ours, the time that a socket has to join.
fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_header_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .keep_alive(true);
    builder
}

/// Options of the socket that only matter for speed and for finding out about peers that are gone: a connection
/// without them is served all the same.
fn prepare(app: &App, stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    let prepared = stream.set_nodelay(true).and_then(|()| {
        // A peer that takes nothing is given up by the kernel; hyper itself has no timeout for writing.
        socket.set_tcp_user_timeout(Some(app.settings.silence_close))
    });
    if let Err(error) = prepared {
        tracing::debug!(%error, "a socket option could not be set");
    }
}

async fn handle(
    app: Arc<App>,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<crate::http::body::Body>, Infallible> {
    Ok(router::answer(&app, peer, request).await)
}

/// A run of accept errors.
#[derive(Debug, Default)]
struct Trouble {
    in_a_row: u32,
    logged: Option<Instant>,
}

impl Trouble {
    /// Counts an error, logs it now and then, and says how long to wait before the next accept.
    fn happened(&mut self, app: &App, error: &io::Error) -> Duration {
        let kind = kind(error);
        let labels = AcceptErrorLabels { kind };
        app.http.metrics.accept_errors.get_or_create(&labels).inc();
        if self
            .logged
            .is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL)
        {
            self.logged = Some(Instant::now());
            tracing::warn!(%error, kind, "connections cannot be accepted; going on");
        }
        if kind == "connection" {
            // That one connection was gone before we came; the next one may be fine.
            return Duration::ZERO;
        }
        let wait = BACKOFF
            .saturating_mul(1 << self.in_a_row.min(16))
            .min(BACKOFF_MAX);
        self.in_a_row += 1;
        wait
    }

    fn over(&mut self) {
        self.in_a_row = 0;
    }
}

/// What accept failed for: files (EMFILE, ENFILE), memory, the one connection, or something else.
fn kind(error: &io::Error) -> &'static str {
    let Some(code) = error.raw_os_error() else {
        return "other";
    };
    match Errno::from_raw(code) {
        Errno::EMFILE | Errno::ENFILE => "files",
        Errno::ENOBUFS | Errno::ENOMEM => "memory",
        // Linux passes errors that already wait on the new connection through accept; see accept(2).
        Errno::ECONNABORTED
        | Errno::ECONNRESET
        | Errno::EPERM
        | Errno::EPROTO
        | Errno::EINTR
        | Errno::ENETDOWN
        | Errno::ENETUNREACH
        | Errno::EHOSTDOWN
        | Errno::EHOSTUNREACH
        | Errno::ENOPROTOOPT
        | Errno::EOPNOTSUPP
        | Errno::ENONET
        | Errno::ETIMEDOUT => "connection",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        for (code, expected) in [
            (Errno::EMFILE, "files"),
            (Errno::ENFILE, "files"),
            (Errno::ENOMEM, "memory"),
            (Errno::ECONNABORTED, "connection"),
            (Errno::EINVAL, "other"),
        ] {
            assert_eq!(kind(&io::Error::from(code)), expected, "{code}");
        }
        assert_eq!(kind(&io::Error::other("?")), "other");
    }
}
