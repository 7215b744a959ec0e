//! Every way in which a request can fail, and the one place where a failure becomes a response: a problem document
//! (RFC 9457) that says what was wrong, where, and what would be right.

use crate::http::body::{Body, full};
use crate::http::tokens::TokenError;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use shared::cluster::RequestError;
use shared::counting::freshness::TRANSIT_MAX_MS;
use std::time::Duration;

/// What a client is told to wait when a dependency is away: the time in which Redis elects a new master.
const RETRY_AFTER_UNAVAILABLE: Duration = Duration::from_secs(2);

/// What a client is told to wait with stale taps: a fresh time is there for the asking.
const RETRY_AFTER_STALE: Duration = Duration::from_secs(1);

/// One thing wrong with a body, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FieldError {
    /// JSON pointer (RFC 6901) into the body; empty for the body itself.
    pub(crate) pointer: String,
    /// What is wrong and what would be right.
    pub(crate) detail: String,
}

impl FieldError {
    /// At a place of the body.
    pub(crate) fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        FieldError {
            pointer: pointer.into(),
            detail: detail.into(),
        }
    }
}

/// Why a request is not answered as asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// No route has this path.
    #[error("nothing is served at this path; /v1/openapi.json lists what is")]
    NoSuchPath,
    /// The path is none of a room that exists.
    #[error("there is no room {0:?}; check the code, or make the room first")]
    UnknownRoom(String),
    /// Too many codes were guessed from this address.
    #[error(
        "more than {limit} unknown room codes came from this address within a minute; a code that exists is let in at any time"
    )]
    TooManyGuesses {
        /// How many are free.
        limit: usize,
        /// Until the oldest of them no longer counts.
        retry_after: Duration,
    },
    /// The path exists, but not for this method.
    #[error("this path answers {allow} only")]
    MethodNotAllowed {
        /// The methods it has.
        allow: &'static str,
    },
    /// A query or a path that cannot be read.
    #[error("{0}")]
    BadRequest(String),
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// The body is not said to be JSON.
    #[error("the body must be sent as Content-Type: application/json, not {0}")]
    MediaType(String),
    /// The body is larger than this route takes.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The body took too long to arrive.
    #[error("the body did not arrive within {0:?}")]
    BodyTimeout(Duration),
    /// The body is JSON with wrong content.
    #[error("{} of the body cannot be taken as it is; see errors", if .0.len() == 1 { "one field" } else { "several fields" })]
    Fields(Vec<FieldError>),
    /// No bearer token came along.
    #[error("this needs the header Authorization: Bearer … with {0}")]
    NoCredentials(&'static str),
    /// The admin key is wrong.
    #[error("the bearer token is not this installation's admin key (gateway.admin_key)")]
    WrongAdminKey,
    /// This installation has no admin key.
    #[error("rooms cannot be made here: the setting gateway.admin_key is empty")]
    NoAdminKey,
    /// The host token is not good for this room.
    #[error("{0}")]
    Token(#[from] TokenError),
    /// The page that sent the request belongs to another site.
    #[error(
        "pages of {0} may not do this; add the origin to the setting gateway.origins if they should"
    )]
    Origin(String),
    /// A room with this code exists.
    #[error("the code {0} is taken; choose another one or leave it out to be given one")]
    CodeTaken(String),
    /// The room is not at the version that the change was made for.
    #[error(
        "the room is at version {current}, the change was made for version {given}; read the room and decide again"
    )]
    VersionConflict {
        /// What the client sent.
        given: u64,
        /// What the room has.
        current: u64,
    },
    /// Others kept changing the room.
    #[error("others keep changing this room; try again")]
    Contended,
    /// A socket path without a WebSocket handshake.
    #[error("{0}")]
    UpgradeRequired(String),
    /// Redis cannot be reached, or is at its limit.
    #[error("{0}; nothing is lost, try again")]
    Unavailable(String),
    /// Taps that came with a time that is not of now.
    #[error(
        "the `time` of this request is more than {} s old, or ahead of this gateway's, so its taps may have been sent again and counted meanwhile; none was taken. Wait for the next time of the event stream, or read the room for one, and send the taps again with it, each with its age",
        TRANSIT_MAX_MS / 1000
    )]
    Stale,
    /// Something that must not happen.
    #[error("an internal error; the log of the gateway has it")]
    Internal(#[source] anyhow::Error),
}

