//! Plots: an SVG that is stretched to whatever room there is, with its labels as text of the page around it, so that
//! they are as large on a phone as on a desk. Colours come from the style sheet, and so follow light and dark.

mod scale;
pub(super) mod thin;
pub(super) mod course;
pub(super) mod bars;
pub(super) mod tail;

use maud::{Markup, html};
use scale::Scale;
use std::fmt::Write;

/// The size of each SVG before it is stretched.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 300.0;

/// Waits below a tenth of a millisecond are drawn as one: nobody asks how far below, and decades of nothing would take
/// the room of what matters.
const WAIT_MIN: f64 = 0.1;

/// One line.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// For the legend.
    pub(super) label: String,
    /// Which of the style sheet's colours: 1 to 4.
    pub(super) colour: u8,
    /// Dashed, so that lines differ without colours, too.
    pub(super) dashed: bool,
    /// x and y.
    pub(super) points: Vec<(f64, f64)>,
}

impl Line {
    fn class(&self) -> String {
        let dash = if self.dashed { " dashed" } else { "" };
        format!("line c{}{dash}", self.colour)
    }
}

/// The colour of a distribution: the same wherever it is drawn.
fn colour(distribution: &str) -> u8 {
    match distribution {
        "tick" => 1,
        "ack" => 2,
        "join" => 3,
        _ => 4,
    }
}

/// A value and the text that stands for it.
type Label = (f64, String);

/// A plot's frame: labels left and below, the drawing between them.
fn frame(y: Scale, y_labels: &[Label], x: Scale, x_labels: &[Label], drawing: &Markup) -> Markup {
    html! {
        div.plot {
            div.y aria-hidden="true" {
                @for (value, label) in y_labels {
                    span style={ "bottom:" (percent(y.place(*value))) } { (label) }
                }
            }
            (drawing)
            div.x aria-hidden="true" {
                @for (value, label) in x_labels {
                    span style={ "left:" (percent(x.place(*value))) } { (label) }
                }
            }
        }
    }
}

/// The drawing itself, with what a screen reader says in its place.
fn svg(id: &str, title: &str, description: &str, inside: &Markup) -> Markup {
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
            aria-labelledby={ (id) "-title " (id) "-desc" } {
            title id={ (id) "-title" } { (title) }
            desc id={ (id) "-desc" } { (description) }
            (inside)
        }
    }
}

/// Lines across, at the labels.
fn grid(y: Scale, values: impl Iterator<Item = f64>) -> Markup {
    let mut path = String::new();
    for value in values {
        let _ = write!(path, "M0 {}H{WIDTH}", short(down(y, value)));
    }
    html! { path.grid d=(path) {} }
}

/// What the lines are; and the shade, where there is one.
fn legend(lines: &[Line], shaded: bool) -> Markup {
    html! {
        ul.legend {
            @for line in lines {
                li {
                    svg.sample viewBox="0 0 28 8" aria-hidden="true" {
                        path class=(line.class()) d="M1 4H27" {}
                    }
                    (line.label)
                }
            }
            @if shaded { li { span.swatch {} "outside the measured window" } }
        }
    }
}

/// The path through points, broken where the next one is farther than `gap` away.
fn path(points: &[(f64, f64)], x: Scale, y: Scale, gap: f64) -> String {
    let mut path = String::new();
    let mut before: Option<f64> = None;
    for (at, value) in points {
        let joined = before.is_some_and(|before| at - before <= gap);
        let command = if joined { 'L' } else { 'M' };
        let _ = write!(
            path,
            "{command}{} {}",
            short(x.place(*at) * WIDTH),
            short(down(y, *value))
        );
        // A point by itself shows as a dot, by the round end of its line.
        path.push_str(if joined { "" } else { "h0" });
        before = Some(*at);
    }
    path
}

/// From the top, as SVG counts.
fn down(y: Scale, value: f64) -> f64 {
    (1.0 - y.place(value)) * HEIGHT
}

/// A tenth of a unit is less than a dot on any screen.
fn short(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn percent(share: f64) -> String {
    format!("{}%", short(share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_break_at_gaps_and_show_lone_points() {
        let x = Scale::Linear(0.0, 10.0);
        let y = Scale::Linear(0.0, 3.0);
        let points = [(0.0, 0.0), (1.0, 3.0), (5.0, 1.5)];
        assert_eq!(path(&points, x, y, 1.0), "M0 300h0L100 0M500 150h0");
        assert_eq!(short(0.04), "0");
        assert_eq!(short(99.96), "100");
    }
}
