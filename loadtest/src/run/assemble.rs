//! Puts together what phones, servers, kernel and browser counted.

use super::Played;
use super::counters::{Counters, Counts};
use super::follower::Stamps;
use super::latency::Latencies;
use super::processes::{Watch, nearest_second};
use super::windows::Windows;
use crate::report::number::float;
use crate::report::{Distribution, RunReport, Second};
use crate::scenario::Scenario;
use crate::scenario::timeline::Times;
use crate::swarm::assignment::RoomPlan;
use crate::swarm::evaluate::{Evaluation, join_waits, lateness};
use crate::swarm::harvest::{Harvest, Snapshot, TapFate};
use crate::waits::{histogram, microseconds, milliseconds};
use anyhow::Context;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// All that a run brought.
pub(super) struct Findings<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) times: Times,
    pub(super) rooms: &'a [RoomPlan],
    pub(super) harvests: &'a [Harvest],
    pub(super) drift_us: u64,
    pub(super) played: Played,
    pub(super) settled: Snapshot,
    pub(super) watch: &'a Watch,
    pub(super) before: Option<Counters>,
    pub(super) after: Option<Counters>,
    pub(super) stamps: Option<Stamps>,
    pub(super) counts: Option<Counts>,
    pub(super) shown: Option<BTreeMap<String, u64>>,
    pub(super) client_hash_key: Option<String>,
    pub(super) windows: Windows,
}

