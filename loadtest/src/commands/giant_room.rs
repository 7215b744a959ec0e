//! `uproar-loadtest giant-room`: what 200 gateways would append for one room, and whether its shard keeps up.

use super::{WrongUse, interrupted};
use crate::giant_room::fleet::Load;
use crate::giant_room::{self, Options};
use crate::report::output::{self, OutputFile};
use clap::value_parser;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  uproar-loadtest giant-room
  uproar-loadtest giant-room --seconds 60 --json giant.json
  uproar-loadtest giant-room --find-limit --step 250000 --seconds 15
  uproar-loadtest giant-room --producers 4 --appends-per-second 100 --taps-per-second 1000 --seconds 3

Every virtual gateway has a connection of its own for its appends, each of which waits for the replica, and one more
that is subscribed to the ticks. Each of the people taps every 3.3 s; the shard remembers all of them from the minutes
before, as in the middle of an event. The aggregator has one worker thread and one core; all else shares the machine.

Exit codes: 0 held (ticks at most 300 ms apart at p99 and never more than a second behind, nothing missed, nothing
doubled), 99 crossed, 98 the generator was the bottleneck, 2 wrong use. The last line of standard output is one JSON
object.";

/// Appends to the log of one room what hundreds of gateways would, and watches the aggregator and Redis.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Virtual gateways, each with connections of its own
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=2_000))]
    producers: u32,
    /// Batches of all of them together; 40 a second for each is what gateways do
    #[arg(long, default_value_t = 8_000, value_parser = value_parser!(u64).range(1..=200_000))]
    appends_per_second: u64,
    /// Taps of all people together
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u64).range(1..=20_000_000))]
    taps_per_second: u64,
    /// How long it is measured; three more seconds come before
    #[arg(long, default_value_t = 30, value_parser = value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Raise the taps stage by stage, until one does not hold, and say what gave out
    #[arg(long)]
    find_limit: bool,
    /// By how many taps per second they are raised
    #[arg(long, default_value_t = 250_000, value_parser = value_parser!(u64).range(1..=10_000_000), requires = "find_limit")]
    step: u64,
    /// Nobody has tapped in the minutes before
    #[arg(long)]
    fresh: bool,
    /// Run a persister, too
    #[arg(long)]
    persister: bool,
    /// Threads of the generator
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u16).range(1..=64))]
    threads: u16,
    /// The aggregator's core [default: the last one]
    #[arg(long)]
    core: Option<usize>,
    /// Writes the report as JSON, the same as the last line of standard output
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
}

/// Runs the command; the exit code.
///
/// # Errors
/// Wrong use, or something that should work did not.
pub async fn run(arguments: Arguments) -> anyhow::Result<u8> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = options(&arguments, cores).map_err(|wrong| WrongUse::new(&wrong))?;
    let interrupt = interrupted()?;
    let (report, code) = tokio::select! {
        ran = giant_room::run(&options, &interrupt.token, |step| eprintln!("{step}")) => ran?,
        () = interrupt.twice() => anyhow::bail!("interrupted twice: ended without a report"),
    };
    for wrong in report.crossed.iter().chain(&report.vetoes) {
        eprintln!("wrong: {wrong}");
    }
    output::finish(&report, arguments.json.as_ref())?;
    Ok(code)
}

fn options(arguments: &Arguments, cores: usize) -> Result<Options, String> {
    let core = arguments.core.unwrap_or(cores - 1);
    if core >= cores {
        return Err(format!(
            "--core {core}: this machine has the cores 0 to {}",
            cores - 1
        ));
    }
    if arguments.taps_per_second < arguments.appends_per_second {
        return Err(format!(
            "--taps-per-second {} with --appends-per-second {}: a batch has at least one tap; \
             choose fewer appends or more taps",
            arguments.taps_per_second, arguments.appends_per_second
        ));
    }
    if arguments.appends_per_second < u64::from(arguments.producers) {
        return Err(format!(
            "--appends-per-second {} with --producers {}: each appends at least once a second; \
             choose fewer producers or more appends",
            arguments.appends_per_second, arguments.producers
        ));
    }
    Ok(Options {
        load: Load {
            producers: arguments.producers,
            appends_per_second: arguments.appends_per_second,
            taps_per_second: arguments.taps_per_second,
            threads: usize::from(arguments.threads),
            tapped_before: 0,
        },
        window: Duration::from_secs(arguments.seconds),
        step: arguments.find_limit.then_some(arguments.step),
        remembered: !arguments.fresh,
        persister: arguments.persister,
        core,
    })
}
