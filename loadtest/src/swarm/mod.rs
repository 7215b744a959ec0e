//! The load generator: a few threads, each an epoll loop over thousands of phones, which costs less per frame than the
//! gateway does. It counts frames without parsing them: a frame is parsed when its bytes are seen for the first time,
//! and compared with those seen last after that.
//!
//! Modules in the order in which a run uses them.

pub mod assignment;
pub mod harvest;
mod clock;
mod script;
mod tally;
mod wire;
mod handshake;
mod frames;
mod scene;
mod sheet;
mod line;
mod phone;
mod phase;
mod worker;
pub mod merge;
pub mod evaluate;
mod sightings;

use anyhow::{Context, ensure};
use assignment::Assignment;
use clock::Clock;
use harvest::{Harvest, Snapshot};
use nix::sys::resource::{Resource, getrlimit};
use phase::{Phase, SharedPhase};
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;
use tally::Board;
use worker::{ThreadHarvest, Worker};

/// Files that a process has open besides its phones: epoll, logs, connections to servers that are looked at.
const OTHER_FILES: u64 = 100;

/// A running generator. Dropping it has its phones leave at once.
#[derive(Debug)]
pub struct Swarm {
    phase: Arc<SharedPhase>,
    threads: Vec<(Arc<Board>, JoinHandle<io::Result<ThreadHarvest>>)>,
}

impl Swarm {
    /// Starts the threads; phones arrive by the assignment's timeline, counted from `zero`, which may lie ahead.
    ///
    /// # Errors
    /// The assignment cannot be played, or the system does not give what the phones need, such as open files.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is the swarm's from now on, however its threads share it"
    )]
    pub fn start(assignment: Assignment, zero: Instant) -> anyhow::Result<Swarm> {
        assignment.check()?;
        let phones = u64::from(assignment.phones.end - assignment.phones.start);
        let (files, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
        ensure!(
            phones + OTHER_FILES <= files,
            "{phones} phones need as many open files, and this process may have {files}: raise it (`ulimit -n`), or \
             spread the phones over more generators"
        );
        let clock = Clock::new(zero);
        let mut swarm = Swarm {
            phase: Arc::default(),
            threads: Vec::new(),
        };
        for thread in 0..assignment.threads {
            let numbers = assignment
                .phones
                .clone()
                .skip(thread)
                .step_by(assignment.threads);
            let board = Arc::new(Board::default());
            let (phase, shown) = (Arc::clone(&swarm.phase), Arc::clone(&board));
            let worker = Worker::new(&assignment, numbers, clock, phase, shown)
                .context("a thread of the generator has no epoll")?;
            let running = thread::Builder::new()
                .name(format!("swarm-{thread}"))
                .spawn(move || worker.run())
                .context("a thread of the generator did not start")?;
            swarm.threads.push((board, running));
        }
        Ok(swarm)
    }

    /// What has happened so far, cheap enough for each second.
    pub fn snapshot(&self) -> Snapshot {
        tally::snapshot(self.threads.iter().map(|(board, _)| &**board))
    }

    /// Nobody taps any more; phones stay until all is answered.
    pub fn stop_tapping(&self) {
        self.phase.set(Phase::Settle);
    }

    /// Has all phones see the last frames and leave, and gives what they saw. Blocks for up to some seconds.
    ///
    /// # Panics
    /// When a thread did: what it saw is lost to the evaluation.
    pub fn finish(mut self) -> Harvest {
        self.phase.set(Phase::Finish);
        let threads = std::mem::take(&mut self.threads).into_iter();
        let harvests = threads.map(|(_, thread)| match thread.join() {
            Ok(Ok(harvest)) => whole(harvest),
            Ok(Err(error)) => Harvest {
                errors: vec![(format!("a thread of the generator ended: {error}"), 1)],
                ..Harvest::default()
            },
            Err(panic) => std::panic::resume_unwind(panic),
        });
        merge::merge(harvests)
    }
}

impl Drop for Swarm {
    fn drop(&mut self) {
        self.phase.set(Phase::Abort);
    }
}

fn whole(thread: ThreadHarvest) -> Harvest {
    Harvest {
        phones: thread.phones,
        frames: thread.logs,
        cpu_us: thread.cpu_us,
        frames_received: thread.frames,
        busy: thread.busy,
        errors: thread.errors.into_iter().collect(),
    }
}
