//! `uproar-loadtest find-limit`: raises the load step by step until a threshold is crossed, and names what gave out.

use super::run::{Common, options, scenario, target};
use super::{Interrupt, WrongUse, interrupted};
use crate::report::RunReport;
use crate::report::output::{self, OutputFile};
use crate::run::progress::Progress;
use crate::run::target::Target;
use crate::run::{self, RunOptions, bottleneck};
use crate::scenario::Scenario;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  uproar-loadtest find-limit hall --step 1000
  uproar-loadtest find-limit hall --from 400 --times 2 --up-to 6400 --set UPROAR_GATEWAY__WORKER_THREADS=1
  uproar-loadtest find-limit hall --phones 1000 --raise taps --step 200

Exit code: 0 a limit was found, or the last step held; 2 wrong use; 1 something did not work.";

/// Runs a scenario again and again with more phones, or more taps, until a threshold is crossed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The scenario: a name, or a TOML file
    scenario: String,
    /// What is raised
    #[arg(long, value_enum, default_value_t = Raise::Phones)]
    raise: Raise,
    /// By how many phones, or taps a second in all rooms
    #[arg(long, required_unless_present = "times", value_parser = clap::value_parser!(u32).range(1..))]
    step: Option<u32>,
    /// Multiplies instead
    #[arg(long, conflicts_with = "step")]
    times: Option<f64>,
    /// The first step [default: one step; with --times 100]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    from: Option<u32>,
    /// The last one
    #[arg(long, default_value_t = 1_000_000)]
    up_to: u32,
    #[command(flatten)]
    common: Common,
    /// Writes the result as JSON, the same as the last line of standard output
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
}

/// What is raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Raise {
    /// Phones in all rooms together.
    Phones,
    /// Taps a second in all rooms together.
    Taps,
}

/// The last line.
#[derive(Debug, Serialize)]
struct Found {
    scenario: String,
    raised: Raise,
    /// The highest step that held.
    held: Option<u32>,
    /// The step that did not; none: none was reached.
    failed: Option<u32>,
    crossed: Vec<String>,
    gave_out: Option<String>,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Step {
    load: u32,
    #[serde(flatten)]
    report: RunReport,
}

/// Runs the command; the exit code.
///
/// # Errors
/// Wrong use, or something that should work did not.
pub async fn run(arguments: Arguments) -> anyhow::Result<u8> {
    if arguments.times.is_some_and(|times| times <= 1.0) {
        return Err(WrongUse::new("--times must be more than 1, such as 2").into());
    }
    let first = scenario(&arguments.scenario, &arguments.common)?;
    raised(&first, arguments.raise, arguments.first())?;
    let interrupt = interrupted()?;
    let mut found = Found {
        scenario: first.title.clone(),
        raised: arguments.raise,
        held: None,
        failed: None,
        crossed: Vec::new(),
        gave_out: None,
        steps: Vec::new(),
    };
    tokio::select! {
        done = climb(&arguments, &first, &interrupt, &mut found) => done?,
        () = interrupt.twice() => anyhow::bail!("interrupted twice: ended without a report"),
    }
    output::finish(&found, arguments.json.as_ref())?;
    Ok(0)
}

impl Arguments {
    fn first(&self) -> u32 {
        self.from.or(self.step).unwrap_or(100)
    }

    fn after(&self, load: u32) -> u32 {
        match self.times {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "rounded, positive, and saturating as casts are"
            )]
            Some(times) => ((f64::from(load) * times).round() as u32).max(load + 1),
            None => load.saturating_add(self.step.unwrap_or(1)),
        }
    }
}

async fn climb(
    arguments: &Arguments,
    first: &Scenario,
    interrupt: &Interrupt,
    found: &mut Found,
) -> anyhow::Result<()> {
    let progress = Progress::default();
    let plan = |load| -> anyhow::Result<RunOptions> {
        options(raised(first, arguments.raise, load)?, &arguments.common)
    };
    let machine_cores =
        std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let mut load = arguments.first();
    // One system for all steps, with new rooms for each: what it keeps of the last step is a part of real life.
    let target = target(&plan(load)?, &arguments.common, &progress).await?;
    measurable(first, &target)?;
    let what = match arguments.raise {
        Raise::Phones => "phones",
        Raise::Taps => "taps a second",
    };
    while load <= arguments.up_to && !interrupt.token.is_cancelled() {
        progress.say(&format!("--- {load} {what}"));
        let report = run::run(&plan(load)?, &target, &interrupt.token, &progress).await?;
        progress.say(&format!("{load} {what}: {}", report.headline()));
        let (passed, interrupted) = (report.passed, report.interrupted);
        if passed {
            found.held = Some(load);
        } else if !interrupted {
            found.failed = Some(load);
            found.crossed.clone_from(&report.crossed);
            let gave_out = bottleneck::name(&report, machine_cores);
            progress.say(&format!("what gave out: {gave_out}"));
            found.gave_out = Some(gave_out);
        }
        found.steps.push(Step { load, report });
        if !passed {
            break;
        }
        load = arguments.after(load);
    }
    Ok(())
}

/// No step would hold if one of its thresholds is on what nobody can measure there, and that is no limit.
fn measurable(scenario: &Scenario, target: &Target) -> anyhow::Result<()> {
    let mut nothing = RunReport::default();
    nothing.judge(&scenario.thresholds);
    let out_of_reach = target.out_of_reach();
    for bound in nothing.bounds {
        if let Some(remedy) = out_of_reach.get(&bound.figure) {
            let figure = bound.figure;
            let said = format!(
                "the scenario has a threshold on {figure}, which cannot be measured there: {remedy}"
            );
            return Err(WrongUse::new(&said).into());
        }
    }
    Ok(())
}

/// The scenario with that much load.
fn raised(scenario: &Scenario, raise: Raise, load: u32) -> anyhow::Result<Scenario> {
    let mut scenario = scenario.clone();
    match raise {
        Raise::Phones => scenario = scenario.with_phones(load),
        Raise::Taps => {
            let every = f64::from(scenario.phones) / f64::from(load);
            let Some(tap) = &mut scenario.tap else {
                return Err(WrongUse::new("nobody taps in this scenario: --raise phones").into());
            };
            tap.every_seconds = [every, every];
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "floored, positive, and saturating as casts are"
            )]
            let cooldown_ms = (every * 1000.0).floor() as u64;
            scenario.rooms.cooldown_ms = scenario.rooms.cooldown_ms.min(cooldown_ms);
        }
    }
    Ok(scenario.checked().map_err(WrongUse::from)?)
}
