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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::error::PROBLEMS;
    use crate::http::route::Resource;
    use serde_json::Value;

    fn read() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    #[test]
    fn every_path_and_method_is_a_route_and_the_other_way_round() {
        let document = read();
        let paths = document["paths"].as_object().unwrap();
        for (path, item) in paths {
            let concrete = path.replace("{code}", "PARTY7").replace("{name}", "client");
            let resource =
                Resource::parse(&concrete).unwrap_or_else(|| panic!("{path} is no route"));
            assert_eq!(resource.name(), path);
            let mut described: Vec<String> = item
                .as_object()
                .unwrap()
                .keys()
                .filter(|key| *key != "parameters")
                .map(|key| key.to_uppercase())
                .collect();
            let mut routed: Vec<&str> = resource
                .allow()
                .split(", ")
                .filter(|method| !["HEAD", "OPTIONS"].contains(method))
                .collect();
            described.sort();
            routed.sort_unstable();
            assert_eq!(described, routed, "{path}");
        }
        let api = [
            Resource::Rooms,
            Resource::Room("PARTY7".into()),
            Resource::HostTokens("PARTY7".into()),
            Resource::Qr("PARTY7".into()),
            Resource::Events("PARTY7".into()),
            Resource::Taps("PARTY7".into()),
            Resource::Socket("PARTY7".into()),
            Resource::OpenApi,
            Resource::Schema("client"),
        ];
        assert_eq!(paths.len(), api.len());
        assert!(
            api.iter()
                .all(|resource| paths.contains_key(resource.name()))
        );
    }

    #[test]
    fn every_problem_is_described() {
        let document = read();
        let described = document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
            .as_array()
            .unwrap();
        let named: Vec<String> = PROBLEMS
            .iter()
            .map(|(name, ..)| format!("urn:uproar:problem:{name}"))
            .collect();
        assert_eq!(
            described
                .iter()
                .map(|name| name.as_str().unwrap())
                .collect::<Vec<_>>(),
            named
        );
        let text = document["info"]["description"].as_str().unwrap();
        for (name, status, _) in PROBLEMS {
            assert!(
                text.contains(&format!("| `{name}` | {} |", status.as_u16())),
                "{name} is missing in the table"
            );
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = read();
        let mut references = Vec::new();
        collect(&document, &mut references);
        assert!(references.len() > 50, "the walk finds them");
        for reference in references {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    fn collect(value: &Value, references: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                if let Some(reference) = object.get("$ref") {
                    references.push(reference.as_str().unwrap().to_owned());
                }
                object.values().for_each(|value| collect(value, references));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
            _ => {}
        }
    }

    #[test]
    fn schemas_are_served_by_name() {
        assert!(schema("client").is_ok() && schema("server").is_ok());
        assert!(matches!(schema("nobody"), Err(ApiError::NoSuchPath)));
    }
}
