//! A model of Postgres: one transaction with rows, producers and, last, a compare-and-set on the ledger. It is done
//! as a whole or not at all; whether its answer arrives is another matter.

use crate::executor::{SlotId, Value};
use crate::world::{Event, ProcessId, World};
use shared::counting::ids::{EntryId, ProducerId, TapId};
use shared::counting::reader::ProducerMark;
use shared::room::{ReactionKey, RoomCode};
use std::collections::BTreeMap;

/// One counted tap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: TapId,
    pub(crate) room: RoomCode,
    pub(crate) key: ReactionKey,
}

/// A shard's part.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) offset: EntryId,
    pub(crate) producers: BTreeMap<ProducerId, ProducerMark>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Default)]
pub(crate) struct Postgres {
    pub(crate) is_up: bool,
    pub(crate) ledgers: Vec<Ledger>,
}

#[derive(Debug, Clone)]
pub(crate) enum Query {
    Load,
    Commit {
        expected: EntryId,
        offset: EntryId,
        rows: Vec<Row>,
        changed_producers: Vec<(ProducerId, ProducerMark)>,
        forgotten_producers: Vec<ProducerId>,
    },
}

#[derive(Debug)]
pub(crate) enum Reply {
    Loaded {
        offset: EntryId,
        producers: BTreeMap<ProducerId, ProducerMark>,
    },
    /// Whether the compare-and-set changed its one row.
    Committed(bool),
    Unreachable,
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) from: ProcessId,
    pub(crate) shard: usize,
    pub(crate) query: Query,
    pub(crate) slot: SlotId,
}

impl World {
    pub(crate) fn query(&mut self, request: Request) {
        let slot = request.slot;
        self.after(5_000, Event::Fill(slot, Value::Lost));
        if self.is_lost(request.from) {
            return;
        }
        let delay_ms = self.delay_ms(request.from);
        self.after(delay_ms, Event::ArriveAtPostgres(request));
    }

    pub(crate) fn arrive_at_postgres(&mut self, request: &Request) {
        let reply = if !self.postgres.is_up {
            Reply::Unreachable
        } else {
            self.perform_query(request)
        };
        // The COMMIT was done and its answer lost.
        if self.is_lost(request.from) {
            return self.trace(|| format!("answer of Postgres lost to {:?}", request.from));
        }
        let delay_ms = self.delay_ms(request.from);
        self.after(delay_ms, Event::Fill(request.slot, Value::Postgres(reply)));
    }

    fn perform_query(&mut self, request: &Request) -> Reply {
        let ledger = &mut self.postgres.ledgers[request.shard];
        match &request.query {
            Query::Load => Reply::Loaded {
                offset: ledger.offset,
                producers: ledger.producers.clone(),
            },
            Query::Commit {
                expected,
                offset,
                rows,
                changed_producers,
                forgotten_producers,
            } => {
                if ledger.offset != *expected {
                    return Reply::Committed(false);
                }
                self.checks
                    .ledger_moves(request.shard, ledger.offset, *offset);
                ledger.offset = *offset;
                ledger.rows.extend(rows.iter().cloned());
                ledger.producers.extend(changed_producers.iter().copied());
                for producer in forgotten_producers {
                    ledger.producers.remove(producer);
                }
                Reply::Committed(true)
            }
        }
    }
}
