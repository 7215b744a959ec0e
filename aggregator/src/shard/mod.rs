//! The loop of one shard, from its lease to its end: load, then each tick read, fold, commit, publish.
//!
//! Whatever goes wrong, the way on is the same: discard everything and load again. So there is one place where errors
//! end up, and no state that could be half right.

mod steps;

use crate::expiry;
use crate::load;
use crate::metrics::{Cause, Metrics};
use crate::state::State;
use shared::cluster::Cluster;
use shared::counting::ids::Nonce;
use shared::counting::reader::{ReadError, Reader};
use shared::shards::ShardId;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};
use tokio_util::sync::CancellationToken;

/// How often expired rooms are looked for, and unused totals forgotten.
const HOUSEKEEPING: Duration = Duration::from_secs(60);
/// A shard that folds so many entries in a tick's interval folds them in so many parts: the tick itself then has little
/// left to do before it is told. These take some 20 ms of one core, a twelfth of the interval; fewer are quick enough anyhow, and
/// each part is a request to Redis.
const BUSY_ENTRIES: u64 = 500;
const PARTS: u32 = 5;
/// The pause before a load after a failure; it doubles up to the other. A failover takes some seconds: short enough to be
/// back soon after it, long enough not to add to it.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(500);

/// What all shards of this instance share.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) cluster: Cluster,
    pub(crate) owner: Nonce,
    pub(crate) tick_interval: Duration,
    pub(crate) room_retention: Duration,
    pub(crate) read_entries_max: usize,
    pub(crate) metrics: Metrics,
    /// From which the ticks of all shards are counted.
    pub(crate) started: Instant,
}

/// How the work on a shard ended. Its lease is let go, unless it was lost.
#[derive(Debug)]
pub(crate) enum End {
    /// As it was asked to.
    LetGo,
    /// Another has it.
    LeaseLost,
    /// This instance cannot go on with it.
    Stopped(ReadError),
}

/// Why a tick did not come to its end.
enum Failure {
    LeaseLost,
    Stop(ReadError),
    /// Load and go on; with the label of a metric, and what to log.
    Again(&'static str, anyhow::Error),
}

/// When ticks are due.
struct Ticks {
    interval: Interval,
    next: Instant,
}

/// One shard.
pub(crate) struct Shard {
    common: Common,
    shard: ShardId,
    lease_key: String,
    reader: Reader,
    state: State,
    /// The master that the state was loaded from; none while it is not loaded.
    master: Option<String>,
    pulsed: Option<Instant>,
    published: Instant,
    housekept: Option<Instant>,
    /// Entries folded since the last commit.
    entries: u64,
    /// Entries folded since the last tick.
    entries_of_tick: u64,
}

impl Shard {
    /// A shard whose lease is ours.
    pub(crate) fn new(common: Common, shard: ShardId) -> Self {
        Shard {
            lease_key: common.cluster.shards().aggregator(shard),
            reader: Reader::new(),
            state: State::new(0),
            master: None,
            pulsed: None,
            published: common.started,
            housekept: None,
            entries: 0,
            entries_of_tick: 0,
            common,
            shard,
        }
    }

    /// Works on it until `let_go`. What is under way then is finished first.
    pub(crate) async fn run(mut self, let_go: CancellationToken) -> End {
        let end = self.tick_until(&let_go).await;
        if !matches!(end, End::LeaseLost) {
            let released = self
                .common
                .cluster
                .release_lease(self.shard, &self.lease_key, self.common.owner)
                .await;
            if let Err(error) = released {
                tracing::debug!(shard = self.shard.0, %error, "the lease was not let go; it runs out by itself");
            }
        }
        end
    }

    async fn tick_until(&mut self, let_go: &CancellationToken) -> End {
        let first = self.first_tick();
        let mut ticks = Ticks {
            interval: interval_at(first, self.common.tick_interval),
            next: first,
        };
        // After a stall the next tick makes up for all that were missed: they would have nothing more to tell.
        ticks
            .interval
            .set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut pause, mut failures) = (RETRY_PAUSE, 0_u32);
        let mut before = Instant::now();
        while !let_go.is_cancelled() {
            let began = Instant::now();
            let ticked = self.tick(let_go).await;
            let took = began.elapsed();
            let waited = match ticked {
                Ok(()) => self.wait(&mut ticks, let_go).await,
                failed => failed,
            };
            match waited {
                Ok(()) => {
                    if failures > 0 {
                        tracing::info!(shard = self.shard.0, failures, "the shard goes on");
                    }
                    (pause, failures) = (RETRY_PAUSE, 0);
                    self.common
                        .metrics
                        .tick_interval
                        .observe((began - before).as_secs_f64());
                    self.common
                        .metrics
                        .tick_duration
                        .observe(took.as_secs_f64());
                    before = began;
                }
                Err(Failure::LeaseLost) => return End::LeaseLost,
                Err(Failure::Stop(why)) => return End::Stopped(why),
                Err(Failure::Again(cause, error)) => {
                    self.discard(cause, &error, failures);
                    failures += 1;
                    tokio::select! {
                        () = let_go.cancelled() => {}
                        () = sleep(pause) => {}
                    }
                    pause = (pause * 2).min(RETRY_PAUSE_MAX);
                }
            }
        }
        End::LetGo
    }

