//! `uproar-loadtest run`: plays a scenario and says what held.

use super::{Interrupt, WrongUse, interrupted};
use crate::agent;
use crate::report::output::{self, OutputFile};
use crate::report::{RunReport, html, table};
use crate::run::generators::Placement;
use crate::run::progress::Progress;
use crate::run::target::{Elsewhere, Target};
use crate::run::windows::Windows;
use crate::run::{self, RunOptions, browser};
use crate::scenario::Scenario;
use std::net::SocketAddr;

const EXAMPLES: &str = "\
Examples:
  uproar-loadtest run hall                                    a rig of its own, torn down afterwards
  uproar-loadtest run hall --phones 500 --seconds 20 --html hall.html
  uproar-loadtest run my-event.toml --set UPROAR_GATEWAY__WORKER_THREADS=1
  uproar-loadtest run conference --processes 3
  UPROAR_ADMIN_KEY=… uproar-loadtest run hall --target http://10.0.0.5:8080 \\
      --agents load-1:7070,load-2:7070 --redis redis-0:6379 --operations gateway=10.0.0.5:9090

Scenarios: hall, conference, channels-of-100, join-storm, wifi-drop, slow-phones, or a TOML file.

Exit code: 0 all thresholds held; 99 one was crossed, or could not be measured, and then the report says
what to give; 98 the generator was the bottleneck, so nothing can be believed; 2 wrong use; 1 something
did not work. Ctrl-C ends the run early, with a report of what was measured so far.

Secrets come from the environment: UPROAR_ADMIN_KEY makes rooms on --target, UPROAR_CLIENT_HASH_KEY
lets rows be compared by client, UPROAR_POSTGRES_URL is the database behind --target, and
UPROAR_AGENT_KEY is what agents ask for.";

/// Plays a scenario against a rig of its own or a system elsewhere.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The scenario: a name, or a TOML file
    scenario: String,
    #[command(flatten)]
    pub(super) common: Common,
    /// Writes the report as JSON, the same as the last line of standard output
    #[arg(long, value_name = "FILE")]
    json: Option<OutputFile>,
    /// Writes the report as one page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<OutputFile>,
}

/// What `run` and `find-limit` share.
#[derive(Debug, Clone, clap::Args)]
pub struct Common {
    /// The system to load [default: a rig of its own]
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// Phones in all rooms together [default: the scenario's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) phones: Option<u32>,
    /// Length of the measured window [default: the scenario's]
    #[arg(long)]
    pub(super) seconds: Option<f64>,
    /// Gateways of the own rig [default: the scenario's]
    #[arg(long, conflicts_with = "target")]
    gateways: Option<usize>,
    /// Generator processes on this machine [default: threads of this one]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "agents")]
    processes: Option<u16>,
    /// Generators elsewhere: host:port of each, see `agent`
    #[arg(long, value_delimiter = ',', value_name = "HOST:PORT")]
    agents: Vec<String>,
    /// Threads of each generator
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Makes the phones' timelines: the same seed, the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A setting for the own rig's services, such as UPROAR_GATEWAY__WORKER_THREADS=1; can be given again
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = super::rig::name_and_value, conflicts_with = "target")]
    settings: Vec<(String, String)>,
    /// Leaves the browser out
    #[arg(long)]
    no_browser: bool,
    /// Redis nodes behind --target: without them nothing is known of lost taps
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HOST:PORT",
        requires = "target"
    )]
    redis: Vec<String>,
    /// Operations ports behind --target, such as gateway=10.0.0.5:9090; can be given again
    #[arg(long, value_name = "KIND=HOST:PORT", value_parser = kind_and_address, requires = "target")]
    operations: Vec<(String, SocketAddr)>,
    /// How gateways behind --target are set: so much of a wait is meant to be
    #[arg(long, value_name = "MS", default_value_t = Windows::default().flush_ms, requires = "target")]
    flush_interval_ms: u64,
    /// How aggregators behind --target are set: so much of a wait is meant to be
    #[arg(long, value_name = "MS", default_value_t = Windows::default().tick_ms, requires = "target")]
    tick_interval_ms: u64,
}

fn kind_and_address(text: &str) -> Result<(String, SocketAddr), String> {
    let (kind, address) = text
        .split_once('=')
        .ok_or("the form is KIND=HOST:PORT, such as gateway=10.0.0.5:9090")?;
    if !["gateway", "aggregator", "persister"].contains(&kind) {
        return Err(format!(
            "{kind:?} is none of gateway, aggregator, persister"
        ));
    }
    let address = address
        .parse()
        .map_err(|_| format!("{address:?} is no address such as 10.0.0.5:9090"))?;
    Ok((kind.to_owned(), address))
}

