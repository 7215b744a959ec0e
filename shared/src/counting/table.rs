//! Many clients' windows in one array, by open addressing: a look-up costs one cache miss, and several can be on their way
//! at once.
//!
//! A window stands at the place that its hash gives, or, where others stand, at the next free one behind. None is ever
//! removed alone: what is outdated goes when the array is written anew.

use super::ids::TapId;
use super::window::Windows;

/// Of so many places, [`FULL_OF`] may be taken: finding a client then takes at most 2.2 places on average (Knuth, The Art of
/// Computer Programming, vol. 3, 6.4, algorithm L).
const PLACES: usize = 10;
const FULL_OF: usize = 7;

/// See the top of this file.
#[derive(Debug, Default)]
pub(super) struct Table {
    places: Vec<Windows>,
    taken: usize,
}

impl Table {
    /// How many clients and pages it holds.
    pub(super) fn len(&self) -> usize {
        self.taken
    }

    /// Has the cache fetch what stands at a place. The result is of no use but to be waited for.
    pub(super) fn fetch(&self, place: usize) -> u32 {
        self.places.get(place).map_or(0, Windows::touch)
    }

    /// The windows of a tap's client and page, new ones if it holds none: then something must be marked in them at once.
    /// `rehash` tells the hash of what stands there.
    pub(super) fn of(
        &mut self,
        id: TapId,
        hash: u64,
        epoch: u32,
        rehash: impl Fn(&Windows) -> u64,
    ) -> &mut Windows {
        let mut place = self.place(id, hash);
        if place.is_none_or(|place| self.places[place].is_free()) {
            if (self.taken + 1) * PLACES > self.places.len() * FULL_OF {
                // By half rather than twofold: that much less of it stands empty.
                self.rewrite((self.taken + 1) * 3 / 2, |_| true, rehash);
                place = self.place(id, hash);
            }
            let place = place.expect("a table that has grown has a free place");
            self.taken += 1;
            self.places[place] = Windows::new(id, epoch);
            return &mut self.places[place];
        }
        &mut self.places[place.expect("it was found")]
    }

    /// Forgets those that are outdated in this epoch.
    pub(super) fn sweep(&mut self, epoch: u32, rehash: impl Fn(&Windows) -> u64) {
        let stays = |windows: &Windows| !windows.is_outdated(epoch);
        let taken = self.places.iter().filter(|windows| !windows.is_free());
        let staying = taken.filter(|windows| stays(windows)).count();
        if staying < self.taken {
            self.rewrite(staying, stays, rehash);
        }
    }

    /// Where a client and page stand, or the free place where they would; none if there is no place at all.
    fn place(&self, id: TapId, hash: u64) -> Option<usize> {
        let home = self.home(hash);
        let (before, behind) = self.places.split_at(home.min(self.places.len()));
        let found = |windows: &Windows| windows.is_free() || windows.is_of(id);
        behind
            .iter()
            .position(found)
            .map(|position| home + position)
            .or_else(|| before.iter().position(found))
    }

    /// Where the look-up of a hash begins.
    pub(super) fn home(&self, hash: u64) -> usize {
        // The lower half of the hash as a part of the whole. (Tables are chosen by the upper one.)
        let part = u128::from(hash & u64::from(u32::MAX)) * self.places.len() as u128;
        usize::try_from(part >> u32::BITS).unwrap_or_default()
    }

    /// Writes those that stay into an array for so many.
    fn rewrite(
        &mut self,
        clients: usize,
        stays: impl Fn(&Windows) -> bool,
        rehash: impl Fn(&Windows) -> u64,
    ) {
        let places = match clients {
            0 => 0,
            clients => clients * PLACES / FULL_OF + 2,
        };
        let before = std::mem::replace(&mut self.places, vec![Windows::FREE; places]);
        self.taken = 0;
        for windows in before {
            if windows.is_free() || !stays(&windows) {
                continue;
            }
            let place = self.place(windows.owner(), rehash(&windows));
            self.places[place.expect("there is a place for all that stay")] = windows;
            self.taken += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::ids::{ClientHash, PageId};
    use crate::counting::memory::EPOCHS_BEFORE;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Hashes that collide much, and wrap around.
    fn hash(client: u64, page: u32) -> u64 {
        match client % 3 {
            0 => u64::from(u32::MAX),
            1 => client.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            _ => u64::from(page) << 20,
        }
    }

    fn rehash(windows: &Windows) -> u64 {
        let owner = windows.owner();
        hash(owner.client.0, owner.page.0)
    }

    proptest! {
        /// It holds what a map holds, however it grows and is swept.
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0_u64..60, 0_u32..4, 1_u32..200, 0_u32..20), 1..400)) {
            let mut table = Table::default();
            let mut map: BTreeMap<(u64, u32), (Windows, u32)> = BTreeMap::new();
            let mut epoch = 0;
            for (client, page, seq, chance) in steps {
                if chance == 0 {
                    epoch += 1;
                    table.sweep(epoch, rehash);
                    map.retain(|_, (_, last)| u64::from(epoch - *last) <= EPOCHS_BEFORE);
                    prop_assert_eq!(table.len(), map.len());
                }
                let id = TapId { client: ClientHash(client), page: PageId(page), seq };
                let (windows, last) = map.entry((client, page)).or_insert((Windows::new(id, epoch), epoch));
                *last = epoch;
                let place = hash(client, page);
                table.fetch(table.home(place));
                prop_assert_eq!(table.of(id, place, epoch, rehash).see(seq, epoch), windows.see(seq, epoch));
                prop_assert_eq!(table.len(), map.len());
                prop_assert!(table.len() * PLACES <= table.places.len() * FULL_OF);
            }
            table.sweep(epoch + 10, rehash);
            prop_assert_eq!((table.len(), table.places.len()), (0, 0));
        }
    }
}
