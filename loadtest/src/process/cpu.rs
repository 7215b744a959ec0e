//! CPU time of processes by the scheduler's own account, in nanoseconds, and how busy the machine is.

use super::{family, threads};
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// CPU time that threads have used so far. A thread that ends takes its time with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    by_thread: BTreeMap<i32, u64>,
}

impl Cpu {
    /// Of all threads that a process has now. Exact only while it sleeps or is stopped.
    ///
    /// # Errors
    /// It has ended.
    pub fn of(pid: u32) -> anyhow::Result<Cpu> {
        let mut by_thread = BTreeMap::new();
        for thread in threads(pid)? {
            let path = format!("/proc/{pid}/task/{thread}/schedstat");
            // One that ended meanwhile has nothing to tell any more.
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let word = text.split_whitespace().next();
            let nanoseconds = word.and_then(|word| word.parse().ok());
            let nanoseconds = nanoseconds.with_context(|| format!("{path} is {text:?}"))?;
            by_thread.insert(thread, nanoseconds);
        }
        Ok(Cpu { by_thread })
    }

    /// Of a process and those that it has started and that still run, such as a database server's.
    ///
    /// # Errors
    /// It has ended.
    pub fn of_family(pid: u32) -> anyhow::Result<Cpu> {
        let mut all = Cpu::of(pid)?;
        for child in family(pid) {
            if let Ok(cpu) = Cpu::of(child) {
                all.by_thread.extend(cpu.by_thread);
            }
        }
        Ok(all)
    }

    /// Of threads of this process: those whose name begins so.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn of_own_threads(name: &str) -> anyhow::Result<Cpu> {
        let pid = std::process::id();
        let mut cpu = Cpu::of(pid)?;
        cpu.by_thread.retain(|thread, _| {
            fs::read_to_string(format!("/proc/{pid}/task/{thread}/comm"))
                .is_ok_and(|comm| comm.starts_with(name))
        });
        Ok(cpu)
    }

    /// All that these threads have used.
    pub fn total(&self) -> Duration {
        self.since(&Cpu::default())
    }

    /// What was used since `before`.
    pub fn since(&self, before: &Cpu) -> Duration {
        self.spans(before).sum()
    }

    /// What was used since `before`, in microseconds.
    pub fn since_us(&self, before: &Cpu) -> f64 {
        self.since(before).as_secs_f64() * 1e6
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
        let text = fs::read_to_string("/proc/stat")?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_cpu_time() {
        let pid = std::process::id();
        let before = Cpu::of(pid).unwrap();
        let started = Instant::now();
        let mut sum = 0u64;
        // Work, not a wait: until the clock of the scheduler has seen it.
        loop {
            for number in 0..1_000_000u64 {
                sum = std::hint::black_box(sum.wrapping_add(number));
            }
            let now = Cpu::of(pid).unwrap();
            assert!(now.busiest_since(&before) <= now.since(&before));
            let used_us = now.since_us(&before);
            if used_us > 1_000.0 {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{used_us}");
        }
    }

    #[test]
    fn a_thread_that_has_ended_counts_for_nothing() {
        let of = |times: &[(i32, u64)]| Cpu {
            by_thread: times.iter().copied().collect(),
        };
        let (earlier, now) = (of(&[(1, 5_000), (2, 9_000)]), of(&[(1, 7_000), (3, 1_000)]));
        assert!((now.since_us(&earlier) - 3.0).abs() < 1e-9);
        assert_eq!(now.total(), Duration::from_nanos(8_000));
    }
}
