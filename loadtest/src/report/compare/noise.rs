//! How much a figure varies by itself, so that what is within it is not taken for a change.
//!
//! With three or more reports on a side (or two on each) the spread between them says it: Student's t with the pooled
//! deviation. With fewer, it is put together from what one run shows of itself (order statistics of its distributions,
//! blocks of its seconds) and from [`between_runs`], what repetitions of the same run differ by beyond that.
//!
//! All bounds are such that 99 of 100 comparisons of the same with the same stay within: a table has some fifteen
//! rows, and one of them should not cry wolf each time.

use super::figures::Varies;
use crate::report::Distribution;
use crate::report::number::float;

/// 99 of 100 values of a normal distribution are within so many deviations.
const Z: f64 = 2.576;
/// The same by Student, for 2, 3, … degrees of freedom.
const T: [f64; 14] = [
    9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977,
    2.947,
];
/// Seconds that are taken together: those beside each other share their troubles, and count as one observation.
const BLOCK: usize = 5;
/// Fewer blocks say nothing about their spread.
const BLOCKS_MIN: usize = 4;

/// One side's values of a figure, and what a single report says of its own error.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Side {
    /// A value for each report that has it.
    pub(super) values: Vec<f64>,
    /// The standard error of the first one as its report shows it, if it does.
    pub(super) own_error: Option<f64>,
}

impl Side {
    pub(super) fn mean(&self) -> f64 {
        mean(&self.values)
    }
}

/// By how much the means of two sides may differ without anything having changed.
pub(super) fn noise(before: &Side, after: &Side, varies: Varies) -> f64 {
    if varies == Varies::Never {
        return 0.0;
    }
    if let Some(noise) = by_repetition(&before.values, &after.values) {
        return noise;
    }
    let within = |side: &Side| side.own_error.unwrap_or(0.0).powi(2);
    // If nothing has changed, both are the same, and what lies between them is the best guess of it.
    let middle = f64::midpoint(before.mean(), after.mean()).abs();
    let between = 2.0 * (between_runs(varies) * middle).powi(2);
    let is_count = varies == Varies::Count;
    // Rare events scatter by the root of their number.
    let counted = if is_count { 2.0 * middle } else { 0.0 };
    let noise = Z * (within(before) + within(after) + between + counted).sqrt();
    // A count of zero does not promise that the next one is, too.
    noise.max(if is_count { 1.0 } else { 0.0 })
}

/// The spread between repetitions, where there are enough of them to have one.
fn by_repetition(before: &[f64], after: &[f64]) -> Option<f64> {
    let freedom = (before.len() + after.len()).checked_sub(2)?;
    let t = match freedom {
        0 | 1 => return None,
        many => T.get(many - 2).copied().unwrap_or(T[T.len() - 1]),
    };
    let squares = squares(before) + squares(after);
    let pooled = squares / float(freedom as u64);
    let share = 1.0 / float(before.len() as u64) + 1.0 / float(after.len() as u64);
    Some(t * (pooled * share).sqrt())
}

/// What repetitions of the same run differ by: the relative standard deviation.
///
/// Seen in fourteen runs of `run hall --phones 400 --seconds 20` on a machine with two cores that compiled meanwhile;
/// the two in which a threshold was crossed are left out. Rates are taken to vary as CPU time does, which bounds them. A
/// machine that does nothing else varies less: what it can tell apart beyond this, several reports a side show.
pub(super) fn between_runs(varies: Varies) -> f64 {
    match varies {
        Varies::Never | Varies::Count => 0.0,
        Varies::Percentile("ack", _) => 0.05,
        Varies::Percentile("tick", _) => 0.02,
        // Joins, and what is beyond the window: a few milliseconds, in which whoever else has the core decides.
        Varies::Percentile(..) => 0.37,
        Varies::Most => 0.57,
        Varies::Cpu | Varies::Rate => 0.08,
        Varies::Memory => 0.01,
        // Both of a pair meet the same machine, and the pairs of a report show what is left.
        Varies::Pairs(_) => 0.0,
    }
}

/// The standard error of a percentile: half the distance between the values one deviation of the rank below and above.
pub(super) fn of_percentile(distribution: &Distribution, share: f64) -> f64 {
    let count = float(distribution.count);
    let rank = count * share;
    let deviation = (count * share * (1.0 - share)).sqrt();
    let above = distribution.at_rank((rank + deviation).min(count));
    let below = distribution.at_rank((rank - deviation).max(0.0));
    (above - below) / 2.0
}

/// The standard error of the median of repeats, as large as Student's t makes it beside the normal distribution, where
/// there are three or more.
pub(super) fn of_median(values: &[f64]) -> Option<f64> {
    /// By how much a median scatters more than a mean.
    const MEDIAN: f64 = 1.253;
    let t = T[values.len().checked_sub(3)?.min(T.len() - 1)];
    Some(of_repeats(values) * MEDIAN * t / Z)
}

