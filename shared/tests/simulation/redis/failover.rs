//! How nodes die, stall, come back and take over.

use super::data::Data;
use super::{Group, Life, Node, Seen, VALIDITY_MS};
use crate::world::{Event, World};

impl Group {
    /// A master and `replicas` copies, all empty and in sync.
    pub(crate) fn new(world: &mut World, index: usize, replicas: usize) -> Self {
        let nodes: Vec<Node> = (0..=replicas)
            .map(|node| Node {
                life: Life::Up,
                is_master: node == 0,
                term: world.new_id(),
                data: Data::default(),
                ops: Vec::new(),
                link: None,
                out_since: (node != 0).then_some(0),
                // Masters' clocks agree within 5 s.
                clock_ms: i64::try_from(world.random.range(0, 5_000)).expect("small") - 2_500,
                inbox: Vec::new(),
            })
            .collect();
        for node in 1..nodes.len() {
            world.after(1, Event::Attach { group: index, node });
        }
        let first = Seen {
            at_ms: 0,
            master: 0,
            clock_ms: nodes[0].clock_ms,
            out_since: nodes.iter().map(|node| node.out_since).collect(),
        };
        Group {
            nodes,
            master: 0,
            blocked: Vec::new(),
            history: vec![first],
            slow_until_ms: 0,
        }
    }
}

impl World {
    /// kill -9. What it held is on its disk.
    pub(crate) fn kill_node(&mut self, group: usize, node: usize, for_ms: u64) {
        if self.groups[group].nodes[node].life != Life::Up {
            return;
        }
        self.trace(|| format!("{group} node {node} is killed for {for_ms} ms"));
        let now_ms = self.now_ms;
        let killed = &mut self.groups[group].nodes[node];
        killed.life = Life::Down;
        killed.link = None;
        killed.out_since.get_or_insert(now_ms);
        self.groups[group]
            .blocked
            .retain(|blocked| blocked.node != node);
        self.lost_node(group, node);
        self.after(for_ms, Event::NodeBack { group, node });
    }

    /// SIGSTOP, and SIGCONT later.
    pub(crate) fn stall_node(&mut self, group: usize, node: usize, for_ms: u64) {
        if self.groups[group].nodes[node].life != Life::Up {
            return;
        }
        self.trace(|| format!("{group} node {node} is stalled for {for_ms} ms"));
        let now_ms = self.now_ms;
        let stalled = &mut self.groups[group].nodes[node];
        stalled.life = Life::Stalled;
        stalled.out_since.get_or_insert(now_ms);
        self.lost_node(group, node);
        self.after(for_ms, Event::NodeBack { group, node });
    }

    /// A replica loses its connection to the master for a while.
    pub(crate) fn cut_link(&mut self, group: usize, node: usize, for_ms: u64) {
        let now_ms = self.now_ms;
        let replica = &mut self.groups[group].nodes[node];
        if replica.life == Life::Up && replica.link.take().is_some() {
            replica.out_since.get_or_insert(now_ms);
            self.note(group);
            self.trace(|| format!("{group} node {node} loses its link for {for_ms} ms"));
            self.after(for_ms, Event::Attach { group, node });
        }
    }

    fn lost_node(&mut self, group: usize, node: usize) {
        self.note(group);
        if node == self.groups[group].master {
            let term = self.groups[group].nodes[node].term;
            let timeout_ms = self.random.range(1_000, 3_000);
            self.after(timeout_ms, Event::FailoverDue { group, term });
        }
    }

    /// The cluster has missed a master for long enough to elect another.
    pub(crate) fn failover_due(&mut self, group: usize, term: u64) {
        let master = self.groups[group].master;
        let old = &self.groups[group].nodes[master];
        if old.term != term || old.life == Life::Up {
            return;
        }
        let electable: Vec<usize> = (0..self.groups[group].nodes.len())
            .filter(|node| self.is_electable(group, *node))
            .collect();
        if electable.is_empty() {
            return self.after(500, Event::FailoverDue { group, term });
        }
        let elected = *self.random.pick(&electable);
        self.promote(group, elected);
    }