    /// Ticks of different shards come at different times, so that neither Redis nor the gateways get them all at once.
    fn first_tick(&self) -> Instant {
        let interval = self.common.tick_interval;
        let phase =
            interval * u32::from(self.shard.0) / u32::from(self.common.cluster.shards().count());
        let since = Instant::now() - self.common.started;
        let nanos = since.as_nanos() % interval.as_nanos();
        let into = Duration::from_nanos(u64::try_from(nanos).unwrap_or_default());
        let wait = if phase > into {
            phase - into
        } else {
            interval + phase - into
        };
        Instant::now() + wait
    }

    /// Forgets everything. Logged aloud once per streak of failures: Redis being away would fill the log otherwise.
    fn discard(&mut self, cause: &'static str, error: &anyhow::Error, failures: u32) {
        self.common
            .metrics
            .reloads
            .get_or_create(&Cause { cause })
            .inc();
        let (shard, error) = (self.shard.0, format!("{error:#}"));
        if failures == 0 {
            tracing::warn!(
                shard,
                cause,
                error,
                "discarding the shard's state and loading it again"
            );
        } else {
            tracing::debug!(
                shard,
                cause,
                error,
                failures,
                "the shard's state cannot be loaded yet"
            );
        }
        self.reader.discard();
        self.master = None;
    }

    /// Reads and folds all that is new, commits it and publishes the tick.
    async fn tick(&mut self, let_go: &CancellationToken) -> Result<(), Failure> {
        self.ensure_loaded().await?;
        loop {
            let reached_end = self.read(let_go).await?;
            if self.reader.is_live() {
                self.commit(reached_end).await?;
            }
            if reached_end || let_go.is_cancelled() {
                break;
            }
        }
        self.keep_house().await;
        Ok(())
    }

    /// Waits for the next tick; a busy shard folds meanwhile.
    async fn wait(&mut self, ticks: &mut Ticks, let_go: &CancellationToken) -> Result<(), Failure> {
        let is_busy = std::mem::take(&mut self.entries_of_tick) >= BUSY_ENTRIES;
        let part = self.common.tick_interval / PARTS;
        loop {
            // As long again for the part itself: it must not hold up the tick.
            let has_time = Instant::now() + part * 2 <= ticks.next;
            // All of these are cancel-safe.
            tokio::select! {
                biased;
                () = let_go.cancelled() => return Ok(()),
                due = ticks.interval.tick() => {
                    ticks.next = due + ticks.interval.period();
                    return Ok(());
                }
                () = sleep(part), if is_busy && has_time => {}
            }
            self.common.metrics.early_reads.inc();
            self.ensure_loaded().await?;
            self.read(let_go).await?;
        }
    }

    async fn ensure_loaded(&mut self) -> Result<(), Failure> {
        let master = self.master_now();
        if self.master.is_some() && self.master == master {
            return Ok(());
        }
        if self.master.is_some() {
            let error = anyhow::anyhow!("the shard's master is another now");
            return Err(Failure::Again("master_changed", error));
        }
        let committed = load::committed(&self.common.cluster, self.shard)
            .await
            .map_err(|error| Failure::Again("load", error))?;
        self.reader.loaded(committed.offset, committed.producers);
        self.state = State::new(rand::random());
        self.master = master;
        self.pulsed = None;
        self.entries = 0;
        Ok(())
    }

    fn master_now(&self) -> Option<String> {
        let topology = self.common.cluster.topology();
        let topology = topology.borrow();
        Some(
            topology
                .master_of(self.common.cluster.shards().slot(self.shard))?
                .id
                .clone(),
        )
    }

    async fn keep_house(&mut self) {
        if self
            .housekept
            .is_some_and(|housekept| housekept.elapsed() < HOUSEKEEPING)
        {
            return;
        }
        self.housekept = Some(Instant::now());
        let log_now_ms = self.common.cluster.log_now_ms(self.shard);
        self.state.forget_unused(log_now_ms);
        // The folding of the entry does the rest; an expiry that fails is tried again the next time.
        if let Err(error) = expiry::run(&self.common, self.shard, log_now_ms).await {
            tracing::warn!(
                shard = self.shard.0,
                error = format!("{error:#}"),
                "rooms did not expire"
            );
        }
    }
}
