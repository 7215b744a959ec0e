//! CPU and memory of each process.

use super::plot::course::spark;
use super::plot::thin::Keep;
use super::section as section_of;
use crate::report::number::{bytes, float};
use crate::report::{ProcessReport, RunReport};
use maud::{Markup, html};

/// The section; nothing where no process could be watched.
pub(super) fn section(report: &RunReport) -> Markup {
    if report.processes.is_empty() {
        return html! {};
    }
    let content = html! {
        table.cards.processes role="table" {
            caption { "CPU in the measured window, and memory at its most; the lines are the whole run" }
            thead role="rowgroup" {
                tr role="row" {
                    th scope="col" role="columnheader" { "Process" }
                    th.number scope="col" role="columnheader" { "Cores" }
                    th scope="col" role="columnheader" { "Cores over time" }
                    th.number scope="col" role="columnheader" { "Memory" }
                    th scope="col" role="columnheader" { "Memory over time" }
                }
            }
            tbody role="rowgroup" {
                @for (index, process) in report.processes.iter().enumerate() { (row(index, process)) }
            }
        }
    };
    let about = "CPU time is the kernel's, of all threads. Each line begins at zero and is scaled to its own highest \
                 point, which is written beside it.";
    section_of("processes", "CPU and memory", about, &content)
}

fn row(index: usize, process: &ProcessReport) -> Markup {
    let cores: Vec<(f64, f64)> = process
        .seconds
        .iter()
        .map(|(at, cores, _)| (f64::from(*at), *cores))
        .collect();
    let memory: Vec<(f64, f64)> = process
        .seconds
        .iter()
        .map(|(at, _, resident)| (f64::from(*at), float(*resident)))
        .collect();
    let most = cores.iter().map(|(_, cores)| *cores).fold(0.0, f64::max);
    let cores_title = format!("Cores of {} over time", process.name);
    let memory_title = format!("Memory of {} over time", process.name);
    html! {
        tr role="row" {
            th scope="row" role="rowheader" { (process.name) }
            td.number role="cell" data-name="Cores" { (format!("{:.3}", process.cores)) }
            td.drawn role="cell" data-name="Cores over time" {
                (spark(&format!("cores-{index}"), &cores_title, &cores, Keep::Mean))
                span.most { "at most " (format!("{most:.3}")) }
            }
            td.number role="cell" data-name="Memory" { (bytes(process.memory_bytes_max)) }
            td.drawn role="cell" data-name="Memory over time" {
                (spark(&format!("memory-{index}"), &memory_title, &memory, Keep::Most))
            }
        }
    }
}
