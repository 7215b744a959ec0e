//! Who is in a room, by client: head count and cooldown.

use hashbrown::HashMap;
use shared::counting::ids::{ClientHash, PageId};
use smallvec::SmallVec;

/// Of how many pages of a client accepted taps are remembered: as many tabs as somebody taps in at once.
const PAGES_MAX: usize = 4;

/// The clients of one room at this gateway.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    clients: HashMap<ClientHash, Client, foldhash::fast::RandomState>,
    people: u32,
}

#[derive(Debug, Default)]
struct Client {
    /// Phones that it has open here: tabs.
    phones: u32,
    /// The theoretical arrival time of its next tap (GCRA), by the gateway's clock.
    next_tap_ms: u64,
    /// Accepted lately, the page that tapped last at the end; empty for those who only watch. Nearly all have one page.
    recent: SmallVec<[Accepted; 1]>,
}

/// Taps of one page that were accepted lately, so that one that is sent again after a reconnect is not refused for the
/// cooldown that it began itself: the newest, and those of the 63 before, twice as many as a page leaves unanswered.
#[derive(Debug, Clone, Copy)]
struct Accepted {
    page: PageId,
    newest: u32,
    /// Bit i: `newest - i` was.
    bits: u64,
}

impl Accepted {
    /// None for those too old to be remembered.
    fn bit(&self, seq: u32) -> Option<u64> {
        1_u64.checked_shl(self.newest.checked_sub(seq)?)
    }

    fn has(&self, seq: u32) -> bool {
        self.bit(seq).is_some_and(|bit| self.bits & bit != 0)
    }

    fn add(&mut self, seq: u32) {
        if let Some(ahead) = seq.checked_sub(self.newest) {
            self.bits = self.bits.checked_shl(ahead).unwrap_or(0);
            self.newest = seq;
        }
        self.bits |= self.bit(seq).unwrap_or(0);
    }

    fn remove(&mut self, seq: u32) {
        self.bits &= !self.bit(seq).unwrap_or(0);
    }
}

impl Client {
    fn accepted(&mut self, page: PageId) -> Option<&mut Accepted> {
        // From the end, where it nearly always is.
        self.recent
            .iter_mut()
            .rev()
            .find(|accepted| accepted.page == page)
    }

    /// Remembers a tap, its page as the last one.
    fn accept(&mut self, page: PageId, seq: u32) {
        let place = self
            .recent
            .iter()
            .rposition(|accepted| accepted.page == page);
        match place {
            Some(place) => self.recent[place..].rotate_left(1),
            None => {
                if self.recent.len() == PAGES_MAX {
                    self.recent.remove(0);
                }
                self.recent.push(Accepted {
                    page,
                    newest: seq,
                    bits: 0,
                });
            }
        }
        if let Some(last) = self.recent.last_mut() {
            last.add(seq);
        }
    }
}

/// How a tap stands to the cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It begins a cooldown. If it cannot be taken after all, give this back by [`Clients::refund`].
    Admitted(Charge),
    /// It was accepted here before: no cooldown.
    Again,
    /// It comes too early, by so many milliseconds.
    Cooldown(u64),
}

/// What admitting a tap changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charge {
    client: ClientHash,
    page: PageId,
    seq: u32,
    before_ms: u64,
}

/// The least time between two taps, and how much earlier one may come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cooldown {
    pub(crate) cooldown_ms: u64,
    pub(crate) tolerance_ms: u64,
}

impl Clients {
    /// Distinct clients with a phone open here.
    pub(crate) fn people(&self) -> u32 {
        self.people
    }

    /// A phone joins.
    pub(crate) fn join(&mut self, client: ClientHash) {
        let client = self.clients.entry(client).or_default();
        client.phones += 1;
        self.people += u32::from(client.phones == 1);
    }

    /// A phone that joined leaves.
    pub(crate) fn leave(&mut self, client: ClientHash) {
        if let Some(client) = self.clients.get_mut(&client)
            && client.phones > 0
        {
            client.phones -= 1;
            self.people -= u32::from(client.phones == 0);
        }
    }

