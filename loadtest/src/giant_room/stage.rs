//! One rate, kept up for a while: what was reached, and what each part used for it.

use super::arena::{Arena, wait_until_folded};
use super::board::{Board, Counts};
use super::fleet::{Fleet, Load, THREADS};
use super::people;
use super::report::Stage;
use super::rhythm::{Acknowledged, Rhythm};
use crate::compare::Cell;
use crate::evidence;
use crate::process::cpu::{Cpu, Machine};
use crate::process::memory::resident_bytes;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How often the acknowledged taps are noted, and Ctrl-C looked at.
const SAMPLE: Duration = Duration::from_millis(10);
/// Each try takes two seconds.
const METRICS_TRIES_MAX: u32 = 10;

/// What all parts have used up to a moment.
struct Readings {
    at: Instant,
    counts: Counts,
    folded: (f64, f64),
    aggregator: Cpu,
    master: Cpu,
    replicas: Vec<Cpu>,
    persister: Option<Cpu>,
    generator: Cpu,
    master_memory: u64,
    machine: Machine,
}

impl Readings {
    async fn take(arena: &Arena, board: &Board) -> anyhow::Result<Readings> {
        let metrics = metrics(arena).await?;
        let folded = |what| {
            rig::metric(
                &metrics,
                &format!("uproar_aggregator_folded_{what}_total"),
                "",
            )
        };
        let replicas = arena.replicas.iter().map(|pid| Cpu::of(*pid));
        let persister = arena
            .persister
            .as_ref()
            .map(|service| Cpu::of(service.pid()));
        Ok(Readings {
            at: Instant::now(),
            counts: board.counts(),
            folded: (folded("entries"), folded("taps")),
            aggregator: Cpu::of(arena.aggregator.pid())?,
            master: Cpu::of(arena.master)?,
            replicas: replicas.collect::<anyhow::Result<_>>()?,
            persister: persister.transpose()?,
            generator: Cpu::of_own_threads(THREADS)?,
            master_memory: resident_bytes(arena.master)?,
            machine: Machine::now()?,
        })
    }
}

impl Stage {
    /// Runs a stage: warms up, measures for `window` or until `interrupted`, then waits until all is settled.
    pub(crate) async fn run(
        arena: &Arena,
        load: &Load,
        warm_up: Duration,
        window: Duration,
        interrupted: &CancellationToken,
        progress: &impl Fn(&str),
    ) -> anyhow::Result<Stage> {
        let totals_before = totals(arena).await?;
        let fleet = Fleet::start(load, &arena.room, &arena.cluster)?;
        let mut acknowledged = Acknowledged::new();
        let already = totals_before.values().sum();
        sample(
            &fleet.board,
            already,
            warm_up,
            &mut acknowledged,
            interrupted,
            progress,
        )
        .await;
        fleet.board.forget_waits();
        let from = Readings::take(arena, &fleet.board).await?;
        sample(
            &fleet.board,
            already,
            window,
            &mut acknowledged,
            interrupted,
            progress,
        )
        .await;
        let until = Readings::take(arena, &fleet.board).await?;
        let ticks = arena.watch.ticks_since(from.at);
        let mut stage = Stage::of(&from, &until);
        stage.planned_taps_per_second = load.taps_per_second;
        stage.aggregator_memory_bytes = resident_bytes(arena.aggregator.pid())?;
        stage.note_rhythm(Rhythm::of(&ticks, &acknowledged));
        (stage.generator_late_p99_ms, stage.append_p99_ms) = fleet.board.waits_ms(0.99);
        stage.append_p50_ms = fleet.board.waits_ms(0.5).1;
        progress("waiting until all is settled");
        let board = fleet.finish().await?;
        wait_until_folded(&arena.rig, &arena.cluster, arena.shard).await?;
        stage.settle(arena, &board, &totals_before).await?;
        Ok(stage)
    }

    fn of(from: &Readings, until: &Readings) -> Stage {
        let seconds = (until.at - from.at).as_secs_f64();
        let cores = |used: Duration| used.as_secs_f64() / seconds;
        let entries = (until.counts.appended - from.counts.appended) as f64;
        let taps = (until.counts.acknowledged - from.counts.acknowledged) as f64;
        let [aggregator, master, generator] = [
            until.aggregator.since(&from.aggregator),
            until.master.since(&from.master),
            until.generator.since(&from.generator),
        ];
        let replicas = until.replicas.iter().zip(&from.replicas);
        let persister = until.persister.as_ref().zip(from.persister.as_ref());
        let growth = until.master_memory.saturating_sub(from.master_memory);
        Stage {
            seconds,
            taps_per_second: taps / seconds,
            appends_per_second: entries / seconds,
            aggregator_us_per_entry: us_per(aggregator, until.folded.0 - from.folded.0),
            aggregator_us_per_tap: us_per(aggregator, until.folded.1 - from.folded.1),
            aggregator_cores: cores(aggregator),
            redis_us_per_entry: us_per(master, entries),
            redis_us_per_tap: us_per(master, taps),
            redis_cores: cores(master),
            redis_main_thread_cores: cores(until.master.busiest_since(&from.master)),
            redis_memory_bytes: until.master_memory,
            redis_growth_bytes_per_second: growth as f64 / seconds,
            replica_cores: cores(replicas.map(|(until, from)| until.since(from)).sum()),
            persister_cores: persister.map(|(until, from)| cores(until.since(from))),
            generator_busy: cores(until.generator.busiest_since(&from.generator)),
            generator_cores: cores(generator),
            machine_busy: until.machine.busy_since(&from.machine),
            ..Stage::default()
        }
    }

