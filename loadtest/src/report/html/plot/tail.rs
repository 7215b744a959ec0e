//! Distributions side by side by their percentiles, the tail drawn out: each further nine of 90, 99, 99.9 per cent
//! takes as much room, so that the slowest in ten thousand are seen as well as the half.

use super::scale::Scale;
use super::{Line, WAIT_MIN, colour, frame, grid, legend, path, svg};
use crate::report::number::{float, grouped};
use crate::report::{Distribution, words};
use maud::{Markup, html};

/// Beyond, a run of an hour has no waits.
const NINES_MAX: f64 = 5.0;

/// The figure; nothing where there is no distribution.
pub(in super::super) fn draw(id: &str, title: &str, distributions: &[Distribution]) -> Markup {
    let measured = distributions.iter().filter(|one| one.count > 0);
    let lines: Vec<Line> = measured.map(line).collect();
    if lines.is_empty() {
        return html! {};
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let nines = points().map(|(nines, _)| *nines).fold(1.0, f64::max);
    let x = Scale::Linear(0.0, nines);
    let most = points().map(|(_, wait)| *wait).fold(0.0, f64::max);
    let least = points()
        .map(|(_, wait)| wait.max(WAIT_MIN))
        .fold(f64::INFINITY, f64::min);
    let y = Scale::logarithmic(least, most * 1.1);
    let x_labels: Vec<_> = [
        (0.301, "50 %"),
        (1.0, "90 %"),
        (2.0, "99 %"),
        (3.0, "99.9 %"),
        (4.0, "99.99 %"),
    ]
    .into_iter()
    .filter(|(at, _)| *at <= nines)
    .map(|(at, label)| (at, label.to_owned()))
    .collect();
    let y_labels: Vec<_> = y
        .ticks()
        .iter()
        .map(|value| (*value, grouped(*value)))
        .collect();
    let inside = html! {
        (grid(y, y.ticks().into_iter()))
        @for line in &lines {
            path class=(line.class()) d=(path(&line.points, x, y, f64::INFINITY)) {}
        }
    };
    let said = distributions.iter().map(|one| {
        let [p50, _, _, p99, p999, max] = one.percentiles.map(grouped);
        let name = words::wait(&one.name);
        format!("{name}: 50 % within {p50} ms, 99 % within {p99}, 99.9 % within {p999}, all within {max}.")
    });
    let description = said.collect::<Vec<_>>().join(" ");
    html! {
        figure.chart {
            figcaption {
                h3 { (title) }
                (legend(&lines, false))
            }
            (frame(y, &y_labels, x, &x_labels, &svg(id, title, &description, &inside)))
            p.note { "To the right: the slower ones. At 99 %, one tap of a hundred took longer." }
        }
    }
}

/// How many nines, and the wait that so many do not exceed.
fn line(distribution: &Distribution) -> Line {
    let count = float(distribution.count);
    // The longest wait is where one of all is left.
    let last = count.log10().min(NINES_MAX);
    let mut below = 0.0;
    let mut points = Vec::new();
    for (bound, waits) in &distribution.buckets {
        below += float(*waits);
        let left = (count - below) / count;
        let nines = if left > 0.0 { -left.log10() } else { last };
        let bound = bound.min(distribution.percentiles[5]);
        if points.is_empty() {
            points.push((0.0, bound));
        }
        points.push((nines.min(last), bound));
    }
    Line {
        label: words::wait(&distribution.name).to_owned(),
        colour: colour(&distribution.name),
        dashed: matches!(distribution.name.as_str(), "ack" | "join"),
        points,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_line_passes_through_the_percentiles() {
        for distribution in &sample::run(60).distributions {
            let line = line(distribution);
            for (nines, percentile) in [(1.0, 1), (2.0, 3)] {
                let (_, wait) = line.points.iter().find(|(at, _)| *at >= nines).unwrap();
                let ratio = wait / distribution.percentiles[percentile];
                assert!((0.999..1.05).contains(&ratio), "{nines}: {ratio}");
            }
            assert_eq!(line.points.last().unwrap().1, distribution.percentiles[5]);
            assert!(
                line.points
                    .is_sorted_by(|one, next| one.0 <= next.0 && one.1 <= next.1)
            );
        }
    }
}
