//! One round: the logs fill up, the bare COPY is timed, then a persister starts and its catching up is timed.

use super::bare_copy::{self, Numbers};
use super::plan::{Entry, Row};
use super::scene::Scene;
use super::{Options, live::Spans};
use crate::process::cpu::{Cpu, Machine};
use anyhow::Context;
use serde::Serialize;
use shared::counting::codec::BATCH_FIELD;
use shared::counting::ids::EntryId;
use shared::shards::ShardId;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Entries sent before the answers are read.
const ENTRIES_AT_ONCE: usize = 200;
/// How often the ledger is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// Beyond this it does not come to an end.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(300);
/// How long the live rooms are watched with nothing else going on.
const QUIET: Duration = Duration::from_secs(8);

/// What a round showed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Round {
    /// Taps that waited.
    pub taps: u64,
    /// Entries that held them.
    pub entries: u64,
    /// The bare COPY.
    pub copy_seconds: f64,
    /// From the persister's start, as a process, until all was committed.
    pub catch_up_seconds: f64,
    /// Of these, until its first commit of the backlog.
    pub first_commit_seconds: f64,
    /// The one by the other.
    pub copy_ratio: f64,
    /// Commits of the backlog.
    pub transactions: i64,
    /// CPU of the persister, in seconds.
    pub persister_cpu_seconds: f64,
    /// CPU of Postgres while the persister caught up; what its processes used that ended meanwhile is not in it.
    pub postgres_cpu_seconds: f64,
    /// CPU of Postgres for the bare COPY.
    pub copy_postgres_cpu_seconds: f64,
    /// CPU of all Redis nodes while the persister caught up.
    pub redis_cpu_seconds: f64,
    /// All cores of the machine while the persister caught up, 1 is all of them.
    pub machine_busy: f64,
}

/// When what was going on, for the live rooms.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) quiet: Spans,
    pub(crate) copying: Spans,
    pub(crate) catching_up: Spans,
}

/// Where each shard's backlog ends.
type Ends = Vec<(ShardId, EntryId)>;

/// How far it is stored.
struct Stored {
    /// To the ends.
    all: bool,
    /// Commits that these shards have seen, together.
    commits: i64,
}

impl Scene {
    /// Plays the round; `table` is a new name for the bare copy. None: interrupted before it was over.
    pub(crate) async fn round(
        &mut self,
        options: &Options,
        table: &str,
        times: &mut Times,
        interrupted: &CancellationToken,
        progress: &impl Fn(&str),
    ) -> anyhow::Result<Option<Round>> {
        progress(&format!(
            "{} taps come while no persister runs",
            options.size.taps
        ));
        let (ends, rows, entries) = self.fill(options).await?;
        self.wait_until_folded().await?;
        let numbers = self.numbers().await?;
        self.rest(times, interrupted).await;
        if interrupted.is_cancelled() {
            return Ok(None);
        }
        progress("a bare COPY of the same rows");
        let mut round = Round {
            taps: rows.len() as u64,
            entries,
            ..Round::default()
        };
        self.copy(options, table, &rows, &numbers, times, &mut round)
            .await?;
        drop(rows);
        progress(&format!(
            "{:.2} s; the persister starts",
            round.copy_seconds
        ));
        self.catch_up(&ends, times, &mut round).await?;
        round.copy_ratio = round.catch_up_seconds / round.copy_seconds;
        progress(&format!(
            "it caught up in {:.2} s: {:.2} times the bare COPY",
            round.catch_up_seconds, round.copy_ratio
        ));
        Ok(Some(round))
    }

    /// Appends the round's backlog; where it ends, what it is, and how many entries it has.
    async fn fill(&mut self, options: &Options) -> anyhow::Result<(Ends, Vec<Row>, u64)> {
        let size = options.size;
        let rooms = self.rooms.len() as u64;
        let (mut ends, mut rows, mut count) = (Ends::new(), Vec::new(), 0);
        for index in 0..self.rooms.len() {
            let share = |rooms_before: u64| size.taps * rooms_before / rooms;
            let taps = share(index as u64 + 1) - share(index as u64);
            let (entries, mut more) = self.parts[index].fill(taps, self.from_ms, size.span_ms);
            count += entries.len() as u64;
            let shard = self.shards.of(&self.rooms[index]);
            if let Some(last) = entries.last() {
                ends.push((shard, last.id));
            }
            self.append(shard, &entries).await?;
            rows.append(&mut more);
        }
        self.from_ms += size.span_ms;
        Ok((ends, rows, count))
    }

