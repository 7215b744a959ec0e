//! Bodies: those we send, and those we read, which have a bound in size and in time.

use crate::http::error::ApiError;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, LengthLimitError, Limited};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header;
use serde_json::Value;
use std::convert::Infallible;
use std::time::Duration;

/// The body of every response.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// How long a body may take to arrive: some seconds on a bad line; longer is an attack on our memory.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A body that is there already.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// No body.
pub fn empty() -> Body {
    Empty::new().boxed_unsync()
}

/// Reads a JSON body of at most `limit` bytes.
///
/// # Errors
/// Its media type, size, slowness, or that it is not JSON.
pub(crate) async fn read_json(request: Request<Incoming>, limit: usize) -> Result<Value, ApiError> {
    check_media_type(request.headers())?;
    // Cancel-safe: when the time is over, the request is answered and its connection closed; nothing goes on with it.
    let read = tokio::time::timeout(
        BODY_TIMEOUT,
        Limited::new(request.into_body(), limit).collect(),
    );
    let bytes = match read.await {
        Err(_) => return Err(ApiError::BodyTimeout(BODY_TIMEOUT)),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err(ApiError::BodyTooLarge { limit });
        }
        Ok(Err(error)) => return Err(ApiError::BadRequest(format!("the body broke off: {error}"))),
        Ok(Ok(body)) => body.to_bytes(),
    };
    serde_json::from_slice(&bytes).map_err(|error| ApiError::NotJson(error.to_string()))
}

fn check_media_type(headers: &header::HeaderMap) -> Result<(), ApiError> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        return Err(ApiError::MediaType("without one".to_owned()));
    };
    let text = value.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is_json = essence.eq_ignore_ascii_case("application/json")
        || essence.eq_ignore_ascii_case("application/merge-patch+json");
    if is_json {
        return Ok(());
    }
    let shown: String = essence.chars().take(60).collect();
    Err(ApiError::MediaType(format!("{shown:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_is_taken() {
        let check = |text: &str| {
            let mut headers = header::HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, text.parse().unwrap());
            check_media_type(&headers)
        };
        for good in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/merge-patch+json",
        ] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "",
        ] {
            assert!(matches!(check(bad), Err(ApiError::MediaType(_))), "{bad}");
        }
        assert!(matches!(
            check_media_type(&header::HeaderMap::new()),
            Err(ApiError::MediaType(_))
        ));
    }
}
