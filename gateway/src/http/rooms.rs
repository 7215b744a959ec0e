//! The rooms API: make a room, read it, change it, hand it to another host.

use crate::app::App;
use crate::http::admin::bearer;
use crate::http::body::{Body, full, read_json};
use crate::http::change::{self, Outcome};
use crate::http::error::ApiError;
use crate::http::input::{CreateRoom, PatchRoom};
use crate::rooms::{RoomCopy, RoomError};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use shared::room::{COOLDOWN_MS_STANDARD, Palette, Room, RoomCode, RoomState};
use std::net::IpAddr;
use std::sync::Arc;

/// The largest body: twelve reactions with long labels and a long title, each character escaped, take some 9 KB.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Codes tried for a room that named none. With a million rooms the first is taken once in 900 times.
const CODES_TRIED_MAX: usize = 8;

/// How often a change without a version is made again upon what others changed meanwhile.
const UPDATES_TRIED_MAX: usize = 8;

/// The code in a path, as it was typed.
///
/// # Errors
/// It is none, so there is no such room. Not counted as a guess: it tells a guesser nothing.
pub(crate) fn code(typed: &str) -> Result<RoomCode, ApiError> {
    typed.parse().map_err(|_| unknown(typed))
}

/// The gateway's copy of a room, for whoever asks from `from`.
///
/// # Errors
/// No such room, too many guesses, or Redis does not answer.
pub(crate) async fn open(app: &App, typed: &str, from: IpAddr) -> Result<Arc<RoomCopy>, ApiError> {
    match app.rooms.open(&code(typed)?).await {
        Ok(copy) => Ok(copy),
        Err(RoomError::Unknown(_)) => Err(guessed(app, typed, from)),
        Err(error @ RoomError::Unavailable) => Err(ApiError::Unavailable(error.to_string())),
    }
}

/// `POST /v1/rooms`
pub(crate) async fn create(
    app: &App,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    app.http.admin_key.check(request.headers())?;
    let wanted = CreateRoom::read(read_json(request, BODY_BYTES_MAX).await?)?;
    let room = make(app, wanted).await?;
    tracing::info!(code = %room.code, "a room was made");
    let mut answer = with_token(app, &room)?;
    answer["code"] = json!(room.code);
    let mut response = json_response(StatusCode::CREATED, &answer);
    let location = HeaderValue::from_str(&format!("/v1/rooms/{}", room.code));
    response.headers_mut().insert(
        header::LOCATION,
        location.map_err(|error| ApiError::Internal(error.into()))?,
    );
    Ok(response)
}

async fn make(app: &App, wanted: CreateRoom) -> Result<Room, ApiError> {
    let tries = if wanted.code.is_some() {
        1
    } else {
        CODES_TRIED_MAX
    };
    for _ in 0..tries {
        let code = wanted
            .code
            .clone()
            .unwrap_or_else(|| RoomCode::generate(&mut rand::rng()));
        let room = Room {
            created_at_ms: app.cluster.log_now_ms(app.cluster.shards().of(&code)),
            code,
            title: wanted.title.clone(),
            palette: wanted.palette.clone().unwrap_or_else(Palette::standard),
            cooldown_ms: wanted.cooldown_ms.unwrap_or(COOLDOWN_MS_STANDARD),
            state: RoomState::Open,
            version: 1,
        };
        match change::create(app, room).await? {
            Outcome::Stable(room) => return Ok(room),
            Outcome::Conflict(room) if wanted.code.is_some() => {
                return Err(ApiError::CodeTaken(room.code.to_string()));
            }
            Outcome::Conflict(_) | Outcome::Missing => {}
        }
    }
    Err(ApiError::Contended)
}

/// `GET /v1/rooms/CODE`
pub(crate) async fn read(app: &App, typed: &str, from: IpAddr) -> Result<Response<Body>, ApiError> {
    let copy = open(app, typed, from).await?;
    Ok(json_response(
        StatusCode::OK,
        &view(app, &copy.room(), &copy),
    ))
}

/// `PATCH /v1/rooms/CODE`
pub(crate) async fn patch(
    app: &App,
    typed: &str,
    from: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    let token = bearer(request.headers())
        .ok_or(ApiError::NoCredentials("a host token"))?
        .to_owned();
    let code = code(typed)?;
    let Some(room) = change::read(app, &code).await? else {
        return Err(guessed(app, typed, from));
    };
    app.tokens.verify(&room, &token)?;
    let patch = PatchRoom::read(read_json(request, BODY_BYTES_MAX).await?)?;
    let room = apply(app, room, &token, &patch).await?;
    let copy = open(app, typed, from).await?;
    copy.changed(room.clone());
    Ok(json_response(StatusCode::OK, &view(app, &room, &copy)))
}

