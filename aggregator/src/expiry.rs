//! The end of rooms that nobody used for long.
//!
//! A room is deleted when its expiry is folded, not before: so the persister and the gateways learn of it from the log,
//! and a tap that came in front of it is not lost. `expire.lua` says what must hold for the entry to be written.

use crate::shard::Common;
use anyhow::Context;
use redis::{FromRedisValue, Value};
use shared::cluster::leases::hex;
use shared::cluster::scripts::EXPIRE;
use shared::counting::codec::{CHANGE_FIELD, CHANGE_VERSION, encode_change};
use shared::counting::entry::{RoomChange, RoomChangeKind};
use shared::room::{COOLDOWN_MS_STANDARD, Palette, Room, RoomCode, RoomState};
use shared::shards::ShardId;

/// Rooms that expire at once; the others follow the next time. Keeps a shard with thousands of them responsive.
const AT_ONCE: usize = 16;

/// Puts the expiry of rooms whose retention is over into the log.
///
/// # Errors
/// Redis does not answer, or holds what cannot be read.
pub(crate) async fn run(common: &Common, shard: ShardId, log_now_ms: u64) -> anyhow::Result<()> {
    let retention_ms = u64::try_from(common.room_retention.as_millis()).unwrap_or(u64::MAX);
    let before_ms = log_now_ms.saturating_sub(retention_ms);
    let mut command = redis::cmd("ZRANGEBYSCORE");
    command
        .arg(common.cluster.shards().activity(shard))
        .arg("-inf")
        .arg(format!("({before_ms}"));
    command.arg("LIMIT").arg(0).arg(AT_ONCE);
    let codes = Vec::<String>::from_redis_value(common.cluster.request(shard, &command).await?)?;
    for code in codes {
        let code: RoomCode = code
            .parse()
            .context("the activity names a room that is none")?;
        expire(common, shard, code, before_ms).await?;
    }
    Ok(())
}

async fn expire(
    common: &Common,
    shard: ShardId,
    code: RoomCode,
    before_ms: u64,
) -> anyhow::Result<()> {
    let shards = common.cluster.shards();
    let mut command = redis::cmd("HMGET");
    command.arg(shards.room(&code)).arg("room").arg("version");
    let fields = common.cluster.request(shard, &command).await?;
    let (room, version) = <(Option<String>, Option<String>)>::from_redis_value(fields)?;
    let room = match room.map(|json| serde_json::from_str::<Room>(&json)) {
        Some(Ok(room)) => room,
        Some(Err(error)) => {
            tracing::warn!(%code, %error, "a room that expires cannot be read");
            unknown_room(&code, version.as_deref())
        }
        None => unknown_room(&code, version.as_deref()),
    };
    let change = RoomChange {
        v: CHANGE_VERSION,
        kind: RoomChangeKind::Expired,
        room,
    };
    let keys = [
        shards.aggregator(shard),
        shards.log(shard),
        shards.activity(shard),
        shards.room(&code),
    ];
    let arguments = [
        hex(common.owner).into_bytes(),
        code.to_string().into_bytes(),
        before_ms.to_string().into_bytes(),
        version.unwrap_or_default().into_bytes(),
        CHANGE_FIELD.into(),
        encode_change(&change),
    ];
    let said = common
        .cluster
        .script(shard, &EXPIRE, &keys, &arguments)
        .await?;
    match said {
        Value::BulkString(said) if said == b"done" => tracing::info!(%code, "the room expires"),
        said => tracing::debug!(%code, ?said, "the room does not expire yet"),
    }
    Ok(())
}

/// Stands in for a room of which only totals are left.
fn unknown_room(code: &RoomCode, version: Option<&str>) -> Room {
    Room {
        code: code.clone(),
        title: code.to_string(),
        palette: Palette::standard(),
        cooldown_ms: COOLDOWN_MS_STANDARD,
        state: RoomState::Closed,
        version: version
            .and_then(|version| version.parse().ok())
            .unwrap_or_default(),
        created_at_ms: 0,
    }
}
