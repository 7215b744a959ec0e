//! What a master does with a request.

use super::data::Op;
use super::{Blocked, Command, Kind, Life, Loaded, Reply, Request, WAIT_MS, Waited};
use crate::common::commit_model::CommitReply;
use crate::executor::Value;
use crate::world::{Event, World};
use shared::counting::codec::{BATCH_FIELD, CHANGE_FIELD};
use shared::counting::ids::EntryId;
use shared::counting::reader::{RawEntry, trim_before_ms};
use std::rc::Rc;

impl World {
    /// A request reached its node.
    pub(crate) fn arrive(&mut self, request: Request) {
        let node = &mut self.groups[request.group].nodes[request.node];
        match node.life {
            Life::Down => self.answer(&request, Reply::NotDone),
            Life::Stalled => node.inbox.push(request),
            Life::Up if !node.is_master => self.answer(&request, Reply::NotDone),
            Life::Up => self.execute(request),
        }
    }

    /// Sends an answer on its way; it may be lost.
    pub(crate) fn answer(&mut self, request: &Request, reply: Reply) {
        if self.is_lost(request.from) {
            return self.trace(|| format!("answer to {:?} lost", request.command));
        }
        let delay_ms = self.delay_ms(request.from);
        self.after(delay_ms, Event::Fill(request.slot, Value::Redis(reply)));
    }

    fn execute(&mut self, request: Request) {
        let wait = matches!(request.command, Command::Append(_) | Command::Read { .. });
        let (group, node) = (request.group, request.node);
        let before = self.groups[group].nodes[node].ops.len();
        let reply = self.perform(&request);
        let ops = self.groups[group].nodes[node].ops.len();
        // On a fresh connection that wrote nothing, WAIT is satisfied by anybody.
        let position = if ops > before { ops } else { 0 };
        if wait && self.acked(group, node, position) < request.needed {
            self.block(request, position, reply);
        } else {
            self.answer_waited(&request, position, reply);
        }
    }

    fn block(&mut self, request: Request, position: usize, reply: Reply) {
        let id = self.new_id();
        let (group, node) = (request.group, request.node);
        let term = self.groups[group].nodes[node].term;
        self.groups[group].blocked.push(Blocked {
            id,
            node,
            term,
            position,
            request,
            reply,
        });
        self.after(WAIT_MS, Event::WaitDue { group, id });
    }

    /// A WAIT has blocked for long enough.
    pub(crate) fn wait_due(&mut self, group: usize, id: u64) {
        let blocked = &mut self.groups[group].blocked;
        if let Some(at) = blocked.iter().position(|blocked| blocked.id == id) {
            let Blocked {
                request,
                position,
                reply,
                ..
            } = blocked.swap_remove(at);
            // A stalled or dead master says nothing at all.
            if self.groups[group].nodes[request.node].life == Life::Up {
                self.answer_waited(&request, position, reply);
            }
        }
    }

    /// An acknowledgement came in: some WAITs may be satisfied.
    pub(crate) fn release_waits(&mut self, group: usize, node: usize) {
        let mut at = 0;
        while let Some(blocked) = self.groups[group].blocked.get(at) {
            let is_due = blocked.node == node
                && blocked.term == self.groups[group].nodes[node].term
                && self.acked(group, node, blocked.position) >= blocked.request.needed;
            if is_due {
                let Blocked {
                    request,
                    position,
                    reply,
                    ..
                } = self.groups[group].blocked.swap_remove(at);
                self.answer_waited(&request, position, reply);
            } else {
                at += 1;
            }
        }
    }

    fn answer_waited(&mut self, request: &Request, position: usize, mut reply: Reply) {
        if let Reply::Appended { waited, .. } | Reply::Read { waited, .. } = &mut reply {
            waited.replicas = self.acked(request.group, request.node, position);
        }
        self.answer(request, reply);
    }

