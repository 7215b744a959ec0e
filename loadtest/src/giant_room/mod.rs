//! The giant room: ten million people in one room are 200 gateways that append to one log. What they would append is
//! appended here, through the real outbox and the real appender, and the shard's aggregator and Redis are watched.
//!
//! ```text
//!  people -> 200 virtual gateways -> the log of one shard (master, replica) -> aggregator on one core -> ticks
//!            producer, fleet, board                                                                  watch, rhythm
//! ```

pub mod people;
mod past;
pub mod board;
mod producer;
pub mod fleet;
mod watch;
mod rhythm;
mod arena;
pub mod report;
mod stage;
mod verdict;

use crate::process::cpu::Cpu;
use crate::run::circumstances;
use arena::Arena;
use fleet::Load;
use report::{Report, Stage};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use verdict::{Verdict, gave_out};

/// Before each measured window.
const WARM_UP: Duration = Duration::from_secs(3);
/// How long idleness is measured.
const IDLE: Duration = Duration::from_secs(2);
/// Taps that ten million people can make at a cooldown of 3 s.
const TEN_MILLION_PEOPLES_TAPS: f64 = 3_300_000.0;

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much is tapped.
    pub load: Load,
    /// How long it is measured.
    pub window: Duration,
    /// Raises the taps by so many per second, stage by stage, until one does not hold.
    pub step: Option<u64>,
    /// Whether everybody has tapped in the minutes before.
    pub remembered: bool,
    /// Whether a persister stores it all, too.
    pub persister: bool,
    /// The core of the aggregator.
    pub core: usize,
}

/// Runs it, and says how it went and with which exit code to end. After `interrupted` what was measured so far is all.
///
/// # Errors
/// Something did not start or did not answer, or there is not enough memory for it.
pub async fn run(
    options: &Options,
    interrupted: &CancellationToken,
    progress: impl Fn(&str),
) -> anyhow::Result<(Report, u8)> {
    let taps = |rate: u64| rate * (options.window + WARM_UP + Duration::from_secs(1)).as_secs();
    let starting = Arena::start(options, taps(options.load.taps_per_second), &progress);
    let arena = tokio::select! {
        arena = starting => arena?,
        () = interrupted.cancelled() => anyhow::bail!("interrupted before anything was measured"),
    };
    let mut report = Report {
        producers: options.load.producers,
        generator_threads: options.load.threads,
        people: people::count(options.load.taps_per_second),
        remembered: arena.remembered,
        machine: circumstances::machine(),
        profile: circumstances::profile(),
        ..Report::default()
    };
    (report.aggregator_idle_cores, report.redis_idle_cores) = idle_cores(&arena).await?;
    let mut load = options.load.clone();
    load.tapped_before = if options.remembered {
        past::taps_each()
    } else {
        0
    };
    let mut verdict;
    let mut held: Option<Stage> = None;
    loop {
        progress(&format!(
            "{} virtual gateways append {} taps/s in {} batches/s",
            load.producers, load.taps_per_second, load.appends_per_second
        ));
        let began = Instant::now();
        let running = Stage::run(
            &arena,
            &load,
            WARM_UP,
            options.window,
            interrupted,
            &progress,
        );
        let stage = running.await?;
        verdict = Verdict::of(&stage, load.appends_per_second);
        report.stages.push(stage.clone());
        if !verdict.held() || options.step.is_none() || interrupted.is_cancelled() {
            if options.step.is_some() && !verdict.held() {
                report.gave_out = Some(gave_out(&stage, &verdict));
            }
            // A limit was looked for and found: what held below it is the result.
            let result = held.filter(|_| !verdict.held()).unwrap_or(stage);
            verdict = Verdict::of(&result, load.appends_per_second);
            report.stage = result;
            break;
        }
        progress(&told(&stage));
        // Nobody has tapped more often than once in `TAP_EVERY`.
        let turns = began.elapsed().as_secs_f64() / people::TAP_EVERY.as_secs_f64();
        load.tapped_before += 1 + u32::try_from(Duration::from_secs_f64(turns).as_secs())?;
        load.taps_per_second += options.step.unwrap_or_default();
        held = Some(stage);
        if let Err(full) = arena::check_space(taps(load.taps_per_second)) {
            report.gave_out = Some(format!("this machine: {full}"));
            report.stage = report.stages.last().cloned().unwrap_or_default();
            break;
        }
    }
    report.interrupted = interrupted.is_cancelled();
    report.share_of_3_3_million = report.stage.taps_per_second / TEN_MILLION_PEOPLES_TAPS;
    report.crossed = verdict.crossed();
    report.vetoes = verdict.vetoes.clone();
    report.passed = verdict.held();
    if options.step.is_none() {
        report.stages.clear();
    }
    progress(&told(&report.stage));
    Ok((report, verdict.exit_code()))
}

/// What aggregator and master use while nobody taps.
async fn idle_cores(arena: &Arena) -> anyhow::Result<(f64, f64)> {
    let [aggregator, master] = [arena.aggregator.pid(), arena.master];
    let (began, before) = (Instant::now(), (Cpu::of(aggregator)?, Cpu::of(master)?));
    tokio::time::sleep(IDLE).await;
    let seconds = began.elapsed().as_secs_f64();
    let cores = |now: Cpu, before: &Cpu| now.since(before).as_secs_f64() / seconds;
    Ok((
        cores(Cpu::of(aggregator)?, &before.0),
        cores(Cpu::of(master)?, &before.1),
    ))
}

fn told(stage: &Stage) -> String {
    format!(
        "{:.0} taps/s in {:.0} appends/s: ticks every {:.0} ms (p99 {:.0}), {:.0} ms behind at p99, {} missed; \
         aggregator {:.2} us a tap, {:.1} us an entry, {:.2} cores; Redis {:.2} us a tap, {:.1} us an entry, {:.2} cores",
        stage.taps_per_second,
        stage.appends_per_second,
        stage.tick_interval_p50_ms,
        stage.tick_interval_p99_ms,
        stage.behind_p99_ms,
        stage.missed,
        stage.aggregator_us_per_tap,
        stage.aggregator_us_per_entry,
        stage.aggregator_cores,
        stage.redis_us_per_tap,
        stage.redis_us_per_entry,
        stage.redis_cores,
    )
}
