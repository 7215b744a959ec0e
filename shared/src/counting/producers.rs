//! The last batch number of each producer: what was committed, and what was folded since.
//!
//! Rules: a batch whose number is not above its producer's mark has been folded before. A mark is outdated
//! [`PRODUCER_FORGOTTEN_AFTER_MS`] of log time after its batch: by then anything of that batch is void. Whether a mark is
//! outdated is decided by the log times alone, so it makes no difference when it is really deleted.

use super::ids::ProducerId;
use super::reader::{PRODUCER_FORGOTTEN_AFTER_MS, ProducerMark};
use hashbrown::HashMap;

type Marks = HashMap<ProducerId, ProducerMark, foldhash::fast::RandomState>;

/// Committed marks, and pending ones that hide them.
#[derive(Debug, Default)]
pub struct Producers {
    committed: Marks,
    pending: Marks,
}

impl Producers {
    /// With the marks that were committed.
    pub fn new(committed: impl IntoIterator<Item = (ProducerId, ProducerMark)>) -> Self {
        Producers {
            committed: committed.into_iter().collect(),
            pending: Marks::default(),
        }
    }

    /// Marks a batch in an entry at `log_ms`; whether it is new.
    pub fn mark(&mut self, producer: ProducerId, number: u64, log_ms: u64) -> bool {
        let last = self
            .pending
            .get(&producer)
            .or_else(|| self.committed.get(&producer));
        if last.is_some_and(|mark| number <= mark.number && !is_outdated(mark, log_ms)) {
            return false;
        }
        self.pending
            .insert(producer, ProducerMark { number, log_ms });
        true
    }

    /// The marks to store if all up to `log_ms` is committed, and those to delete; both in order.
    pub fn changes(&self, log_ms: u64) -> (Vec<(ProducerId, ProducerMark)>, Vec<ProducerId>) {
        let mut stored: Vec<_> = self
            .pending
            .iter()
            .filter(|(_, mark)| !is_outdated(mark, log_ms))
            .map(|(producer, mark)| (*producer, *mark))
            .collect();
        let current = |producer: &ProducerId| {
            self.pending
                .get(producer)
                .or_else(|| self.committed.get(producer))
        };
        let mut deleted: Vec<_> = self
            .committed
            .keys()
            .filter(|producer| current(producer).is_some_and(|mark| is_outdated(mark, log_ms)))
            .copied()
            .collect();
        stored.sort_unstable_by_key(|(producer, _)| *producer);
        deleted.sort_unstable();
        (stored, deleted)
    }

    /// What [`Producers::changes`] told for this `log_ms` was committed.
    pub fn committed(&mut self, log_ms: u64) {
        self.committed.extend(self.pending.drain());
        self.committed.retain(|_, mark| !is_outdated(mark, log_ms));
    }
}

fn is_outdated(mark: &ProducerMark, log_ms: u64) -> bool {
    log_ms.saturating_sub(mark.log_ms) > PRODUCER_FORGOTTEN_AFTER_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: ProducerId = ProducerId(1);

    #[test]
    fn only_growing_numbers_are_new() {
        let mut producers = Producers::default();
        assert!(producers.mark(P, 1, 0));
        assert!(!producers.mark(P, 1, 1));
        assert!(producers.mark(P, 5, 2));
        assert!(!producers.mark(P, 4, 3));
        assert!(
            producers.mark(ProducerId(2), 1, 4),
            "another producer counts for itself"
        );
    }

    #[test]
    fn committed_marks_hold_and_pending_ones_hide_them() {
        let mut producers = Producers::new([(
            P,
            ProducerMark {
                number: 3,
                log_ms: 0,
            },
        )]);
        assert!(!producers.mark(P, 3, 1));
        assert!(producers.mark(P, 4, 2));
        assert_eq!(
            producers.changes(2).0,
            [(
                P,
                ProducerMark {
                    number: 4,
                    log_ms: 2
                }
            )]
        );
        producers.committed(2);
        assert_eq!(producers.changes(2), (vec![], vec![]));
        assert!(!producers.mark(P, 4, 3));
    }

    #[test]
    fn an_outdated_mark_is_none_whether_deleted_or_not() {
        let late = PRODUCER_FORGOTTEN_AFTER_MS + 1;
        let mut producers = Producers::new([(
            P,
            ProducerMark {
                number: 3,
                log_ms: 0,
            },
        )]);
        assert_eq!(producers.changes(late - 1), (vec![], vec![]));
        assert_eq!(producers.changes(late), (vec![], vec![P]));
        assert!(producers.mark(P, 1, late), "not deleted yet");
        assert_eq!(producers.changes(late).1, [], "it has a new mark instead");

        let mut producers = Producers::new([(
            P,
            ProducerMark {
                number: 3,
                log_ms: 0,
            },
        )]);
        producers.committed(late);
        assert!(producers.mark(P, 1, late), "deleted");
    }

    #[test]
    fn a_mark_that_is_outdated_before_it_was_ever_stored_is_not_stored() {
        let mut producers = Producers::default();
        producers.mark(P, 1, 0);
        assert_eq!(
            producers.changes(PRODUCER_FORGOTTEN_AFTER_MS + 1),
            (vec![], vec![])
        );
    }
}
