//! From waits to what a report keeps of them: percentiles, and buckets fine enough to draw and to compare.

use super::Distribution;
use super::number::float;
use crate::waits::{milliseconds, quantile_ms};
use hdrhistogram::Histogram;

/// Buckets per doubling: each bound is 4.4 % above the one before, finer than two runs ever agree, and a run from a
/// tenth of a millisecond to a minute has at most some three hundred.
pub const BUCKETS_PER_DOUBLING: f64 = 16.0;
/// What [`Distribution::percentiles`] are of, in percent.
pub const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 100.0];

impl Distribution {
    /// Of waits in microseconds; none if there were none.
    pub fn of(name: &str, waits_us: &Histogram<u64>) -> Option<Distribution> {
        if waits_us.is_empty() {
            return None;
        }
        let mut buckets: Vec<(f64, u64)> = Vec::new();
        for recorded in waits_us.iter_recorded() {
            let bound = bound_above(milliseconds(recorded.value_iterated_to()));
            let count = recorded.count_since_last_iteration();
            match buckets.last_mut() {
                #[expect(clippy::float_cmp, reason = "the same bound is the same computation")]
                Some((last, so_far)) if *last == bound => *so_far += count,
                _ => buckets.push((bound, count)),
            }
        }
        let at = |percent: f64| quantile_ms(waits_us, percent / 100.0);
        Some(Distribution {
            name: name.to_owned(),
            count: waits_us.len(),
            percentiles: PERCENTILES.map(at),
            buckets,
        })
    }

    /// The wait in milliseconds that so many waits, counted from the shortest, do not exceed; within a bucket as if
    /// its waits were spread evenly.
    pub fn at_rank(&self, rank: f64) -> f64 {
        let mut below = 0.0;
        let mut lower = 0.0;
        for (upper, count) in &self.buckets {
            let count = float(*count);
            // Nothing waited longer than the longest wait, which the last bucket may reach beyond.
            let upper = upper.min(self.percentiles[5]);
            if below + count >= rank && count > 0.0 {
                // A bucket reaches down a sixteenth of a doubling at the most; empty ones were left out.
                let from = f64::max(lower, upper / 2_f64.powf(1.0 / BUCKETS_PER_DOUBLING));
                return from + (upper - from) * ((rank - below) / count).clamp(0.0, 1.0);
            }
            below += count;
            lower = upper;
        }
        lower
    }
}

/// The bound of the bucket that a wait falls into; both in milliseconds.
fn bound_above(wait_ms: f64) -> f64 {
    // Below a microsecond nothing is measured.
    let wait_ms = wait_ms.max(0.001);
    let step = (wait_ms.log2() * BUCKETS_PER_DOUBLING).ceil();
    let bound = 2_f64.powf(step / BUCKETS_PER_DOUBLING);
    // Six digits are enough, and keep the JSON short.
    let digits = 10_f64.powf(5.0 - bound.log10().floor());
    (bound * digits).ceil() / digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(waits_us: impl IntoIterator<Item = u64>) -> Distribution {
        let mut waits = Histogram::new(3).unwrap();
        for wait in waits_us {
            waits.record(wait).unwrap();
        }
        Distribution::of("ack", &waits).unwrap()
    }

    #[test]
    fn percentiles_are_those_of_the_waits() {
        let spread = of((1..=100_000).map(|wait| wait * 10));
        assert_eq!(spread.count, 100_000);
        for (percent, found) in PERCENTILES.iter().zip(spread.percentiles) {
            let wanted = percent * 10.0;
            assert!((found / wanted - 1.0).abs() < 0.002, "{percent} %: {found}");
        }
        assert!(Distribution::of("ack", &Histogram::new(3).unwrap()).is_none());
    }

    #[test]
    fn buckets_hold_all_waits_and_are_fine() {
        let spread = of((1..=100_000).map(|wait| wait * 10));
        let sum: u64 = spread.buckets.iter().map(|(_, count)| count).sum();
        assert_eq!(sum, 100_000);
        for pair in spread.buckets.windows(2) {
            let growth = pair[1].0 / pair[0].0;
            assert!(growth > 1.0, "{pair:?}");
            assert!(pair[0].0 < 1.0 || growth < 1.05, "{pair:?}");
        }
        // A long tail does not make many of them.
        assert!(of([100, 100, 60_000_000]).buckets.len() == 2);
    }

    #[test]
    fn ranks_are_found_within_buckets() {
        let spread = of((1..=100_000).map(|wait| wait * 10));
        for rank in [500.0, 50_000.0, 99_000.0, 99_900.0] {
            let wanted = rank / 100.0;
            let found = spread.at_rank(rank);
            assert!(
                (found / wanted - 1.0).abs() < 0.01,
                "{rank}: {found}, not {wanted}"
            );
        }
        let beyond = spread.at_rank(200_000.0);
        assert!((999.0..1002.0).contains(&beyond), "{beyond}");
    }
}
