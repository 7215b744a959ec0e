//! A model of one shard's Redis: a master and its replicas, asynchronous replication, WAIT, failover.
//!
//! `data` is what a node holds, `command` what a master does with a request, `replicas` how copies follow and what is
//! electable, `failover` how nodes die, come back and take over.

pub(crate) mod data;
mod command;
mod replicas;
mod failover;

use crate::common::commit_model::{CommitCommand, CommitReply, Totals};
use crate::executor::SlotId;
use crate::world::ProcessId;
use bytes::Bytes;
use data::{Data, Op};
use shared::counting::ids::{EntryId, Nonce, ProducerId};
use shared::counting::lease::LeaseRecord;
use shared::counting::reader::{ProducerMark, RawEntry};
use shared::room::RoomCode;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How long Redis lets a replica without its master stand for election.
pub(crate) const VALIDITY_MS: u64 = 8_000;
/// After how long without contact the services no longer wait for a replica: longer than [`VALIDITY_MS`].
pub(crate) const ELECTABLE_MS: u64 = 12_000;
/// How long WAIT blocks.
pub(crate) const WAIT_MS: u64 = 500;

/// Which of a shard's two readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Aggregator,
    Persister,
}

#[derive(Debug, Clone)]
pub(crate) enum Command {
    /// XADD of a batch, WAIT.
    Append(Bytes),
    /// The script by which a host changes a room: XADD of a room change.
    Change(Vec<u8>),
    /// XRANGE, renewal of the lease, WAIT.
    Read {
        kind: Kind,
        after: EntryId,
        count: usize,
        owner: Nonce,
    },
    /// HMGET owner beat.
    Lease(Kind),
    /// claim.lua
    Claim {
        kind: Kind,
        expected: LeaseRecord,
        owner: Nonce,
    },
    /// release.lua
    Release { kind: Kind, owner: Nonce },
    /// The aggregator's state.
    Load,
    /// commit.lua
    Commit(CommitCommand),
    /// The persister tells its committed offset.
    StoreOffset(EntryId),
    /// trim.lua
    Trim,
}

#[derive(Debug)]
pub(crate) enum Reply {
    Appended {
        id: EntryId,
        waited: Waited,
    },
    Read {
        entries: Vec<RawEntry>,
        reached_end: bool,
        lease_held: bool,
        waited: Waited,
    },
    Lease(LeaseRecord),
    Claimed(bool),
    Loaded(Loaded),
    Committed(CommitReply),
    Done,
    /// Certainly not done: refused connection, MOVED.
    NotDone,
}

/// What the aggregator loads.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) offset: EntryId,
    pub(crate) producers: BTreeMap<ProducerId, ProducerMark>,
    pub(crate) totals: BTreeMap<RoomCode, Totals>,
}

/// What WAIT told, and what it should have been asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) group: usize,
    pub(crate) node: usize,
    /// How many copies there could be at all.
    pub(crate) all: usize,
    /// Replicas that have all this connection wrote.
    pub(crate) replicas: usize,
    /// How many the caller took for electable when it asked.
    pub(crate) needed: usize,
    /// How many were attached when it was done (only a planted mistake looks at it).
    pub(crate) attached: usize,
}

/// A request under way.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) from: ProcessId,
    pub(crate) group: usize,
    pub(crate) node: usize,
    pub(crate) needed: usize,
    pub(crate) command: Command,
    pub(crate) slot: SlotId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Up,
    /// SIGSTOP: connections stay, nothing is answered.
    Stalled,
    Down,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) life: Life,
    /// What it takes itself for; a master that was stalled does not know yet that it is none.
    pub(crate) is_master: bool,
    /// New at each promotion and restart: what was under way before is void.
    pub(crate) term: u64,
    pub(crate) data: Data,
    /// As a master: all that it wrote in this term.
    pub(crate) ops: Vec<Rc<Op>>,
    /// As a replica.
    pub(crate) link: Option<Link>,
    /// Since when it has not been an up-to-date copy; none: it is one (or the master).
    pub(crate) out_since: Option<u64>,
    /// Its clock less the model's.
    pub(crate) clock_ms: i64,
    /// Requests that wait for a stalled node.
    pub(crate) inbox: Vec<Request>,
}

/// A replica's connection to its master.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) id: u64,
    pub(crate) master: usize,
    pub(crate) term: u64,
    /// How many of the master's ops it has.
    pub(crate) applied: usize,
    /// How many the master knows it has.
    pub(crate) acked: usize,
    pub(crate) is_due: bool,
}

/// A WAIT that blocks.
#[derive(Debug)]
pub(crate) struct Blocked {
    pub(crate) id: u64,
    pub(crate) node: usize,
    pub(crate) term: u64,
    pub(crate) position: usize,
    pub(crate) request: Request,
    pub(crate) reply: Reply,
}

/// What a topology watcher could see at some time.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at_ms: u64,
    pub(crate) master: usize,
    pub(crate) clock_ms: i64,
    /// Per node, since when it has been out of sync.
    pub(crate) out_since: Vec<Option<u64>>,
}

/// One shard's nodes.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) nodes: Vec<Node>,
    /// Whom the cluster takes for the master.
    pub(crate) master: usize,
    pub(crate) blocked: Vec<Blocked>,
    pub(crate) history: Vec<Seen>,
    /// Replication is slow until then.
    pub(crate) slow_until_ms: u64,
}
