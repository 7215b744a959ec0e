//! From values to places on a plot, and the round values to write beside it.

/// An axis: linear from zero, or logarithmic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// From the first to the second.
    Linear(f64, f64),
    /// The same, both above zero: each doubling takes as much room.
    Logarithmic(f64, f64),
}

impl Scale {
    /// From zero to a round value not below `most`.
    pub(super) fn from_zero(most: f64) -> Scale {
        let step = round_step(most / 4.0);
        let steps = (most / step).ceil().max(1.0);
        Scale::Linear(0.0, steps * step)
    }

    /// Both ends as they are; for values that are all above zero.
    pub(super) fn logarithmic(least: f64, most: f64) -> Scale {
        let least = least.max(f64::MIN_POSITIVE);
        // A span of nothing would have no room.
        Scale::Logarithmic(least, most.max(least * 1.5))
    }

    /// Where a value is, from 0 to 1.
    pub(super) fn place(self, value: f64) -> f64 {
        let share = match self {
            Scale::Linear(from, to) => (value - from) / (to - from),
            Scale::Logarithmic(from, to) => {
                (value.max(f64::MIN_POSITIVE) / from).ln() / (to / from).ln()
            }
        };
        if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// Round values to write beside the axis, at most some seven.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self {
            Scale::Linear(from, to) => {
                let step = round_step((to - from) / 4.0);
                multiples(step, from, to)
            }
            Scale::Logarithmic(from, to) => {
                let dense = decades(from, to, &[1.0, 2.0, 5.0]);
                if dense.len() <= 7 {
                    return dense;
                }
                decades(from, to, &[1.0])
            }
        }
    }
}

/// Seconds to write below a course of so many: every 10 s, every minute.
pub(super) fn second_ticks(from: f64, to: f64) -> Vec<f64> {
    const STEPS: [f64; 11] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0,
    ];
    let step = STEPS.iter().find(|step| (to - from) / **step <= 6.0);
    let step = step
        .copied()
        .unwrap_or_else(|| round_step((to - from) / 4.0));
    multiples(step, from, to)
}

/// A second as `0:42`, or `1:02:03` where it is that late.
pub(super) fn clock(second: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a run takes a day at the most, and begins at zero"
    )]
    let second = second.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (second / 3600, second / 60 % 60, second % 60);
    if hours > 0 {
        return format!("{hours}:{minutes:02}:{seconds:02}");
    }
    format!("{minutes}:{seconds:02}")
}

/// The round number (1, 2 or 5 times a power of ten) next above.
fn round_step(rough: f64) -> f64 {
    if !(rough.is_finite() && rough > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * power);
    let fits = step.into_iter().find(|step| *step >= rough * 0.999);
    fits.unwrap_or(10.0 * power)
}

fn multiples(step: f64, from: f64, to: f64) -> Vec<f64> {
    let first = (from / step).ceil();
    (0..=12)
        .map(|index| (first + f64::from(index)) * step)
        .take_while(|value| *value <= to * 1.0001)
        .collect()
}

fn decades(from: f64, to: f64, digits: &[f64]) -> Vec<f64> {
    (-4..7)
        .flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)))
        .filter(|value| (from..=to).contains(value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_end_at_round_values() {
        let scale = Scale::from_zero(366.6);
        assert_eq!(scale, Scale::Linear(0.0, 400.0));
        assert_eq!(scale.ticks(), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(scale.place(100.0), 0.25);
        assert_eq!(scale.place(1000.0), 1.0);
        assert_eq!(Scale::from_zero(0.0), Scale::Linear(0.0, 1.0));
        assert_eq!(Scale::from_zero(5000.0).ticks().last(), Some(&6000.0));
        for most in [0.003, 0.31, 1.0, 7.0, 99.0, 1234.0, 5e6] {
            let ticks = Scale::from_zero(most).ticks();
            assert!((2..=7).contains(&ticks.len()), "{most}: {ticks:?}");
            assert!(
                ticks.last().copied() >= Some(most * 0.999),
                "{most}: {ticks:?}"
            );
        }
    }

    #[test]
    fn logarithmic_axes_give_each_doubling_as_much() {
        let scale = Scale::logarithmic(1.0, 1000.0);
        assert!((scale.place(10.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(scale.place(0.0), 0.0);
        assert_eq!(Scale::logarithmic(10.0, 60.0).ticks(), [10.0, 20.0, 50.0]);
        assert_eq!(Scale::logarithmic(5.0, 5.0).place(5.0), 0.0);
    }

    #[test]
    fn clocks() {
        assert_eq!(clock(42.0), "0:42");
        assert_eq!(clock(600.0), "10:00");
        assert_eq!(clock(3723.0), "1:02:03");
        assert_eq!(second_ticks(0.0, 97.0), [0.0, 30.0, 60.0, 90.0]);
        assert!(second_ticks(0.0, 86_400.0).len() <= 8);
    }
}
