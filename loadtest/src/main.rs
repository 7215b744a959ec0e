//! `uproar-loadtest`: starts Uproar on a rig, to show it, to drive it and to check it.

use clap::{Parser, Subcommand};
use loadtest::commands::{self, WrongUse};
use loadtest::floor;
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
    Run(Box<commands::run::Arguments>),
    FindLimit(Box<commands::find_limit::Arguments>),
    Agent(commands::agent::Arguments),
    Compare(commands::compare::Arguments),
    GiantRoom(commands::giant_room::Arguments),
    Backlog(commands::backlog::Arguments),
    Floor(commands::floor::Arguments),
    /// The bare server that the floor is measured with
    #[command(name = floor::SERVER_COMMAND, hide = true)]
    FloorServer,
}

#[tokio::main]
async fn main() -> ExitCode {
    commands::raise_open_files_limit();
    let done = match Arguments::parse().command {
        Command::Demo(arguments) => commands::demo::run(arguments).await.map(|()| 0),
        Command::Smoke(arguments) => commands::smoke::run(arguments).await.map(one_if_not),
        Command::Rig(arguments) => commands::rig::run(arguments).await.map(|()| 0),
        Command::Idle(arguments) => commands::idle::run(arguments).await.map(one_if_not),
        Command::Run(arguments) => commands::run::run(*arguments).await,
        Command::FindLimit(arguments) => commands::find_limit::run(*arguments).await,
        Command::Agent(arguments) => commands::agent::run(arguments).await,
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::GiantRoom(arguments) => commands::giant_room::run(arguments).await,
        Command::Backlog(arguments) => commands::backlog::run(arguments).await,
        Command::Floor(arguments) => commands::floor::run(arguments).await,
        Command::FloorServer => floor::serve().map(|()| 0),
    };
    match done {
        // What was not right is in the report already.
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<WrongUse>() { 2 } else { 1 })
        }
    }
}

fn one_if_not(holds: bool) -> u8 {
    u8::from(!holds)
}
