//! The front of each binary: `--help`, `--version`, `--config FILE`, `--check-config`, `--print-config`; logging, the
//! panic hook, signals, exit codes.
//!
//! A binary with commands of its own adds them to [`command`], and calls [`serve_matches`] for each with what that
//! command reads and runs.

use super::logging::{self, LogSettings, read_log};
use super::settings::{Reader, SettingsError};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What a binary is called and says of itself.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// `uproar-gateway`.
    pub name: &'static str,
    /// One sentence.
    pub what: &'static str,
    /// Shown below the options.
    pub examples: &'static str,
}

/// Exit code for settings that are wrong (sysexits EX_CONFIG).
pub const EXIT_SETTINGS: u8 = 78;
/// Exit code of a service that could not start or did not end cleanly.
pub const EXIT_FAILED: u8 = 1;
/// Exit code after a panic, as Rust's own.
const EXIT_PANIC: i32 = 101;
/// Exit code after a second signal: 128 + SIGINT, as shells have it.
const EXIT_INTERRUPTED: i32 = 130;
/// How long work on blocking threads may hold up the end of the process.
const RUNTIME_END: Duration = Duration::from_secs(2);

/// Runs a service: reads its settings with `read`, then runs `run` until SIGTERM or Ctrl-C cancels its token.
/// `run` gives an error when the service could not start or did not end cleanly: exit code 1.
pub fn serve<S, F>(
    about: About,
    read: impl FnOnce(&mut Reader) -> S,
    run: impl FnOnce(S, CancellationToken) -> F,
) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    let matches = command(about).get_matches();
    serve_matches(about, &matches, read, |_| 0, run)
}

/// The command line that every binary has; the options may also stand behind a command that is added to it.
pub fn command(about: About) -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Settings file in TOML [default: uproar.toml, if it is there]; UPROAR_SECTION__NAME variables go over it");
    let check = Arg::new("check-config")
        .long("check-config")
        .action(ArgAction::SetTrue)
        .help(
            "Read the settings, say what is wrong with them (exit code 78) or that they are right (0), and end",
        );
    let print = Arg::new("print-config")
        .long("print-config")
        .value_name("FORM")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("toml")
        .value_parser(["toml", "markdown"])
        .help("Print the settings in force, each with its meaning, secrets masked; =markdown prints their table of defaults");
    Command::new(about.name)
        .version(env!("CARGO_PKG_VERSION"))
        .about(about.what)
        .after_help(about.examples)
        .args([config.global(true), check.global(true), print.global(true)])
}

/// As [`serve`], with a command line that was read already, and the number of worker threads taken from the settings
/// (0: as many as there are cores).
pub fn serve_matches<S, F>(
    about: About,
    matches: &ArgMatches,
    read: impl FnOnce(&mut Reader) -> S,
    worker_threads: impl FnOnce(&S) -> usize,
    run: impl FnOnce(S, CancellationToken) -> F,
) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    ExitCode::from(exit_code(about, matches, read, worker_threads, run))
}

fn exit_code<S, F>(
    about: About,
    matches: &ArgMatches,
    read: impl FnOnce(&mut Reader) -> S,
    worker_threads: impl FnOnce(&S) -> usize,
    run: impl FnOnce(S, CancellationToken) -> F,
) -> u8
where
    F: Future<Output = anyhow::Result<()>>,
{
    let (settings, log) = match load(about, matches, read) {
        Ok(Loaded::Run(settings, log)) => (settings, log),
        Ok(Loaded::Told(code)) => return code,
        Err(error) => {
            eprintln!("{}: the settings are wrong:\n{error}", about.name);
            return EXIT_SETTINGS;
        }
    };
    logging::start(&log);
    end_on_panic();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all();
    match worker_threads(&settings) {
        0 => {}
        threads => drop(builder.worker_threads(threads)),
    }
    let runtime = match builder.build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the runtime cannot start");
            return EXIT_FAILED;
        }
    };
    tracing::info!(
        service = about.name,
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        "starting"
    );
    let ended = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        // The handlers are in place before the service is: a signal during its start is not lost.
        let signals = tokio::spawn(watch_signals(Signals::new()?, shutdown.clone()));
        let ended = run(settings, shutdown).await;
        signals.abort();
        ended
    });
    runtime.shutdown_timeout(RUNTIME_END);
    match ended {
        Ok(()) => {
            tracing::info!(service = about.name, "ended");
            0
        }
        Err(error) => {
            tracing::error!(
                service = about.name,
                error = format!("{error:#}"),
                "ended by an error"
            );
            EXIT_FAILED
        }
    }
}

enum Loaded<S> {
    /// The service is to run.
    Run(S, LogSettings),
    /// The settings were what was asked for; they are printed.
    Told(u8),
}

fn load<S>(
    about: About,
    matches: &ArgMatches,
    read: impl FnOnce(&mut Reader) -> S,
) -> Result<Loaded<S>, SettingsError> {
    let file = matches.get_one::<PathBuf>("config");
    // A variable that is not Unicode cannot be one of ours that is right.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut reader = Reader::new(file.map(PathBuf::as_path), environment)?;
    let settings = read(&mut reader);
    let log = read_log(&mut reader);
    let shown = reader.shown();
    let print = matches
        .get_one::<String>("print-config")
        .map(String::as_str);
    match print {
        // The table holds defaults, which are right whatever is set.
        Some("markdown") => {
            print!("{}", shown.to_markdown());
            return Ok(Loaded::Told(0));
        }
        // Printed even if something is missing: it is the file to start from.
        Some(_) => print!("{}", shown.to_toml()),
        None => {}
    }
    reader.finish()?;
    if matches.get_flag("check-config") {
        println!("{}: the settings are right", about.name);
    }
    let told = print.is_some() || matches.get_flag("check-config");
    Ok(if told {
        Loaded::Told(0)
    } else {
        Loaded::Run(settings, log)
    })
}

/// Reads settings from a TOML text, for tests. Nothing of the environment is read.
///
/// # Errors
/// All that was wrong.
pub fn settings_from_toml<S>(
    toml: &str,
    read: impl FnOnce(&mut Reader) -> S,
) -> Result<S, SettingsError> {
    let mut reader = Reader::from_toml(toml, [])?;
    let settings = read(&mut reader);
    read_log(&mut reader);
    reader.finish().map(|_| settings)
}

/// Without this a panic would end one task, and the service would go on without it.
fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("something that is no text");
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let thread = std::thread::current()
            .name()
            .unwrap_or("unnamed")
            .to_owned();
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(message, place, thread, %backtrace, "panicked: this is a mistake in the program; the process ends");
        std::process::exit(EXIT_PANIC);
    }));
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The name of the next one.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

async fn watch_signals(mut signals: Signals, shutdown: CancellationToken) {
    let signal = signals.next().await;
    tracing::info!(signal, "shutting down; a second signal ends at once");
    shutdown.cancel();
    let signal = signals.next().await;
    tracing::warn!(signal, "ending at once; what was not finished is lost");
    std::process::exit(EXIT_INTERRUPTED);
}

#[cfg(test)]
mod tests;
