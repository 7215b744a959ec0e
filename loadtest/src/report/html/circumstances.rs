//! When, on what and with what the run was made: without it no figure means anything.

use super::section as section_of;
use crate::report::{Circumstances, RunReport};
use maud::{Markup, html};

/// The section.
pub(super) fn section(report: &RunReport) -> Markup {
    let Circumstances {
        command,
        machine,
        versions,
        settings,
        ..
    } = &report.circumstances;
    let content = html! {
        @if !command.is_empty() {
            h3 { "Command" }
            pre { code { (command) } }
        }
        div.grid {
            (list("Machine", machine))
            (list("Versions", versions))
            (list("Settings", settings))
        }
    };
    section_of("circumstances", "How it was measured", "", &content)
}

fn list(title: &str, pairs: &[(String, String)]) -> Markup {
    if pairs.is_empty() {
        return html! {};
    }
    html! {
        div {
            h3 { (title) }
            dl.pairs {
                @for (name, value) in pairs {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}