/// The mean over seconds and its standard error, from the spread of blocks of them; none if there are too few.
pub(super) fn of_seconds(values: &[f64]) -> Option<(f64, f64)> {
    let blocks: Vec<f64> = values.chunks_exact(BLOCK).map(mean).collect();
    (blocks.len() >= BLOCKS_MIN).then(|| (mean(&blocks), of_repeats(&blocks)))
}

/// The standard error of the mean of repeats; zero if there is but one.
pub(super) fn of_repeats(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let count = float(values.len() as u64);
    (squares(values) / (count - 1.0) / count).sqrt()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.iter().sum::<f64>() / float(values.len() as u64)
}

/// The sum of the squared distances from the mean.
fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn side(values: &[f64]) -> Side {
        Side {
            values: values.to_vec(),
            own_error: None,
        }
    }

    fn near(found: f64, wanted: f64) {
        assert!(
            (found / wanted - 1.0).abs() < 0.001,
            "{found}, not {wanted}"
        );
    }

    #[test]
    fn repetitions_say_what_is_noise() {
        // Deviations 1 and 1, so pooled 1; 4 degrees of freedom; a third and a third.
        let noise_of =
            |before: &[f64], after: &[f64]| noise(&side(before), &side(after), Varies::Cpu);
        near(
            noise_of(&[9.0, 10.0, 11.0], &[19.0, 20.0, 21.0]),
            4.604 * (2.0_f64 / 3.0).sqrt(),
        );
        // One beside three: the three say it.
        near(
            noise_of(&[9.0, 10.0, 11.0], &[20.0]),
            9.925 * (4.0_f64 / 3.0).sqrt(),
        );
        // Many: hardly more than the normal distribution.
        let many: Vec<f64> = (0..20).map(f64::from).collect();
        let pooled = 35.0_f64.sqrt();
        near(noise_of(&many, &many), 2.947 * pooled * 0.1_f64.sqrt());
    }

    #[test]
    fn single_runs_have_the_noise_of_their_kind() {
        near(
            noise(&side(&[10.0]), &side(&[10.0]), Varies::Cpu),
            2.576 * 0.8 * 2.0_f64.sqrt(),
        );
        near(
            noise(&side(&[100.0]), &side(&[44.0]), Varies::Count),
            2.576 * 12.0,
        );
        assert_eq!(noise(&side(&[0.0]), &side(&[0.0]), Varies::Count), 1.0);
        assert_eq!(noise(&side(&[3.0]), &side(&[0.0]), Varies::Never), 0.0);
        let own = Side {
            values: vec![10.0],
            own_error: Some(0.6),
        };
        near(noise(&own, &own, Varies::Cpu), 2.576 * 1.0 * 2.0_f64.sqrt());
    }

    /// The error from one distribution is what samples of the same differ by.
    #[test]
    fn percentiles_have_the_error_that_samples_show() {
        let mut random = StdRng::seed_from_u64(7);
        let mut sample = || {
            let mut waits = Histogram::<u64>::new(3).unwrap();
            for _ in 0..10_000 {
                let wait = 20_000.0 * -random.random::<f64>().max(1e-12).ln();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a small positive wait"
                )]
                waits.record(wait as u64).unwrap();
            }
            Distribution::of("ack", &waits).unwrap()
        };
        let samples: Vec<Distribution> = (0..60).map(|_| sample()).collect();
        let p99s: Vec<f64> = samples.iter().map(|one| one.percentiles[3]).collect();
        let seen = of_repeats(&p99s) * 60.0_f64.sqrt();
        let said = mean(
            &samples
                .iter()
                .map(|one| of_percentile(one, 0.99))
                .collect::<Vec<_>>(),
        );
        // Of an exponential distribution it is known: the mean times the root of p / (1 - p) / n.
        let known = 20.0 * (0.99_f64 / 0.01 / 10_000.0).sqrt();
        assert!((said / known - 1.0).abs() < 0.15, "{said}, not {known}");
        assert!((seen / known - 1.0).abs() < 0.25, "{seen}, not {known}");
    }

    #[test]
    fn few_repeats_are_trusted_less() {
        let error = of_median(&[9.0, 10.0, 11.0]).unwrap();
        near(error, (1.0_f64 / 3.0).sqrt() * 1.253 * 9.925 / 2.576);
        assert_eq!(of_median(&[9.0, 10.0]), None);
    }

    #[test]
    fn seconds_beside_each_other_are_not_independent() {
        // Blocks of 1 and 3 in turn: mean 2, deviation about 1.03, ten blocks.
        let values: Vec<f64> = (0..50)
            .map(|second| f64::from(second / 5 % 2 * 2 + 1))
            .collect();
        let (mean, error) = of_seconds(&values).unwrap();
        near(mean, 2.0);
        near(error, (10.0_f64 / 9.0 / 10.0).sqrt());
        assert_eq!(of_seconds(&values[..19]), None);
    }
}