/// A request that Redis did not serve: the room may well exist, so the client comes back.
impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::OutOfMemory => ApiError::Unavailable("the store is full".to_owned()),
            RequestError::NotDone(_) | RequestError::Unknown(_) => {
                tracing::debug!(%error, "a request to Redis failed");
                ApiError::Unavailable("the store did not answer".to_owned())
            }
            RequestError::Refused(reason) => {
                ApiError::Internal(anyhow::anyhow!("Redis refused a request: {reason}"))
            }
        }
    }
}

/// A problem document.
#[derive(Debug, Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: String,
    instance: &'a str,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

/// Names, statuses and titles of all problems, as they stand in the OpenAPI document.
pub(crate) const PROBLEMS: [(&str, StatusCode, &str); 20] = [
    ("no-such-path", StatusCode::NOT_FOUND, "No such path"),
    ("unknown-room", StatusCode::NOT_FOUND, "No such room"),
    (
        "too-many-guesses",
        StatusCode::TOO_MANY_REQUESTS,
        "Too many unknown codes",
    ),
    (
        "method-not-allowed",
        StatusCode::METHOD_NOT_ALLOWED,
        "Method not allowed",
    ),
    ("bad-request", StatusCode::BAD_REQUEST, "Bad request"),
    ("not-json", StatusCode::BAD_REQUEST, "Not JSON"),
    (
        "media-type",
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "Unsupported media type",
    ),
    (
        "body-too-large",
        StatusCode::PAYLOAD_TOO_LARGE,
        "Body too large",
    ),
    ("body-timeout", StatusCode::REQUEST_TIMEOUT, "Body too slow"),
    (
        "invalid-fields",
        StatusCode::UNPROCESSABLE_ENTITY,
        "Invalid fields",
    ),
    (
        "credentials",
        StatusCode::UNAUTHORIZED,
        "Missing or unknown credentials",
    ),
    (
        "no-admin-key",
        StatusCode::FORBIDDEN,
        "Rooms cannot be made here",
    ),
    (
        "foreign-token",
        StatusCode::FORBIDDEN,
        "The token is for another room",
    ),
    ("origin", StatusCode::FORBIDDEN, "Origin not allowed"),
    ("code-taken", StatusCode::CONFLICT, "The code is taken"),
    (
        "version-conflict",
        StatusCode::CONFLICT,
        "The room has changed",
    ),
    (
        "upgrade-required",
        StatusCode::UPGRADE_REQUIRED,
        "A WebSocket handshake is needed",
    ),
    (
        "unavailable",
        StatusCode::SERVICE_UNAVAILABLE,
        "Unavailable for the moment",
    ),
    (
        "stale",
        StatusCode::SERVICE_UNAVAILABLE,
        "The taps were under way for too long",
    ),
    (
        "internal",
        StatusCode::INTERNAL_SERVER_ERROR,
        "Internal error",
    ),
];

