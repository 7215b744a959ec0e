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

use super::entry::Tap;
use super::ids::TapId;
use super::table::Table;
use super::window::Windows;
use std::hash::BuildHasher;
use std::hint::black_box;

pub use super::window::WINDOW;

/// Length of an epoch in log time. A tap is remembered for 150 to 200 s: one tap's entries lie within 145 s (see
/// [`super::freshness::TRANSIT_MAX_MS`]). Shorter epochs would mean more memory per client for the same span, longer ones
/// clients that are remembered beyond what is needed.
pub const EPOCH_MS: u64 = 50_000;
/// How many epochs before the entry's own are asked.
pub const EPOCHS_BEFORE: u64 = 3;

/// The clients are spread over so many tables: to grow one, or to look through it for clients that are outdated, takes
/// some milliseconds with millions of clients in all of them, and not the half second that would hold up a tick.
const TABLES: usize = 64;
/// Finer than the tables, so that they can be of unequal size.
const SHARES: usize = 1 << 12;
/// Tables are looked through in this part of an epoch, one after the other.
const SWEEP_MS: u64 = EPOCH_MS / 2;
/// So many taps are looked up together: their cache misses overlap, which more than halves what a tap costs.
const TOGETHER: usize = 16;

/// The taps seen in the last epochs, up to the entry that is being folded.
#[derive(Debug)]
pub struct Memory {
    /// The epoch of the last [`Memory::advance`]; none before the first.
    epoch: Option<u32>,
    /// By a share of the hashes each. Empty before the first [`Memory::advance`].
    tables: Vec<Table>,
    /// How many tables have been looked through in this epoch.
    swept: usize,
    /// Of a quality that uses all bits: they choose the table and the place in it.
    hasher: foldhash::quality::RandomState,
}

impl Default for Memory {
    fn default() -> Self {
        Memory {
            epoch: None,
            tables: Vec::new(),
            swept: TABLES,
            hasher: foldhash::quality::RandomState::default(),
        }
    }
}

impl Memory {
    /// The next entry stands at this log time; must be called before its taps are seen. Log time never goes back.
    pub fn advance(&mut self, log_ms: u64) {
        // In the year 8700 all epochs will be one.
        let epoch = u32::try_from(log_ms / EPOCH_MS).unwrap_or(u32::MAX);
        if self.epoch.is_none_or(|before| before < epoch) {
            if self.tables.is_empty() {
                self.tables.resize_with(TABLES, Table::default);
            } else {
                self.sweep(epoch, TABLES);
                self.swept = 0;
            }
            self.epoch = Some(epoch);
        }
        if self.swept < TABLES {
            let passed_ms = log_ms.saturating_sub(u64::from(epoch) * EPOCH_MS);
            let due = passed_ms.saturating_mul(TABLES as u64) / SWEEP_MS;
            self.sweep(epoch, usize::try_from(due).unwrap_or(TABLES));
        }
    }

    /// Forgets outdated clients in the tables up to this one. When it is done decides nothing: what is outdated is not
    /// seen either.
    fn sweep(&mut self, epoch: u32, until: usize) {
        while self.swept < until.min(TABLES) {
            let hasher = &self.hasher;
            self.tables[self.swept].sweep(epoch, |windows| hash(hasher, windows.owner()));
            self.swept += 1;
        }
    }

    /// Marks taps as seen, in their order, and keeps those that had not been seen before.
    pub fn retain_new(&mut self, taps: &mut Vec<Tap>) {
        let mut seen = Vec::with_capacity(taps.len());
        self.see_all(taps, |was_seen| seen.push(was_seen));
        if seen.contains(&true) {
            let mut seen = seen.into_iter();
            taps.retain(|_| seen.next() == Some(false));
        }
    }

    /// Marks taps as seen, in their order; `tell` learns of each whether it had been seen before.
    pub fn see_all(&mut self, taps: &[Tap], mut tell: impl FnMut(bool)) {
        let mut hashes = [0; TOGETHER];
        let mut homes = [(0, 0); TOGETHER];
        for taps in taps.chunks(TOGETHER) {
            let places = hashes.iter_mut().zip(&mut homes);
            for ((hash, home), tap) in places.zip(taps) {
                *hash = self.hash(tap.id);
                let table = table_of(*hash);
                *home = (table, self.tables.get(table).map_or(0, |of| of.home(*hash)));
            }
            // Nothing but loads, so that the processor has them all under way at once.
            let homes = homes.iter().take(taps.len());
            black_box(homes.fold(0, |sum, (table, home)| {
                sum ^ self.tables.get(*table).map_or(0, |of| of.fetch(*home))
            }));
            for (hash, tap) in hashes.iter().zip(taps) {
                tell(self.see_hashed(tap.id, *hash));
            }
        }
    }

    /// Marks a tap as seen at the log time of the last [`Memory::advance`]; whether it had been seen before.
    pub fn see(&mut self, id: TapId) -> bool {
        self.see_hashed(id, self.hash(id))
    }

    fn see_hashed(&mut self, id: TapId, hashed: u64) -> bool {
        let (Some(epoch), Some(table)) = (self.epoch, self.tables.get_mut(table_of(hashed))) else {
            debug_assert!(false, "a tap was seen at no time");
            return false;
        };
        let hasher = &self.hasher;
        let rehash = |windows: &Windows| hash(hasher, windows.owner());
        table.of(id, hashed, epoch, rehash).see(id.seq, epoch)
    }

    fn hash(&self, id: TapId) -> u64 {
        hash(&self.hasher, id)
    }

    /// How many clients and pages are held, for metrics.
    pub fn len(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Of a tap's client and page.
fn hash(hasher: &foldhash::quality::RandomState, id: TapId) -> u64 {
    hasher.hash_one((id.client, id.page))
}

/// The table of each share of the hashes: the last one has twice the share of the first one, so that they grow one after
/// the other and not all in the same moment.
static TABLE_OF: [u8; SHARES] = tables_of_shares();

const fn tables_of_shares() -> [u8; SHARES] {
    let mut tables = [0; SHARES];
    // Between geometric and linear there is little difference from one to two.
    let (mut share, mut table) = (0, 0_u8);
    while share < SHARES {
        // The sum of the shares up to and with this table, each TABLES + its number.
        let count = table as usize + 1;
        let until = count * TABLES + count * (count - 1) / 2;
        let all = TABLES * TABLES + TABLES * (TABLES - 1) / 2;
        if share * all >= until * SHARES {
            table += 1;
        }
        tables[share] = table;
        share += 1;
    }
    tables
}

/// By bits that a table itself does not look at first.
fn table_of(hash: u64) -> usize {
    let share = usize::try_from(hash >> 32).unwrap_or_default() % SHARES;
    usize::from(TABLE_OF[share])
}

/// From which log time on the log must be read for a memory that decides rightly about all entries from
/// `log_ms` on.
pub fn rebuild_from_ms(log_ms: u64) -> u64 {
    (log_ms / EPOCH_MS).saturating_sub(EPOCHS_BEFORE) * EPOCH_MS
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
