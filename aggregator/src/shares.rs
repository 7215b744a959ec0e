//! Which shards this instance works on.
//!
//! Every instance watches the leases of all shards it does not hold. It takes what is free or was left by a dead owner,
//! up to its fair share, and lets go what is beyond it. Two that want the same lease meet at `claim.lua`; nothing here
//! has to be right for the counting to be.

use crate::metrics::How;
use crate::shard::{Common, End, Shard};
use anyhow::{Context, bail};
use futures_util::{StreamExt, stream};
use shared::cluster::members::Members;
use shared::cluster::{Cluster, RequestError};
use shared::counting::ids::Nonce;
use shared::counting::lease::{LeaseRecord, LeaseWatch, fair_share};
use shared::service::operations::Readiness;
use shared::shards::ShardId;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};
use tokio_util::sync::CancellationToken;

/// How often the leases of others are looked at: adds at most this to a take-over.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);
/// How often this instance shows that it lives; the others expect it each second.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Leases read at once: they are spread over all masters, and one that is away must not hold up the others for long.
const READS_AT_ONCE: usize = 32;
/// When a shard is tried again that this instance could not go on with: somebody may have put its log right.
const STOPPED_RETRY: Duration = Duration::from_secs(30);

/// Takes part until `shutdown`, then lets everything go.
///
/// # Errors
/// The work on a shard panicked, or not all were let go within `deadline`.
pub(crate) async fn run(
    common: Common,
    readiness: Readiness,
    shutdown: CancellationToken,
    deadline: Duration,
) -> anyhow::Result<()> {
    let mut shares = Shares::new(common, readiness);
    let mut watch = interval(WATCH_INTERVAL);
    watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(ended) = shares.tasks.join_next() => shares.ended(ended)?,
            _ = watch.tick() => shares.look().await?,
        }
    }
    shares.let_all_go(deadline).await
}

struct Shares {
    common: Common,
    members: Members,
    beat: Option<Instant>,
    watches: BTreeMap<ShardId, LeaseWatch>,
    held: BTreeMap<ShardId, CancellationToken>,
    tasks: JoinSet<(ShardId, End)>,
    stopped: BTreeMap<ShardId, (Instant, String)>,
    readiness: Readiness,
}

/// A lease that may be taken.
struct Takeable {
    shard: ShardId,
    record: LeaseRecord,
}

impl Shares {
    fn new(common: Common, readiness: Readiness) -> Self {
        let shares = Shares {
            members: Members::new(common.cluster.clone(), "aggregator", common.owner),
            beat: None,
            watches: BTreeMap::new(),
            held: BTreeMap::new(),
            tasks: JoinSet::new(),
            stopped: BTreeMap::new(),
            readiness,
            common,
        };
        shares.tell();
        shares
    }

    /// Looks at all leases, takes and lets go.
    async fn look(&mut self) -> anyhow::Result<()> {
        self.show_life().await;
        while let Some(ended) = self.tasks.try_join_next() {
            self.ended(ended)?;
        }
        self.stopped
            .retain(|_, (since, _)| since.elapsed() < STOPPED_RETRY);
        let takeable = self.takeable().await;
        // A dead owner's leases stand still before its membership does: without this nobody would have room for them.
        let dead: HashSet<Nonce> = takeable
            .iter()
            .filter_map(|lease| lease.record.owner)
            .collect();
        let members = self.members.live_without(&dead);
        self.common
            .metrics
            .members
            .set(i64::try_from(members).unwrap_or(i64::MAX));
        let share = fair_share(usize::from(self.common.cluster.shards().count()), members);
        self.let_surplus_go(share);
        for lease in takeable {
            if self.held_for_good() >= share {
                break;
            }
            self.take(lease).await;
        }
        self.tell();
        Ok(())
    }

    async fn show_life(&mut self) {
        if self.beat.is_some_and(|beat| beat.elapsed() < BEAT_INTERVAL) {
            return;
        }
        self.beat = Some(Instant::now());
        if let Err(error) = self.members.beat().await {
            tracing::debug!(%error, "this instance could not show that it lives");
        }
    }