    /// Admits a tap made at `tapped_at_ms`, by the time at which the person tapped: taps that had to wait for a
    /// connection come all at once, and were made one per cooldown.
    ///
    /// The tolerance lets a single tap come early, because the network held up the one before it; it does not add up.
    pub(crate) fn admit(
        &mut self,
        client: ClientHash,
        page: PageId,
        seq: u32,
        tapped_at_ms: u64,
        cooldown: Cooldown,
    ) -> Admission {
        let entry = self.clients.entry(client).or_default();
        if entry
            .accepted(page)
            .is_some_and(|accepted| accepted.has(seq))
        {
            return Admission::Again;
        }
        if tapped_at_ms.saturating_add(cooldown.tolerance_ms) < entry.next_tap_ms {
            return Admission::Cooldown(entry.next_tap_ms - tapped_at_ms);
        }
        let before_ms = entry.next_tap_ms;
        entry.next_tap_ms = before_ms
            .max(tapped_at_ms)
            .saturating_add(cooldown.cooldown_ms);
        entry.accept(page, seq);
        Admission::Admitted(Charge {
            client,
            page,
            seq,
            before_ms,
        })
    }

    /// An admitted tap was not taken after all.
    pub(crate) fn refund(&mut self, charge: Charge) {
        if let Some(client) = self.clients.get_mut(&charge.client) {
            client.next_tap_ms = charge.before_ms;
            if let Some(accepted) = client.accepted(charge.page) {
                accepted.remove(charge.seq);
            }
        }
    }

