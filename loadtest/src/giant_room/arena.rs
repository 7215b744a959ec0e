//! What a run takes place on: a Redis Cluster, one aggregator on one core, a room, and what its shard remembers.

use super::watch::Watch;
use super::{Options, past, people};
use crate::evidence;
use crate::process::{cores, memory};
use crate::smoke::wait_for;
use anyhow::Context;
use redis::Value;
use rig::{Rig, Service};
use shared::cluster::scripts::CHANGE_ROOM;
use shared::cluster::{Cluster, RedisSettings};
use shared::counting::codec::{CHANGE_FIELD, CHANGE_VERSION, encode_change};
use shared::counting::entry::{RoomChange, RoomChangeKind};
use shared::room::{COOLDOWN_MS_STANDARD, Palette, Room, RoomCode, RoomState};
use shared::shards::ShardId;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// How long the aggregator may take to fold what is remembered.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(120);

/// Bytes that a tap takes in a log, and a little more.
const BYTES_PER_TAP: u64 = 18;

/// The running system.
pub(crate) struct Arena {
    pub(crate) watch: Watch,
    pub(crate) aggregator: Service,
    pub(crate) persister: Option<Service>,
    pub(crate) cluster: Cluster,
    pub(crate) room: RoomCode,
    pub(crate) shard: ShardId,
    /// Processes of the shard's master and of its replicas.
    pub(crate) master: u32,
    pub(crate) replicas: Vec<u32>,
    pub(crate) remembered: u64,
    _watcher: DropGuard,
    /// Last: the others end before it.
    pub(crate) rig: Rig,
}

impl Arena {
    /// Starts all of it. `taps` is how many will be tapped at most.
    ///
    /// # Errors
    /// What did not start; or there is no room for so many taps.
    pub(crate) async fn start(
        options: &Options,
        taps: u64,
        progress: &impl Fn(&str),
    ) -> anyhow::Result<Arena> {
        for kind in ["aggregator", "persister"] {
            rig::binary(kind)?;
        }
        let people = people::count(options.load.taps_per_second);
        let remembered = if options.remembered { people } else { 0 };
        check_space(taps + remembered * u64::from(past::taps_each()))?;
        progress("starting a Redis Cluster of six nodes");
        let rig_options = rig::Options {
            postgres: options.persister,
            ..rig::Options::default()
        };
        let rig = Rig::start(rig_options).await?;
        let stop = CancellationToken::new();
        let settings = RedisSettings::new(rig.redis_nodes());
        let cluster = Cluster::connect(settings, &TaskTracker::new(), stop.clone()).await?;
        let (room, shard) = choose_room(&cluster);
        let slot = cluster.shards().slot(shard);
        let address = rig.cluster.master_of(slot).await?;
        if remembered > 0 {
            remember(&cluster, &address, shard, remembered, progress).await?;
        }
        progress("starting the aggregator on one core");
        let aggregator = rig.service("aggregator", &[("TOKIO_WORKER_THREADS", "1")])?;
        aggregator.wait_ready().await?;
        cores::pin(aggregator.pid(), &[options.core])?;
        let persister = match options.persister {
            true => Some(rig.service("persister", &[])?),
            false => None,
        };
        make_room(&cluster, &room, shard).await?;
        wait_until_folded(&rig, &cluster, shard).await?;
        let mut watch = Watch::start(&cluster, &room).await?;
        let others = options.load.producers.saturating_sub(1);
        let channel = cluster.shards().ticks(shard);
        watch.add_subscribers(&address, &channel, others).await?;
        let mut replicas = Vec::new();
        for replica in rig.cluster.replicas_of(&address).await? {
            replicas.push(rig.cluster.pid(&replica)?);
        }
        Ok(Arena {
            watch,
            aggregator,
            persister,
            room,
            shard,
            master: rig.cluster.pid(&address)?,
            replicas,
            remembered,
            _watcher: stop.drop_guard(),
            cluster,
            rig,
        })
    }
}

/// There must be memory for the logs of master and replica (twice, as an AOF is rewritten beside them), and disk for
/// their AOFs.
pub(crate) fn check_space(taps: u64) -> anyhow::Result<()> {
    let log = taps.saturating_mul(BYTES_PER_TAP);
    let needs = [
        ("memory", log * 3, memory::available_bytes()?),
        (
            "disk space for temporary files",
            log * 4,
            memory::temporary_space_bytes()?,
        ),
    ];
    for (what, needed, free) in needs {
        anyhow::ensure!(
            needed < free,
            "{taps} taps need about {} MB of {what}, and {} MB are free: choose fewer --seconds or --taps-per-second",
            needed >> 20,
            free >> 20
        );
    }
    Ok(())
}

fn choose_room(cluster: &Cluster) -> (RoomCode, ShardId) {
    let room = RoomCode::generate(&mut rand::rng());
    let shard = cluster.shards().of(&room);
    (room, shard)
}

async fn remember(
    cluster: &Cluster,
    address: &str,
    shard: ShardId,
    people: u64,
    progress: &impl Fn(&str),
) -> anyhow::Result<()> {
    progress(&format!(
        "filling the log with what {people} people tapped in the last minutes"
    ));
    // The room before this one, in the same shard.
    let before = loop {
        let code = RoomCode::generate(&mut rand::rng());
        if cluster.shards().of(&code) == shard {
            break code;
        }
    };
    let client = redis::Client::open(format!("redis://{address}/"))?;
    let mut master = client.get_multiplexed_async_connection().await?;
    let log = cluster.shards().log(shard);
    let now_ms = cluster.log_now_ms(shard);
    past::fill(&mut master, &log, &before, people, now_ms).await
}

/// Makes the room as a gateway does.
async fn make_room(cluster: &Cluster, code: &RoomCode, shard: ShardId) -> anyhow::Result<()> {
    let room = Room {
        code: code.clone(),
        title: "A giant room".to_owned(),
        palette: Palette::standard(),
        cooldown_ms: COOLDOWN_MS_STANDARD,
        state: RoomState::Open,
        version: 1,
        created_at_ms: cluster.log_now_ms(shard),
    };
    let json = serde_json::to_vec(&room)?;
    let change = RoomChange {
        v: CHANGE_VERSION,
        kind: RoomChangeKind::Created,
        room,
    };
    let keys = [cluster.shards().room(code), cluster.shards().log(shard)];
    let arguments = [
        b"0".to_vec(),
        b"1".to_vec(),
        json,
        b"giant-room".to_vec(),
        CHANGE_FIELD.as_bytes().to_vec(),
        encode_change(&change),
    ];
    let made = cluster
        .script(shard, &CHANGE_ROOM, &keys, &arguments)
        .await?;
    let said: (String, Value, Value) = redis::from_redis_value(made)?;
    anyhow::ensure!(said.0 == "done", "the room was not made: {}", said.0);
    Ok(())
}

/// Waits until the aggregator has committed all that the log holds now.
pub(crate) async fn wait_until_folded(
    rig: &Rig,
    cluster: &Cluster,
    shard: ShardId,
) -> anyhow::Result<()> {
    let shards = cluster.shards();
    let reader = shards.aggregator(shard);
    wait_for(
        CAUGHT_UP_WITHIN,
        "the aggregator has folded the log",
        async || {
            let end = evidence::log_end(rig, shards, shard).await?;
            Ok(evidence::offset(rig, shards, shard, &reader).await? >= end)
        },
    )
    .await
    .context("see the aggregator's CPU: it may be too slow for what is remembered")
}