    /// The leases of others that may be taken.
    async fn takeable(&mut self) -> Vec<Takeable> {
        let shards = self.common.cluster.shards().all();
        let wanted: Vec<ShardId> = shards
            .filter(|shard| !self.held.contains_key(shard) && !self.stopped.contains_key(shard))
            .collect();
        let cluster = &self.common.cluster;
        let reads = wanted
            .into_iter()
            .map(async |shard| (shard, read_lease(cluster, shard).await));
        let records: Vec<_> = stream::iter(reads)
            .buffer_unordered(READS_AT_ONCE)
            .collect()
            .await;
        let now = self.common.started.elapsed();
        let mut takeable = Vec::new();
        for (shard, record) in records {
            match record {
                Ok(record) => {
                    let watch = self.watches.entry(shard).or_default();
                    // Ours, and not held: its claim was not answered, or its release did not arrive.
                    if watch.observe(record, now) || record.owner == Some(self.common.owner) {
                        takeable.push(Takeable { shard, record });
                    }
                }
                // While its master is away the owner cannot renew it. That is no sign of death: the time begins anew.
                Err(error) => {
                    tracing::debug!(shard = shard.0, %error, "a lease cannot be read");
                    self.watches.remove(&shard);
                }
            }
        }
        takeable.sort_by_key(|lease| lease.shard);
        takeable
    }

    async fn take(&mut self, lease: Takeable) {
        let Takeable { shard, record } = lease;
        let Common {
            cluster,
            owner,
            metrics,
            ..
        } = &self.common;
        let how = match record.owner {
            None => "free",
            Some(former) if former == *owner => "own",
            Some(_) => "left",
        };
        let key = cluster.shards().aggregator(shard);
        match cluster.claim_lease(shard, &key, record, *owner).await {
            Ok(true) => {}
            Ok(false) => return tracing::debug!(shard = shard.0, "another was faster"),
            Err(error) => {
                return tracing::debug!(shard = shard.0, %error, "a lease could not be taken");
            }
        }
        metrics.taken.get_or_create(&How { how }).inc();
        tracing::info!(shard = shard.0, how, "taking the shard");
        let let_go = CancellationToken::new();
        let work = Shard::new(self.common.clone(), shard).run(let_go.clone());
        self.tasks.spawn(async move { (shard, work.await) });
        self.held.insert(shard, let_go);
        self.watches.remove(&shard);
    }

    /// How many will stay.
    fn held_for_good(&self) -> usize {
        self.held
            .values()
            .filter(|let_go| !let_go.is_cancelled())
            .count()
    }

    fn let_surplus_go(&self, share: usize) {
        let surplus = self.held_for_good().saturating_sub(share);
        // From the end, while takers begin at the front: two that start together get in each other's way less.
        let staying = self
            .held
            .iter()
            .rev()
            .filter(|(_, let_go)| !let_go.is_cancelled());
        for (shard, let_go) in staying.take(surplus) {
            tracing::info!(
                shard = shard.0,
                share,
                "letting the shard go to another instance"
            );
            let_go.cancel();
        }
    }

    fn ended(&mut self, ended: Result<(ShardId, End), JoinError>) -> anyhow::Result<()> {
        let (shard, end) =
            ended.context("the work on a shard ended by a mistake in the program")?;
        self.held.remove(&shard);
        match end {
            End::LetGo => {}
            End::LeaseLost => {
                tracing::warn!(shard = shard.0, "another instance has taken the shard");
            }
            End::Stopped(why) => {
                tracing::error!(shard = shard.0, error = %why, "stopping work on the shard: its rooms show no new totals until this is put right");
                self.stopped
                    .insert(shard, (Instant::now(), why.to_string()));
            }
        }
        self.tell();
        Ok(())
    }

    /// Metrics and readiness.
    fn tell(&self) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.common.metrics.held.set(count(self.held.len()));
        self.common.metrics.stopped.set(count(self.stopped.len()));
        let lines: Vec<String> = self
            .stopped
            .iter()
            .map(|(shard, (_, why))| format!("shard {shard}: {why}"))
            .collect();
        self.readiness.set(
            "shards",
            if lines.is_empty() {
                Ok(())
            } else {
                Err(lines.join("; "))
            },
        );
    }

    async fn let_all_go(mut self, deadline: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + deadline;
        self.held.values().for_each(CancellationToken::cancel);
        while !self.tasks.is_empty() {
            match timeout_at(deadline, self.tasks.join_next()).await {
                Ok(Some(ended)) => self.ended(ended)?,
                Ok(None) => break,
                Err(_) => bail!(
                    "{} shards were not let go in time; others take them over",
                    self.tasks.len()
                ),
            }
        }
        if let Ok(Err(error)) = timeout_at(deadline, self.members.leave()).await {
            tracing::debug!(%error, "this instance could not take its leave");
        }
        Ok(())
    }
}

async fn read_lease(cluster: &Cluster, shard: ShardId) -> Result<LeaseRecord, RequestError> {
    let key = cluster.shards().aggregator(shard);
    Ok(cluster.read_lease(shard, &key).await?.record)
}
