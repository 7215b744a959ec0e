//! One shard's work, for as long as its lease is ours:
//!
//! ```text
//!  load the ledger --> read [XRANGE, renewal, WAIT] --> fold --> one transaction --> offset to Redis, trim
//!        ^                        |  every interval, or at once while behind |
//!        +------ any failure: drop the connection, throw all away -----------+
//! ```
//!
//! Waiting ends when the lease is to be let go; a transaction under way is never cut short by us.

use crate::commit::{CommitError, Stored};
use crate::context::Context;
use crate::database::partitions::{Partition, TAP_COUNTS, TAPS};
use crate::database::pool::Unfit;
use crate::heads::Heads;
use crate::metrics::Failure;
use crate::step::Step;
use crate::store::{Next, Store};
use crate::trim::Publisher;
use shared::counting::ids::{EntryId, Nonce};
use shared::counting::reader::{Folded, ReadError, Reader, Skipped};
use shared::shards::ShardId;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// After a failure, from here on and doubling up to [`PAUSE_MAX`], so that what fails every time does not spin.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A stopped shard is looked at again this often: somebody may have put it right.
const STOPPED_PAUSE: Duration = Duration::from_secs(10);
/// A lease that is held without reading is renewed this often, well within its two seconds.
const RENEWAL: Duration = Duration::from_millis(500);
/// Beyond this a transaction has hung in a way that no timeout of the server has ended.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(120);

/// How a shard's work ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The lease is another's, or was let go.
    Gone,
    /// The database will not do for this build.
    Unfit(Unfit),
}

/// Why a round did not come to its end.
#[derive(Debug)]
enum Broken {
    /// To be let go.
    Released,
    LeaseLost,
    /// Throw all away and start again.
    Failed(Failure, String),
    /// It needs somebody.
    Stopped(String),
    Unfit(Unfit),
}

impl From<Unfit> for Broken {
    fn from(unfit: Unfit) -> Self {
        Broken::Unfit(unfit)
    }
}

/// What a round found.
#[derive(Debug, PartialEq, Eq)]
enum Round {
    /// There is more: go on at once.
    More,
    /// All is stored, or nothing may be at the moment.
    Idle,
}

/// One shard and all that is known of it.
pub(crate) struct Shard {
    context: Arc<Context>,
    shard: ShardId,
    lease_key: String,
    owner: Nonce,
    reader: Reader,
    skipped: Skipped,
    store: Store,
    heads: Heads,
    publisher: Publisher,
    pause: Duration,
    /// The trouble that was logged last: one line per change of state.
    told: Option<String>,
}

impl Shard {
    pub(crate) fn new(context: Arc<Context>, shard: ShardId, owner: Nonce) -> Self {
        let lease_key = context.cluster.shards().persister(shard);
        let store = Store::new(shard, context.settings.tappers_memory_max);
        Shard {
            context,
            shard,
            lease_key,
            owner,
            reader: Reader::new(),
            skipped: Skipped::default(),
            store,
            heads: Heads::default(),
            publisher: Publisher::new(shard, owner),
            pause: PAUSE_MIN,
            told: None,
        }
    }

    /// Works until `release`, or until the lease is lost.
    pub(crate) async fn run(mut self, release: CancellationToken) -> Ended {
        let ended = self.work(&release).await;
        self.context
            .metrics
            .shards_held
            .get_or_create(&self.shard.into())
            .set(0);
        self.context.set_stopped(self.shard, None);
        if let Broken::Unfit(unfit) = ended {
            return Ended::Unfit(unfit);
        }
        if let Broken::Released = ended {
            self.publisher.publish(&self.context, true).await;
            let released = self
                .context
                .cluster
                .release_lease(self.shard, &self.lease_key, self.owner)
                .await;
            tracing::info!(
                shard = self.shard.0,
                released = released.is_ok(),
                "shard let go"
            );
        }
        Ended::Gone
    }

    async fn work(&mut self, release: &CancellationToken) -> Broken {
        loop {
            let broken = match self.follow(release).await {
                Ok(never) => match never {},
                Err(broken) => broken,
            };
            self.discard();
            match broken {
                Broken::Failed(kind, why) => {
                    self.context.metrics.failed(kind);
                    if self.told.as_ref() != Some(&why) {
                        tracing::warn!(shard = self.shard.0, %why, "step thrown away, starting again");
                        self.told = Some(why);
                    }
                    if wait(self.pause, release).await.is_err() {
                        return Broken::Released;
                    }
                    self.pause = PAUSE_MAX.min(self.pause * 2);
                }
                Broken::Stopped(why) => {
                    if let Err(broken) = self.stand_still(why, release).await {
                        return broken;
                    }
                }
                Broken::LeaseLost => {
                    self.context.metrics.failed(Failure::LeaseLost);
                    tracing::info!(shard = self.shard.0, "lease lost");
                    return Broken::LeaseLost;
                }
                last => return last,
            }
        }
    }

