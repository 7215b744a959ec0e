//! Which shards are ours: about as many as each other persister has, taken where they are free or their owner is dead.
//!
//! Leases only keep two persisters from doing the same work; what is right is decided by the ledger.

use crate::context::Context;
use crate::database::pool::Unfit;
use crate::shard::{Ended, Shard};
use anyhow::bail;
use futures_util::future::join_all;
use rand::seq::SliceRandom;
use shared::cluster::members::Members;
use shared::counting::ids::Nonce;
use shared::counting::lease::{LeaseRecord, LeaseWatch, fair_share};
use shared::shards::ShardId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How often we look for shards to take or to let go: a few times within a lease's two seconds.
const LOOK: Duration = Duration::from_millis(500);
/// Each member shows itself once a second.
const BEAT: Duration = Duration::from_secs(1);
/// How long the shards may take to end their transactions at a shutdown: below the 30 s that orchestrators allow, and
/// above what a commit takes on a busy disk.
const SHUTDOWN: Duration = Duration::from_secs(20);

/// The persister's share.
pub(crate) struct Sharing {
    context: Arc<Context>,
    members: Members,
    watches: HashMap<ShardId, LeaseWatch>,
    /// Shards at work, each with what lets it go.
    ours: HashMap<ShardId, CancellationToken>,
    work: JoinSet<(ShardId, Ended)>,
    live: usize,
    started: Instant,
}

impl Sharing {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let members = Members::new(context.cluster.clone(), "persister", nonce());
        Sharing {
            context,
            members,
            watches: HashMap::new(),
            ours: HashMap::new(),
            work: JoinSet::new(),
            live: 1,
            started: Instant::now(),
        }
    }

    /// Takes and lets go shards until `shutdown`, then lets all of them go.
    ///
    /// # Errors
    /// The database will not do, or a shard was still at work when the time for a shutdown was over.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut beat = Instant::now();
        let result = loop {
            if shutdown.is_cancelled() {
                break Ok(());
            }
            if Instant::now() >= beat {
                beat = Instant::now() + BEAT;
                self.beat().await;
            }
            self.context.look_for_replicas();
            self.balance().await;
            self.context
                .metrics
                .shards_owned
                .set(i64::try_from(self.ours.len()).unwrap_or(0));
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(LOOK) => {}
                Some(ended) = self.work.join_next() => {
                    if let Err(unfit) = self.ended(ended) {
                        break Err(unfit);
                    }
                }
            }
        };
        self.let_all_go().await?;
        Ok(result?)
    }

    async fn beat(&mut self) {
        // A beat that failed is made up for by the next; until then we count as many as before.
        match self.members.beat().await {
            Ok(live) => self.live = live,
            Err(error) => tracing::debug!(%error, "membership not shown"),
        }
        self.context
            .metrics
            .members
            .set(i64::try_from(self.live).unwrap_or(i64::MAX));
    }

    /// Lets go what is above our share, or takes what is free below it.
    async fn balance(&mut self) {
        let shards = usize::from(self.context.cluster.shards().count());
        let share = fair_share(shards, self.live);
        let leaving = self
            .ours
            .values()
            .filter(|release| release.is_cancelled())
            .count();
        let surplus = (self.ours.len() - leaving).saturating_sub(share);
        if surplus > 0 {
            let staying = self.ours.values().filter(|release| !release.is_cancelled());
            staying.take(surplus).for_each(CancellationToken::cancel);
            return;
        }
        let free = self.look().await;
        // Nothing can be stored anyway, and another persister may well reach the database.
        if !*self.context.pool.reachable().borrow() {
            return;
        }
        for (shard, seen) in free.into_iter().take(share.saturating_sub(self.ours.len())) {
            self.claim(shard, seen).await;
        }
    }

    /// The shards whose lease may be taken, in random order: two persisters that start together rarely want the same.
    async fn look(&mut self) -> Vec<(ShardId, LeaseRecord)> {
        let context = self.context.clone();
        let shards = context.cluster.shards();
        let others = shards.all().filter(|shard| !self.ours.contains_key(shard));
        let reads = others.map(|shard| {
            let (context, key) = (&context, shards.persister(shard));
            async move { (shard, context.cluster.read_lease(shard, &key).await) }
        });
        let now = self.started.elapsed();
        let mut free = Vec::new();
        for (shard, lease) in join_all(reads).await {
            let Ok(lease) = lease else { continue };
            if self
                .watches
                .entry(shard)
                .or_default()
                .observe(lease.record, now)
            {
                free.push((shard, lease.record));
            }
        }
        free.shuffle(&mut rand::rng());
        free
    }

    async fn claim(&mut self, shard: ShardId, seen: LeaseRecord) {
        let key = self.context.cluster.shards().persister(shard);
        let owner = nonce();
        match self
            .context
            .cluster
            .claim_lease(shard, &key, seen, owner)
            .await
        {
            Ok(true) => {}
            Ok(false) => return,
            // It may be ours; then nobody renews it, and it is free again in two seconds.
            Err(error) => return tracing::debug!(shard = shard.0, %error, "shard not claimed"),
        }
        // With the owner as it stands in Redis: it tells which process is at work for a shard.
        let shown = shared::cluster::leases::hex(owner);
        tracing::info!(shard = shard.0, owner = shown, "shard taken");
        let release = CancellationToken::new();
        self.ours.insert(shard, release.clone());
        self.watches.remove(&shard);
        let work = Shard::new(self.context.clone(), shard, owner).run(release);
        self.work.spawn(async move { (shard, work.await) });
    }

    fn ended(
        &mut self,
        ended: Result<(ShardId, Ended), tokio::task::JoinError>,
    ) -> Result<(), Unfit> {
        match ended {
            Ok((shard, ended)) => {
                self.ours.remove(&shard);
                match ended {
                    Ended::Gone => Ok(()),
                    Ended::Unfit(unfit) => Err(unfit),
                }
            }
            // A panic ends the process by its hook; here it can only have been an abort of ours.
            Err(_aborted) => Ok(()),
        }
    }

    async fn let_all_go(&mut self) -> anyhow::Result<()> {
        self.ours.values().for_each(CancellationToken::cancel);
        let until = tokio::time::Instant::now() + SHUTDOWN;
        while !self.work.is_empty() {
            match tokio::time::timeout_at(until, self.work.join_next()).await {
                Ok(Some(ended)) => {
                    if let Err(unfit) = self.ended(ended) {
                        tracing::warn!(%unfit, "a shard ended because of the database");
                    }
                }
                Ok(None) => break,
                Err(_elapsed) => {
                    bail!(
                        "{} shards were still at work after {SHUTDOWN:?}",
                        self.work.len()
                    )
                }
            }
        }
        if let Err(error) = self.members.leave().await {
            tracing::debug!(%error, "membership not taken off; the others will see it stand still");
        }
        Ok(())
    }
}

fn nonce() -> Nonce {
    loop {
        let nonce = rand::random::<u64>();
        if nonce != 0 {
            return Nonce(nonce);
        }
    }
}
