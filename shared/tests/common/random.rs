//! The only source of chance: SplitMix64, written out here so that a seed means the same history for ever.

/// A seeded stream of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` up to and without `high`.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low)
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % length as u64).expect("an index")
    }

    pub(crate) fn per_mille(&mut self, chance: u64) -> bool {
        self.next() % 1000 < chance
    }

    /// Mostly near `low`, seldom near `high`: how delays are.
    pub(crate) fn delay(&mut self, low: u64, high: u64) -> u64 {
        let part = self.next() % 1024;
        low + (high - low) * (part * part / 1024 * part / 1024) / 1024
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }
}