    fn note_rhythm(&mut self, rhythm: Rhythm) {
        self.ticks = rhythm.ticks;
        self.tick_gaps = rhythm.gaps;
        self.tick_interval_p50_ms = rhythm.interval_p50_ms;
        self.tick_interval_p99_ms = rhythm.interval_p99_ms;
        self.tick_interval_max_ms = rhythm.interval_max_ms;
        self.behind_p50_ms = rhythm.behind_p50_ms;
        self.behind_p99_ms = rhythm.behind_p99_ms;
    }

    /// Compares what was acknowledged with what the totals grew by.
    async fn settle(
        &mut self,
        arena: &Arena,
        board: &Board,
        before: &BTreeMap<Cell, u64>,
    ) -> anyhow::Result<()> {
        let after = totals(arena).await?;
        self.acknowledged = board.acknowledged.load(Relaxed);
        self.refused = board.refused.load(Relaxed);
        self.repeated = board.repeated.load(Relaxed);
        self.given_up = board.given_up.load(Relaxed);
        self.last_error = board.last_error.lock().ok().and_then(|error| error.clone());
        let mut more = 0;
        for (key, acknowledged) in people::keys().into_iter().zip(&board.by_key) {
            let cell = (arena.room.clone(), key);
            let counted = after.get(&cell).unwrap_or(&0) - before.get(&cell).unwrap_or(&0);
            let acknowledged = acknowledged.load(Relaxed);
            self.totals += counted;
            self.missed += acknowledged.saturating_sub(counted);
            more += counted.saturating_sub(acknowledged);
        }
        self.doubled = more.saturating_sub(self.given_up);
        // The tick is published with the totals, and needs a moment to be here.
        let deadline = Instant::now() + Duration::from_secs(2);
        let all = after.values().sum::<u64>();
        while arena.watch.total() != all && Instant::now() < deadline {
            tokio::time::sleep(SAMPLE).await;
        }
        self.last_tick_has_all = arena.watch.total() == all;
        Ok(())
    }
}

/// Lets time go by, notes what is acknowledged, and tells it each second.
async fn sample(
    board: &Board,
    already: u64,
    span: Duration,
    acknowledged: &mut Acknowledged,
    interrupted: &CancellationToken,
    progress: &impl Fn(&str),
) {
    let until = Instant::now() + span;
    let (mut told, mut before) = (Instant::now(), board.counts());
    while Instant::now() < until && !interrupted.is_cancelled() {
        tokio::time::sleep(SAMPLE).await;
        let counts = board.counts();
        acknowledged.push((Instant::now(), already + counts.acknowledged));
        let elapsed = told.elapsed().as_secs_f64();
        if elapsed >= 1.0 {
            let per_second = |now: u64, before: u64| (now - before) as f64 / elapsed;
            progress(&format!(
                "{:.0} taps/s in {:.0} appends/s",
                per_second(counts.acknowledged, before.acknowledged),
                per_second(counts.appended, before.appended),
            ));
            (told, before) = (Instant::now(), counts);
        }
    }
}

/// The aggregator's own counts. It has one core: when that is full, they take a while.
async fn metrics(arena: &Arena) -> anyhow::Result<String> {
    let mut tries = 0;
    loop {
        match rig::get(arena.aggregator.operations(), "/metrics").await {
            Ok((_, text)) => return Ok(text),
            Err(error) if tries == METRICS_TRIES_MAX => return Err(error),
            Err(_) => tries += 1,
        }
    }
}

async fn totals(arena: &Arena) -> anyhow::Result<BTreeMap<Cell, u64>> {
    let rooms = std::slice::from_ref(&arena.room);
    evidence::totals(&arena.rig, arena.cluster.shards(), rooms).await
}

fn us_per(used: Duration, units: f64) -> f64 {
    if units > 0.0 {
        used.as_secs_f64() * 1e6 / units
    } else {
        0.0
    }
}
