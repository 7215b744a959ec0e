//! What programs read to learn the API: the OpenAPI document and the frames' JSON Schemas.

use crate::http::body::{Body, full};
use crate::http::error::ApiError;
use bytes::Bytes;
use hyper::Response;
use hyper::header::{self, HeaderValue};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Written by hand beside this file; the tests hold it against the routes, the problems and a running gateway.
pub(crate) const DOCUMENT: &str = include_str!("openapi.json");

static SCHEMAS: LazyLock<BTreeMap<&'static str, Bytes>> = LazyLock::new(|| {
    let schemas = shared::protocol::schemas().into_iter();
    schemas
        .map(|(name, schema)| (name, Bytes::from(format!("{schema:#}"))))
        .collect()
});

/// `GET /v1/openapi.json`
pub(crate) fn document() -> Response<Body> {
    respond(Bytes::from_static(DOCUMENT.as_bytes()), "application/json")
}

/// `GET /v1/schemas/NAME.json`
pub(crate) fn schema(name: &str) -> Result<Response<Body>, ApiError> {
    let schema = SCHEMAS.get(name).ok_or(ApiError::NoSuchPath)?;
    Ok(respond(schema.clone(), "application/schema+json"))
}

fn respond(bytes: Bytes, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Changes with the gateway's version only, but a rolling update should show at once.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
