//! A distribution as bars: how many waited how long, each doubling of the wait as wide as the next.

use super::scale::Scale;
use super::{HEIGHT, WAIT_MIN, WIDTH, colour, frame, short, svg};
use crate::report::Distribution;
use crate::report::number::{float, grouped, whole};
use maud::{Markup, html};
use std::collections::BTreeMap;

/// More bars cannot be told apart on a phone.
const BARS_MAX: usize = 64;

/// The figure.
pub(in super::super) fn draw(id: &str, title: &str, distribution: &Distribution) -> Markup {
    let (bars, per_doubling) = bars(distribution);
    let (Some((first, _)), Some((last, _))) = (bars.first(), bars.last()) else {
        return html! {};
    };
    let edge = |step: i32| 2_f64.powf(f64::from(step) / f64::from(per_doubling));
    let x = Scale::logarithmic(edge(first - 1), edge(*last));
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or(1);
    let y = Scale::Linear(0.0, float(most));
    let [p50, _, _, p99, _, max] = distribution.percentiles;
    let inside = html! {
        @for (step, count) in &bars {
            @let left = x.place(edge(step - 1)) * WIDTH;
            @let right = x.place(edge(*step)) * WIDTH;
            @let height = y.place(float(*count)) * HEIGHT;
            rect class={ "bar c" (colour(&distribution.name)) } x=(short(left)) y=(short(HEIGHT - height)) height=(short(height))
                width=(short((right - left) * 0.92)) {}
        }
        @for percentile in [p50, p99] {
            path.mark d={ "M" (short(x.place(percentile) * WIDTH)) " 0V" (HEIGHT) } {}
        }
    };
    let description = format!(
        "{} waits: half of them up to {} ms, 99 of 100 up to {} ms, the longest {} ms.",
        whole(distribution.count),
        grouped(p50),
        grouped(p99),
        grouped(max)
    );
    let x_labels: Vec<_> = x
        .ticks()
        .iter()
        .map(|value| (*value, grouped(*value)))
        .collect();
    html! {
        figure.chart.small {
            figcaption {
                h3 { (title) }
                p.note { (whole(distribution.count)) " waits, in ms; lines at 50 and 99 %" }
            }
            (frame(y, &[], x, &x_labels, &svg(id, title, &description, &inside)))
            p.marks {
                span { "50 %: " b { (grouped(p50)) " ms" } }
                span { "99 %: " b { (grouped(p99)) " ms" } }
                span { "longest: " b { (grouped(max)) " ms" } }
            }
        }
    }
}

/// Steps of a doubling's fraction with their counts, as fine as there is room for; and the fraction.
fn bars(distribution: &Distribution) -> (Vec<(i32, u64)>, i32) {
    for per_doubling in [16, 8, 4, 2, 1] {
        let mut bars: BTreeMap<i32, u64> = BTreeMap::new();
        for (bound, count) in &distribution.buckets {
            // Bounds are rounded to six digits, which must not push them into the next bar.
            let step = (bound.max(WAIT_MIN).log2() * f64::from(per_doubling) - 0.01).ceil();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "sixteen steps for each of some sixty doublings at the most"
            )]
            let step = step as i32;
            *bars.entry(step).or_default() += count;
        }
        let span = match (bars.keys().next(), bars.keys().next_back()) {
            (Some(first), Some(last)) => last.abs_diff(*first) as usize + 1,
            _ => 0,
        };
        if span <= BARS_MAX || per_doubling == 1 {
            return (bars.into_iter().collect(), per_doubling);
        }
    }
    (Vec::new(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn bars_hold_all_waits_and_are_few() {
        for distribution in &sample::run(60).distributions {
            let (bars, _) = bars(distribution);
            let sum: u64 = bars.iter().map(|(_, count)| count).sum();
            assert_eq!(sum, distribution.count);
            let span = bars.last().unwrap().0 - bars[0].0;
            assert!((4..=64).contains(&span), "{span}");
        }
    }

    #[test]
    fn a_single_wait_has_a_bar() {
        let one = Distribution {
            count: 1,
            percentiles: [12.0; 6],
            buckets: vec![(12.0, 1)],
            ..Distribution::default()
        };
        let page = draw("x", "X", &one).into_string();
        assert!(
            page.contains("class=\"bar c4\"") && !page.contains("NaN"),
            "{page}"
        );
    }
}
