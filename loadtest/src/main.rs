//! `uproar-loadtest`: starts Uproar on a rig, to show it, to drive it and to check it.

use clap::{Parser, Subcommand};
use loadtest::commands;
use std::process::ExitCode;

/// Starts Uproar on a private rig, to show it, to drive it and to check it.
#[derive(Debug, Parser)]
#[command(name = "uproar-loadtest", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(commands::demo::Arguments),
    Smoke(commands::smoke::Arguments),
    Rig(commands::rig::Arguments),
    Idle(commands::idle::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    commands::raise_open_files_limit();
    let done = match Arguments::parse().command {
        Command::Demo(arguments) => commands::demo::run(arguments).await.map(|()| true),
        Command::Smoke(arguments) => commands::smoke::run(arguments).await,
        Command::Rig(arguments) => commands::rig::run(arguments).await.map(|()| true),
        Command::Idle(arguments) => commands::idle::run(arguments).await,
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // What was not right is in the report already.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
