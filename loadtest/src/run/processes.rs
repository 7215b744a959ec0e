//! What processes of this machine use, second by second, as the kernel says.

use crate::process::cpu::Cpu;
use crate::process::memory::resident_bytes;
use crate::report::ProcessReport;
use std::path::Path;
use std::time::{Duration, Instant};

/// A process that is watched.
#[derive(Debug)]
pub struct Watched {
    name: String,
    kind: String,
    /// More than one where several make up one program.
    pids: Vec<u32>,
    /// When, CPU time so far, resident bytes.
    samples: Vec<(Duration, Duration, u64)>,
}

/// Several processes.
#[derive(Debug, Default)]
pub struct Watch {
    processes: Vec<Watched>,
}

impl Watch {
    /// One more; `kind` is gateway, aggregator, persister, redis, postgres, generator or browser.
    pub fn add(&mut self, kind: &str, name: String, pids: Vec<u32>) {
        self.processes.push(Watched {
            name,
            kind: kind.to_owned(),
            pids,
            samples: Vec::new(),
        });
    }

    /// Looks at all of them. Times before zero are not kept.
    pub fn sample(&mut self, zero: Instant) {
        let Some(at) = Instant::now().checked_duration_since(zero) else {
            return;
        };
        for process in &mut self.processes {
            let before = process.samples.last().map_or(Duration::ZERO, |last| last.1);
            // A thread that has ended takes its time with it.
            let cpu: Duration = process.pids.iter().map(|pid| cpu_time(*pid)).sum();
            let resident = process.pids.iter();
            let resident = resident.map(|pid| resident_bytes(*pid).unwrap_or_default());
            let resident = resident.sum();
            process.samples.push((at, cpu.max(before), resident));
        }
    }

    /// CPU time that all processes of a kind used between two moments.
    pub fn cpu_between(&self, kind: &str, from: Duration, until: Duration) -> Duration {
        let of_kind = self.processes.iter().filter(|process| process.kind == kind);
        of_kind.map(|process| process.between(from, until)).sum()
    }

    /// For the report: cores in the window, memory, and all seconds.
    pub fn reports(&self, from: Duration, until: Duration) -> Vec<ProcessReport> {
        self.processes
            .iter()
            .map(|process| process.report(from, until))
            .collect()
    }
}

impl Watched {
    /// CPU time between the samples nearest to two moments.
    fn between(&self, from: Duration, until: Duration) -> Duration {
        let at = |when: Duration| {
            let nearest = self
                .samples
                .iter()
                .min_by_key(|(at, _, _)| at.abs_diff(when));
            nearest.map_or(Duration::ZERO, |sample| sample.1)
        };
        at(until).saturating_sub(at(from))
    }

    fn report(&self, from: Duration, until: Duration) -> ProcessReport {
        let window = until.saturating_sub(from).as_secs_f64().max(0.001);
        let mut seconds = Vec::new();
        for pair in self.samples.windows(2) {
            let ((began, before, _), (at, cpu, resident)) = (pair[0], pair[1]);
            let wall = at.saturating_sub(began).as_secs_f64().max(0.001);
            let cores = cpu.saturating_sub(before).as_secs_f64() / wall;
            seconds.push((nearest_second(began), cores, resident));
        }
        ProcessReport {
            name: self.name.clone(),
            kind: self.kind.clone(),
            cores: self.between(from, until).as_secs_f64() / window,
            memory_bytes_max: self
                .samples
                .iter()
                .map(|sample| sample.2)
                .max()
                .unwrap_or(0),
            seconds,
        }
    }
}

/// One that has ended has nothing to tell any more.
fn cpu_time(pid: u32) -> Duration {
    Cpu::of(pid).unwrap_or_default().total()
}

/// The whole second nearest to a moment: what happens each second happens a little later than that.
pub fn nearest_second(at: Duration) -> u32 {
    u32::try_from((at.as_millis() + 500) / 1000).unwrap_or(u32::MAX)
}

/// Connections that the kernel holds open on a local port, from /proc/net.
pub fn established(port: u16) -> u64 {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(Path::new);
    let mut count = 0;
    for table in tables {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().and_then(|local| local.rsplit_once(':'));
            let is_local = local
                .and_then(|(_, port)| u16::from_str_radix(port, 16).ok())
                .is_some_and(|local| local == port);
            // 01 is ESTABLISHED in the kernel's table (include/net/tcp_states.h).
            if is_local && words.nth(1) == Some("01") {
                count += 1;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_connections_of_a_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(established(address.port()), 0);
        let _ours = std::net::TcpStream::connect(address).unwrap();
        let _theirs = listener.accept().unwrap();
        assert_eq!(established(address.port()), 1);
    }

    #[test]
    fn cores_are_cpu_time_by_wall_time_in_the_window() {
        let at = |seconds: u64, cpu: u64| {
            (
                Duration::from_secs(seconds),
                Duration::from_secs(cpu),
                seconds,
            )
        };
        let process = Watched {
            name: "gateway 1".to_owned(),
            kind: "gateway".to_owned(),
            pids: vec![1],
            samples: vec![at(0, 0), at(10, 1), at(20, 6), at(30, 6)],
        };
        let report = process.report(Duration::from_secs(10), Duration::from_secs(20));
        assert!((report.cores - 0.5).abs() < 1e-9, "{report:?}");
        assert_eq!(report.memory_bytes_max, 30);
        assert_eq!(report.seconds.len(), 3);
    }
}
