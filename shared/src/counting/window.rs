//! Which seqs of one client and page were seen in each of the last epochs: one cache line, since fetching it from a
//! memory of millions is what a tap costs.

use super::ids::{ClientHash, PageId, TapId};
use super::memory::EPOCHS_BEFORE;

/// How many seqs, up to the newest, an epoch remembers one by one: a word of memory. Gateways take no jump beyond it.
pub const WINDOW: u32 = u64::BITS;

/// The epochs that are asked: an entry's own and those before.
const EPOCHS: u32 = 4;
const _: () = assert!(EPOCHS as u64 == EPOCHS_BEFORE + 1);

/// See the top of this file. What was seen in epoch e stands at e modulo [`EPOCHS`]: bit i of `bits` says that
/// `newest - i` was. No bits: nothing was.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Windows {
    client: ClientHash,
    page: PageId,
    /// The last epoch in which anything was seen. What stands for the epochs after it is of older ones.
    last: u32,
    newest: [u32; EPOCHS as usize],
    bits: [u64; EPOCHS as usize],
}

const _: () = assert!(size_of::<Windows>() == 64);

impl Windows {
    /// Of nobody: what stands in a table's free places. Whoever is remembered has a bit.
    pub(super) const FREE: Windows = Windows {
        client: ClientHash(0),
        page: PageId(0),
        last: 0,
        newest: [0; EPOCHS as usize],
        bits: [0; EPOCHS as usize],
    };

    pub(super) fn is_free(&self) -> bool {
        self.bits == [0; EPOCHS as usize]
    }

    /// Of a client and page that are not remembered.
    pub(super) fn new(id: TapId, epoch: u32) -> Self {
        Windows {
            client: id.client,
            page: id.page,
            last: epoch,
            ..Windows::FREE
        }
    }

    /// Reads a word of it.
    pub(super) fn touch(&self) -> u32 {
        self.last
    }

    pub(super) fn is_of(&self, id: TapId) -> bool {
        self.client == id.client && self.page == id.page
    }

    /// Its client and page, as a tap of no number.
    pub(super) fn owner(&self) -> TapId {
        TapId {
            client: self.client,
            page: self.page,
            seq: 0,
        }
    }

    /// Whether nothing that is asked for in this epoch is in it.
    pub(super) fn is_outdated(&self, epoch: u32) -> bool {
        u64::from(epoch.saturating_sub(self.last)) > EPOCHS_BEFORE
    }

    /// Marks a seq as seen in an epoch, none before the last one; whether it had been seen in this or the epochs before.
    pub(super) fn see(&mut self, seq: u32, epoch: u32) -> bool {
        for back in 0..epoch.saturating_sub(self.last).min(EPOCHS) {
            self.bits[place(epoch - back)] = 0;
        }
        self.last = epoch;
        let seen = (0..EPOCHS).fold(false, |seen, epoch| seen | self.has(seq, place(epoch)));
        self.mark(seq, place(epoch));
        seen
    }

    fn has(&self, seq: u32, place: usize) -> bool {
        let bits = self.bits[place];
        match self.newest[place].checked_sub(seq) {
            None => false,
            Some(behind) if behind < WINDOW => bits >> behind & 1 == 1,
            Some(_) => bits != 0,
        }
    }

    fn mark(&mut self, seq: u32, place: usize) {
        let (newest, bits) = (&mut self.newest[place], &mut self.bits[place]);
        match newest.checked_sub(seq) {
            Some(behind) if *bits != 0 => *bits |= 1_u64.checked_shl(behind).unwrap_or(0),
            // Whatever was newest in an epoch that is long over.
            _ if *bits == 0 => (*newest, *bits) = (seq, 1),
            _ => {
                *bits = bits.checked_shl(seq - *newest).unwrap_or(0) | 1;
                *newest = seq;
            }
        }
    }
}

fn place(epoch: u32) -> usize {
    (epoch % EPOCHS) as usize
}