    /// Loads, then reads and stores round by round.
    async fn follow(
        &mut self,
        release: &CancellationToken,
    ) -> Result<std::convert::Infallible, Broken> {
        self.load(release).await?;
        loop {
            let round = self.round(release).await?;
            self.publisher.publish(&self.context, false).await;
            let interval = if round == Round::More {
                Duration::ZERO
            } else {
                self.context.settings.interval
            };
            wait(interval, release).await?;
        }
    }

    async fn load(&mut self, release: &CancellationToken) -> Result<(), Broken> {
        let context = self.context.clone();
        let mut connection = connection(&context, release).await?;
        let loaded = self.store.load(&mut connection).await;
        let producers = loaded.map_err(|error| self.postgres_failed(&error.into()))?;
        connection.give_back();
        let offset = self.store.offset();
        tracing::debug!(shard = self.shard.0, %offset, "ledger loaded");
        self.reader.loaded(offset, producers);
        Ok(())
    }

    fn discard(&mut self) {
        self.reader.discard();
        self.heads = Heads::default();
        self.store.discard();
    }

    /// Reads until the end of the log or until there is enough for one transaction, then stores it.
    async fn round(&mut self, release: &CancellationToken) -> Result<Round, Broken> {
        let mut step = Step::new(self.context.time_bounds_ms());
        let mut round = Round::More;
        while step.taps.len() < self.context.settings.rows_per_transaction_max {
            if let Some(end) = self.read(&mut step).await? {
                round = end;
                break;
            }
        }
        let skipped = self.reader.skipped();
        self.context.metrics.skipped(self.skipped, skipped);
        self.skipped = skipped;
        if self.reader.folded_offset() > self.reader.committed_offset() {
            self.store(step, release).await?;
        }
        if self.reader.is_live() {
            self.context.set_stopped(self.shard, None);
        }
        Ok(round)
    }

    /// One read; some where there is no more to read for now.
    async fn read(&mut self, step: &mut Step) -> Result<Option<Round>, Broken> {
        let after = self.reader.cursor().unwrap_or(EntryId::ZERO);
        let count = self.context.settings.read_entries_max;
        let read = self
            .context
            .cluster
            .read_log(self.shard, after, count, &self.lease_key, self.owner)
            .await
            .map_err(|error| Broken::Failed(Failure::Redis, error.to_string()))?;
        let held = read.unreplicated && self.context.holds_without_replicas();
        self.context
            .metrics
            .shards_held
            .get_or_create(&self.shard.into())
            .set(i64::from(held));
        if held && read.barrier.lease_held {
            return Ok(Some(Round::Idle));
        }
        let stored = self.store.offset();
        let heads = &mut self.heads;
        let mut sink = |id: EntryId, folded: Folded<'_>| fold(id, folded, stored, heads, step);
        match self
            .reader
            .read(&read.entries, read.reached_end, read.barrier, &mut sink)
        {
            Ok(()) => Ok(read.reached_end.then_some(Round::Idle)),
            // Nothing was folded and nothing is lost: it is read again after the interval.
            Err(ReadError::NotStable) => {
                self.context.metrics.failed(Failure::NotStable);
                Ok(Some(Round::Idle))
            }
            Err(ReadError::LeaseLost) => Err(Broken::LeaseLost),
            Err(error @ ReadError::NewerVersion { .. }) => Err(Broken::Stopped(error.to_string())),
            Err(error @ ReadError::OffsetMissing(_)) => Err(Broken::Stopped(format!(
                "{error}: the log was lost or replaced, or the database is not the one that this log was stored in. \
                 To go on with this log from its beginning: UPDATE ledger SET offset_ms = 0, offset_seq = 0, \
                 version = version + 1 WHERE shard = {}",
                self.shard.0
            ))),
            Err(error @ ReadError::OutOfOrder(_)) => {
                Err(Broken::Failed(Failure::Redis, error.to_string()))
            }
        }
    }

