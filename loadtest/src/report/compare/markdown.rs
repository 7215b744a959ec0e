//! A comparison as a Markdown table, to be pasted into a pull request.

use super::{Comparison, Row, Verdict};
use crate::report::number::{bytes, grouped};
use std::fmt::Write;

impl Comparison {
    /// The table, with what speaks against it above and where the noise is from below.
    pub fn markdown(&self) -> String {
        let mut text = format!("### `{}`: {}\n\n", self.command, self.summary());
        let _ = writeln!(
            text,
            "Before: {}. After: {}.\n",
            listed(&self.before),
            listed(&self.after)
        );
        for warning in &self.warnings {
            let _ = writeln!(text, "> **Careful:** {}\n", escaped(warning));
        }
        if !self.differences.is_empty() {
            let differences: Vec<String> =
                self.differences.iter().map(|one| escaped(one)).collect();
            let _ = writeln!(text, "Not the same: {}.\n", differences.join("; "));
        }
        text.push_str("| figure | before | after | change | noise | verdict |\n");
        text.push_str("|---|---:|---:|---:|---:|---|\n");
        for row in &self.rows {
            text.push_str(&line(row));
        }
        let _ = writeln!(text, "\n{}", self.about_noise());
        text
    }

    fn summary(&self) -> String {
        format!(
            "{} better, {} worse, {} within noise",
            self.better, self.worse, self.within_noise
        )
    }

    fn about_noise(&self) -> &'static str {
        if self.before.len() + self.after.len() >= 4 {
            "Noise: 99 of 100 comparisons of the same with the same stay within it, by Student's t and the spread \
             between the reports of each side. What is promised (nothing lost, doubled or missing) has none."
        } else {
            "Noise: 99 of 100 comparisons of the same with the same stay within it, by what each report shows of \
             itself and by what repeated runs have been seen to differ by. Several reports a side (`--before`, \
             `--after`) say it better. What is promised (nothing lost, doubled or missing) has none."
        }
    }
}

fn line(row: &Row) -> String {
    let value =
        |value: Option<f64>| value.map_or("not measured".to_owned(), |one| shown(&row.figure, one));
    let change = match (row.before, row.after, row.change_percent) {
        (Some(before), Some(after), _) if before.total_cmp(&after).is_eq() => "0".to_owned(),
        (_, _, Some(percent)) => format!("{percent:+.1} %"),
        (Some(before), Some(after), None) => {
            let sign = if after > before { "+" } else { "" };
            format!("{sign}{}", grouped(after - before))
        }
        _ => String::new(),
    };
    let noise = match (row.noise, row.before) {
        (Some(noise), Some(before)) if noise > 0.0 && before != 0.0 => {
            format!("± {:.1} %", noise / before.abs() * 100.0)
        }
        (Some(noise), _) if noise > 0.0 => format!("± {}", shown(&row.figure, noise)),
        (Some(_), _) => "none".to_owned(),
        (None, _) => String::new(),
    };
    let verdict = match row.verdict {
        Verdict::Better => "**better**",
        Verdict::Worse => "**worse**",
        Verdict::Changed => "changed",
        Verdict::WithinNoise => "within noise",
        Verdict::Unknown => "unknown",
    };
    format!(
        "| `{}` | {} | {} | {change} | {noise} | {verdict} |\n",
        row.figure,
        value(row.before),
        value(row.after)
    )
}

/// A value with the unit that its name has.
fn shown(figure: &str, value: f64) -> String {
    if figure.ends_with("memory_bytes") {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "memory is positive, and below 2^53 bytes"
        )]
        return bytes(value.max(0.0) as u64);
    }
    grouped(value)
}

fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// A line of text stays one.
fn escaped(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
