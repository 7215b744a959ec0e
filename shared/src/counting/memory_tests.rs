use super::*;
use crate::counting::ids::{ClientHash, PageId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

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

fn of(client: u64, seq: u32) -> TapId {
    TapId {
        client: ClientHash(client),
        page: PageId(1),
        seq,
    }
}

#[test]
fn outdated_clients_are_forgotten_in_the_course_of_an_epoch() {
    let mut memory = at(0);
    for client in 0..10_000 {
        memory.see(of(client, 1));
    }
    memory.advance(3 * EPOCH_MS);
    memory.see(of(0, 2));
    // This epoch's look-through is over, and has found nothing outdated.
    memory.advance(3 * EPOCH_MS + SWEEP_MS);
    memory.advance(4 * EPOCH_MS);
    assert_eq!(memory.len(), 10_000, "nothing at once");
    memory.advance(4 * EPOCH_MS + SWEEP_MS / 2);
    assert!((5_000..6_500).contains(&memory.len()), "{}", memory.len());
    memory.advance(4 * EPOCH_MS + SWEEP_MS);
    assert_eq!(memory.len(), 1);
    assert!(memory.see(of(0, 2)) && !memory.see(of(1, 1)));
}

#[test]
fn a_log_that_was_silent_for_long_leaves_nothing() {
    let mut memory = at(0);
    memory.see(tap(1));
    memory.advance(1_000 * EPOCH_MS);
    memory.advance(2_000 * EPOCH_MS);
    assert!(memory.is_empty());
    memory.advance(u64::MAX);
    assert!(!memory.see(tap(1)));
    assert!(memory.see(tap(1)));
}

#[test]
fn tables_have_shares_from_one_to_two() {
    let share = |table: usize| {
        TABLE_OF
            .iter()
            .filter(|of| usize::from(**of) == table)
            .count()
    };
    let shares: Vec<usize> = (0..TABLES).map(share).collect();
    assert_eq!(shares.iter().sum::<usize>(), SHARES);
    assert!((42..=44).contains(&shares[0]), "{shares:?}");
    assert!((84..=86).contains(&shares[TABLES - 1]), "{shares:?}");
    assert!(
        shares.is_sorted_by(|one, next| *next <= one + 2 && *one <= next + 1),
        "{shares:?}"
    );
}

#[test]
fn many_at_once_are_seen_as_one_by_one() {
    let tap = |client, seq| Tap {
        id: of(client, seq),
        key: "clap".parse().expect("well formed"),
        tapped_at_ms: 0,
    };
    let mut memory = at(0);
    // The same within the group, and in an earlier one.
    let mut taps: Vec<Tap> = (0..40).map(|i| tap(i % 30, 1)).collect();
    memory.retain_new(&mut taps);
    assert_eq!(taps, (0..30).map(|i| tap(i, 1)).collect::<Vec<_>>());
    let mut taps = vec![tap(3, 1), tap(3, 2), tap(99, 1), tap(3, 2)];
    memory.retain_new(&mut taps);
    assert_eq!(taps, [tap(3, 2), tap(99, 1)]);
}

/// The rules at the top of the file, word by word: all seqs of each client and epoch.
#[derive(Default)]
struct Rules {
    epochs: BTreeMap<(u64, u64), BTreeSet<u32>>,
}

impl Rules {
    fn see(&mut self, log_ms: u64, client: u64, seq: u32) -> bool {
        let epoch = log_ms / EPOCH_MS;
        let seen = (epoch.saturating_sub(EPOCHS_BEFORE)..=epoch).any(|epoch| {
            let seqs = self.epochs.get(&(client, epoch));
            seqs.is_some_and(|seqs| {
                let newest = *seqs.last().expect("made with one");
                seqs.contains(&seq) || newest.saturating_sub(seq) >= WINDOW
            })
        });
        self.epochs.entry((client, epoch)).or_default().insert(seq);
        seen
    }
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

    #[test]
    fn a_memory_decides_by_the_rules(
        steps in prop::collection::vec((0..80_000u64, 0..4u64, 0..150u32), 1..300),
    ) {
        let (mut log_ms, mut memory, mut rules) = (1_000_000, Memory::default(), Rules::default());
        for (wait_ms, client, seq) in steps {
            // Mostly close together, now and then epochs apart.
            log_ms += wait_ms * wait_ms / 80_000 * u64::from(wait_ms % 3 == 0);
            memory.advance(log_ms);
            prop_assert_eq!(memory.see(of(client, seq)), rules.see(log_ms, client, seq));
        }
    }
}