    async fn store(&mut self, step: Step, release: &CancellationToken) -> Result<(), Broken> {
        let context = self.context.clone();
        let mut connection = connection(&context, release).await?;
        let behind_ms = context
            .cluster
            .log_now_ms(self.shard)
            .saturating_sub(self.reader.folded_offset().ms);
        let memory = context.memory_used_ratio(self.shard);
        let shedding = context
            .settings
            .shed
            .decide(Duration::from_millis(behind_ms), memory);
        // Nothing of this may be cut short by the lease's release: it ends by itself, or by its timeout.
        let Some(begun) = self.reader.commit() else {
            return Err(Broken::Failed(
                Failure::Redis,
                "nothing to commit".to_owned(),
            ));
        };
        let next = Next {
            offset: begun.offset,
            changed: begun.changed_producers.clone(),
            forgotten: begun.forgotten_producers.clone(),
        };
        let started = Instant::now();
        let storing =
            self.store
                .commit(&mut connection, &context.partitions, &step, next, shedding);
        let stored = match tokio::time::timeout(COMMIT_TIMEOUT, storing).await {
            Ok(Ok(stored)) => stored,
            Ok(Err(error)) => {
                drop(begun);
                return Err(self.postgres_failed(&error));
            }
            Err(_elapsed) => {
                let why = "the transaction did not end in time".to_owned();
                return Err(Broken::Failed(Failure::Postgres, why));
            }
        };
        begun.succeeded();
        connection.give_back();
        self.publisher.committed(self.store.offset());
        self.note_stored(&step, stored, started);
        Ok(())
    }

    fn note_stored(&mut self, step: &Step, stored: Stored, started: Instant) {
        let metrics = &self.context.metrics;
        metrics.commits.inc();
        metrics
            .commit_seconds
            .observe(started.elapsed().as_secs_f64());
        metrics.taps.inc_by(stored.taps);
        metrics.rows.inc_by(stored.rows);
        metrics.rows_shed.inc_by(stored.taps - stored.rows);
        metrics.taps_clamped.inc_by(step.clamped);
        metrics.rejected.inc_by(step.rejected.len() as u64);
        for rejected in &step.rejected {
            tracing::warn!(shard = self.shard.0, entry = %rejected.id, reason = rejected.reason, "entry rejected, kept in rejected_batches");
        }
        if let Some((first, _)) = step.tapped_between_ms() {
            // A step lies in one day, but for a moment around midnight: near enough for ANALYZE.
            self.context
                .loads
                .add(Partition::of(TAPS, first), stored.rows);
            self.context
                .loads
                .add(Partition::of(TAP_COUNTS, first), stored.taps);
        }
        if self.told.take().is_some() {
            tracing::info!(shard = self.shard.0, offset = %self.store.offset(), "storing again");
        }
        self.pause = PAUSE_MIN;
    }

    fn postgres_failed(&self, error: &CommitError) -> Broken {
        let kind = match error {
            CommitError::Postgres(_) => Failure::Postgres,
            CommitError::ForeignLedger => Failure::ForeignLedger,
        };
        self.context.partitions.forget();
        Broken::Failed(kind, error.to_string())
    }

    /// Holds the lease and does nothing until it is time to look again.
    async fn stand_still(
        &mut self,
        why: String,
        release: &CancellationToken,
    ) -> Result<(), Broken> {
        self.context.metrics.failed(Failure::Stopped);
        self.context.set_stopped(self.shard, Some(why.clone()));
        if self.told.as_ref() != Some(&why) {
            tracing::error!(shard = self.shard.0, %why, "shard stopped");
            self.told = Some(why);
        }
        let until = Instant::now() + STOPPED_PAUSE;
        while Instant::now() < until {
            wait(RENEWAL, release).await?;
            let renewed = self
                .context
                .cluster
                .renew_lease(self.shard, &self.lease_key, self.owner)
                .await;
            if let Ok(false) = renewed {
                return Err(Broken::LeaseLost);
            }
        }
        Ok(())
    }
}

/// Takes one thing that was folded. What lies up to `stored` is in the database already: of it only head counts come,
/// and those to be remembered only.
fn fold(id: EntryId, folded: Folded<'_>, stored: EntryId, heads: &mut Heads, step: &mut Step) {
    let is_new = id > stored;
    heads.advance(id, is_new.then_some(&mut *step));
    match folded {
        Folded::People {
            room,
            producer,
            people,
        } => {
            heads.observe(id, room, producer, people, is_new.then_some(step));
        }
        _ if !is_new => {}
        Folded::Taps { room, taps } => step.taps(id, room, taps),
        Folded::Change(change) => step.change(id, change),
        Folded::Rejected { raw, reason } => step.rejected(raw, &reason),
    }
}

async fn connection<'a>(
    context: &'a Context,
    release: &CancellationToken,
) -> Result<crate::database::pool::Checkout<'a>, Broken> {
    tokio::select! {
        connection = context.pool.get() => Ok(connection?),
        () = release.cancelled() => Err(Broken::Released),
    }
}

async fn wait(pause: Duration, release: &CancellationToken) -> Result<(), Broken> {
    if release.is_cancelled() {
        return Err(Broken::Released);
    }
    tokio::select! {
        () = tokio::time::sleep(pause) => Ok(()),
        () = release.cancelled() => Err(Broken::Released),
    }
}
