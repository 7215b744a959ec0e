//! How many different clients tapped within a second, when the second is spread over several transactions.
//!
//! A second is stored in two or three transactions as a rule, and again when late taps of it arrive. The clients counted
//! in the last two minutes are remembered, so that each adds to `tappers` once. What is not remembered (after a load, or
//! beyond the bound) is read back from `taps`. With rows shed *and* a load within the second, a client may count twice;
//! the column's comment says so.

use std::collections::{BTreeMap, HashMap, HashSet};

/// Taps are at most 110 s older than their entry; some slack for gateways' clocks.
const REMEMBERED_SECONDS: i64 = 130;

/// A room, one of its reactions, and a second since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) room_id: i32,
    pub(crate) second: i64,
    pub(crate) reaction_id: i16,
}

type Clients = HashSet<i64, foldhash::fast::RandomState>;

/// The clients counted lately, by group.
#[derive(Debug)]
pub(crate) struct Tappers {
    seconds: BTreeMap<i64, HashMap<(i32, i16), Clients>>,
    clients: usize,
    clients_max: usize,
}

impl Tappers {
    /// Remembers at most `clients_max` clients, the latest seconds first.
    pub(crate) fn new(clients_max: usize) -> Self {
        Tappers {
            seconds: BTreeMap::new(),
            clients: 0,
            clients_max,
        }
    }

    /// Whether all clients of a group that are in the database are remembered, if anything of it is there.
    pub(crate) fn knows(&self, group: Group) -> bool {
        let reactions = self.seconds.get(&group.second);
        reactions
            .is_some_and(|reactions| reactions.contains_key(&(group.room_id, group.reaction_id)))
    }

    /// A client tapped; whether it is its first time in the group.
    pub(crate) fn add(&mut self, group: Group, client: i64) -> bool {
        let reactions = self.seconds.entry(group.second).or_default();
        let clients = reactions
            .entry((group.room_id, group.reaction_id))
            .or_default();
        let new = clients.insert(client);
        self.clients += usize::from(new);
        new
    }

    /// After a commit: forgets what is too old or too much.
    pub(crate) fn forget_old(&mut self) {
        let Some(newest) = self.seconds.last_key_value().map(|(second, _)| *second) else {
            return;
        };
        while let Some(oldest) = self.seconds.first_entry() {
            let old = *oldest.key() < newest - REMEMBERED_SECONDS;
            if !old && self.clients <= self.clients_max {
                break;
            }
            let clients: usize = oldest.remove().values().map(HashSet::len).sum();
            self.clients -= clients;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(second: i64) -> Group {
        Group {
            room_id: 1,
            second,
            reaction_id: 1,
        }
    }

    #[test]
    fn a_client_counts_once_a_second() {
        let mut tappers = Tappers::new(100);
        assert!(!tappers.knows(group(10)));
        assert!(tappers.add(group(10), 7));
        assert!(!tappers.add(group(10), 7));
        assert!(tappers.add(group(11), 7));
        assert!(tappers.knows(group(10)));
    }

    #[test]
    fn the_oldest_seconds_go_first_and_the_bound_holds() {
        let mut tappers = Tappers::new(10);
        for second in 0..5 {
            for client in 0..4 {
                tappers.add(group(second), client);
            }
        }
        tappers.forget_old();
        assert_eq!(tappers.clients, 8);
        assert!(!tappers.knows(group(2)) && tappers.knows(group(3)));
        tappers.add(group(3 + REMEMBERED_SECONDS + 1), 1);
        tappers.forget_old();
        assert!(!tappers.knows(group(3)));
    }
}