    async fn append(&mut self, shard: ShardId, entries: &[Entry]) -> anyhow::Result<()> {
        let log = self.shards.log(shard);
        let master = self.master(shard).await?;
        for entries in entries.chunks(ENTRIES_AT_ONCE) {
            let mut pipeline = redis::pipe();
            for Entry { id, value } in entries {
                let mut add = redis::cmd("XADD");
                add.arg(&log)
                    .arg(id.to_string())
                    .arg(BATCH_FIELD)
                    .arg(value.as_ref());
                pipeline.add_command(add).ignore();
            }
            let appended = pipeline.query_async::<()>(master).await;
            appended.context("the log could not be filled")?;
        }
        Ok(())
    }

    /// Nothing goes on but the live rooms.
    async fn rest(&self, times: &mut Times, interrupted: &CancellationToken) {
        let began = Instant::now();
        tokio::select! {
            () = sleep(QUIET) => times.quiet.push((began, Instant::now())),
            () = interrupted.cancelled() => {}
        }
    }

    async fn copy(
        &self,
        options: &Options,
        table: &str,
        rows: &[Row],
        numbers: &[Numbers],
        times: &mut Times,
        round: &mut Round,
    ) -> anyhow::Result<()> {
        bare_copy::make_table(&self.postgres, table).await?;
        let transactions = bare_copy::encode(rows, numbers, options.rows_per_transaction);
        // Both begin with nothing that waits to be written.
        self.postgres.batch_execute("CHECKPOINT").await?;
        let server = self.rig.postgres.pid()?;
        let (before, began) = (Cpu::of_family(server)?, Instant::now());
        let took = bare_copy::copy(&self.postgres, table, transactions).await?;
        times.copying.push((began, Instant::now()));
        round.copy_seconds = took.as_secs_f64();
        round.copy_postgres_cpu_seconds = Cpu::of_family(server)?.since(&before).as_secs_f64();
        self.postgres.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    async fn catch_up(
        &self,
        ends: &Ends,
        times: &mut Times,
        round: &mut Round,
    ) -> anyhow::Result<()> {
        let server = self.rig.postgres.pid()?;
        let nodes = self.redis_pids()?;
        let redis = || -> anyhow::Result<Duration> {
            let cpu = nodes.iter().map(|pid| Ok(Cpu::of(*pid)?.total()));
            cpu.sum()
        };
        let commits = self.stored(ends).await?.commits;
        let (machine, redis_before) = (Machine::now()?, redis()?);
        let (postgres, began) = (Cpu::of_family(server)?, Instant::now());
        let persister = self.rig.service("persister", &[])?;
        let mut first = None;
        loop {
            let stored = self.stored(ends).await?;
            round.transactions = stored.commits - commits;
            if first.is_none() && round.transactions > 0 {
                first = Some(began.elapsed());
            }
            if stored.all {
                break;
            }
            if began.elapsed() > CAUGHT_UP_WITHIN {
                anyhow::bail!(
                    "the persister did not catch up within {CAUGHT_UP_WITHIN:?}:\n{}",
                    persister.log_tail()
                );
            }
            sleep(LOOK).await;
        }
        let took = began.elapsed();
        times.catching_up.push((began, Instant::now()));
        round.catch_up_seconds = took.as_secs_f64();
        round.first_commit_seconds = first.unwrap_or(took).as_secs_f64();
        round.persister_cpu_seconds = Cpu::of(persister.pid())?.total().as_secs_f64();
        round.postgres_cpu_seconds = Cpu::of_family(server)?.since(&postgres).as_secs_f64();
        round.redis_cpu_seconds = (redis()? - redis_before).as_secs_f64();
        round.machine_busy = Machine::now()?.busy_since(&machine);
        persister.terminate();
        persister.wait(Duration::from_secs(15)).await?;
        Ok(())
    }

    fn redis_pids(&self) -> anyhow::Result<Vec<u32>> {
        let nodes = self.rig.redis_nodes();
        nodes
            .iter()
            .map(|node| self.rig.cluster.pid(node))
            .collect()
    }

    /// What the ledger says of these shards.
    async fn stored(&self, ends: &Ends) -> anyhow::Result<Stored> {
        let sql = "SELECT shard, offset_ms, offset_seq, version FROM ledger";
        let mut stored = Stored {
            all: true,
            commits: 0,
        };
        let rows = self.postgres.query(sql, &[]).await?;
        for (shard, end) in ends {
            let number = i16::try_from(shard.0)?;
            let row = rows.iter().find(|row| row.get::<_, i16>(0) == number);
            let offset = row.map_or(EntryId::ZERO, |row| EntryId {
                ms: row.get::<_, i64>(1).cast_unsigned(),
                seq: row.get::<_, i64>(2).cast_unsigned(),
            });
            stored.all &= offset >= *end;
            stored.commits += row.map_or(0, |row| row.get::<_, i64>(3));
        }
        Ok(stored)
    }
}
