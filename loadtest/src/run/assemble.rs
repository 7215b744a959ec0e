//! Puts together what phones, servers, kernel and browser counted.

use super::Played;
use super::counters::{Counters, Counts};
use super::follower::Stamps;
use super::latency::Latencies;
use super::processes::{Watch, nearest_second};
use super::windows::Windows;
use crate::compare::{self, Claims, Found, Sent};
use crate::ledger::client_hash;
use crate::report::number::float;
use crate::report::{CrossCheck, Distribution, RoomReport, RunReport, Second};
use crate::scenario::Scenario;
use crate::scenario::timeline::Times;
use crate::swarm::assignment::RoomPlan;
use crate::swarm::evaluate::{Evaluation, join_waits, lateness};
use crate::swarm::harvest::{Harvest, Snapshot, TapFate};
use crate::waits::{histogram, microseconds, milliseconds};
use anyhow::Context;
use shared::counting::ids::ClientHash;
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

    fn phones(&self) -> impl Iterator<Item = &crate::swarm::harvest::PhoneHarvest> {
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

    /// What the servers counted against what the phones know.
    fn counted(&self, report: &mut RunReport, evaluation: &Evaluation) -> anyhow::Result<()> {
        let mut rooms: Vec<RoomReport> = Vec::new();
        for (room, delivery) in self.rooms.iter().zip(&evaluation.rooms) {
            rooms.push(RoomReport {
                code: room.code.to_string(),
                expected: delivery.expected,
                delivered: delivery.delivered,
                ..RoomReport::default()
            });
        }
        for phone in self.phones() {
            if let Some(room) = rooms.get_mut(usize::try_from(phone.room)?) {
                room.phones += 1;
                let acked = phone
                    .taps
                    .iter()
                    .filter(|tap| matches!(tap.fate, TapFate::Acknowledged(_)));
                room.acked += u64::try_from(acked.count())?;
            }
        }
        if let Some(counts) = &self.counts {
            for ((code, _), total) in &counts.totals {
                let code = code.to_string();
                if let Some(room) = rooms.iter_mut().find(|room| room.code == code) {
                    *room.totals.get_or_insert(0) += total;
                }
            }
            self.compare(report, counts)?;
        }
        report.rooms = rooms;
        Ok(())
    }

    fn compare(&self, report: &mut RunReport, counts: &Counts) -> anyhow::Result<()> {
        let totals = counts.totals.clone();
        // Without Postgres its side of the comparison is taken to agree, and its figures stay unknown.
        let claims = self.claims()?;
        let (taps, tap_counts) = match &counts.rows {
            Some((taps, tap_counts)) if self.client_hash_key.is_some() => {
                (taps.clone(), tap_counts.clone())
            }
            Some((taps, tap_counts)) => (of_everybody(taps), tap_counts.clone()),
            None => (as_claimed(&claims), totals.clone()),
        };
        let found = Found {
            seen: self.seen(),
            totals,
            taps,
            tap_counts,
        };
        let verdict = compare::compare(&claims, &found);
        report.totals = Some(verdict.totals);
        report.lost = Some(verdict.lost);
        report.doubled = Some(verdict.doubled);
        if counts.rows.is_some() {
            report.taps = Some(verdict.taps);
            report.tap_counts = Some(verdict.tap_counts);
        }
        for mistake in verdict.mistakes.iter().take(20) {
            report.errors.push((mistake.clone(), 1));
        }
        Ok(())
    }

    fn claims(&self) -> anyhow::Result<Claims> {
        let key = self.client_hash_key.as_deref();
        let mut claims = Claims::new();
        for phone in self.phones() {
            let room = self.rooms.get(usize::try_from(phone.room)?);
            let room = room.context("a phone was in a room that is not there")?;
            let client = key.map_or(EVERYBODY, |key| client_hash(key, &phone.client));
            for tap in &phone.taps {
                let reaction = room.keys.get(usize::from(tap.key));
                let reaction = reaction.context("a tap names a reaction that is not there")?;
                let cell = (room.code.clone(), reaction.clone());
                let sent: &mut Sent = claims.entry(cell).or_default().entry(client).or_default();
                match tap.fate {
                    TapFate::Acknowledged(_) => sent.acked += 1,
                    TapFate::Waiting | TapFate::Unknown => sent.unsettled += 1,
                    TapFate::Refused(_) => {}
                }
            }
        }
        Ok(claims)
    }

    /// The highest totals that any phone saw.
    fn seen(&self) -> BTreeMap<compare::Cell, u64> {
        let mut seen = BTreeMap::new();
        for log in self.harvests.iter().flat_map(|harvest| &harvest.frames) {
            let room = usize::try_from(log.room)
                .ok()
                .and_then(|room| self.rooms.get(room));
            let Some(room) = room else { continue };
            for (key, total) in log.frames.iter().flat_map(|frame| &frame.totals) {
                if let Some(key) = room.keys.get(usize::from(*key)) {
                    let cell = seen.entry((room.code.clone(), key.clone())).or_insert(0);
                    *cell = (*total).max(*cell);
                }
            }
        }
        seen
    }

    fn cross_checks(&self, report: &mut RunReport, unseen: u64) {
        let mut checks = Vec::new();
        let mut check =
            |what: &str, one: &str, one_says: f64, other: &str, other_says: f64, within: f64| {
                checks.push(CrossCheck {
                    what: what.to_owned(),
                    one: one.to_owned(),
                    one_says,
                    other: other.to_owned(),
                    other_says,
                    agrees: (one_says - other_says).abs() <= within,
                });
            };
        if let Some(present) = &self.played.present {
            let joined = float(present.joined);
            // Hosts that count people and the browser have sockets, too; phones come and go meanwhile.
            let others = float(
                u64::try_from(present.people.1).unwrap_or(0) + u64::from(self.shown.is_some()),
            );
            let moving = if self.scenario.away.is_empty() {
                0.0
            } else {
                joined * 0.02
            };
            if let Some(sockets) = present.sockets {
                let by = "gateways (uproar_gateway_sockets)";
                check(
                    "open sockets",
                    "generator, hosts and browser",
                    joined + others,
                    by,
                    sockets,
                    moving,
                );
            }
            if let Some(kernel) = present.kernel {
                // A browser keeps up to six more connections per host for pages.
                let pages = if self.shown.is_some() { 6.0 } else { 0.0 };
                let by = "kernel (/proc/net/tcp)";
                check(
                    "open connections",
                    "generator, hosts and browser",
                    joined + others,
                    by,
                    float(kernel),
                    moving + pages,
                );
            }
            if present.people.1 == self.rooms.len() {
                let browser = f64::from(u8::from(self.shown.is_some()));
                let by = "aggregator (head counts of all rooms)";
                check(
                    "people",
                    "generator and browser",
                    joined + browser,
                    by,
                    float(present.people.0),
                    moving,
                );
            }
        }
        if let (Some(before), Some(after)) = (&self.before, &self.after) {
            let acks = after.acks - before.acks;
            // A tap that was acknowledged twice, since its first answer was lost, is one tap to its phone.
            let again = self
                .phones()
                .flat_map(|phone| &phone.taps)
                .filter(|tap| tap.attempts > 1)
                .count();
            let again = float(u64::try_from(again).unwrap_or(0));
            check(
                "taps acknowledged",
                "generator",
                float(report.acked),
                "gateways (uproar_gateway_acks)",
                acks,
                again,
            );
            let sent = after.frames_sent - before.frames_sent;
            let hosts = self.played.present.map_or(0, |present| present.people.1);
            let others = hosts + usize::from(self.shown.is_some());
            if others == 0 {
                let received = float(self.settled.frames);
                check(
                    "room-wide frames",
                    "generator",
                    received,
                    "gateways (uproar_gateway_frames_sent)",
                    sent,
                    sent * 0.01,
                );
            }
        }
        if let Some(totals) = report.totals {
            check(
                "taps counted",
                "generator (acknowledged)",
                float(report.acked),
                "Redis (totals)",
                float(totals),
                float(report.unsettled),
            );
        }
        if let (Some(shown), Some(room)) = (&self.shown, report.rooms.first()) {
            let sum = float(shown.values().sum());
            let totals = float(room.totals.unwrap_or(room.acked));
            check(
                "taps of the first room",
                "Redis (totals)",
                totals,
                "a browser's page",
                sum,
                0.0,
            );
        }
        if self.stamps.is_some() {
            check(
                "taps seen by another phone",
                "taps of the window that were not",
                float(unseen),
                "must be",
                0.0,
                0.0,
            );
        }
        if self.harvests.len() > 1 {
            let drift = milliseconds(self.drift_us);
            check(
                "clocks of the generators, ms",
                "drifted apart during the run",
                drift,
                "must be",
                0.0,
                5.0,
            );
        }
        report.cross_checks = checks;
    }
}

/// Rows by client.
type Taps = BTreeMap<compare::Cell, BTreeMap<ClientHash, u64>>;

/// Stands for all clients where nobody knows under which hash their rows are: then a room's rows are compared together.
const EVERYBODY: ClientHash = ClientHash(0);

fn of_everybody(taps: &Taps) -> Taps {
    let rooms = taps.iter();
    rooms
        .map(|(cell, rows)| {
            (
                cell.clone(),
                BTreeMap::from([(EVERYBODY, rows.values().sum())]),
            )
        })
        .collect()
}

/// Rows that would be right.
fn as_claimed(claims: &Claims) -> Taps {
    let rows = claims.iter().map(|(cell, clients)| {
        let rows = clients.iter().map(|(client, sent)| (*client, sent.acked));
        (cell.clone(), rows.filter(|(_, acked)| *acked > 0).collect())
    });
    rows.collect()
}
