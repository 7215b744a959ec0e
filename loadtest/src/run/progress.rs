//! What one sees while a run goes on: a line that is written over on a terminal, a line every few seconds elsewhere.

use crate::scenario::timeline::Times;
use crate::swarm::harvest::Snapshot;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

/// Without a terminal, how often a line is written.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Tells it to standard error.
#[derive(Debug)]
pub struct Progress {
    is_terminal: bool,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    at: Duration,
    told_at: Option<Duration>,
    taps: u64,
    frames: u64,
    /// A line is open that the next one writes over.
    is_open: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            is_terminal: std::io::stderr().is_terminal(),
            last: Mutex::default(),
        }
    }
}

impl Progress {
    /// A step.
    pub fn say(&self, what: &str) {
        let mut last = self.lock();
        if std::mem::take(&mut last.is_open) {
            eprintln!();
        }
        eprintln!("{what}");
    }

    /// A second has gone by.
    pub fn second(&self, at: Duration, times: Times, snapshot: &Snapshot) {
        let mut last = self.lock();
        if at < last.at {
            *last = Last::default();
        }
        let line = line(at, times, snapshot, &last);
        (last.at, last.taps, last.frames) = (at, snapshot.taps, snapshot.frames);
        if self.is_terminal {
            last.is_open = true;
            // Clears the rest of the line.
            eprint!("\r{line}\x1b[K");
            let _ = std::io::stderr().flush();
        } else if last.told_at.is_none_or(|told| at >= told + LINE_EVERY) || at >= times.until {
            last.told_at = Some(at);
            eprintln!("{line}");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn line(at: Duration, times: Times, snapshot: &Snapshot, last: &Last) -> String {
    let span = at.saturating_sub(last.at).as_secs_f64().max(0.001);
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of a second are far below 2^52"
    )]
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span;
    let part = if at < times.arrived {
        "arriving"
    } else if at < times.from {
        "warm-up"
    } else {
        "measuring"
    };
    let Snapshot {
        phones,
        joined,
        taps,
        frames,
        errors,
        busy,
        ..
    } = snapshot;
    format!(
        "{:4.0}/{:.0} s {part:9} {joined}/{phones} phones  {:.0} taps/s  {:.0} frames/s  ack p50 {} p99 {} ms  \
         {errors} errors  generator {:.0} % busy, {} ms late",
        at.as_secs_f64(),
        times.until.as_secs_f64(),
        rate(*taps, last.taps),
        rate(*frames, last.frames),
        percentile(&snapshot.ack_ms, 0.50),
        percentile(&snapshot.ack_ms, 0.99),
        busy * 100.0,
        percentile(&snapshot.late_ms, 0.99),
    )
}

/// A percentile of counted milliseconds; a dash where there is none.
fn percentile(counted: &[(u32, u32)], share: f64) -> String {
    let mut sorted = counted.to_vec();
    sorted.sort_unstable();
    let all: u64 = sorted.iter().map(|(_, count)| u64::from(*count)).sum();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count is a count"
    )]
    let wanted = (all as f64 * share).ceil() as u64;
    let mut seen = 0;
    for (milliseconds, count) in sorted {
        seen += u64::from(count);
        if seen >= wanted {
            return milliseconds.to_string();
        }
    }
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_counted_milliseconds() {
        let counted = [(30, 1), (10, 98), (20, 1)];
        assert_eq!(percentile(&counted, 0.50), "10");
        assert_eq!(percentile(&counted, 0.99), "20");
        assert_eq!(percentile(&counted, 1.0), "30");
        assert_eq!(percentile(&[], 0.99), "-");
    }

    #[test]
    fn a_line_says_rates_since_the_last_one() {
        let times = Times {
            arrived: Duration::from_secs(1),
            from: Duration::from_secs(2),
            until: Duration::from_secs(10),
        };
        let snapshot = Snapshot {
            phones: 100,
            joined: 99,
            taps: 300,
            frames: 1200,
            busy: 0.251,
            ..Snapshot::default()
        };
        let last = Last {
            at: Duration::from_secs(4),
            taps: 100,
            frames: 400,
            ..Last::default()
        };
        let line = line(Duration::from_secs(6), times, &snapshot, &last);
        assert!(
            line.contains("99/100 phones  100 taps/s  400 frames/s"),
            "{line}"
        );
        assert!(
            line.contains("measuring") && line.contains("25 % busy"),
            "{line}"
        );
    }
}
