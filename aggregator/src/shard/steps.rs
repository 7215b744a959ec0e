//! The steps of a tick: a read that is folded, and the commit of what was folded.

use super::{Common, Failure, Shard};
use crate::commit::{self, Refusal};
use crate::load;
use crate::metrics::Outcome;
use shared::cluster::RequestError;
use shared::cluster::client::LogRead;
use shared::cluster::scripts::COMMIT;
use shared::counting::reader::{Folded, ReadError};
use shared::ticks::FeedMessage;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// An idle shard shows that it is served, and hosts get head counts, this often.
const PULSE: Duration = Duration::from_secs(1);
/// The pause before a read is repeated that replicas had not confirmed; the WAIT in it has taken its time already.
const NOT_STABLE_PAUSE: Duration = Duration::from_millis(10);
/// Reads that were not confirmed before that is logged: with the WAIT's time-out, some five seconds.
const NOT_STABLE_TELL: u32 = 10;

impl Shard {
    /// One read of the log, folded; whether it reached the end. Repeated until it is stable.
    pub(super) async fn read(&mut self, let_go: &CancellationToken) -> Result<bool, Failure> {
        let mut tries = 0_u32;
        loop {
            let read = self.read_once().await?;
            match self.fold(&read) {
                Ok(()) => return Ok(read.reached_end),
                Err(ReadError::NotStable) => {}
                Err(ReadError::LeaseLost) => return Err(Failure::LeaseLost),
                Err(why @ (ReadError::NewerVersion { .. } | ReadError::OffsetMissing(_))) => {
                    return Err(Failure::Stop(why));
                }
                Err(why @ ReadError::OutOfOrder(_)) => {
                    return Err(Failure::Again("out_of_order", why.into()));
                }
            }
            self.common.metrics.not_stable.inc();
            tries += 1;
            if tries == NOT_STABLE_TELL {
                tracing::warn!(
                    shard = self.shard.0,
                    "the replicas do not confirm what is read; nothing is counted until they do"
                );
            }
            if let_go.is_cancelled() {
                return Ok(true);
            }
            sleep(NOT_STABLE_PAUSE).await;
            // A failover may be why; its news must not wait for the end of this loop.
            self.ensure_loaded().await?;
        }
    }

    async fn read_once(&self) -> Result<LogRead, Failure> {
        let cursor = self.reader.cursor().ok_or_else(unloaded)?;
        let Common {
            cluster,
            read_entries_max,
            owner,
            ..
        } = &self.common;
        cluster
            .read_log(
                self.shard,
                cursor,
                *read_entries_max,
                &self.lease_key,
                *owner,
            )
            .await
            .map_err(|error| {
                Failure::Again("read", anyhow::Error::new(error).context("reading the log"))
            })
    }

    fn fold(&mut self, read: &LogRead) -> Result<(), ReadError> {
        let (skipped, offset) = (self.reader.skipped(), self.reader.committed_offset());
        let state = &mut self.state;
        let mut sink = |id, folded: Folded<'_>| state.fold(id, folded);
        self.reader
            .read(&read.entries, read.reached_end, read.barrier, &mut sink)?;
        let new = read.entries.iter().filter(|entry| entry.id > offset);
        let new = new.count() as u64;
        self.entries += new;
        self.entries_of_tick += new;
        self.common.metrics.skipped(skipped, self.reader.skipped());
        if read.unreplicated {
            self.common.metrics.unreplicated.inc();
        }
        Ok(())
    }

    /// Commits what was folded, if there is anything, and publishes what is untold: at the end of the log, or, while a
    /// backlog is worked off, once an interval.
    pub(super) async fn commit(&mut self, at_end: bool) -> Result<(), Failure> {
        let interval = self.common.tick_interval;
        let may_publish = at_end || self.published.elapsed() >= interval;
        // Half an interval early rather than most of one late.
        let pulse = may_publish
            && self
                .pulsed
                .is_none_or(|pulsed| pulsed.elapsed() + interval / 2 >= PULSE);
        let nothing_new = self.reader.folded_offset() == self.reader.committed_offset();
        if nothing_new && !pulse && !(may_publish && self.state.has_untold()) {
            return Ok(());
        }
        self.learn_missing().await?;
        let log_now_ms = self.common.cluster.log_now_ms(self.shard);
        let rooms = self.state.prepare();
        let message = (pulse || may_publish && self.state.has_untold())
            .then(|| FeedMessage::Tick(self.state.tick(log_now_ms, pulse)).encode());
        let publishes = message.is_some();
        let commit = self.reader.commit().ok_or_else(unloaded)?;
        let Common {
            cluster,
            owner,
            metrics,
            ..
        } = &self.common;
        let request = commit::request(
            cluster.shards(),
            self.shard,
            *owner,
            &commit,
            message,
            &rooms,
        );
        let answer = cluster
            .script(self.shard, &COMMIT, &request.keys, &request.arguments)
            .await;
        let outcome = answer.map(|answer| commit::outcome(&answer));
        metrics
            .commits
            .get_or_create(&Outcome {
                outcome: label(&outcome),
            })
            .inc();
        // Whatever returns here drops the commit, and with it all that the reader holds.
        check(outcome)?;
        commit.succeeded();
        metrics.committed(
            std::mem::take(&mut self.entries),
            self.state.take_counted(),
            log_now_ms,
        );
        if publishes {
            self.published = Instant::now();
        }
        if pulse {
            self.pulsed = Some(self.published);
        }
        Ok(())
    }

    /// Reads the totals that the commit adds to and that are not known.
    async fn learn_missing(&mut self) -> Result<(), Failure> {
        let missing = self.state.missing();
        if missing.is_empty() {
            return Ok(());
        }
        let totals = load::totals(&self.common.cluster, self.shard, missing)
            .await
            .map_err(|error| Failure::Again("totals", error))?;
        for (room, totals) in totals {
            self.state.learn(room, totals);
        }
        Ok(())
    }
}

fn check(outcome: Result<Result<(), Refusal>, RequestError>) -> Result<(), Failure> {
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Refusal::Owner)) => Err(Failure::LeaseLost),
        Ok(Err(refusal)) => Err(Failure::Again(
            "commit",
            anyhow::anyhow!("the commit was refused: {}", refusal.as_str()),
        )),
        // It may have been done. The next load shows it.
        Err(error) => Err(Failure::Again(
            "commit",
            anyhow::Error::new(error).context("committing"),
        )),
    }
}

fn label(outcome: &Result<Result<(), Refusal>, RequestError>) -> &'static str {
    match outcome {
        Ok(Ok(())) => "done",
        Ok(Err(refusal)) => refusal.as_str(),
        Err(RequestError::NotDone(_)) => "not_done",
        Err(RequestError::Unknown(_)) => "unknown",
        Err(RequestError::OutOfMemory) => "out_of_memory",
        Err(RequestError::Refused(_)) => "refused",
    }
}

fn unloaded() -> Failure {
    Failure::Again("unloaded", anyhow::anyhow!("the reader holds nothing"))
}
