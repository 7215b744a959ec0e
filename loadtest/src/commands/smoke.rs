//! `uproar-loadtest smoke`: does every acknowledged tap count exactly once, also when something dies?

use crate::smoke::kill::Kill;
use crate::smoke::{self, SmokeOptions};
use std::time::Duration;

/// Has phones tap in rooms on different masters, then compares what they know with Redis, Postgres and another phone.
///
/// The last line is one JSON object; the exit code is 0 only if nothing is lost, doubled or unsettled.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Phones in all rooms together
    #[arg(long, default_value_t = 300)]
    phones: usize,
    /// Rooms
    #[arg(long, default_value_t = 3)]
    rooms: usize,
    /// How long the phones tap, in seconds
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Kill -9 one in the middle that is at work for one of the rooms
    #[arg(long, value_enum)]
    kill: Option<Kill>,
}

/// Runs the command; whether all counts fit.
///
/// # Errors
/// Something did not start or did not answer.
pub async fn run(arguments: Arguments) -> anyhow::Result<bool> {
    let options = SmokeOptions {
        phones: arguments.phones,
        rooms: arguments.rooms,
        tapping: Duration::from_secs(arguments.seconds),
        kill: arguments.kill,
    };
    let run = smoke::run(&options, |step| eprintln!("{step}"));
    let smoked = super::unless_interrupted(run).await?;
    let report = smoked.report().await?;
    for mistake in &report.verdict.mistakes {
        eprintln!("wrong: {mistake}");
    }
    if report.verdict.unsettled > 0 {
        eprintln!("wrong: {} taps are unsettled", report.verdict.unsettled);
    }
    if !report.verdict.holds() {
        eprintln!("{}", smoked.stack.log_tails());
    }
    println!("{}", serde_json::to_string(&report)?);
    Ok(report.verdict.holds())
}
