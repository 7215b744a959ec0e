//! What must hold, while a history runs and when it has come to rest.

use crate::phone::{Connection, Way};
use crate::plants::Palettes;
use crate::redis::Kind;
use crate::world::{ProcessId, World};
use shared::counting::ids::{EntryId, TapId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// The first thing that was wrong.
    pub(crate) failure: Option<String>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) palettes: Palettes,
    /// Per shard and entry the taps that count, as the first reader decided it.
    decisions: BTreeMap<(usize, EntryId), Vec<TapId>>,
    /// Per gateway, room and key, the largest total that it was told.
    received: BTreeMap<(ProcessId, usize, usize), u64>,
}

impl Checks {
    pub(crate) fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
    }

    /// Live or rebuilt, aggregator or persister: all readers decide alike about an entry.
    pub(crate) fn decided(&mut self, shard: usize, entry: EntryId, taps: Vec<TapId>) {
        match self.decisions.get(&(shard, entry)) {
            None => {
                self.decisions.insert((shard, entry), taps);
            }
            Some(before) if *before != taps => {
                let what = format!(
                    "entry {entry} of shard {shard}: one reader counts {before:?}, another {taps:?}"
                );
                self.fail(what);
            }
            Some(_) => {}
        }
    }

    pub(crate) fn ledger_moves(&mut self, shard: usize, from: EntryId, to: EntryId) {
        if to < from {
            self.fail(format!(
                "the ledger of shard {shard} goes back from {from} to {to}"
            ));
        }
    }

    /// A gateway merges by maximum.
    pub(crate) fn received(&mut self, process: ProcessId, room: usize, key: usize, total: u64) {
        let merged = self.received.entry((process, room, key)).or_default();
        *merged = total.max(*merged);
    }
}

/// What a history came to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Summary {
    pub(crate) sent: usize,
    pub(crate) acknowledged: usize,
    pub(crate) counted: usize,
}

impl World {
    /// Whether nothing is left to be done.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_settled = self.phones.iter().all(|phone| phone.unsettled.is_empty())
            && self.gateways.values().all(|gateway| {
                gateway
                    .outboxes
                    .iter()
                    .all(shared::counting::outbox::Outbox::is_empty)
            })
            && (0..self.groups.len()).all(|group| {
                let last = self.groups[group].nodes[self.groups[group].master]
                    .data
                    .last;
                self.offset(group, Kind::Aggregator) == last
                    && self.postgres.ledgers[group].offset == last
            });
        self.is_healed && is_settled
    }

    /// What must hold at rest.
    pub(crate) fn verdict(&self) -> Result<Summary, String> {
        // What a person would notice comes first.
        let summary = self.each_tap_once()?;
        self.totals_agree()?;
        match &self.checks.failure {
            Some(failure) => Err(failure.clone()),
            None if !self.is_at_rest() => Err(self.unrest()),
            None => Ok(summary),
        }
    }

    fn each_tap_once(&self) -> Result<Summary, String> {
        let mut counted: BTreeMap<TapId, usize> = BTreeMap::new();
        for row in self.postgres.ledgers.iter().flat_map(|ledger| &ledger.rows) {
            *counted.entry(row.id).or_default() += 1;
        }
        let mut summary = Summary {
            counted: counted.values().sum(),
            ..Summary::default()
        };
        for (number, phone) in self.phones.iter().enumerate() {
            summary.sent += usize::try_from(phone.last_seq).expect("small");
            summary.acknowledged += phone.acknowledged.len();
            if phone.way == Way::Dishonest {
                continue;
            }
            for seq in 1..=phone.last_seq {
                let id = TapId {
                    client: phone.client,
                    page: phone.page,
                    seq,
                };
                let times = counted.get(&id).copied().unwrap_or(0);
                if times > 1 {
                    return Err(format!(
                        "phone {number} ({:?}) seq {seq} counts {times} times",
                        phone.way
                    ));
                }
                if times == 0 && phone.acknowledged.contains(&seq) {
                    return Err(format!(
                        "phone {number} ({:?}) seq {seq} is acknowledged, not counted",
                        phone.way
                    ));
                }
            }
        }
        Ok(summary)
    }

    /// Totals in Redis, rows in Postgres, and what gateways were told.
    fn totals_agree(&self) -> Result<(), String> {
        let mut rows: BTreeMap<_, u64> = BTreeMap::new();
        for row in self.postgres.ledgers.iter().flat_map(|ledger| &ledger.rows) {
            *rows.entry((row.room.clone(), row.key.clone())).or_default() += 1;
        }
        let mut totals = BTreeMap::new();
        for group in &self.groups {
            for (code, of_room) in &group.nodes[group.master].data.aggregator.totals {
                totals.extend(
                    of_room
                        .iter()
                        .map(|(key, of)| ((code.clone(), key.clone()), *of)),
                );
            }
        }
        if totals != rows {
            return Err(format!("totals {totals:?}, rows {rows:?}"));
        }
        for ((process, room, key), told) in &self.checks.received {
            let of = (
                self.rooms.rooms[*room].code.clone(),
                self.rooms.keys[*key].clone(),
            );
            let total = totals.get(&of).copied().unwrap_or(0);
            if *told > total {
                return Err(format!(
                    "{process:?} was told {told} of {of:?}, it is {total}"
                ));
            }
        }
        Ok(())
    }

    fn unrest(&self) -> String {
        let phones: BTreeSet<usize> = (0..self.phones.len())
            .filter(|phone| !self.phones[*phone].unsettled.is_empty())
            .collect();
        let outboxes: usize = self
            .gateways
            .values()
            .flat_map(|gateway| &gateway.outboxes)
            .map(shared::counting::outbox::Outbox::taps)
            .sum();
        let offsets: Vec<String> = (0..self.groups.len())
            .map(|group| {
                let last = self.groups[group].nodes[self.groups[group].master]
                    .data
                    .last;
                let aggregator = self.offset(group, Kind::Aggregator);
                let persister = self.postgres.ledgers[group].offset;
                format!("last {last} aggregator {aggregator} persister {persister}")
            })
            .collect();
        format!("no rest: unsettled phones {phones:?}, {outboxes} taps in outboxes, {offsets:?}")
    }
}