impl ApiError {
    /// The name of the problem, the last part of its `type`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            ApiError::NoSuchPath => "no-such-path",
            ApiError::UnknownRoom(_) => "unknown-room",
            ApiError::TooManyGuesses { .. } => "too-many-guesses",
            ApiError::MethodNotAllowed { .. } => "method-not-allowed",
            ApiError::BadRequest(_) => "bad-request",
            ApiError::NotJson(_) => "not-json",
            ApiError::MediaType(_) => "media-type",
            ApiError::BodyTooLarge { .. } => "body-too-large",
            ApiError::BodyTimeout(_) => "body-timeout",
            ApiError::Fields(_) => "invalid-fields",
            ApiError::NoCredentials(_) | ApiError::WrongAdminKey => "credentials",
            ApiError::NoAdminKey => "no-admin-key",
            ApiError::Token(error) if error.is_foreign() => "foreign-token",
            ApiError::Token(_) => "credentials",
            ApiError::Origin(_) => "origin",
            ApiError::CodeTaken(_) => "code-taken",
            ApiError::VersionConflict { .. } => "version-conflict",
            ApiError::UpgradeRequired(_) => "upgrade-required",
            ApiError::Contended | ApiError::Unavailable(_) => "unavailable",
            ApiError::Stale => "stale",
            ApiError::Internal(_) => "internal",
        }
    }

    /// The status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        self.entry().1
    }

    /// After how long it makes sense to try again, where it does.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            ApiError::TooManyGuesses { retry_after, .. } => Some(*retry_after),
            ApiError::Unavailable(_) | ApiError::Contended => Some(RETRY_AFTER_UNAVAILABLE),
            ApiError::Stale => Some(RETRY_AFTER_STALE),
            _ => None,
        }
    }

    /// The response, and the only place where errors become one. `instance` is the path that was asked for, without
    /// its query: a query can hold a client's id.
    pub(crate) fn response(&self, instance: &str) -> Response<Body> {
        let (name, status, title) = self.entry();
        let document = Document {
            r#type: format!("urn:uproar:problem:{name}"),
            title,
            status: status.as_u16(),
            detail: self.to_string(),
            instance,
            errors: if let ApiError::Fields(errors) = self {
                errors
            } else {
                &[]
            },
            version: match self {
                ApiError::VersionConflict { current, .. } => Some(*current),
                _ => None,
            },
        };
        let text = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = Response::new(full(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let ApiError::MethodNotAllowed { allow } = self {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::UPGRADE_REQUIRED {
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        if let Some(wait) = self.retry_after() {
            // Whole seconds, rounded up: coming back too early would be refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }

    fn entry(&self) -> (&'static str, StatusCode, &'static str) {
        let name = self.name();
        let found = PROBLEMS.iter().find(|(known, ..)| *known == name);
        *found.expect("every error's name stands in the table of problems; a test walks them")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    /// One of each, which the compiler keeps complete by the match in [`ApiError::name`].
    fn all() -> Vec<ApiError> {
        let text = || "x".to_owned();
        let wait = Duration::from_millis(1500);
        vec![
            ApiError::NoSuchPath,
            ApiError::UnknownRoom(text()),
            ApiError::TooManyGuesses {
                limit: 20,
                retry_after: wait,
            },
            ApiError::MethodNotAllowed { allow: "GET" },
            ApiError::BadRequest(text()),
            ApiError::NotJson(text()),
            ApiError::MediaType(text()),
            ApiError::BodyTooLarge { limit: 1 },
            ApiError::BodyTimeout(wait),
            ApiError::Fields(vec![FieldError::new("/title", "is missing")]),
            ApiError::NoCredentials("a host token"),
            ApiError::WrongAdminKey,
            ApiError::NoAdminKey,
            ApiError::Token(TokenError::Expired),
            ApiError::Token(TokenError::EarlierRoom),
            ApiError::Origin(text()),
            ApiError::CodeTaken(text()),
            ApiError::VersionConflict {
                given: 1,
                current: 2,
            },
            ApiError::Contended,
            ApiError::UpgradeRequired(text()),
            ApiError::Unavailable(text()),
            ApiError::Stale,
            ApiError::Internal(anyhow::anyhow!("a secret of the store")),
        ]
    }

    async fn body(response: Response<Body>) -> serde_json::Value {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn every_error_is_a_problem_document() {
        let mut seen = std::collections::BTreeSet::new();
        for error in all() {
            let response = error.response("/v1/rooms");
            assert_eq!(
                response.headers()["content-type"],
                "application/problem+json"
            );
            let status = response.status();
            let text = body(response).await;
            assert_eq!(text["status"], status.as_u16());
            assert_eq!(text["type"], format!("urn:uproar:problem:{}", error.name()));
            assert_eq!(text["instance"], "/v1/rooms");
            assert!(
                text["detail"]
                    .as_str()
                    .is_some_and(|detail| !detail.is_empty())
            );
            seen.insert(error.name());
        }
        assert_eq!(
            seen.len(),
            PROBLEMS.len(),
            "every problem of the table can happen"
        );
    }

    #[tokio::test]
    async fn what_helps_comes_along() {
        let response = ApiError::MethodNotAllowed { allow: "GET, HEAD" }.response("/");
        assert_eq!(response.headers()["allow"], "GET, HEAD");
        let wait = Duration::from_millis(1001);
        let response = ApiError::TooManyGuesses {
            limit: 20,
            retry_after: wait,
        }
        .response("/");
        assert_eq!(response.headers()["retry-after"], "2", "rounded up");
        let response = ApiError::WrongAdminKey.response("/");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let response = ApiError::VersionConflict {
            given: 1,
            current: 7,
        }
        .response("/");
        assert_eq!(body(response).await["version"], 7);
        let fields = ApiError::Fields(vec![FieldError::new("/title", "is missing")]);
        assert_eq!(
            body(fields.response("/")).await["errors"][0]["pointer"],
            "/title"
        );
    }

    #[tokio::test]
    async fn what_went_wrong_inside_stays_inside() {
        let error = ApiError::Internal(anyhow::anyhow!("a secret of the store"));
        assert!(
            !body(error.response("/"))
                .await
                .to_string()
                .contains("secret")
        );
    }
}
