//! What the servers counted against what the phones know, room by room and tap by tap.

use super::assemble::Findings;
use super::counters::Counts;
use crate::compare::{self, Claims, Found, Sent};
use crate::ledger::client_hash;
use crate::report::{RoomReport, RunReport};
use crate::swarm::evaluate::Evaluation;
use crate::swarm::harvest::TapFate;
use anyhow::Context;
use shared::counting::ids::ClientHash;
use std::collections::BTreeMap;

impl Findings<'_> {
    /// What the servers counted against what the phones know.
    pub(super) fn counted(
        &self,
        report: &mut RunReport,
        evaluation: &Evaluation,
    ) -> anyhow::Result<()> {
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
