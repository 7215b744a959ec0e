//! Which taps have been seen lately, per client and page.
//!
//! Rules:
//! - Log time is cut into absolute epochs of [`EPOCH_MS`]. An epoch remembers, per client and page, the largest seq
//!   seen and which of the 64 up to it were. What lies below those 64 counts as seen.
//! - A tap has been seen if the epoch of the entry it stands in, or one of the [`EPOCHS_BEFORE`] before, has it. So
//!   what is decided depends on log time alone, and on nothing that anybody did in between.
//! - Seen is what stood in the log, not what was counted: each tap of an entry that is not void is marked in that
//!   entry's epoch, also one that had been seen, and also those of a batch whose number had been.
//!
//! An epoch's marks are thus a function of the entries in that epoch. Whoever reads from [`rebuild_from_ms`] on
//! decides about the next entry exactly as one who has been reading all along, whatever phones send.

use super::ids::{ClientHash, PageId, TapId};
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::hash::BuildHasher;

/// Length of an epoch in log time. A tap is remembered for 150 to 200 s: one tap's entries lie within 145 s (see
/// [`super::freshness::TRANSIT_MAX_MS`]). Shorter epochs would mean more look-ups a tap for the same span, longer ones
/// more memory beyond what is needed.
pub const EPOCH_MS: u64 = 50_000;
/// How many seqs, up to the newest, an epoch remembers one by one: a word of memory. Gateways take no jump beyond it.
pub const WINDOW: u32 = u64::BITS;
/// How many epochs before the entry's own are asked.
pub const EPOCHS_BEFORE: u64 = 3;

/// Seqs of one client and page in one epoch: bit i of `bits` says that `newest - i` was seen.
#[derive(Debug, Clone, Copy)]
struct Window {
    client: ClientHash,
    page: PageId,
    newest: u32,
    bits: u64,
}

impl Window {
    fn has(&self, seq: u32) -> bool {
        match self.newest.checked_sub(seq) {
            None => false,
            Some(behind) if behind < WINDOW => self.bits >> behind & 1 == 1,
            Some(_) => true,
        }
    }

    fn mark(&mut self, seq: u32) {
        match self.newest.checked_sub(seq) {
            None => {
                let ahead = seq - self.newest;
                self.bits = self.bits.checked_shl(ahead).unwrap_or(0) | 1;
                self.newest = seq;
            }
            Some(behind) => self.bits |= 1u64.checked_shl(behind).unwrap_or(0),
        }
    }
}

#[derive(Debug)]
struct Epoch {
    number: u64,
    windows: HashTable<Window>,
}

/// The taps seen in the last epochs, up to the entry that is being folded.
#[derive(Debug, Default)]
pub struct Memory {
    /// Oldest first; the last is the current one.
    epochs: VecDeque<Epoch>,
    hasher: foldhash::fast::RandomState,
}

impl Memory {
    /// The next entry stands at this log time; must be called before its taps are seen. Log time never goes back.
    pub fn advance(&mut self, log_ms: u64) {
        let number = log_ms / EPOCH_MS;
        if self
            .epochs
            .back()
            .is_some_and(|epoch| epoch.number >= number)
        {
            return;
        }
        while self
            .epochs
            .front()
            .is_some_and(|epoch| epoch.number + EPOCHS_BEFORE < number)
        {
            self.epochs.pop_front();
        }
        self.epochs.push_back(Epoch {
            number,
            windows: HashTable::new(),
        });
    }

    /// Marks a tap as seen at the log time of the last [`Memory::advance`]; whether it had been seen before.
    pub fn see(&mut self, id: TapId) -> bool {
        let hash = self.hasher.hash_one((id.client.0, id.page.0));
        let same = |window: &Window| window.client == id.client && window.page == id.page;
        let Some((current, before)) = self.epochs.make_contiguous().split_last_mut() else {
            debug_assert!(false, "a tap was seen at no time");
            return false;
        };
        let seen_before = before.iter().any(|epoch| {
            epoch
                .windows
                .find(hash, same)
                .is_some_and(|window| window.has(id.seq))
        });
        match current.windows.find_mut(hash, same) {
            Some(window) => {
                let seen = seen_before || window.has(id.seq);
                window.mark(id.seq);
                seen
            }
            None => {
                let window = Window {
                    client: id.client,
                    page: id.page,
                    newest: id.seq,
                    bits: 1,
                };
                let hasher = &self.hasher;
                current.windows.insert_unique(hash, window, |window| {
                    hasher.hash_one((window.client.0, window.page.0))
                });
                seen_before
            }
        }
    }

