//! The backlog: taps come while no persister runs; then one starts, and its catching up is timed against a bare COPY of
//! the same rows, while live rooms go on.

mod plan;
mod bare_copy;
mod scene;
mod live;
mod round;
mod check;

use crate::crowd::{Crowd, Phase};
use crate::evidence;
use crate::run::circumstances;
use crate::smoke::wait_for;
use check::Found;
use live::ack_p99_ms;
pub use plan::Size;
pub use round::Round;
use round::Times;
use scene::Scene;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What the persister may take of the time of a bare COPY.
const COPY_RATIO_MAX: f64 = 1.6;
/// Live rooms keep their p99: twice what it was before is noise on a machine whose cores are all busy, and so are so many
/// milliseconds.
const LIVE_FACTOR_MAX: f64 = 2.0;
const LIVE_SLACK_MS: f64 = 50.0;
/// How long the last answers and the readers may take.
const SETTLE_WITHIN: Duration = Duration::from_secs(60);

/// What to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of each round.
    pub size: Size,
    /// Rooms with a backlog, each in a shard of its own.
    pub rooms: usize,
    /// How often: the median counts.
    pub rounds: u32,
    /// Phones in the live rooms.
    pub phones: usize,
    /// Rows in a transaction of the bare COPY: what the persister's setting says.
    pub rows_per_transaction: usize,
}

/// How it went.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// No threshold was crossed.
    pub passed: bool,
    /// What was crossed, a sentence each.
    pub crossed: Vec<String>,
    /// Whether Ctrl-C ended it early.
    pub interrupted: bool,
    /// Taps stored per second of catching up, by the median round.
    pub taps_per_second: f64,
    /// Time of catching up by that of a bare COPY of the same rows, by the median round.
    pub copy_ratio: f64,
    /// Rows per second of the bare COPY, by the median round.
    pub copy_rows_per_second: f64,
    /// Waits of live taps for their acknowledgement while the persister caught up, 99 of 100.
    pub live_ack_p99_ms: f64,
    /// The same with nothing else going on.
    pub live_ack_p99_ms_before: f64,
    /// The same during the bare COPY.
    pub live_ack_p99_ms_copying: f64,
    /// Live taps that were due while it caught up.
    pub live_taps: u64,
    /// Acknowledged and not counted, live rooms included.
    pub lost: u64,
    /// Counted more often than sent.
    pub doubled: u64,
    /// What was found of the backlogs in the database.
    pub found: Found,
    /// Taps of the backlogs in the totals.
    pub totals: u64,
    /// Rooms with a backlog.
    pub rooms: usize,
    /// Taps in an entry, on average.
    pub taps_per_entry: f64,
    /// Log time of a backlog.
    pub span_seconds: f64,
    /// Rows in a transaction of the bare COPY.
    pub rows_per_transaction: usize,
    /// As the server says: `fsync`, `synchronous_commit` and its version.
    pub postgres: BTreeMap<String, String>,
    /// Each round.
    pub rounds: Vec<Round>,
    /// On what: all of it shares the machine.
    pub machine: Vec<(String, String)>,
    /// By which Cargo profile it was built.
    pub profile: String,
}

/// Runs it, and says how it went and with which exit code to end. After `interrupted` no further round begins.
///
/// # Errors
/// Something did not start or did not answer.
pub async fn run(
    options: &Options,
    interrupted: &CancellationToken,
    progress: impl Fn(&str),
) -> anyhow::Result<(Report, u8)> {
    let starting = Scene::start(options, &progress);
    let mut scene = tokio::select! {
        scene = starting => scene?,
        () = interrupted.cancelled() => anyhow::bail!("interrupted before anything was measured"),
    };
    let crowd = scene.crowd(options.phones).await?;
    crowd.set_phase(Phase::Tap);
    let (mut times, mut tables) = (Times::default(), Vec::new());
    let mut report = Report {
        rooms: options.rooms,
        span_seconds: Duration::from_millis(options.size.span_ms).as_secs_f64(),
        rows_per_transaction: options.rows_per_transaction,
        machine: circumstances::machine(),
        profile: circumstances::profile(),
        ..Report::default()
    };
    for number in 1..=options.rounds {
        progress(&format!("round {number} of {}", options.rounds));
        let table = format!("bare_copy_{number}");
        let playing = scene.round(options, &table, &mut times, interrupted, &progress);
        let Some(round) = playing.await? else { break };
        tables.push(table);
        report.rounds.push(round);
        if interrupted.is_cancelled() {
            break;
        }
    }
    report.interrupted = interrupted.is_cancelled();
    anyhow::ensure!(
        !report.rounds.is_empty(),
        "interrupted before anything was measured"
    );
    report.take_medians();
    finish(&scene, crowd, &times, &tables, &mut report, &progress).await?;
    report.judge();
    report.passed = report.crossed.is_empty();
    let code = if report.passed { 0 } else { 99 };
    Ok((report, code))
}

