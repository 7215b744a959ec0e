//! From a request to its response: finds the resource, checks method and origin, asks the one who knows, and dresses
//! the answer.

use crate::app::App;
use crate::http::body::{Body, empty};
use crate::http::error::ApiError;
use crate::http::metrics::RequestLabels;
use crate::http::origins::Relation;
use crate::http::pages::{self, Page};
use crate::http::route::Resource;
use crate::http::{events, openapi, qr, rooms, security, socket};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use std::net::IpAddr;
use std::sync::Arc;

/// Answers one request that came over a connection from `peer`.
///
/// # Cancel safety
/// Not safe between a change to a room and its answer: the change may have been made. The client reads the room again.
pub(crate) async fn answer(
    app: &Arc<App>,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Response<Body> {
    let uri = request.uri().clone();
    let headers = request.headers().clone();
    let resource = Resource::parse(uri.path());
    let result = match &resource {
        Some(resource) => dispatch(app, peer, resource, request).await,
        None => Err(ApiError::NoSuchPath),
    };
    let mut response = match result {
        Ok(response) => response,
        Err(error) => failed(app, &headers, resource.as_ref(), uri.path(), &error),
    };
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        app.settings
            .origins
            .allow_reading(&headers, response.headers_mut());
        security::secure(&app.settings, &headers, response.headers_mut());
    }
    let route = resource.as_ref().map_or("none", Resource::name);
    let labels = RequestLabels {
        route,
        status: status.as_u16(),
    };
    app.http.metrics.requests.get_or_create(&labels).inc();
    response
}

async fn dispatch(
    app: &Arc<App>,
    peer: IpAddr,
    resource: &Resource<'_>,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let method = request.method();
    if !resource.has(method.as_str()) {
        return Err(ApiError::MethodNotAllowed {
            allow: resource.allow(),
        });
    }
    if method == Method::OPTIONS {
        return Ok(options(app, resource, request.headers()));
    }
    let only_reads = matches!(*method, Method::GET | Method::HEAD) && !resource.takes_part();
    if !only_reads {
        check_origin(app, request.headers())?;
    }
    let from = app.settings.trusted_proxies.client(peer, request.headers());
    match resource {
        Resource::Home => Ok(pages::respond(
            app,
            request.headers(),
            request.uri().query(),
            Page::Home,
        )),
        Resource::New => Ok(pages::respond(
            app,
            request.headers(),
            request.uri().query(),
            Page::New,
        )),
        Resource::Asset(name) => Ok(pages::respond(
            app,
            request.headers(),
            request.uri().query(),
            Page::Asset(name),
        )),
        Resource::RoomPage(code, view) => {
            let copy = rooms::open(app, code, from).await?;
            let code = &copy.room().code;
            let page = Page::Room {
                view: *view,
                code,
                room: &copy.frame(),
            };
            Ok(pages::respond(
                app,
                request.headers(),
                request.uri().query(),
                page,
            ))
        }
        Resource::Rooms => rooms::create(app, request).await,
        Resource::Room(code) if method == Method::PATCH => {
            rooms::patch(app, code, from, request).await
        }
        Resource::Room(code) => rooms::read(app, code, from).await,
        Resource::HostTokens(code) => rooms::issue_token(app, code, &request).await,
        Resource::Qr(code) => qr::draw(app, code, from).await,
        Resource::Events(code) => events::stream(app, code, from, request).await,
        Resource::Taps(code) => events::taps(app, code, from, request).await,
        Resource::Socket(code) => socket::upgrade(app, code, peer, from, request),
        Resource::OpenApi => Ok(openapi::document()),
        Resource::Schema(name) => openapi::schema(name),
    }
}

fn check_origin(app: &App, headers: &HeaderMap) -> Result<(), ApiError> {
    if app.settings.origins.relation(headers) != Relation::Foreign {
        return Ok(());
    }
    app.http.metrics.foreign_origins.inc();
    let origin = headers
        .get(header::ORIGIN)
        .map_or(&[][..], HeaderValue::as_bytes);
    Err(ApiError::Origin(
        String::from_utf8_lossy(origin).chars().take(100).collect(),
    ))
}

/// What a resource has; for browsers that ask on behalf of another site's page, also whether that page may use it.
fn options(app: &App, resource: &Resource<'_>, headers: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(resource.allow()));
    app.settings
        .origins
        .allow_sending(headers, resource.allow(), response.headers_mut());
    response
}

/// A person who opened a page gets a page that says what is wrong, everyone else a problem document.
fn failed(
    app: &App,
    headers: &HeaderMap,
    resource: Option<&Resource<'_>>,
    path: &str,
    error: &ApiError,
) -> Response<Body> {
    let status = error.status();
    if let ApiError::Internal(source) = error {
        tracing::error!(path, error = format!("{source:#}"), "a request failed");
    }
    let is_page = match resource {
        Some(resource) => resource.is_page(),
        None => !path.starts_with("/v1/"),
    };
    if !is_page || status == StatusCode::METHOD_NOT_ALLOWED || !accepts_html(headers) {
        return error.response(path);
    }
    let typed = match resource {
        Some(Resource::RoomPage(code, _)) => code,
        _ => path,
    };
    let retry_after_seconds = error.retry_after().map(|wait| wait.as_secs().max(1));
    let mut response = pages::respond(
        app,
        headers,
        None,
        Page::Failed {
            status,
            typed,
            retry_after_seconds,
        },
    );
    if let Some(seconds) = retry_after_seconds {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn accepts_html(headers: &HeaderMap) -> bool {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}
