//! A process under measurement: what it uses, its core, and stopping it in the middle of what it does.

use crate::process::cpu::Cpu;
use crate::process::{cores, memory, threads};
use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::time::{Duration, Instant};

/// How often a process is looked at while something of it is waited for: a fraction of the shortest thing measured.
const LOOK_INTERVAL: Duration = Duration::from_micros(500);
/// Looks in a row that must find all threads asleep: between two events a thread sleeps for less than one.
const IDLE_LOOKS: u32 = 4;

/// A process that runs until whoever started it ends it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pid: u32,
}

impl Measured {
    pub(super) fn new(pid: u32) -> Self {
        Measured { pid }
    }

    /// CPU time so far. Exact only while the process sleeps or is stopped.
    pub(super) fn cpu_time(self) -> anyhow::Result<Cpu> {
        Cpu::of(self.pid)
    }

    /// Resident memory.
    pub(super) fn resident_bytes(self) -> anyhow::Result<u64> {
        memory::resident_bytes(self.pid)
    }

    /// Confines all its threads, and those that they will start, to these cores.
    pub(super) fn pin(self, cores: &[usize]) -> anyhow::Result<()> {
        cores::pin(self.pid, cores)
    }

    fn signal(self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid).context("a process id beyond any")?;
        Ok(kill(Pid::from_raw(pid), signal)?)
    }

    /// Stops it, and waits until it stands.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)?;
        self.wait("stop", |states| states.iter().all(|state| *state == 'T'), 1)
    }

    /// Lets it go on.
    pub(super) fn go_on(self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Waits until it has nothing more to do.
    pub(super) fn wait_idle(self) -> anyhow::Result<()> {
        let is_idle = |states: &[char]| states.iter().all(|state| *state == 'S');
        self.wait("come to rest", is_idle, IDLE_LOOKS)
    }

    fn wait(self, what: &str, is_so: impl Fn(&[char]) -> bool, looks: u32) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut in_a_row = 0;
        loop {
            in_a_row = if is_so(&self.states()?) {
                in_a_row + 1
            } else {
                0
            };
            if in_a_row >= looks {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("process {} did not {what} within 20 s", self.pid);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// One letter for each thread, as in `ps`.
    fn states(self) -> anyhow::Result<Vec<char>> {
        let mut states = Vec::new();
        for thread in threads(self.pid)? {
            let path = format!("/proc/{}/task/{thread}/stat", self.pid);
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            // The name before it stands in parentheses and may have any.
            let state = text
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.chars().next());
            states.push(state.with_context(|| format!("{path} is {text:?}"))?);
        }
        Ok(states)
    }
}

/// The core of what is measured, and those of everything else.
#[derive(Debug, Clone)]
pub(super) struct Cores {
    pub(super) measured: usize,
    pub(super) others: Vec<usize>,
}

impl Cores {
    /// Of those that this process may use.
    ///
    /// # Errors
    /// There is only one.
    pub(super) fn choose() -> anyhow::Result<Cores> {
        let allowed = cores::allowed()?;
        match allowed[..] {
            [measured, ref others @ ..] if !others.is_empty() => Ok(Cores {
                measured,
                others: others.to_vec(),
            }),
            _ => bail!(
                "this needs two cores, one for what is measured and one for everything else; this process may use {}",
                allowed.len()
            ),
        }
    }
}
