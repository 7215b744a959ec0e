//! What Redis and Postgres say about some rooms.

use crate::compare::Cell;
use anyhow::Context;
use redis::{Cmd, FromRedisValue, cmd};
use rig::Rig;
use shared::cluster::Cluster;
use shared::counting::ids::{ClientHash, EntryId};
use shared::room::{ReactionKey, RoomCode};
use shared::shards::{ShardId, Shards};
use std::collections::{BTreeMap, BTreeSet};

/// Who can be asked what a shard's master knows.
pub trait Redis {
    /// One command to the master of a shard.
    ///
    /// # Errors
    /// It does not answer, or with an error.
    fn ask<T: FromRedisValue>(
        &self,
        shards: &Shards,
        shard: ShardId,
        command: &Cmd,
    ) -> impl Future<Output = anyhow::Result<T>>;
}

impl Redis for Rig {
    async fn ask<T: FromRedisValue>(
        &self,
        shards: &Shards,
        shard: ShardId,
        command: &Cmd,
    ) -> anyhow::Result<T> {
        self.cluster.request(shards.slot(shard), command).await
    }
}

impl Redis for Cluster {
    async fn ask<T: FromRedisValue>(
        &self,
        _shards: &Shards,
        shard: ShardId,
        command: &Cmd,
    ) -> anyhow::Result<T> {
        Ok(redis::from_redis_value(
            self.request(shard, command).await?,
        )?)
    }
}

/// The totals in Redis.
///
/// # Errors
/// A master does not answer.
pub async fn totals(
    redis: &impl Redis,
    shards: &Shards,
    rooms: &[RoomCode],
) -> anyhow::Result<BTreeMap<Cell, u64>> {
    let mut totals = BTreeMap::new();
    for room in rooms {
        let get = cmd("HGETALL").arg(shards.totals(room)).to_owned();
        let hash: BTreeMap<String, u64> = redis.ask(shards, shards.of(room), &get).await?;
        for (key, total) in hash {
            totals.insert((room.clone(), key.parse()?), total);
        }
    }
    Ok(totals)
}

/// The id of the last entry of a shard's log; [`EntryId::ZERO`] when it is empty.
///
/// # Errors
/// The master does not answer.
pub async fn log_end(
    redis: &impl Redis,
    shards: &Shards,
    shard: ShardId,
) -> anyhow::Result<EntryId> {
    let last = cmd("XREVRANGE")
        .arg(shards.log(shard))
        .arg("+")
        .arg("-")
        .arg("COUNT")
        .arg(1)
        .to_owned();
    let last: redis::streams::StreamRangeReply = redis.ask(shards, shard, &last).await?;
    Ok(match last.ids.first() {
        Some(entry) => entry.id.parse()?,
        None => EntryId::ZERO,
    })
}

/// The offset that a reader (`aggregator` or `persister`, by the key of its hash) has committed.
///
/// # Errors
/// The master does not answer.
pub async fn offset(
    redis: &impl Redis,
    shards: &Shards,
    shard: ShardId,
    reader: &str,
) -> anyhow::Result<EntryId> {
    let get = cmd("HGET").arg(reader).arg("offset").to_owned();
    let offset: Option<String> = redis.ask(shards, shard, &get).await?;
    Ok(offset
        .map(|offset| offset.parse())
        .transpose()?
        .unwrap_or(EntryId::ZERO))
}

/// Who holds a lease (by the key of its hash), as it stands in Redis.
///
/// # Errors
/// The master does not answer.
pub async fn owner(rig: &Rig, slot: u16, lease: &str) -> anyhow::Result<Option<String>> {
    let get = cmd("HGET").arg(lease).arg("owner").to_owned();
    let owner: Option<String> = rig.cluster.request(slot, &get).await?;
    Ok(owner.filter(|owner| !owner.is_empty()))
}

/// Who reads the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Makes totals of them.
    Aggregator,
    /// Makes rows of them.
    Persister,
}

/// Whether these readers have committed all that the rooms' logs hold now.
///
/// # Errors
/// A master does not answer.
pub async fn have_read(
    redis: &impl Redis,
    shards: &Shards,
    rooms: &[RoomCode],
    readers: &[Reader],
) -> anyhow::Result<bool> {
    for shard in rooms
        .iter()
        .map(|room| shards.of(room))
        .collect::<BTreeSet<_>>()
    {
        let end = log_end(redis, shards, shard).await?;
        for reader in readers {
            let key = match reader {
                Reader::Aggregator => shards.aggregator(shard),
                Reader::Persister => shards.persister(shard),
            };
            if offset(redis, shards, shard, &key).await? < end {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether both readers have committed all that the rooms' logs hold now.
///
/// # Errors
/// A master does not answer.
pub async fn caught_up(
    redis: &impl Redis,
    shards: &Shards,
    rooms: &[RoomCode],
) -> anyhow::Result<bool> {
    have_read(
        redis,
        shards,
        rooms,
        &[Reader::Aggregator, Reader::Persister],
    )
    .await
}

/// Rows in `taps` per client, and sums in `tap_counts`.
pub type Rows = (
    BTreeMap<Cell, BTreeMap<ClientHash, u64>>,
    BTreeMap<Cell, u64>,
);

/// What Postgres holds of these rooms.
///
/// # Errors
/// Postgres does not answer, or its tables are not those we know.
pub async fn rows(url: &str, rooms: &[RoomCode]) -> anyhow::Result<Rows> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    let codes: Vec<&str> = rooms.iter().map(RoomCode::as_str).collect();
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&codes];
    let asking = async {
        let taps = client.query(
            "SELECT r.code, x.key, t.client, count(*) FROM taps t JOIN rooms r USING (room_id) \
             JOIN reactions x USING (room_id, reaction_id) WHERE r.code = ANY($1) GROUP BY 1, 2, 3",
            &parameters,
        );
        let counts = client.query(
            "SELECT r.code, x.key, sum(c.taps)::bigint FROM tap_counts c JOIN rooms r USING (room_id) \
             JOIN reactions x USING (room_id, reaction_id) WHERE r.code = ANY($1) GROUP BY 1, 2",
            &parameters,
        );
        tokio::try_join!(taps, counts)
    };
    let (taps, counts) = tokio::select! {
        answers = asking => answers.context("the tables cannot be read")?,
        ended = connection => anyhow::bail!("the connection to Postgres ended: {ended:?}"),
    };
    let mut rows = Rows::default();
    for row in taps {
        let client = ClientHash(row.get::<_, i64>(2).cast_unsigned());
        rows.0
            .entry(cell(&row)?)
            .or_default()
            .insert(client, row.get::<_, i64>(3).try_into()?);
    }
    for row in counts {
        rows.1.insert(cell(&row)?, row.get::<_, i64>(2).try_into()?);
    }
    Ok(rows)
}

fn cell(row: &tokio_postgres::Row) -> anyhow::Result<Cell> {
    let room: RoomCode = row.get::<_, &str>(0).parse()?;
    let key: ReactionKey = row.get::<_, &str>(1).parse()?;
    Ok((room, key))
}