/// Applies a patch to a room that was read a moment ago. Every attempt looks at the room as it is then: whether the
/// token is still for it, and what the patch would change about it.
async fn apply(app: &App, read: Room, token: &str, patch: &PatchRoom) -> Result<Room, ApiError> {
    let mut current = read;
    for _ in 0..UPDATES_TRIED_MAX {
        app.tokens.verify(&current, token)?;
        let target = patched(&current, patch);
        let changes = target != current;
        if let Some(given) = patch.version.filter(|given| *given != current.version) {
            // The same request again, after its answer was lost, finds its own change: that is no conflict.
            let is_repeated = !changes && given.checked_add(1) == Some(current.version);
            if !is_repeated {
                return Err(ApiError::VersionConflict {
                    given,
                    current: current.version,
                });
            }
        }
        let expected = current.version;
        let next = Room {
            version: expected + u64::from(changes),
            ..target
        };
        let code = next.code.clone();
        match change::update(app, expected, next).await? {
            Outcome::Stable(room) => {
                tracing::info!(%code, version = room.version, changes, "a room was changed");
                return Ok(room);
            }
            Outcome::Conflict(room) => current = room,
            Outcome::Missing => return Err(unknown(code.as_str())),
        }
    }
    Err(ApiError::Contended)
}

/// The room with what the patch names; everything else, the version too, as it is.
fn patched(room: &Room, patch: &PatchRoom) -> Room {
    let room = room.clone();
    Room {
        title: patch.title.clone().unwrap_or(room.title),
        palette: patch.palette.clone().unwrap_or(room.palette),
        cooldown_ms: patch.cooldown_ms.unwrap_or(room.cooldown_ms),
        state: patch.state.unwrap_or(room.state),
        ..room
    }
}

/// `POST /v1/rooms/CODE/host-tokens`
pub(crate) async fn issue_token(
    app: &App,
    typed: &str,
    request: &Request<Incoming>,
) -> Result<Response<Body>, ApiError> {
    app.http.admin_key.check(request.headers())?;
    // Not counted as a guess: whoever has the admin key need not guess.
    let room = change::read(app, &code(typed)?)
        .await?
        .ok_or_else(|| unknown(typed))?;
    tracing::info!(code = %room.code, "a host token was made");
    Ok(json_response(StatusCode::CREATED, &with_token(app, &room)?))
}

/// A new host token and the three links. The host's link carries the token in its fragment, which browsers keep to
/// themselves.
fn with_token(app: &App, room: &Room) -> Result<Value, ApiError> {
    let token = app
        .tokens
        .issue(room)
        .map_err(|error| ApiError::Internal(error.into()))?;
    let audience = audience_link(app, &room.code);
    Ok(json!({
        "host_token": token,
        "links": {
            "audience": audience,
            "stage": format!("{audience}/stage"),
            "host": format!("{audience}/host#token={token}"),
        },
    }))
}

/// Where phones go.
pub(crate) fn audience_link(app: &App, code: &RoomCode) -> String {
    format!("{}/{code}", app.settings.public_url)
}

/// A room as the API shows it.
fn view(app: &App, room: &Room, copy: &RoomCopy) -> Value {
    json!({
        "code": room.code,
        "title": room.title,
        "palette": room.palette,
        "cooldown_ms": room.cooldown_ms,
        "state": room.state,
        "version": room.version,
        "totals": copy.totals(),
        "time": app.cluster.log_now_ms(copy.shard()),
    })
}

/// An answer that holds for this moment only.
pub(crate) fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(full(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An unknown code from an address: no such room, or too many of them.
fn guessed(app: &App, typed: &str, from: IpAddr) -> ApiError {
    use crate::http::guesses::{GUESSES_MAX, Guess};
    match app.guesses.another(from) {
        Guess::Free => unknown(typed),
        Guess::Limited(retry_after) => {
            app.http.metrics.guesses_limited.inc();
            ApiError::TooManyGuesses {
                limit: GUESSES_MAX,
                retry_after,
            }
        }
    }
}

/// The code is repeated as far as one could be: what stands in a path can be long.
fn unknown(typed: &str) -> ApiError {
    ApiError::UnknownRoom(typed.chars().take(40).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_leaves_what_it_does_not_name() {
        let room = Room {
            code: "PARTY7".parse().unwrap(),
            title: "Keynote".to_owned(),
            palette: Palette::standard(),
            cooldown_ms: 3000,
            state: RoomState::Open,
            version: 7,
            created_at_ms: 1,
        };
        assert_eq!(patched(&room, &PatchRoom::default()), room);
        let patch = PatchRoom {
            state: Some(RoomState::Paused),
            ..PatchRoom::default()
        };
        let expected = Room {
            state: RoomState::Paused,
            ..room.clone()
        };
        assert_eq!(patched(&room, &patch), expected);
    }
}
