//! The fallback for those whose network blocks WebSockets, as HTTP sees it: a stream of events, and taps by POST.

use crate::app::{App, BadIds};
use crate::fallback;
use crate::http::admin::bearer;
use crate::http::body::{Body, read_json};
use crate::http::error::{ApiError, FieldError};
use crate::http::input::PostTaps;
use crate::http::rooms::{json_response, open};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde_json::json;
use shared::protocol::Role;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// The largest body of taps: 64 of them with long keys take some 6 KB.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Silence after which a comment is sent: proxies and load balancers end what is silent for a minute, some for thirty
/// seconds, and a phone that has gone is noticed only by writing to it.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(15);

/// A comment, which every reader of events ignores.
const KEEP_ALIVE: &[u8] = b":\n\n";

/// `GET /v1/rooms/CODE/events?client=…&page=…&role=…`; a host's token comes as bearer token.
pub(crate) async fn stream(
    app: &Arc<App>,
    typed: &str,
    from: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let query = Query::read(request.uri().query().unwrap_or_default())?;
    let (client, page) = app
        .identify(&query.client, &query.page)
        .map_err(|error| ApiError::BadRequest(format!("in the query, {error}")))?;
    if app.draining.is_cancelled() {
        return Err(ApiError::Unavailable(
            "this gateway is shutting down".to_owned(),
        ));
    }
    let room = open(app, typed, from).await?;
    if query.role == Role::Host {
        let token = bearer(request.headers()).ok_or(ApiError::NoCredentials("a host token"))?;
        app.tokens.verify(&room.room(), token)?;
    }
    let events = fallback::events(app, &room, client, page, query.role);
    let mut response = Response::new(KeepAlive::new(events, KEEP_ALIVE_AFTER).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-store, no-transform"),
    );
    // nginx would hold events back until its buffer is full.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// `POST /v1/rooms/CODE/taps`
pub(crate) async fn taps(
    app: &Arc<App>,
    typed: &str,
    from: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let posted = PostTaps::read(read_json(request, BODY_BYTES_MAX).await?)?;
    let (client, page) = app
        .identify(&posted.client, &posted.page)
        .map_err(|error| {
            let pointer = match error {
                BadIds::Client => "/client",
                BadIds::Page => "/page",
            };
            ApiError::Fields(vec![FieldError::new(pointer, error.to_string())])
        })?;
    let room = open(app, typed, from).await?;
    let results = fallback::taps(app, &room, client, page, &posted.taps)
        .await
        .map_err(|error| ApiError::Unavailable(error.to_string()))?;
    Ok(json_response(
        StatusCode::OK,
        &json!({ "results": results }),
    ))
}

/// What stands behind the `?`.
#[derive(Debug)]
struct Query {
    client: String,
    page: String,
    role: Role,
}

impl Query {
    fn read(query: &str) -> Result<Self, ApiError> {
        let mut read = Query {
            client: String::new(),
            page: String::new(),
            role: Role::Phone,
        };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "client" => read.client = value.into_owned(),
                "page" => read.page = value.into_owned(),
                "role" => {
                    read.role = match value.as_ref() {
                        "phone" => Role::Phone,
                        "stage" => Role::Stage,
                        "host" => Role::Host,
                        _ => {
                            let text = "in the query, role must be phone, stage or host";
                            return Err(ApiError::BadRequest(text.to_owned()));
                        }
                    }
                }
                // Ignored, as unknown keys of frames are: proxies and trackers add their own.
                _ => {}
            }
        }
        Ok(read)
    }
}

/// A body that says something at least every so often.
struct KeepAlive<B> {
    inner: B,
    after: Duration,
    silence: Pin<Box<Sleep>>,
}

impl<B> KeepAlive<B> {
    fn new(inner: B, after: Duration) -> Self {
        KeepAlive {
            inner,
            after,
            silence: Box::pin(tokio::time::sleep(after)),
        }
    }
}

impl<B> hyper::body::Body for KeepAlive<B>
where
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Unpin,
{
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(some) => some,
            Poll::Pending => {
                if self.silence.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                Some(Ok(Frame::data(Bytes::from_static(KEEP_ALIVE))))
            }
        };
        let next = Instant::now() + self.after;
        self.silence.as_mut().reset(next);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_its_role_checked() {
        let query = Query::read("client=ab&page=cd&utm_source=x").unwrap();
        assert_eq!(
            (query.client.as_str(), query.page.as_str(), query.role),
            ("ab", "cd", Role::Phone)
        );
        assert_eq!(Query::read("role=stage").unwrap().role, Role::Stage);
        assert!(matches!(
            Query::read("role=king"),
            Err(ApiError::BadRequest(_))
        ));
    }

    #[tokio::test]
    async fn silence_is_broken_by_comments() {
        let after = Duration::from_millis(20);
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let mut body = KeepAlive::new(Channel(receiver), after);
        let start = Instant::now();
        let comment = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(&comment[..], KEEP_ALIVE);
        assert!(start.elapsed() >= after);
        sender
            .send(Bytes::from_static(b"data: {}\n\n"))
            .await
            .unwrap();
        let event = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(&event[..6], b"data: ");
        let silent_since = Instant::now();
        body.frame().await.unwrap().unwrap();
        assert!(
            silent_since.elapsed() >= after,
            "silence begins with the last event"
        );
        drop(sender);
        assert!(
            body.frame().await.is_none(),
            "the stream ends with its source"
        );
    }

    struct Channel(tokio::sync::mpsc::Receiver<Bytes>);

    impl hyper::body::Body for Channel {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0
                .poll_recv(context)
                .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        }
    }
}