    /// How many windows are held, for metrics.
    pub fn len(&self) -> usize {
        self.epochs.iter().map(|epoch| epoch.windows.len()).sum()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// From which log time on the log must be read for a memory that decides rightly about all entries from
/// `log_ms` on.
pub fn rebuild_from_ms(log_ms: u64) -> u64 {
    (log_ms / EPOCH_MS).saturating_sub(EPOCHS_BEFORE) * EPOCH_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tap(seq: u32) -> TapId {
        TapId {
            client: ClientHash(1),
            page: PageId(1),
            seq,
        }
    }

    fn at(log_ms: u64) -> Memory {
        let mut memory = Memory::default();
        memory.advance(log_ms);
        memory
    }

    #[test]
    fn each_tap_is_new_once_in_any_order_within_a_window() {
        let mut memory = at(0);
        for seq in [10, 3, 64, 1, 2, 65] {
            assert!(!memory.see(tap(seq)), "{seq} is new");
            assert!(memory.see(tap(seq)), "{seq} is seen");
        }
    }

    #[test]
    fn what_lies_below_the_window_counts_as_seen() {
        let mut memory = at(0);
        memory.see(tap(100));
        assert!(!memory.see(tap(37)), "the last of 64");
        assert!(memory.see(tap(36)), "one below");
        memory.see(tap(u32::MAX));
        assert!(memory.see(tap(100)));
    }

    #[test]
    fn clients_and_pages_do_not_mix() {
        let mut memory = at(0);
        memory.see(tap(7));
        assert!(!memory.see(TapId {
            client: ClientHash(2),
            page: PageId(1),
            seq: 7
        }));
        assert!(!memory.see(TapId {
            client: ClientHash(1),
            page: PageId(2),
            seq: 7
        }));
    }

    #[test]
    fn a_tap_is_remembered_for_at_least_three_epochs_and_at_most_four() {
        for (first, last_seen) in [(0, 199_999), (49_999, 199_999), (50_000, 249_999)] {
            let mut memory = at(first);
            memory.see(tap(1));
            memory.advance(last_seen);
            assert!(memory.see(tap(1)), "at {last_seen}");
            let mut memory = at(first);
            memory.see(tap(1));
            memory.advance(last_seen + 1);
            assert!(!memory.see(tap(1)), "after {last_seen}");
        }
    }

    #[test]
    fn a_seen_tap_is_marked_anew() {
        let mut memory = at(0);
        for epoch in 0..20 {
            memory.advance(epoch * 2 * EPOCH_MS);
            assert_eq!(memory.see(tap(1)), epoch > 0);
        }
    }

    #[test]
    fn a_window_of_one_epoch_hides_nothing_of_another() {
        let mut memory = at(0);
        memory.see(tap(1_000));
        memory.advance(EPOCH_MS);
        memory.see(tap(1_001));
        assert!(memory.see(tap(1_000)), "the epoch before has it");
        assert!(
            !memory.see(tap(999)),
            "both windows reach down to it, neither has it"
        );
    }

    #[test]
    fn old_epochs_are_given_back() {
        let mut memory = at(0);
        for epoch in 0..10 {
            memory.advance(epoch * EPOCH_MS);
            memory.see(tap(u32::try_from(epoch).expect("small")));
        }
        assert_eq!(memory.len(), 4);
    }

    proptest! {
        /// Whatever phones do, a memory rebuilt at any point decides as the one that was there all along.
        #[test]
        fn a_rebuilt_memory_agrees_with_a_live_one(
            steps in prop::collection::vec((0..60_000u64, 0..3u64, 1..200u32), 1..200),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut log_ms = 1_000_000;
            let log: Vec<(u64, TapId)> = steps
                .iter()
                .map(|&(wait_ms, client, seq)| {
                    log_ms += wait_ms;
                    (log_ms, TapId { client: ClientHash(client), page: PageId(0), seq })
                })
                .collect();
            let fold = |memory: &mut Memory, &(log_ms, id): &(u64, TapId)| {
                memory.advance(log_ms);
                memory.see(id)
            };
            let mut live = Memory::default();
            let decided: Vec<bool> = log.iter().map(|step| fold(&mut live, step)).collect();
            let cut = cut.index(log.len());
            let from_ms = rebuild_from_ms(log[cut].0);
            let mut rebuilt = Memory::default();
            for (i, step) in log.iter().enumerate().filter(|(_, step)| step.0 >= from_ms) {
                let seen = fold(&mut rebuilt, step);
                prop_assert!(i < cut || seen == decided[i], "step {}", i);
            }
        }
    }
}