    /// By Redis's own rule: up, and without its master for no longer than its validity allows.
    fn is_electable(&self, group: usize, node: usize) -> bool {
        let Group { nodes, master, .. } = &self.groups[group];
        node != *master
            && nodes[node].life == Life::Up
            && match nodes[node].out_since {
                // It had all until its master went.
                None => nodes[*master]
                    .out_since
                    .is_some_and(|since| self.is_recent(since)),
                Some(since) => self.is_recent(since),
            }
    }

    fn is_recent(&self, since_ms: u64) -> bool {
        self.now_ms.saturating_sub(since_ms) <= VALIDITY_MS
    }

    fn promote(&mut self, group: usize, elected: usize) {
        let term = self.new_id();
        let now_ms = self.now_ms;
        let before = std::mem::replace(&mut self.groups[group].master, elected);
        let node = &mut self.groups[group].nodes[elected];
        node.is_master = true;
        node.term = term;
        node.ops.clear();
        node.link = None;
        node.out_since = None;
        self.trace(|| format!("{group} node {elected} takes over from {before}"));
        for replica in 0..self.groups[group].nodes.len() {
            let node = &mut self.groups[group].nodes[replica];
            if replica != elected && node.link.take().is_some() {
                node.out_since.get_or_insert(now_ms);
                let delay_ms = self.random.range(50, 1_500);
                self.after(
                    delay_ms,
                    Event::Attach {
                        group,
                        node: replica,
                    },
                );
            }
        }
        self.note(group);
    }

    /// A node that was killed or stalled runs again.
    pub(crate) fn node_back(&mut self, group: usize, node: usize) {
        let term = self.new_id();
        let is_master = self.groups[group].master == node;
        let back = &mut self.groups[group].nodes[node];
        let was_stalled = back.life == Life::Stalled;
        back.life = Life::Up;
        if is_master {
            back.out_since = None;
        }
        self.trace(|| format!("{group} node {node} is back"));
        if was_stalled {
            // What waited in its sockets comes first; only then does it learn what happened meanwhile.
            for request in std::mem::take(&mut self.groups[group].nodes[node].inbox) {
                self.arrive(request);
            }
            let delay_ms = self.random.range(1, 300);
            self.after(delay_ms, Event::Informed { group, node });
        } else {
            let back = &mut self.groups[group].nodes[node];
            back.is_master = is_master;
            back.term = term;
            back.ops.clear();
            if is_master {
                for replica in 0..self.groups[group].nodes.len() {
                    self.relink(group, replica);
                }
            } else {
                self.relink(group, node);
            }
        }
        self.note(group);
    }

    /// A node that was stalled hears from the others.
    pub(crate) fn informed(&mut self, group: usize, node: usize) {
        let is_master = self.groups[group].master == node;
        let informed = &mut self.groups[group].nodes[node];
        if informed.life != Life::Up {
            return;
        }
        if informed.is_master && !is_master {
            informed.is_master = false;
            informed.ops.clear();
            self.trace(|| format!("{group} node {node} learns that it is no master any more"));
            // Clients blocked in WAIT are cut off: they never learn.
            self.groups[group]
                .blocked
                .retain(|blocked| blocked.node != node);
        }
        if !is_master {
            self.relink(group, node);
        }
    }

    /// A replica connects anew.
    fn relink(&mut self, group: usize, node: usize) {
        if node != self.groups[group].master {
            self.groups[group].nodes[node].link = None;
            let now_ms = self.now_ms;
            self.groups[group].nodes[node]
                .out_since
                .get_or_insert(now_ms);
            let delay_ms = self.random.range(20, 1_500);
            self.after(delay_ms, Event::Attach { group, node });
        }
    }

    /// All nodes up and linked: for the end of a history.
    pub(crate) fn heal_group(&mut self, group: usize) {
        self.groups[group].slow_until_ms = 0;
        for node in 0..self.groups[group].nodes.len() {
            if self.groups[group].nodes[node].life != Life::Up {
                self.node_back(group, node);
            }
        }
    }
}
