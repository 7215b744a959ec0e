//! A process under measurement: its CPU time, its memory, its core, and stopping it in the middle of what it does.

use anyhow::{Context, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// How often a process is looked at while something of it is waited for: a fraction of the shortest thing measured.
const LOOK_INTERVAL: Duration = Duration::from_micros(500);
/// Looks in a row that must find all threads asleep: between two events a thread sleeps for less than one.
const IDLE_LOOKS: u32 = 4;

/// A process that runs until whoever started it ends it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pid: Pid,
}

/// CPU time of each thread, nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct CpuTime(BTreeMap<i32, u64>);

impl CpuTime {
    /// What has been used since `earlier`, in microseconds. A thread that has ended in between is left out.
    pub(super) fn since_us(&self, earlier: &CpuTime) -> f64 {
        let used = self.0.iter().map(|(thread, now)| {
            let before = earlier.0.get(thread).copied().unwrap_or(0);
            now.saturating_sub(before)
        });
        Duration::from_nanos(used.sum()).as_secs_f64() * 1e6
    }
}

impl Measured {
    pub(super) fn new(pid: u32) -> anyhow::Result<Self> {
        let pid = i32::try_from(pid).context("a process id beyond any")?;
        Ok(Measured {
            pid: Pid::from_raw(pid),
        })
    }

    fn threads(self) -> anyhow::Result<Vec<i32>> {
        let folder = format!("/proc/{}/task", self.pid);
        let mut threads = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
            if let Some(Ok(thread)) = entry?.file_name().to_str().map(str::parse) {
                threads.push(thread);
            }
        }
        Ok(threads)
    }

    /// CPU time so far by schedstat. Exact only while the process sleeps or is stopped.
    pub(super) fn cpu_time(self) -> anyhow::Result<CpuTime> {
        let mut times = BTreeMap::new();
        for thread in self.threads()? {
            let path = format!("/proc/{}/task/{thread}/schedstat", self.pid);
            // A thread may have ended since it was listed.
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
            times.insert(
                thread,
                nanoseconds.with_context(|| format!("{path} is {text:?}"))?,
            );
        }
        Ok(CpuTime(times))
    }

    /// Resident memory.
    pub(super) fn resident_bytes(self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes: u64 = kilobytes.context("no VmRSS in /proc")?.trim().parse()?;
        Ok(kilobytes * 1024)
    }

    /// Confines all its threads, and those that they will start, to these cores.
    pub(super) fn pin(self, cores: &[usize]) -> anyhow::Result<()> {
        let mut set = CpuSet::new();
        for core in cores {
            set.set(*core)
                .with_context(|| format!("core {core} is out of range"))?;
        }
        for thread in self.threads()? {
            sched_setaffinity(Pid::from_raw(thread), &set)
                .with_context(|| format!("cannot confine a process to cores {cores:?}"))?;
        }
        Ok(())
    }

    /// Stops it, and waits until it stands.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        kill(self.pid, Signal::SIGSTOP)?;
        self.wait("stop", |states| states.iter().all(|state| *state == 'T'), 1)
    }

    /// Lets it go on.
    pub(super) fn go_on(self) -> anyhow::Result<()> {
        kill(self.pid, Signal::SIGCONT)?;
        Ok(())
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
        for thread in self.threads()? {
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
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let allowed: Vec<usize> = (0..CpuSet::count())
            .filter(|core| allowed.is_set(*core).unwrap_or(false))
            .collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn this() -> Measured {
        Measured::new(std::process::id()).unwrap()
    }

    #[test]
    fn work_shows_in_the_cpu_time() {
        let before = this().cpu_time().unwrap();
        let started = Instant::now();
        let mut sum = 0u64;
        // Work, not a wait: until the clock of the scheduler has seen it.
        loop {
            for number in 0..1_000_000u64 {
                sum = std::hint::black_box(sum.wrapping_add(number));
            }
            let used_us = this().cpu_time().unwrap().since_us(&before);
            if used_us > 1_000.0 {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{used_us}");
        }
    }

    #[test]
    fn a_thread_that_has_ended_counts_for_nothing() {
        let earlier = CpuTime(BTreeMap::from([(1, 5_000), (2, 9_000)]));
        let now = CpuTime(BTreeMap::from([(1, 7_000), (3, 1_000)]));
        assert!((now.since_us(&earlier) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn memory_is_that_of_a_program() {
        assert!(this().resident_bytes().unwrap() > 500_000);
    }
}
