//! Who is master of what, and which replicas could be elected.

use std::time::Instant;

/// How many hash slots a cluster has.
pub const SLOTS: usize = 16_384;

/// In [`Topology::slots`]: no master is known.
const NO_MASTER: u16 = u16::MAX;

/// The cluster as the watcher last saw it.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    /// The masters that hold slots.
    pub masters: Vec<Master>,
    /// For each of the 16384 slots the index of its master, or `u16::MAX`.
    pub slots: Vec<u16>,
}

/// A master and what is known of it.
#[derive(Debug, Clone, Default)]
pub struct Master {
    /// Node id.
    pub id: String,
    /// `host:port`.
    pub address: String,
    /// How many replicas could still be elected: what a WAIT must reach. 0 after all have been gone for long enough.
    pub electable_replicas: usize,
    /// How many replicas it has listed, or its group once had and lost without our seeing where to: a master that has been
    /// replaced is listed nowhere until it returns.
    pub replicas: usize,
    /// When the older of the polls began from which `electable_replicas` follows.
    pub observed_since: Option<Instant>,
    /// The master's clock less this process's, milliseconds. The latter starts at the wall time and then runs on the monotonic
    /// clock: see [`super::Cluster::log_now_ms`].
    pub clock_offset_ms: i64,
    /// Memory used over maxmemory, 0 where no limit is set.
    pub memory_used_ratio: f64,
}

impl Topology {
    /// The master of a slot.
    pub fn master_of(&self, slot: u16) -> Option<&Master> {
        let index = *self.slots.get(usize::from(slot))?;
        self.masters.get(usize::from(index))
    }

    /// The master with this node id.
    pub fn master(&self, id: &str) -> Option<&Master> {
        self.masters.iter().find(|master| master.id == id)
    }

    /// Whether every slot has a master.
    pub fn is_whole(&self) -> bool {
        self.slots.len() == SLOTS && !self.slots.contains(&NO_MASTER)
    }

    /// A topology without any master.
    pub(super) fn empty() -> Self {
        Topology {
            masters: Vec::new(),
            slots: vec![NO_MASTER; SLOTS],
        }
    }

    /// Whether routing and replicas are the same; clocks and memory change all the time.
    pub(super) fn routes_as(&self, other: &Topology) -> bool {
        let same = |a: &Master, b: &Master| {
            a.id == b.id && a.address == b.address && a.electable_replicas == b.electable_replicas
        };
        self.slots == other.slots
            && self.masters.len() == other.masters.len()
            && self
                .masters
                .iter()
                .zip(&other.masters)
                .all(|(a, b)| same(a, b))
    }
}
