//! `uproar-loadtest backlog`: how fast the persister catches up, against a bare COPY of the same rows.

use super::{WrongUse, interrupted};
use crate::backlog::{self, Options, Size};
use crate::report::output::{self, OutputFile};
use clap::value_parser;

const EXAMPLES: &str = "\
Examples:
  uproar-loadtest backlog
  uproar-loadtest backlog --rounds 5 --json backlog.json
  uproar-loadtest backlog --rooms 1
  uproar-loadtest backlog --taps 20000 --rooms 4 --span-seconds 20 --rounds 1

In each round the logs of the rooms fill up as gateways fill them, with log times in the past, as if the persister had
been down for that span. Then the same rows are copied by a bare COPY BINARY on one connection, in transactions of the
same size, into an empty table with the same partitions and indexes; then a persister starts, and the time from the
start of its process to its last commit counts, roll-ups and ledger included. Phones tap in three other rooms all the
time. In the end every row and every count is compared.

Exit codes: 0 held (at most 1.6 times the bare COPY by the median round, live rooms keep their p99, all counts right),
99 crossed, 2 wrong use. The last line of standard output is one JSON object.";

/// Lets a backlog build up with the persister stopped, and measures the catching up.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Taps that wait, in each round
    #[arg(long, default_value_t = 2_000_000, value_parser = value_parser!(u64).range(1_000..=50_000_000))]
    taps: u64,
    /// Rooms that they are in, each in a shard of its own
    #[arg(long, default_value_t = 20, value_parser = value_parser!(u16).range(1..=60))]
    rooms: u16,
    /// How long it took people to tap them, in seconds of log time
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u64).range(1..=3_600))]
    span_seconds: u64,
    /// Gateways that took them: each appends 40 times a second for each room
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u64).range(1..=100))]
    gateways: u64,
    /// How often; the median counts
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// Phones in the live rooms
    #[arg(long, default_value_t = 36, value_parser = value_parser!(u16).range(1..=5_000))]
    phones: u16,
    /// Writes the report as JSON, the same as the last line of standard output
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
}

/// As the persister has it by default: persister.rows_per_transaction_max.
const ROWS_PER_TRANSACTION: usize = 50_000;

/// Runs the command; the exit code.
///
/// # Errors
/// Wrong use, or something that should work did not.
pub async fn run(arguments: Arguments) -> anyhow::Result<u8> {
    if arguments.taps < u64::from(arguments.rooms) * arguments.gateways {
        let Arguments {
            taps,
            rooms,
            gateways,
            ..
        } = arguments;
        let wrong = format!(
            "--taps {taps} with --rooms {rooms} and --gateways {gateways}: each gateway needs a tap in each room; \
             choose more taps"
        );
        return Err(WrongUse::new(&wrong).into());
    }
    let options = Options {
        size: Size {
            taps: arguments.taps,
            span_ms: arguments.span_seconds * 1_000,
            gateways: arguments.gateways,
        },
        rooms: usize::from(arguments.rooms),
        rounds: arguments.rounds,
        phones: usize::from(arguments.phones),
        rows_per_transaction: ROWS_PER_TRANSACTION,
    };
    let interrupt = interrupted()?;
    let (report, code) = tokio::select! {
        ran = backlog::run(&options, &interrupt.token, |step| eprintln!("{step}")) => ran?,
        () = interrupt.twice() => anyhow::bail!("interrupted twice: ended without a report"),
    };
    for wrong in &report.crossed {
        eprintln!("wrong: {wrong}");
    }
    output::finish(&report, arguments.json.as_ref())?;
    Ok(code)
}
