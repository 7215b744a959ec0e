//! The fallback for those whose network blocks WebSockets, as HTTP sees it: a stream of events, and taps by POST.

use crate::app::{App, BadIds};
use crate::fallback::{self, NoResults};
use crate::http::admin::bearer;
use crate::http::body::{Body, read_json};
use crate::http::error::{ApiError, FieldError};
use crate::http::input::PostTaps;
use crate::http::rooms::{json_response, open};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde_json::json;
use shared::protocol::Role;
use std::net::IpAddr;
use std::sync::Arc;

/// The largest body of taps: 64 of them with long keys take some 6 KB.
const BODY_BYTES_MAX: usize = 16 * 1024;

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
    let mut response = Response::new(events.boxed_unsync());
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
    let results = fallback::taps(app, &room, client, page, posted.time, &posted.taps)
        .await
        .map_err(|error| match error {
            NoResults::Stale => ApiError::Stale,
            NoResults::Unsettled => ApiError::Unavailable(error.to_string()),
        })?;
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
}
