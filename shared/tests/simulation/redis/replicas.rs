//! How copies follow their master, and what a service knows of them.

use super::data::Op;
use super::{ELECTABLE_MS, Group, Life, Link, Seen};
use crate::world::{Event, World};
use std::rc::Rc;

impl Group {
    /// The last thing a watcher could have seen at that time.
    pub(crate) fn seen_at(&self, at_ms: u64) -> &Seen {
        let after = self.history.partition_point(|seen| seen.at_ms <= at_ms);
        &self.history[after.saturating_sub(1)]
    }
}

impl Seen {
    /// How many replicas could be elected in place of the master, as far as was seen.
    pub(crate) fn electable(&self, at_ms: u64) -> usize {
        let is_electable = |since: &Option<u64>| {
            since.is_none_or(|since_ms| at_ms.saturating_sub(since_ms) <= ELECTABLE_MS)
        };
        let nodes = self.out_since.iter().enumerate();
        nodes
            .filter(|(node, since)| *node != self.master && is_electable(since))
            .count()
    }
}

impl World {
    /// A master writes.
    pub(crate) fn write(&mut self, group: usize, node: usize, op: Op) {
        let op = Rc::new(op);
        let master = &mut self.groups[group].nodes[node];
        master.data.apply(&op);
        master.ops.push(op);
        for replica in 0..self.groups[group].nodes.len() {
            self.schedule_replication(group, node, replica);
        }
    }

    fn schedule_replication(&mut self, group: usize, master: usize, replica: usize) {
        let term = self.groups[group].nodes[master].term;
        let is_slow = self.groups[group].slow_until_ms > self.now_ms;
        let node = &mut self.groups[group].nodes[replica];
        let Some(link) = &mut node.link else { return };
        if link.master == master && link.term == term && !link.is_due && node.life == Life::Up {
            link.is_due = true;
            let link = link.id;
            let delay_ms = if is_slow {
                self.random.range(50, 3_000)
            } else {
                self.random.delay(1, 60)
            };
            self.after(
                delay_ms,
                Event::Replicate {
                    group,
                    node: replica,
                    link,
                },
            );
        }
    }

    /// A replica takes what its master has written, or most of it.
    pub(crate) fn replicate(&mut self, group: usize, node: usize, link_id: u64) {
        let withheld = self.random.index(3);
        let Some(link) = self.link(group, node, link_id) else {
            return;
        };
        link.is_due = false;
        let link = link.clone();
        let replica = &self.groups[group].nodes[node];
        let master = &self.groups[group].nodes[link.master];
        if replica.life != Life::Up || master.life == Life::Down || master.term != link.term {
            return;
        }
        // What a stalled master has sent still arrives; more does not come.
        let upto = master.ops.len().saturating_sub(withheld).max(link.applied);
        let ops: Vec<Rc<Op>> = master.ops[link.applied..upto].to_vec();
        let is_behind = upto < master.ops.len();
        let replica = &mut self.groups[group].nodes[node];
        for op in &ops {
            replica.data.apply(op);
        }
        // Redis prefers the replica that has most, so one that comes back is not elected before it has all. If it is
        // the only one, what was acknowledged meanwhile was told to be without a copy.
        let has_caught_up = replica.out_since.is_some() && !is_behind;
        if has_caught_up {
            replica.out_since = None;
        }
        if let Some(link) = &mut replica.link {
            link.applied = upto;
        }
        if has_caught_up {
            self.note(group);
            self.trace(|| format!("{group} node {node} is in sync"));
        }
        let delay_ms = self.random.delay(1, 40);
        self.after(
            delay_ms,
            Event::Acked {
                group,
                node,
                link: link_id,
                upto,
            },
        );
        if is_behind {
            self.schedule_replication(group, link.master, node);
        }
    }

    /// A master learns how far a replica is.
    pub(crate) fn replica_acked(&mut self, group: usize, node: usize, link: u64, upto: usize) {
        let Some(link) = self.link(group, node, link) else {
            return;
        };
        link.acked = link.acked.max(upto);
        let master = link.master;
        if self.groups[group].nodes[master].life == Life::Up {
            self.release_waits(group, master);
        }
    }

    /// A replica connects to the master, with all of its data (`in_full`) or with what it missed.
    pub(crate) fn attach(&mut self, group: usize, node: usize) {
        let master = self.groups[group].master;
        let id = self.new_id();
        let Group { nodes, .. } = &mut self.groups[group];
        let (term, position) = (nodes[master].term, nodes[master].ops.len());
        let can_attach = node != master
            && nodes[node].life == Life::Up
            && nodes[node].link.is_none()
            && nodes[master].life == Life::Up
            && nodes[master].is_master;
        if !can_attach {
            let is_needed =
                node != master && nodes[node].life == Life::Up && nodes[node].link.is_none();
            if is_needed {
                self.after(300, Event::Attach { group, node });
            }
            return;
        }
        // Whether by a backlog or in full, it ends with the master's data of this moment.
        nodes[node].data = nodes[master].data.clone();
        nodes[node].is_master = false;
        nodes[node].link = Some(Link {
            id,
            master,
            term,
            applied: position,
            acked: 0,
            is_due: false,
        });
        self.trace(|| format!("{group} node {node} attaches to {master}"));
        self.schedule_replication(group, master, node);
    }

    /// The link of this id, if it is still the node's.
    fn link(&mut self, group: usize, node: usize, id: u64) -> Option<&mut Link> {
        self.groups[group].nodes[node]
            .link
            .as_mut()
            .filter(|link| link.id == id)
    }

    /// How many replicas have acknowledged so much of a master.
    pub(crate) fn acked(&self, group: usize, master: usize, position: usize) -> usize {
        self.links_of(group, master)
            .filter(|link| link.acked >= position)
            .count()
    }

    /// How many replicas have a connection to a master.
    pub(crate) fn attached(&self, group: usize, master: usize) -> usize {
        self.links_of(group, master).count()
    }

    fn links_of(&self, group: usize, master: usize) -> impl Iterator<Item = &Link> {
        let nodes = &self.groups[group].nodes;
        let term = nodes[master].term;
        let of_master = move |link: &&Link| link.master == master && link.term == term;
        nodes
            .iter()
            .filter_map(|node| node.link.as_ref())
            .filter(of_master)
    }

    /// Lets watchers see how the group is now.
    pub(crate) fn note(&mut self, group: usize) {
        let at_ms = self.now_ms;
        let group = &mut self.groups[group];
        group.history.push(Seen {
            at_ms,
            master: group.master,
            clock_ms: group.nodes[group.master].clock_ms,
            out_since: group.nodes.iter().map(|node| node.out_since).collect(),
        });
    }
}
