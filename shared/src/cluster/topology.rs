//! Who is master of what, and which replicas could be elected.

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
    /// The master's clock less ours, milliseconds.
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
}