impl Findings<'_> {
    /// The report; what it is judged to be is still open.
    pub(super) fn report(&self) -> anyhow::Result<RunReport> {
        let until = self.played.ended;
        let from = self.times.from.min(until);
        let window = microseconds(from)..microseconds(until);
        let evaluation = Evaluation::new(self.harvests, self.rooms.len());
        let delivery = evaluation.total();
        let mut report = RunReport {
            scenario: self.scenario.title.clone(),
            interrupted: self.played.interrupted,
            phones: u64::from(self.scenario.phones),
            expected: delivery.expected,
            delivered: delivery.delivered,
            window: (from.as_secs_f64(), until.as_secs_f64()),
            processes: self.watch.reports(from, until),
            ..RunReport::default()
        };
        self.fates(&mut report);
        self.joins(&mut report)?;
        self.generator(&mut report, &window);
        self.gateways(&mut report, from, until);
        let latencies = self.latencies(&evaluation, &window);
        report.ack_p99_ms = latencies.ack.p99_ms();
        report.tick_p99_ms = latencies.tick.p99_ms();
        report.beyond_window_p99_ms = latencies.beyond_window.p99_ms();
        let measured = [&latencies.ack, &latencies.tick, &latencies.beyond_window];
        let distributions = measured.iter().filter_map(|waits| waits.distribution());
        report.distributions.extend(distributions);
        report.seconds = self.seconds(&latencies);
        self.counted(&mut report, &evaluation)?;
        self.cross_checks(&mut report, latencies.unseen);
        Ok(report)
    }

    pub(super) fn phones(&self) -> impl Iterator<Item = &crate::swarm::harvest::PhoneHarvest> {
        self.harvests.iter().flat_map(|harvest| &harvest.phones)
    }

    fn fates(&self, report: &mut RunReport) {
        for tap in self.phones().flat_map(|phone| &phone.taps) {
            match tap.fate {
                TapFate::Acknowledged(_) => report.acked += 1,
                TapFate::Refused(_) => report.taps_refused += 1,
                TapFate::Waiting | TapFate::Unknown => report.unsettled += 1,
            }
        }
        for phone in self.phones() {
            report.joined += u64::from(!phone.stays.is_empty());
            report.joins_refused += u64::from(phone.joins_refused);
        }
    }

    fn joins(&self, report: &mut RunReport) -> anyhow::Result<()> {
        let mut waits: Vec<u64> = join_waits(self.harvests).map(|(_, wait)| wait).collect();
        waits.sort_unstable();
        let at = |share: usize| {
            let index = (waits.len() * share).div_ceil(100).max(1) - 1;
            waits.get(index).map(|wait| milliseconds(*wait))
        };
        report.join_p95_ms = at(95);
        report.joined_max_ms = at(100);
        let mut distribution = histogram();
        for wait in &waits {
            distribution.saturating_record(*wait);
        }
        report
            .distributions
            .extend(Distribution::of("join", &distribution));
        let until = self.played.all_joined.unwrap_or(self.times.arrived);
        let cpu = self.watch.cpu_between("gateway", Duration::ZERO, until);
        if self.played.all_joined.is_some() && cpu > Duration::ZERO {
            let joined = u32::try_from(report.joined).context("more than four billion phones")?;
            report.joins_per_core_second = Some(f64::from(joined) / cpu.as_secs_f64());
        }
        Ok(())
    }

    fn generator(&self, report: &mut RunReport, window: &Range<u64>) {
        let seconds = |at: u64| u32::try_from(at / 1_000_000).unwrap_or(u32::MAX);
        let in_window = seconds(window.start)..seconds(window.end).max(seconds(window.start) + 1);
        let busiest = self.harvests.iter().map(|harvest| {
            let busy = harvest
                .busy
                .iter()
                .filter(|(second, _)| in_window.contains(second));
            let (count, sum) = busy.fold((0_u32, 0.0), |(count, sum), (_, busy)| {
                (count + 1, sum + busy)
            });
            if count == 0 {
                0.0
            } else {
                sum / f64::from(count)
            }
        });
        report.generator_busy = busiest.fold(0.0, f64::max);
        let mut late: Vec<u64> = lateness(self.harvests, window.clone()).collect();
        late.sort_unstable();
        let index = (late.len() * 99).div_ceil(100).max(1) - 1;
        report.generator_late_p99_ms = late.get(index).map_or(0.0, |late| milliseconds(*late));
        let cpu: u64 = self.harvests.iter().map(|harvest| harvest.cpu_us).sum();
        let frames: u64 = self
            .harvests
            .iter()
            .map(|harvest| harvest.frames_received)
            .sum();
        report.generator_us_per_frame = (frames > 0).then(|| float(cpu) / float(frames));
        let mut errors: BTreeMap<String, u64> = BTreeMap::new();
        for (what, count) in self.harvests.iter().flat_map(|harvest| &harvest.errors) {
            *errors.entry(what.clone()).or_default() += count;
        }
        report.errors = errors.into_iter().collect();
    }

    fn gateways(&self, report: &mut RunReport, from: Duration, until: Duration) {
        let cpu = self.watch.cpu_between("gateway", from, until);
        if cpu > Duration::ZERO {
            let window = until.saturating_sub(from).as_secs_f64().max(0.001);
            report.gateway_cores = Some(cpu.as_secs_f64() / window);
        }
        if let (Some(before), Some(after)) = (&self.before, &self.after) {
            let sent = after.frames_sent - before.frames_sent;
            let all = self
                .watch
                .cpu_between("gateway", Duration::ZERO, Duration::MAX);
            if sent > 0.0 && all > Duration::ZERO {
                report.gateway_us_per_frame = Some(all.as_secs_f64() * 1e6 / sent);
            }
        }
    }

    fn latencies(&self, evaluation: &Evaluation, window: &Range<u64>) -> Latencies {
        let stamps = self.stamps.as_ref().zip(self.client_hash_key.as_deref());
        Latencies::of(
            self.harvests,
            self.rooms,
            evaluation,
            stamps,
            self.windows,
            window,
        )
    }

    fn seconds(&self, latencies: &Latencies) -> Vec<Second> {
        let mut before = Snapshot::default();
        let mut seconds = Vec::new();
        for (at, snapshot) in &self.played.snapshots {
            // What is read at the end of a second is of that second.
            let second = nearest_second(*at).saturating_sub(1);
            seconds.push(Second {
                at: second,
                joined: snapshot.joined,
                taps: snapshot.taps.saturating_sub(before.taps),
                frames: snapshot.frames.saturating_sub(before.frames),
                errors: snapshot.errors.saturating_sub(before.errors),
                ack_ms: latencies.ack.second(second),
                tick_ms: latencies.tick.second(second),
            });
            before = snapshot.clone();
        }
        seconds
    }
}
