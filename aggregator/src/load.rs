//! Reading a shard's committed state.
//!
//! The offset is read first. Whatever is read after it may be newer, if another owner commits meanwhile; then the offset
//! has moved, and our first commit is refused by it. The other way round a newer offset could hide older totals.

use crate::commit::parse_producer;
use crate::state::Totals;
use anyhow::{Context, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use redis::FromRedisValue;
use shared::cluster::Cluster;
use shared::counting::ids::{EntryId, ProducerId};
use shared::counting::reader::ProducerMark;
use shared::room::RoomCode;
use shared::shards::ShardId;
use std::collections::HashMap;

/// Rooms read at once: enough to hide the round trips, few enough to leave connections for other shards.
const READS_AT_ONCE: usize = 4;

/// A shard's committed offset and producers.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) offset: EntryId,
    pub(crate) producers: Vec<(ProducerId, ProducerMark)>,
}

/// Reads both.
///
/// # Errors
/// Redis does not answer, or what stands there cannot be read.
pub(crate) async fn committed(cluster: &Cluster, shard: ShardId) -> anyhow::Result<Committed> {
    let key = cluster.shards().aggregator(shard);
    let offset = cluster
        .read_lease(shard, &key)
        .await?
        .offset
        .unwrap_or(EntryId::ZERO);
    let key = cluster.shards().producers(shard);
    let mut producers = Vec::new();
    for (field, value) in hash(cluster, shard, &key).await? {
        match parse_producer(&field, &value) {
            Some(producer) => producers.push(producer),
            None => bail!("{key} holds {field:?} = {value:?}, which is no producer"),
        }
    }
    Ok(Committed { offset, producers })
}

/// The totals of some rooms.
///
/// # Errors
/// Redis does not answer, or what stands there cannot be read.
pub(crate) async fn totals(
    cluster: &Cluster,
    shard: ShardId,
    rooms: Vec<RoomCode>,
) -> anyhow::Result<Vec<(RoomCode, Totals)>> {
    let reads = rooms.into_iter().map(async |room| {
        let key = cluster.shards().totals(&room);
        let totals = hash(cluster, shard, &key)
            .await?
            .into_iter()
            .map(|(reaction, total)| Ok((reaction.parse()?, total.parse()?)))
            .collect::<anyhow::Result<Totals>>()
            .with_context(|| format!("{key} holds something else than totals"))?;
        anyhow::Ok((room, totals))
    });
    stream::iter(reads)
        .buffer_unordered(READS_AT_ONCE)
        .try_collect()
        .await
}

async fn hash(
    cluster: &Cluster,
    shard: ShardId,
    key: &str,
) -> anyhow::Result<HashMap<String, String>> {
    let value = cluster
        .request(shard, redis::cmd("HGETALL").arg(key))
        .await?;
    HashMap::from_redis_value(value).with_context(|| format!("{key} is no hash of texts"))
}
