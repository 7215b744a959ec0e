//! One run: phones play a scenario against a system, everybody who can count is asked what he counted, and a report
//! says what held.
//!
//! Modules in the order in which a run uses them.

pub mod windows;
pub mod target;
pub mod generators;
pub mod processes;
pub mod audience;
pub mod follower;
pub mod browser;
pub mod counters;
pub mod progress;
pub mod latency;
pub mod circumstances;
pub mod assemble;
mod counted;
mod cross_checks;
pub mod bottleneck;

use crate::process;
use crate::report::RunReport;
use crate::scenario::{Scenario, timeline::Times};
use crate::swarm::harvest::Snapshot;
use anyhow::Context;
use assemble::Findings;
use audience::Hosts;
use browser::Browser;
use counters::{Counters, Stores};
use follower::Follower;
use generators::{Generators, Placement, Play};
use processes::Watch;
use progress::Progress;
use shared::room::RoomCode;
use std::time::{Duration, Instant};
use target::Target;
use tokio::time::{sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long the last answers and the readers may take after the last tap.
const SETTLE_WITHIN: Duration = Duration::from_secs(60);

/// What to run, apart from the system.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The scenario.
    pub scenario: Scenario,
    /// Makes the timelines: the same seed, the same run.
    pub seed: u64,
    /// Who plays the phones.
    pub placement: Placement,
    /// Threads per generator.
    pub threads: usize,
    /// Whether a browser joins the first room.
    pub browser: bool,
    /// The command line, for the report.
    pub command: String,
}

/// Plays the scenario. When `interrupt` is cancelled it ends early, with what was measured so far.
///
/// # Errors
/// Something could not be started, or a generator was lost.
pub async fn run(
    options: &RunOptions,
    target: &Target,
    interrupt: &CancellationToken,
    progress: &Progress,
) -> anyhow::Result<RunReport> {
    let scenario = &options.scenario;
    let times = scenario.times();
    let mut generators = Generators::gather(&options.placement).await?;
    let (made, rooms): (Vec<_>, Vec<_>) = target.make_rooms(scenario).await?.into_iter().unzip();
    let codes: Vec<RoomCode> = rooms.iter().map(|room| room.code.clone()).collect();
    let follower = match target.redis() {
        nodes if nodes.is_empty() => None,
        nodes => Some(Follower::start(nodes, &codes).await?),
    };
    let targets = target.addresses();
    let hosts = Hosts::join(targets[0], &made);
    let mut browser = None;
    if options.browser {
        progress.say("opening a browser in the first room");
        browser = Some(open_browser(target, &codes[0]).await?);
    }
    let mut watch = Watch::default();
    for (kind, name, pid) in target.processes().await {
        watch.add(kind, name, vec![pid]);
    }
    for (name, pid) in generators.processes() {
        watch.add("generator", name, vec![pid]);
    }
    if let Some(pid) = browser.as_ref().and_then(Browser::pid) {
        watch.add("browser", "browser".to_owned(), process::family(pid));
    }
    let play = Play {
        scenario: scenario.clone(),
        seed: options.seed,
        targets,
        host: target.host(),
        rooms: rooms.clone(),
        threads: options.threads,
    };
    let before = Counters::ask(target).await;
    let zero = generators.start(&play).await?;
    let mut playing = Playing {
        target,
        generators: &mut generators,
        hosts: &hosts,
        watch: &mut watch,
        progress,
        times,
        zero,
    };
    let played = playing.play(interrupt).await?;
    generators.stop_tapping().await?;
    let stores = Stores::connect(target).await?;
    settle(&mut generators, stores.as_ref(), &codes, progress).await?;
    let settled = generators.snapshot().await?;
    let after = Counters::ask(target).await;
    watch.sample(zero);
    progress.say("comparing what everybody counted");
    let shown = match &mut browser {
        Some(browser) => Some(browser.totals().await?),
        None => None,
    };
    let stamps = match follower {
        Some(follower) => Some(follower.finish().await?),
        None => None,
    };
    let counts = match &stores {
        Some(stores) => Some(stores.counts(&codes).await?),
        None => None,
    };
    let (harvests, drift_us) = generators.finish().await?;
    let findings = Findings {
        scenario,
        times,
        rooms: &rooms,
        harvests: &harvests,
        drift_us,
        played,
        settled,
        watch: &watch,
        before,
        after,
        stamps,
        counts,
        shown,
        client_hash_key: target.client_hash_key(),
        windows: target.windows(),
    };
    let mut report = findings.report()?;
    report.out_of_reach = target.out_of_reach();
    report.circumstances = circumstances::of(options, target).await;
    report.judge(&scenario.thresholds);
    Ok(report)
}

