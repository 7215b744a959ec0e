//! Reads a room and its totals from Redis.

use redis::{Cmd, Value};
use shared::cluster::{Cluster, RequestError};
use shared::room::{ReactionKey, Room, RoomCode};
use std::collections::BTreeMap;
use std::time::Duration;

/// A room as it stands in Redis.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) room: Room,
    pub(super) totals: BTreeMap<ReactionKey, u64>,
}

/// The field of the room's hash that holds it, as JSON.
const ROOM_FIELD: &str = "room";

/// How often a read is tried: with the pauses, about as long as a failover of a cluster with a node timeout of a
/// second takes. Longer outages are told to those who join.
const ATTEMPTS: u32 = 8;

/// Reads may be repeated at will, so all that is transient is tried again.
///
/// # Errors
/// The last error.
///
/// # Cancel safety
/// Safe: it only reads.
pub(super) async fn read(
    cluster: &Cluster,
    code: &RoomCode,
) -> Result<Option<Snapshot>, RequestError> {
    let mut attempt = 1;
    loop {
        match read_once(cluster, code).await {
            Err(RequestError::NotDone(_) | RequestError::Unknown(_)) if attempt < ATTEMPTS => {
                tokio::time::sleep(Duration::from_millis(100) * attempt).await;
                attempt += 1;
            }
            result => return result,
        }
    }
}

async fn read_once(cluster: &Cluster, code: &RoomCode) -> Result<Option<Snapshot>, RequestError> {
    let shard = cluster.shards().of(code);
    let mut get = Cmd::new();
    get.arg("HGET")
        .arg(cluster.shards().room(code))
        .arg(ROOM_FIELD);
    let Some(json) = text(cluster.request(shard, &get).await?) else {
        return Ok(None);
    };
    let room = serde_json::from_slice(&json)
        .map_err(|error| RequestError::Refused(format!("room {code} cannot be read: {error}")))?;
    // After the room: totals of a room that was deleted in between would be those of nothing.
    let mut get = Cmd::new();
    get.arg("HGETALL").arg(cluster.shards().totals(code));
    let totals = totals(cluster.request(shard, &get).await?);
    Ok(Some(Snapshot { room, totals }))
}

fn text(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

/// Fields that are no reaction or no number are left out: they would hide all others.
fn totals(value: Value) -> BTreeMap<ReactionKey, u64> {
    let pairs: Vec<(Value, Value)> = match value {
        Value::Map(pairs) => pairs,
        Value::Array(items) => {
            let mut items = items.into_iter();
            std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
        }
        _ => Vec::new(),
    };
    let parse = |(key, total): (Value, Value)| {
        let key = String::from_utf8(text(key)?).ok()?;
        let total = String::from_utf8(text(total)?).ok()?;
        Some((key.parse().ok()?, total.parse().ok()?))
    };
    pairs.into_iter().filter_map(parse).collect()
}
