//! CPU time and memory of processes, from /proc.

use crate::run::processes;
use anyhow::Context;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// CPU time that threads have used, by the scheduler's account, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    by_thread: BTreeMap<i32, u64>,
}

impl Cpu {
    /// Of all threads that a process has now.
    ///
    /// # Errors
    /// It has ended.
    pub fn of(pid: u32) -> anyhow::Result<Cpu> {
        let mut by_thread = BTreeMap::new();
        for thread in threads(pid)? {
            // One that ended meanwhile has nothing to tell any more.
            let path = format!("/proc/{pid}/task/{thread}/schedstat");
            if let Ok(text) = std::fs::read_to_string(path) {
                by_thread.insert(thread, first_number(&text)?);
            }
        }
        Ok(Cpu { by_thread })
    }

    /// Of a process and those that it has started and that still run, such as a database server's.
    ///
    /// # Errors
    /// It has ended.
    pub fn of_family(pid: u32) -> anyhow::Result<Cpu> {
        let mut all = Cpu::of(pid)?;
        for child in processes::family(pid) {
            if let Ok(cpu) = Cpu::of(child) {
                all.by_thread.extend(cpu.by_thread);
            }
        }
        Ok(all)
    }

    /// What was used since `before`.
    pub fn since(&self, before: &Cpu) -> Duration {
        self.spans(before).sum()
    }

    /// What the busiest thread used since `before`.
    pub fn busiest_since(&self, before: &Cpu) -> Duration {
        self.spans(before).max().unwrap_or_default()
    }

    fn spans(&self, before: &Cpu) -> impl Iterator<Item = Duration> {
        self.by_thread.iter().map(|(thread, used)| {
            let before = before.by_thread.get(thread).copied().unwrap_or_default();
            Duration::from_nanos(used.saturating_sub(before))
        })
    }
}

/// Of threads of this process: those whose name begins so.
///
/// # Errors
/// /proc cannot be read.
pub fn cpu_of_own_threads(name: &str) -> anyhow::Result<Cpu> {
    let pid = std::process::id();
    let mut cpu = Cpu::of(pid)?;
    cpu.by_thread.retain(|thread, _| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm"))
            .is_ok_and(|comm| comm.starts_with(name))
    });
    Ok(cpu)
}

/// What the system could give to programs without swapping.
///
/// # Errors
/// /proc cannot be read.
pub fn memory_available_bytes() -> anyhow::Result<u64> {
    kilobytes("/proc/meminfo", "MemAvailable:")
}

/// What the file system of temporary files could take.
///
/// # Errors
/// It cannot be asked.
pub fn temporary_space_bytes() -> anyhow::Result<u64> {
    let space = nix::sys::statvfs::statvfs(&std::env::temp_dir())?;
    Ok(space.blocks_available() * space.fragment_size())
}

/// Keeps all threads of a process, and those they start, on one core.
///
/// # Errors
/// There is no such process or core.
pub fn pin(pid: u32, core: usize) -> anyhow::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core)?;
    for thread in threads(pid)? {
        let pinned = sched_setaffinity(Pid::from_raw(thread), &cores);
        pinned.with_context(|| format!("thread {thread} cannot be kept on core {core}"))?;
    }
    Ok(())
}

/// How busy all cores of the machine were over a span: 1 is all of them all the time.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    idle: Duration,
    at: Instant,
}

impl Machine {
    /// Begins a span.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn now() -> anyhow::Result<Machine> {
        /// Of /proc/stat, the same on every Linux that we run on.
        const TICKS_PER_SECOND: u64 = 100;
        let text = std::fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().unwrap_or_default();
        let mut numbers = line.split_whitespace().skip(4).map(str::parse::<u64>);
        let (idle, waiting) = (numbers.next(), numbers.next());
        let idle = idle.context("no idle time in /proc/stat")?? + waiting.transpose()?.unwrap_or(0);
        Ok(Machine {
            idle: Duration::from_millis(idle * 1_000 / TICKS_PER_SECOND),
            at: Instant::now(),
        })
    }

    /// How busy it was since `before`.
    pub fn busy_since(&self, before: &Machine) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let span = (self.at - before.at).as_secs_f64() * cores;
        let idle = self.idle.saturating_sub(before.idle).as_secs_f64();
        if span > 0.0 {
            (1.0 - idle / span).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

fn threads(pid: u32) -> anyhow::Result<Vec<i32>> {
    let folder = PathBuf::from(format!("/proc/{pid}/task"));
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("process {pid} does not run"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

fn first_number(text: &str) -> anyhow::Result<u64> {
    let word = text.split_whitespace().next();
    word.context("schedstat is empty")?
        .parse()
        .context("schedstat holds no number")
}

fn kilobytes(path: &str, name: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let number = number.with_context(|| format!("no {name} in {path}"))?;
    Ok(number.trim().parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_memory() {
        let pid = std::process::id();
        let before = Cpu::of(pid).unwrap();
        let until = Instant::now() + Duration::from_millis(50);
        while Instant::now() < until {}
        let used = Cpu::of(pid).unwrap();
        assert!(used.since(&before) > Duration::from_millis(5), "{used:?}");
        assert!(used.busiest_since(&before) <= used.since(&before));
        assert!(processes::resident_bytes(pid) > 100_000);
        assert!(memory_available_bytes().unwrap() > processes::resident_bytes(pid));
    }

    #[test]
    fn a_process_that_does_not_run_is_named() {
        let error = Cpu::of(u32::MAX).unwrap_err().to_string();
        assert!(error.contains("4294967295 does not run"), "{error}");
    }
}