/// Ends the live rooms, lets a last persister store what came last, and compares all counts.
async fn finish(
    scene: &Scene,
    crowd: Crowd,
    times: &Times,
    tables: &[String],
    report: &mut Report,
    progress: &impl Fn(&str),
) -> anyhow::Result<()> {
    progress("comparing all counts");
    let persister = scene.rig.service("persister", &[])?;
    crowd.set_phase(Phase::Settle);
    wait_for(SETTLE_WITHIN, "every live tap is answered", async || {
        Ok(crowd.board.waiting.load(Relaxed) == 0)
    })
    .await?;
    wait_for(SETTLE_WITHIN, "the readers have caught up", async || {
        evidence::caught_up(&scene.rig, &scene.shards, &scene.live_rooms).await
    })
    .await?;
    // A tick more for what the observers see.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let sheets = crowd.end().await;
    let spans = [&times.catching_up, &times.quiet, &times.copying];
    let [(catching_up, taps), (quiet, _), (copying, _)] =
        spans.map(|spans| ack_p99_ms(&sheets, spans));
    report.live_ack_p99_ms = catching_up;
    report.live_ack_p99_ms_before = quiet;
    report.live_ack_p99_ms_copying = copying;
    report.live_taps = taps;
    let verdict = live::verdict(
        &scene.rig,
        &scene.shards,
        &scene.live_rooms,
        &sheets,
        &scene.seen,
    );
    let verdict = verdict.await?;
    for mistake in &verdict.mistakes {
        progress(&format!("live rooms: {mistake}"));
    }
    let numbers = scene.numbers().await?;
    let room_ids: Vec<i32> = numbers.iter().map(|room| room.room_id).collect();
    report.found = check::check(&scene.postgres, tables, &room_ids).await?;
    let totals = evidence::totals(&scene.rig, &scene.shards, &scene.rooms).await?;
    report.totals = totals.values().sum();
    report.lost = report.found.lost + verdict.lost;
    report.doubled = report.found.doubled + verdict.doubled;
    for name in [
        "server_version",
        "fsync",
        "synchronous_commit",
        "shared_buffers",
    ] {
        let shown = scene
            .postgres
            .query_one(&format!("SHOW {name}"), &[])
            .await?;
        report.postgres.insert(name.to_owned(), shown.get(0));
    }
    persister.terminate();
    persister.wait(Duration::from_secs(15)).await?;
    Ok(())
}

impl Report {
    fn take_medians(&mut self) {
        let mut rounds: Vec<&Round> = self.rounds.iter().collect();
        rounds.sort_by(|one, other| one.copy_ratio.total_cmp(&other.copy_ratio));
        // Of an even number the worse one of the two in the middle.
        let round = rounds[rounds.len() / 2];
        let taps = round.taps as f64;
        self.copy_ratio = round.copy_ratio;
        self.taps_per_second = taps / round.catch_up_seconds;
        self.copy_rows_per_second = taps / round.copy_seconds;
        self.taps_per_entry = taps / round.entries.max(1) as f64;
    }

    fn judge(&mut self) {
        let taps: u64 = self.rounds.iter().map(|round| round.taps).sum();
        let crossed = &mut self.crossed;
        if self.copy_ratio > COPY_RATIO_MAX {
            crossed.push(format!(
                "catching up takes {:.2} times a bare COPY, more than {COPY_RATIO_MAX}",
                self.copy_ratio
            ));
        }
        let live_max = (self.live_ack_p99_ms_before * LIVE_FACTOR_MAX)
            .max(self.live_ack_p99_ms_before + LIVE_SLACK_MS);
        if self.live_ack_p99_ms > live_max {
            crossed.push(format!(
                "live taps were acknowledged within {:.0} ms at p99 meanwhile, and within {:.0} ms before",
                self.live_ack_p99_ms, self.live_ack_p99_ms_before
            ));
        }
        for (what, found) in [
            ("rows stand in taps", self.found.rows),
            ("taps stand in tap_counts", self.found.counted),
            ("taps stand in the totals", self.totals),
        ] {
            if found != taps {
                crossed.push(format!("{found} {what}, and {taps} were tapped"));
            }
        }
        for (what, found) in [
            ("taps are lost", self.lost),
            ("taps are doubled", self.doubled),
            ("rows of tap_counts are wrong", self.found.wrong_counts),
        ] {
            if found > 0 {
                crossed.push(format!("{found} {what}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Report {
        let round = |copy_seconds, catch_up_seconds| Round {
            taps: 1_000,
            entries: 100,
            copy_seconds,
            catch_up_seconds,
            copy_ratio: catch_up_seconds / copy_seconds,
            ..Round::default()
        };
        Report {
            rounds: vec![round(1.0, 3.0), round(1.0, 1.2), round(1.0, 1.5)],
            found: Found {
                rows: 3_000,
                counted: 3_000,
                ..Found::default()
            },
            totals: 3_000,
            live_ack_p99_ms: 60.0,
            live_ack_p99_ms_before: 30.0,
            ..Report::default()
        }
    }

    #[test]
    fn the_median_counts_and_each_threshold_fires() {
        let crossed = |alter: fn(&mut Report)| {
            let mut report = good();
            alter(&mut report);
            report.take_medians();
            report.judge();
            report.crossed.len()
        };
        assert_eq!(crossed(|_| ()), 0);
        assert_eq!(crossed(|report| report.rounds[2].copy_ratio = 1.7), 1);
        assert_eq!(crossed(|report| report.live_ack_p99_ms = 90.0), 1);
        assert_eq!(crossed(|report| report.found.rows = 2_999), 1);
        assert_eq!(crossed(|report| report.found.counted = 3_001), 1);
        assert_eq!(crossed(|report| report.found.wrong_counts = 1), 1);
        assert_eq!(crossed(|report| report.totals = 1), 1);
        assert_eq!(crossed(|report| report.lost = 1), 1);
        assert_eq!(crossed(|report| report.doubled = 1), 1);
        let mut report = good();
        report.take_medians();
        assert_eq!((report.copy_ratio, report.taps_per_entry), (1.5, 10.0));
    }
}