    fn perform(&mut self, request: &Request) -> Reply {
        let (group, node) = (request.group, request.node);
        let waited = Waited {
            group,
            node,
            all: self.groups[group].nodes.len() - 1,
            replicas: 0,
            needed: request.needed,
            attached: self.attached(group, node),
        };
        let data = &self.groups[group].nodes[node].data;
        match &request.command {
            Command::Append(value) => {
                let id = self.add(request, BATCH_FIELD, value.to_vec());
                Reply::Appended { id, waited }
            }
            Command::Change(value) => {
                self.add(request, CHANGE_FIELD, value.clone());
                Reply::Done
            }
            Command::Read {
                kind,
                after,
                count,
                owner,
            } => {
                let (entries, reached_end) = data.range(*after, *count);
                let renewed = data.renewed(*kind, *owner);
                if let Some(record) = renewed {
                    self.write(group, node, Op::Lease(*kind, record));
                }
                Reply::Read {
                    entries,
                    reached_end,
                    lease_held: renewed.is_some(),
                    waited,
                }
            }
            Command::Lease(kind) => Reply::Lease(data.lease(*kind)),
            Command::Claim {
                kind,
                expected,
                owner,
            } => {
                let is_as_expected = data.lease(*kind) == *expected;
                if is_as_expected {
                    let mut record = *expected;
                    record.owner = Some(*owner);
                    record.beat += 1;
                    self.write(group, node, Op::Lease(*kind, record));
                }
                Reply::Claimed(is_as_expected)
            }
            Command::Release { kind, owner } => {
                if let Some(mut record) = data.renewed(*kind, *owner) {
                    record.owner = None;
                    self.write(group, node, Op::Lease(*kind, record));
                }
                Reply::Done
            }
            Command::Load => Reply::Loaded(Loaded {
                offset: data.aggregator.offset,
                producers: data.aggregator.producers.clone(),
                totals: data.aggregator.totals.clone(),
            }),
            Command::Commit(command) => {
                let reply = data.aggregator.check(command, |id| data.has(id));
                if reply == CommitReply::Done {
                    self.publish(group, command);
                    self.write(group, node, Op::Commit(command.clone()));
                }
                Reply::Committed(reply)
            }
            Command::StoreOffset(offset) => {
                if *offset > data.persister_offset {
                    self.write(group, node, Op::PersisterOffset(*offset));
                }
                Reply::Done
            }
            Command::Trim => {
                if let Some(ms) = trim_before_ms(data.aggregator.offset, data.persister_offset) {
                    let ms = self.plant.trim_before_ms(ms);
                    self.write(group, node, Op::TrimBefore(ms));
                }
                Reply::Done
            }
        }
    }

    /// XADD with an id of the node's own clock.
    fn add(&mut self, request: &Request, field: &str, value: Vec<u8>) -> EntryId {
        let now_ms = self.now_ms;
        let node = &self.groups[request.group].nodes[request.node];
        let clock_ms = now_ms.saturating_add_signed(node.clock_ms);
        let last = node.data.last;
        let id = if clock_ms > last.ms {
            EntryId {
                ms: clock_ms,
                seq: 0,
            }
        } else {
            EntryId {
                ms: last.ms,
                seq: last.seq + 1,
            }
        };
        self.trace(|| format!("{} XADD {id} by {:?}", request.group, request.from));
        let entry = RawEntry {
            id,
            field: field.as_bytes().to_vec(),
            value,
        };
        self.write(request.group, request.node, Op::Add(Rc::new(entry)));
        id
    }

    /// Whether a shard's lease of this kind is anybody's (for the end of a history).
    pub(crate) fn offset(&self, group: usize, kind: Kind) -> EntryId {
        let group = &self.groups[group];
        let data = &group.nodes[group.master].data;
        match kind {
            Kind::Aggregator => data.aggregator.offset,
            Kind::Persister => data.persister_offset,
        }
    }
}
