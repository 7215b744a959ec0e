//! Making and changing rooms in Redis: one script that checks the version and writes the room together with its log
//! entry, repeated until it is certain and stable.
//!
//! An attempt carries a random id that the room keeps, so making it again is safe whatever became of the answer: if it
//! was done, the script says so instead of doing it twice. A failover may take back what was done and not yet stable;
//! the next repetition then does it again.

use crate::app::App;
use crate::http::error::ApiError;
use redis::{Cmd, FromRedisValue, Value, from_redis_value};
use shared::cluster::RequestError;
use shared::cluster::scripts::CHANGE_ROOM;
use shared::counting::codec::{CHANGE_FIELD, encode_change};
use shared::counting::entry::{RoomChange, RoomChangeKind};
use shared::room::{Room, RoomCode};
use std::time::Duration;
use tokio::time::Instant;

/// How long a change may take before its host is told to try again: a failover takes two to four seconds.
const CHANGE_DEADLINE: Duration = Duration::from_secs(8);

/// The first wait between two attempts; doubled each time up to [`RETRY_WAIT_MAX`].
const RETRY_WAIT: Duration = Duration::from_millis(50);

/// The longest wait between two attempts.
const RETRY_WAIT_MAX: Duration = Duration::from_millis(400);

/// What became of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The room is now as it should be, and every electable replica has it.
    Stable(Room),
    /// The room has another version than the change was made for, or exists where it should not.
    Conflict(Room),
    /// There is no such room.
    Missing,
}

/// Reads a room as Redis has it now; a change is made for what is read here, not for a copy that may be behind.
///
/// # Errors
/// Redis does not answer, or what it has is no room.
pub(crate) async fn read(app: &App, code: &RoomCode) -> Result<Option<Room>, ApiError> {
    let shards = app.cluster.shards();
    let mut command = Cmd::new();
    command.arg("HGET").arg(shards.room(code)).arg("room");
    let value = app.cluster.request(shards.of(code), &command).await?;
    let text: Option<Vec<u8>> = convert(value)?;
    text.map(|text| parse(&text)).transpose()
}

/// Makes a room that must not exist yet.
///
/// # Errors
/// Redis does not answer for long.
pub(crate) async fn create(app: &App, room: Room) -> Result<Outcome, ApiError> {
    settle(app, 0, room, RoomChangeKind::Created).await
}

/// Replaces a room of version `expected` by `room`, whose version is the next; or, if it has the same version and
/// content, makes sure that what is there is stable.
///
/// # Errors
/// Redis does not answer for long.
pub(crate) async fn update(app: &App, expected: u64, room: Room) -> Result<Outcome, ApiError> {
    settle(app, expected, room, RoomChangeKind::Updated).await
}

async fn settle(
    app: &App,
    expected: u64,
    room: Room,
    kind: RoomChangeKind,
) -> Result<Outcome, ApiError> {
    let shards = app.cluster.shards();
    let shard = shards.of(&room.code);
    let keys = [shards.room(&room.code), shards.log(shard)];
    let change_id: u64 = rand::random();
    let arguments = [
        expected.to_string().into_bytes(),
        room.version.to_string().into_bytes(),
        serde_json::to_vec(&room).map_err(|error| ApiError::Internal(error.into()))?,
        format!("{change_id:016x}").into_bytes(),
        CHANGE_FIELD.as_bytes().to_vec(),
        encode_change(&RoomChange { v: 1, kind, room }),
    ];
    let deadline = Instant::now() + CHANGE_DEADLINE;
    let mut wait = RETRY_WAIT;
    loop {
        let attempt = app
            .cluster
            .script_and_wait(shard, &CHANGE_ROOM, &keys, &arguments)
            .await;
        let why = match attempt {
            Ok((value, stable)) => match outcome(value)? {
                Outcome::Stable(_) if !stable => {
                    "the change is not copied to a replica yet".to_owned()
                }
                settled => return Ok(settled),
            },
            Err(error @ (RequestError::NotDone(_) | RequestError::Unknown(_))) => error.to_string(),
            Err(error) => return Err(error.into()),
        };
        if Instant::now() + wait > deadline {
            tracing::warn!(code = %keys[0], why, "a room change was given up");
            return Err(ApiError::Unavailable(
                "the change could not be made safe in time; it may show all the same".to_owned(),
            ));
        }
        app.http.metrics.room_change_retries.inc();
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(RETRY_WAIT_MAX);
    }
}

/// Reads the script's answer; whether it is stable is known only from the WAIT behind it.
fn outcome(value: Value) -> Result<Outcome, ApiError> {
    let (word, _version, room): (String, u64, Vec<u8>) = convert(value)?;
    match word.as_str() {
        "done" | "kept" => Ok(Outcome::Stable(parse(&room)?)),
        "conflict" => Ok(Outcome::Conflict(parse(&room)?)),
        "none" => Ok(Outcome::Missing),
        _ => Err(ApiError::Internal(anyhow::anyhow!(
            "change_room.lua answered {word:?}"
        ))),
    }
}

fn convert<T: FromRedisValue>(value: Value) -> Result<T, ApiError> {
    from_redis_value(value).map_err(|error| {
        ApiError::Internal(anyhow::Error::new(error).context("Redis answered in another form"))
    })
}

fn parse(text: &[u8]) -> Result<Room, ApiError> {
    serde_json::from_slice(text).map_err(|error| {
        ApiError::Internal(anyhow::Error::new(error).context("a room in Redis cannot be read"))
    })
}
