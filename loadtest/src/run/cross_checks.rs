//! The same figures from independent sides: generator, gateways, kernel, aggregator, Redis and a browser.

use super::assemble::Findings;
use crate::report::number::float;
use crate::report::{CrossCheck, RunReport};
use crate::waits::milliseconds;

/// What was compared so far.
#[derive(Debug, Default)]
struct Checks(Vec<CrossCheck>);

impl Checks {
    fn add(
        &mut self,
        what: &str,
        one: &str,
        one_says: f64,
        other: &str,
        other_says: f64,
        within: f64,
    ) {
        self.0.push(CrossCheck {
            what: what.to_owned(),
            one: one.to_owned(),
            one_says,
            other: other.to_owned(),
            other_says,
            agrees: (one_says - other_says).abs() <= within,
        });
    }
}

impl Findings<'_> {
    /// Fills `cross_checks`; `unseen` are taps of the window that nobody else was seen to see.
    pub(super) fn cross_checks(&self, report: &mut RunReport, unseen: u64) {
        let mut checks = Checks::default();
        self.check_who_is_there(&mut checks);
        self.check_gateways(report, &mut checks);
        self.check_counts(report, unseen, &mut checks);
        report.cross_checks = checks.0;
    }

    fn check_who_is_there(&self, checks: &mut Checks) {
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
                checks.add(
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
                checks.add(
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
                checks.add(
                    "people",
                    "generator and browser",
                    joined + browser,
                    by,
                    float(present.people.0),
                    moving,
                );
            }
        }
    }

    fn check_gateways(&self, report: &RunReport, checks: &mut Checks) {
        if let (Some(before), Some(after)) = (&self.before, &self.after) {
            let acks = after.acks - before.acks;
            // A tap that was acknowledged twice, since its first answer was lost, is one tap to its phone.
            let again = self
                .phones()
                .flat_map(|phone| &phone.taps)
                .filter(|tap| tap.attempts > 1)
                .count();
            let again = float(u64::try_from(again).unwrap_or(0));
            checks.add(
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
                checks.add(
                    "room-wide frames",
                    "generator",
                    received,
                    "gateways (uproar_gateway_frames_sent)",
                    sent,
                    sent * 0.01,
                );
            }
        }
    }

    fn check_counts(&self, report: &RunReport, unseen: u64, checks: &mut Checks) {
        if let Some(totals) = report.totals {
            checks.add(
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
            checks.add(
                "taps of the first room",
                "Redis (totals)",
                totals,
                "a browser's page",
                sum,
                0.0,
            );
        }
        if self.stamps.is_some() {
            checks.add(
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
            checks.add(
                "clocks of the generators, ms",
                "drifted apart during the run",
                drift,
                "must be",
                0.0,
                5.0,
            );
        }
    }
}