/// Runs the command; the exit code.
///
/// # Errors
/// Wrong use, or something that should work did not.
pub async fn run(arguments: Arguments) -> anyhow::Result<u8> {
    let scenario = scenario(&arguments.scenario, &arguments.common)?;
    let progress = Progress::default();
    let options = options(scenario, &arguments.common)?;
    let interrupt = interrupted()?;
    let report = tokio::select! {
        report = play(&options, &arguments.common, &interrupt, &progress) => report?,
        () = interrupt.twice() => anyhow::bail!("interrupted twice: ended without a report"),
    };
    finish(&report, arguments.json.as_ref(), arguments.html.as_ref())
}

async fn play(
    options: &RunOptions,
    common: &Common,
    interrupt: &Interrupt,
    progress: &Progress,
) -> anyhow::Result<RunReport> {
    let target = tokio::select! {
        target = target(options, common, progress) => target?,
        () = interrupt.token.cancelled() => anyhow::bail!("interrupted before there was anything to measure"),
    };
    run::run(options, &target, &interrupt.token, progress).await
}

pub(super) fn finish(
    report: &RunReport,
    json: Option<&OutputFile>,
    page: Option<&OutputFile>,
) -> anyhow::Result<u8> {
    eprintln!("{}", table::table(report, table::colours_wanted()));
    if let Some(page) = page {
        page.write(&html::page(report))?;
        eprintln!("The report as a page: {}", page.path().display());
    }
    output::finish(report, json)?;
    Ok(report.exit_code())
}

/// The scenario with what the command line changes of it.
pub(super) fn scenario(name: &str, common: &Common) -> anyhow::Result<Scenario> {
    let mut scenario = Scenario::named_or_path(name).map_err(WrongUse::from)?;
    if let Some(phones) = common.phones {
        scenario = scenario.with_phones(phones);
    }
    if let Some(seconds) = common.seconds {
        scenario = scenario.with_seconds(seconds);
    }
    if let Some(gateways) = common.gateways {
        scenario.gateways = gateways;
    }
    Ok(scenario.checked().map_err(WrongUse::from)?)
}

/// What is to be run.
pub(super) fn options(scenario: Scenario, common: &Common) -> anyhow::Result<RunOptions> {
    let placement = match common.processes {
        Some(count) => Placement::Processes(usize::from(count)),
        None if common.agents.is_empty() => Placement::Here,
        None => {
            let key = agent::key_or_local(std::env::var("UPROAR_AGENT_KEY").ok());
            Placement::Agents(common.agents.clone(), key)
        }
    };
    Ok(RunOptions {
        scenario,
        seed: common.seed,
        placement,
        threads: usize::from(common.threads),
        browser: !common.no_browser && browser::program().is_some(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    })
}

/// The system: a rig, or what runs elsewhere.
pub(super) async fn target(
    options: &RunOptions,
    common: &Common,
    progress: &Progress,
) -> anyhow::Result<Target> {
    if !options.browser {
        progress.say("without a browser: no page will say what it saw");
    }
    let Some(url) = &common.target else {
        let settings = common.settings.clone();
        return Target::rig(&options.scenario, settings, |step| progress.say(step)).await;
    };
    let secret = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let admin_key = secret("UPROAR_ADMIN_KEY");
    let admin_key = admin_key.ok_or_else(|| {
        WrongUse::new(
            "set UPROAR_ADMIN_KEY to the gateway's admin key: rooms must be made on --target",
        )
    })?;
    let elsewhere = Elsewhere {
        url: url.clone(),
        admin_key,
        redis: common.redis.clone(),
        postgres: secret("UPROAR_POSTGRES_URL"),
        client_hash_key: secret("UPROAR_CLIENT_HASH_KEY"),
        operations: common.operations.clone(),
        windows: Windows {
            flush_ms: common.flush_interval_ms,
            tick_ms: common.tick_interval_ms,
        },
    };
    for (figure, remedy) in elsewhere.out_of_reach() {
        progress.say(&format!("{figure} will not be measured: {remedy}"));
    }
    Ok(Target::elsewhere(elsewhere).map_err(WrongUse::from)?)
}
