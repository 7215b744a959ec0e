//! What a node holds, and the operations that replication carries: effects, not commands.

use super::Kind;
use crate::common::commit_model::{CommitCommand, CommitModel};
use shared::counting::ids::{EntryId, Nonce};
use shared::counting::lease::LeaseRecord;
use shared::counting::reader::RawEntry;
use std::collections::VecDeque;
use std::rc::Rc;

#[derive(Debug, Clone, Default)]
pub(crate) struct Data {
    pub(crate) log: VecDeque<Rc<RawEntry>>,
    /// The largest id ever added.
    pub(crate) last: EntryId,
    /// The aggregator's hash, totals and producers.
    pub(crate) aggregator: CommitModel,
    pub(crate) persister: LeaseRecord,
    pub(crate) persister_offset: EntryId,
}

#[derive(Debug)]
pub(crate) enum Op {
    Add(Rc<RawEntry>),
    Lease(Kind, LeaseRecord),
    Commit(CommitCommand),
    PersisterOffset(EntryId),
    TrimBefore(u64),
}

impl Data {
    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Add(entry) => {
                self.last = entry.id;
                self.log.push_back(Rc::clone(entry));
            }
            Op::Lease(Kind::Aggregator, record) => {
                self.aggregator.owner = record.owner;
                self.aggregator.beat = record.beat;
            }
            Op::Lease(Kind::Persister, record) => self.persister = *record,
            Op::Commit(command) => self.aggregator.apply(command),
            Op::PersisterOffset(offset) => self.persister_offset = *offset,
            Op::TrimBefore(before_ms) => {
                while self
                    .log
                    .front()
                    .is_some_and(|entry| entry.id.ms < *before_ms)
                {
                    self.log.pop_front();
                }
            }
        }
    }

    pub(crate) fn lease(&self, kind: Kind) -> LeaseRecord {
        match kind {
            Kind::Aggregator => LeaseRecord {
                owner: self.aggregator.owner,
                beat: self.aggregator.beat,
            },
            Kind::Persister => self.persister,
        }
    }

    /// The record after a renewal by `owner`; none if the lease is not its.
    pub(crate) fn renewed(&self, kind: Kind, owner: Nonce) -> Option<LeaseRecord> {
        let LeaseRecord {
            owner: holder,
            beat,
        } = self.lease(kind);
        (holder == Some(owner)).then_some(LeaseRecord {
            owner: holder,
            beat: beat + 1,
        })
    }

    /// At most `count` entries behind `after`, and whether these are all.
    pub(crate) fn range(&self, after: EntryId, count: usize) -> (Vec<RawEntry>, bool) {
        let from = self.log.partition_point(|entry| entry.id <= after);
        let entries: Vec<RawEntry> = self
            .log
            .iter()
            .skip(from)
            .take(count)
            .map(|entry| RawEntry::clone(entry))
            .collect();
        let reached_end = entries.len() < count;
        (entries, reached_end)
    }

    pub(crate) fn has(&self, id: EntryId) -> bool {
        self.log.binary_search_by_key(&id, |entry| entry.id).is_ok()
    }
}