async fn open_browser(target: &Target, room: &RoomCode) -> anyhow::Result<Browser> {
    let program = browser::program().context(
        "no browser is installed (looked for chromium, chromium-browser, google-chrome, chrome in PATH): install \
         chromium, or run with --no-browser",
    )?;
    Browser::open(&program, &format!("{}/{room}", target.url())).await
}

/// What was seen while phones played.
#[derive(Debug, Default)]
pub struct Played {
    /// The counters, second by second, with when they were read.
    pub snapshots: Vec<(Duration, Snapshot)>,
    /// When all phones had joined, if they ever had.
    pub all_joined: Option<Duration>,
    /// Towards the end of the window: what several sides say of how many are there.
    pub present: Option<Present>,
    /// When tapping ended: the end of the window, or the interruption.
    pub ended: Duration,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// How many are there, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Present {
    /// Phones that the generators have in their rooms.
    pub joined: u64,
    /// Sockets that gateways have; hosts and the browser are among them.
    pub sockets: Option<f64>,
    /// Connections that the kernel has on the gateways' ports, where they are ours.
    pub kernel: Option<u64>,
    /// People that the servers say are in the first rooms, and how many rooms that are.
    pub people: (u64, usize),
}

struct Playing<'a> {
    target: &'a Target,
    generators: &'a mut Generators,
    hosts: &'a Hosts,
    watch: &'a mut Watch,
    progress: &'a Progress,
    times: Times,
    zero: Instant,
}

impl Playing<'_> {
    /// Second by second to the end of the window.
    async fn play(&mut self, interrupt: &CancellationToken) -> anyhow::Result<Played> {
        let mut played = Played::default();
        // The servers' head counts go to hosts once a second, and phones may be leaving for their last time.
        let census = self.times.until.saturating_sub(Duration::from_secs(1));
        self.watch.sample(self.zero);
        for second in 1.. {
            let due = self.zero + Duration::from_secs(second).min(self.times.until);
            tokio::select! {
                () = sleep_until(due.into()) => {}
                () = interrupt.cancelled() => played.interrupted = true,
            }
            let at = self.zero.elapsed();
            let snapshot = self.generators.snapshot().await?;
            self.watch.sample(self.zero);
            if played.all_joined.is_none()
                && at >= self.times.arrived
                && snapshot.joined >= snapshot.phones
            {
                played.all_joined = Some(at);
            }
            if played.present.is_none() && (at >= census || played.interrupted) {
                played.present = Some(self.present(snapshot.joined).await);
            }
            self.progress.second(at, self.times, &snapshot);
            played.snapshots.push((at, snapshot));
            if played.interrupted || at >= self.times.until {
                break;
            }
        }
        played.ended = self.zero.elapsed().min(self.times.until);
        Ok(played)
    }

    async fn present(&self, joined: u64) -> Present {
        let counters = Counters::ask(self.target).await;
        let kernel = match self.target {
            Target::Rig(_) => {
                let ports = self.target.addresses();
                Some(
                    ports
                        .iter()
                        .map(|address| processes::established(address.port()))
                        .sum(),
                )
            }
            Target::Elsewhere(..) => None,
        };
        Present {
            joined,
            sockets: counters.map(|counters| counters.sockets),
            kernel,
            people: self.hosts.people(),
        }
    }
}

/// Waits until nothing is open any more. When that does not come, the comparison says what is missing.
async fn settle(
    generators: &mut Generators,
    stores: Option<&Stores>,
    rooms: &[RoomCode],
    progress: &Progress,
) -> anyhow::Result<()> {
    progress.say("waiting for the last answers");
    let deadline = Instant::now() + SETTLE_WITHIN;
    while generators.snapshot().await?.waiting > 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(100)).await;
    }
    if let Some(stores) = stores
        && let Err(error) = stores.wait_until_counted(rooms, SETTLE_WITHIN).await
    {
        progress.say(&format!("{error:#}"));
    }
    // The last totals are published by now; they reach the phones with the next ticks.
    sleep(Duration::from_secs(1)).await;
    Ok(())
}
