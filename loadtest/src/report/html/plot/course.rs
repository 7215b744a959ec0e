//! What happened second by second: lines over time, with what lies outside the measured window shaded.

use super::scale::{Scale, clock, second_ticks};
use super::thin::{Keep, thin};
use super::{HEIGHT, Line, WIDTH, frame, grid, legend, path, short, svg};
use crate::report::number::{float, grouped};
use maud::{Markup, html};

/// More points than a phone or a printer shows beside each other.
const POINTS_MAX: usize = 300;

/// Lines over time.
pub(in super::super) struct Course<'c> {
    /// Unique in the page.
    pub(in super::super) id: &'c str,
    /// Above it.
    pub(in super::super) title: &'c str,
    /// Behind each number, such as " ms".
    pub(in super::super) unit: &'c str,
    /// How neighbours become one point in a long run.
    pub(in super::super) keep: Keep,
    /// The lines.
    pub(in super::super) lines: Vec<Line>,
    /// The measured window, in seconds from zero.
    pub(in super::super) window: (f64, f64),
    /// To which second it goes.
    pub(in super::super) until: f64,
}

impl Course<'_> {
    /// The figure; nothing where there are no points.
    pub(in super::super) fn draw(mut self) -> Markup {
        let mut each = 1;
        for line in &mut self.lines {
            let (points, of) = thin(&line.points, POINTS_MAX, self.keep);
            line.points = points;
            each = each.max(of);
        }
        self.lines.retain(|line| !line.points.is_empty());
        if self.lines.is_empty() {
            return html! {};
        }
        let x = Scale::Linear(0.0, self.until.max(1.0));
        let values = self.lines.iter().flat_map(|line| &line.points);
        let most = values.map(|(_, value)| *value).fold(0.0, f64::max);
        let y = Scale::from_zero(most);
        let seconds = second_ticks(0.0, self.until);
        let x_labels: Vec<_> = seconds.iter().map(|at| (*at, clock(*at))).collect();
        let y_labels: Vec<_> = y
            .ticks()
            .iter()
            .map(|value| (*value, grouped(*value)))
            .collect();
        let drawing = self.drawing(x, y, each);
        html! {
            figure.chart {
                figcaption {
                    h3 { (self.title) }
                    @if self.lines.len() > 1 { (legend(&self.lines, self.window.0 > 0.0)) }
                }
                (frame(y, &y_labels, x, &x_labels, &drawing))
                @if each > 1 {
                    p.note { (thinned(self.keep, each)) }
                }
            }
        }
    }

    fn drawing(&self, x: Scale, y: Scale, each: usize) -> Markup {
        let gap = gap(each);
        let inside = html! {
            (self.shade(x))
            (grid(y, y.ticks().into_iter()))
            @for line in &self.lines {
                path class=(line.class()) d=(path(&line.points, x, y, gap)) {}
            }
        };
        svg(self.id, self.title, &self.description(), &inside)
    }

    /// Arrival and warm-up before the window, answers that were still missing after it.
    fn shade(&self, x: Scale) -> Markup {
        let (from, until) = self.window;
        let span = |left: f64, right: f64| {
            let (left, right) = (x.place(left) * WIDTH, x.place(right) * WIDTH);
            html! {
                rect.outside x=(short(left)) y="0" width=(short((right - left).max(0.0)))
                    height=(HEIGHT) {}
            }
        };
        html! {
            @if from > 0.0 { (span(0.0, from)) }
            @if until < self.until && until > 0.0 { (span(until, self.until)) }
        }
    }

    /// What the lines show, in words.
    fn description(&self) -> String {
        let (from, until) = self.window;
        let said = self.lines.iter().map(|line| {
            let inside = line
                .points
                .iter()
                .filter(|(at, _)| (from..until).contains(at));
            let values: Vec<f64> = inside.map(|(_, value)| *value).collect();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if values.is_empty() {
                return format!("{}: nothing in the measured window.", line.label);
            }
            let (least, most, unit) = (grouped(least), grouped(most), self.unit);
            format!(
                "{}: between {least}{unit} and {most}{unit} in the measured window.",
                line.label
            )
        });
        let said: Vec<String> = said.collect();
        format!(
            "Over time, measured from {} to {}. {}",
            clock(from),
            clock(until),
            said.join(" ")
        )
    }
}

/// How far apart neighbours may be: a second is now and then looked at a little late, and then missing.
fn gap(each: usize) -> f64 {
    float(each as u64) * 3.5
}

fn thinned(keep: Keep, each: usize) -> String {
    match keep {
        Keep::Most => format!("Each point is the worst of {each} seconds."),
        Keep::Mean => format!("Each point is the mean of {each} seconds."),
    }
}

/// A line over time in the cell of a table: from zero to its own most, without labels.
pub(in super::super) fn spark(
    id: &str,
    description: &str,
    points: &[(f64, f64)],
    keep: Keep,
) -> Markup {
    /// A cell is narrow.
    const SPARK_POINTS_MAX: usize = 100;
    let (points, each) = thin(points, SPARK_POINTS_MAX, keep);
    let (Some((from, _)), Some((until, _))) = (points.first(), points.last()) else {
        return html! {};
    };
    let x = Scale::Linear(*from, until.max(from + 1.0));
    let most = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let y = Scale::Linear(0.0, if most > 0.0 { most } else { 1.0 });
    let inside = html! {
        path.filled d={ (path(&points, x, y, f64::INFINITY)) "V" (HEIGHT) "H0Z" } {}
        path.line.c1 d=(path(&points, x, y, gap(each))) {}
    };
    html! { div.spark { (svg(id, description, "From zero; the line ends where the run does.", &inside)) } }
}
