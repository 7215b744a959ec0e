//! A run as a page: one file that asks for nothing from anywhere and runs no script, readable on a phone, on a desk, by
//! day, by night and in print. The verdict comes first, then what was measured, then why one may believe it.

mod plot;
mod summary;
mod waits;
mod load;
mod processes;
mod evidence;
mod definitions;
mod circumstances;

use super::RunReport;
use super::judge::Verdict;
use super::number::{grouped, whole};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Colours and layout.
const STYLE: &str = include_str!("style.css");

/// The page.
pub fn page(report: &RunReport) -> String {
    let verdict = match report.verdict() {
        Verdict::Held => "passed",
        Verdict::Crossed => "not passed",
        Verdict::GeneratorBound => "not to be believed",
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (report.scenario) ", " (whole(report.phones)) " phones: " (verdict) }
                // Browsers would ask the server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { (head(report)) }
                main {
                    (summary::verdict(report))
                    (summary::figures(report))
                    (summary::asked(report))
                    (waits::section(report))
                    (load::section(report))
                    (processes::section(report))
                    (evidence::rooms(report))
                    (evidence::cross_checks(report))
                    (evidence::errors(report))
                    (definitions::section())
                    (circumstances::section(report))
                }
                footer { p { "Made by uproar-loadtest." } }
            }
        }
    };
    page.into_string()
}

fn head(report: &RunReport) -> Markup {
    let rooms = match report.rooms.len() {
        0 => String::new(),
        1 => " in one room".to_owned(),
        many => format!(" in {} rooms", whole(many as u64)),
    };
    let seconds = grouped((report.window.1 - report.window.0).round());
    html! {
        p.kind { "Uproar load test" }
        h1 { (report.scenario) }
        p {
            (whole(report.phones)) " phones" (rooms) ", " (seconds) " s measured"
            @if !report.circumstances.at.is_empty() {
                ", "
                time datetime=(report.circumstances.at) { (moment(&report.circumstances.at)) }
            }
        }
    }
}

/// `2026-03-14T09:26:53Z` as people write it.
fn moment(at: &str) -> String {
    let shown = at.replacen('T', " ", 1);
    match shown.strip_suffix('Z') {
        Some(shown) => format!("{shown} UTC"),
        None => shown,
    }
}

/// A part of the page: its heading, what it is about, and its content.
fn section(id: &str, title: &str, about: &str, content: &Markup) -> Markup {
    html! {
        section id=(id) aria-labelledby={ (id) "-heading" } {
            h2 id={ (id) "-heading" } { (title) }
            @if !about.is_empty() { p.about { (about) } }
            (content)
        }
    }
}

/// A sign with the word that it stands for: colours are never alone.
fn sign(held: bool, word: &str) -> Markup {
    let (class, mark) = if held {
        ("held", "✓")
    } else {
        ("crossed", "✗")
    };
    html! { span.sign.(class) { span aria-hidden="true" { (mark) } " " (word) } }
}

#[cfg(test)]
mod tests;
