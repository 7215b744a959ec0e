//! `uproar-loadtest floor`: the gateway against the bare system calls.

use super::{WrongUse, interrupted};
use crate::floor::{self, FloorReport, Interrupted, PHONES_MIN, Plan};
use crate::report::output::{self, OutputFile};
use crate::run::circumstances::{machine, profile};
use anyhow::ensure;
use nix::sys::resource::{Resource, getrlimit};
use std::sync::{Arc, Mutex, PoisonError};

/// Phones of the memory's figures unless told otherwise, as far as the limit on open files allows.
const MEMORY_PHONES: usize = 15_000;
/// Files that this process and the gateway need besides one for each phone.
const FILES_BESIDES: u64 = 500;

const EXAMPLES: &str = "\
Examples:
  uproar-loadtest floor                             frames and memory
  uproar-loadtest floor --taps --json floor.json    taps, too
  uproar-loadtest floor --memory-phones 0 --pairs 3 --seconds 5
                                                    frames only, in a minute

The figures hold for programs that were built for speed: cargo build --profile measure --workspace --bins.
What is measured has one core to itself, so two are needed. Ctrl-C ends it with what was measured so far.";

/// Measures the gateway's CPU time per frame and per tap against a server that only makes the system calls, and its
/// memory per phone; prints them as one JSON object.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Phones, and as many sockets of the bare server; each pair takes two files in this process
    #[arg(long, value_name = "N", default_value_t = 5000)]
    phones: usize,
    /// Measure taps, too: taken into the open batch, acknowledged, and by POST
    #[arg(long)]
    taps: bool,
    /// How often gateway and floor are measured in turn; the medians count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=50))]
    pairs: u8,
    /// How long frames are sent each time
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=30))]
    seconds: u32,
    /// Phones whose memory is measured; 0: it is not [default: 15000, or as many as the limit on open files allows]
    #[arg(long, value_name = "N")]
    memory_phones: Option<usize>,
    /// Also write the JSON object to this file
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
}

/// Runs the command; the exit code is 0 only if all was measured.
///
/// # Errors
/// Wrong use, or something did not start or broke; what was measured by then is printed all the same.
pub async fn run(arguments: Arguments) -> anyhow::Result<u8> {
    let (plan, mut remarks) = plan(&arguments).map_err(WrongUse::from)?;
    if cfg!(debug_assertions) {
        remarks.push(
            "built with debug assertions: build with --profile measure for figures that count"
                .to_owned(),
        );
    }
    for remark in &remarks {
        eprintln!("note: {remark}");
    }
    let report = Arc::new(Mutex::new(FloorReport {
        profile: profile(),
        machine: machine(),
        phones: plan.phones,
        remarks,
        ..FloorReport::default()
    }));
    let interrupt = interrupted()?;
    let done = floor::measure(plan, interrupt.token, Arc::clone(&report)).await;
    let mut report = report
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let done = match done {
        Err(error) if error.is::<Interrupted>() => {
            report.interrupted = true;
            Ok(1)
        }
        done => done.map(|()| 0),
    };
    output::finish(&report, arguments.json.as_ref())?;
    done
}

/// What is to be measured, and what had to be cut.
fn plan(arguments: &Arguments) -> anyhow::Result<(Plan, Vec<String>)> {
    let files = getrlimit(Resource::RLIMIT_NOFILE)?.0;
    let most = usize::try_from(files.saturating_sub(FILES_BESIDES)).unwrap_or(usize::MAX);
    let phones = arguments.phones;
    ensure!(
        phones >= PHONES_MIN,
        "--phones {phones} is too few to measure: take at least {PHONES_MIN}"
    );
    ensure!(
        phones <= most / 2,
        "--phones {phones} takes two open files for each, and the limit is {files}: take at most {}, or raise the hard \
         limit (ulimit -Hn)",
        most / 2
    );
    let mut remarks = Vec::new();
    let memory_phones = match arguments.memory_phones {
        None if most < MEMORY_PHONES => {
            remarks.push(format!(
                "memory is measured with {most} phones instead of {MEMORY_PHONES}, as the limit on open files is {files}"
            ));
            most
        }
        None => MEMORY_PHONES,
        Some(wanted) => {
            ensure!(
                wanted <= most,
                "--memory-phones {wanted} takes an open file for each, and the limit is {files}: take at most {most}, or \
                 raise the hard limit (ulimit -Hn)"
            );
            wanted
        }
    };
    let plan = Plan {
        phones,
        taps: arguments.taps,
        pairs: usize::from(arguments.pairs),
        seconds: arguments.seconds,
        memory_phones,
    };
    Ok((plan, remarks))
}