    /// Forgets who has left and whose cooldown is over: forgetting is always in the client's favour.
    pub(crate) fn sweep(&mut self, now_ms: u64) {
        self.clients
            .retain(|_, client| client.phones > 0 || client.next_tap_ms > now_ms);
        if self.clients.len() * 4 < self.clients.capacity() {
            self.clients.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: PageId = PageId(1);
    const THREE_SECONDS: Cooldown = Cooldown {
        cooldown_ms: 3000,
        tolerance_ms: 1000,
    };

    fn admit(clients: &mut Clients, seq: u32, at_ms: u64) -> Admission {
        clients.admit(ClientHash(7), PAGE, seq, at_ms, THREE_SECONDS)
    }

    #[test]
    fn a_head_is_counted_once_however_many_tabs_it_has() {
        let mut clients = Clients::default();
        clients.join(ClientHash(1));
        clients.join(ClientHash(1));
        clients.join(ClientHash(2));
        assert_eq!(clients.people(), 2);
        clients.leave(ClientHash(1));
        assert_eq!(clients.people(), 2);
        clients.leave(ClientHash(1));
        clients.leave(ClientHash(1));
        assert_eq!(clients.people(), 1);
    }

    #[test]
    fn the_tolerance_does_not_add_up() {
        let mut clients = Clients::default();
        assert!(matches!(
            admit(&mut clients, 1, 10_000),
            Admission::Admitted(_)
        ));
        assert_eq!(admit(&mut clients, 2, 11_999), Admission::Cooldown(1001));
        assert!(
            matches!(admit(&mut clients, 3, 12_000), Admission::Admitted(_)),
            "a second early"
        );
        assert_eq!(
            admit(&mut clients, 4, 14_900),
            Admission::Cooldown(1100),
            "counted from when it was due"
        );
        assert!(matches!(
            admit(&mut clients, 5, 15_000),
            Admission::Admitted(_)
        ));
    }

    #[test]
    fn a_tap_accepted_before_passes_again() {
        let mut clients = Clients::default();
        assert!(matches!(
            admit(&mut clients, 1, 10_000),
            Admission::Admitted(_)
        ));
        assert_eq!(admit(&mut clients, 1, 10_050), Admission::Again);
    }

    #[test]
    fn the_newest_64_seqs_of_the_last_pages_are_remembered() {
        let mut clients = Clients::default();
        let mut tap = |page, seq, at_ms| {
            clients.admit(ClientHash(7), PageId(page), seq, at_ms, THREE_SECONDS)
        };
        for seq in (1..=65).chain([67]) {
            assert!(matches!(
                tap(1, seq, u64::from(seq) * 10_000),
                Admission::Admitted(_)
            ));
        }
        for seq in [4, 65, 67] {
            assert_eq!(tap(1, seq, 670_000), Admission::Again, "{seq}");
        }
        for seq in [1, 3, 66, 68] {
            assert!(
                matches!(tap(1, seq, 670_000), Admission::Cooldown(_)),
                "{seq}"
            );
        }
        for (page, at_ms) in [(2, 680_000), (3, 690_000), (4, 700_000)] {
            assert!(matches!(tap(page, 1, at_ms), Admission::Admitted(_)));
        }
        // The first page taps again, so the second is the one to go when a fifth comes.
        assert!(matches!(tap(1, 68, 710_000), Admission::Admitted(_)));
        assert!(matches!(tap(5, 1, 720_000), Admission::Admitted(_)));
        for (page, seq) in [(1, 68), (3, 1), (4, 1), (5, 1)] {
            assert_eq!(tap(page, seq, 720_000), Admission::Again, "{page}");
        }
        assert!(matches!(tap(2, 1, 720_000), Admission::Cooldown(_)));
    }

    #[test]
    fn a_tap_that_was_not_taken_costs_nothing() {
        let mut clients = Clients::default();
        let Admission::Admitted(charge) = admit(&mut clients, 1, 10_000) else {
            panic!("the first tap is admitted")
        };
        clients.refund(charge);
        assert_eq!(
            clients.admit(ClientHash(7), PAGE, 1, 10_000, THREE_SECONDS),
            Admission::Admitted(charge),
            "not taken as accepted before"
        );
        clients.refund(charge);
        assert!(matches!(
            admit(&mut clients, 2, 10_000),
            Admission::Admitted(_)
        ));
    }

    #[test]
    fn only_a_running_cooldown_keeps_those_who_left() {
        let mut clients = Clients::default();
        clients.join(ClientHash(7));
        admit(&mut clients, 1, 10_000);
        clients.leave(ClientHash(7));
        clients.sweep(12_999);
        assert!(matches!(
            admit(&mut clients, 2, 11_000),
            Admission::Cooldown(_)
        ));
        clients.sweep(13_000);
        assert!(clients.clients.is_empty());
    }

    proptest! {
        /// Whatever the times: over any span, no more taps than the span has cooldowns, and the tolerance once.
        #[test]
        fn the_rate_holds(gaps in proptest::collection::vec(0u64..5000, 1..100)) {
            let mut clients = Clients::default();
            let mut now = 100_000;
            let mut admitted = Vec::new();
            for (seq, gap) in gaps.iter().enumerate() {
                now += gap;
                if let Admission::Admitted(_) = admit(&mut clients, u32::try_from(seq).unwrap() + 1, now) {
                    admitted.push(now);
                }
            }
            for (first, start) in admitted.iter().enumerate() {
                for (last, end) in admitted.iter().enumerate().skip(first + 1) {
                    prop_assert!((last - first) as u64 * 3000 <= end - start + 1000);
                }
            }
        }

        /// A person who taps once per cooldown is never refused, whatever a jitter below the tolerance does.
        #[test]
        fn an_honest_tap_is_never_refused(delays in proptest::collection::vec(0u64..=1000, 1..100)) {
            let mut clients = Clients::default();
            let mut last = 0;
            for (seq, delay) in delays.iter().enumerate() {
                // Frames of one connection do not overtake each other.
                last = last.max(100_000 + seq as u64 * 3000 + delay);
                let admission = admit(&mut clients, u32::try_from(seq).unwrap() + 1, last);
                prop_assert!(matches!(admission, Admission::Admitted(_)));
            }
        }
    }
}
