//! `uproar-loadtest agent`: plays phones for a coordinator on another machine.

use crate::agent::Agent;
use serde_json::json;
use std::net::SocketAddr;

const EXAMPLES: &str = "\
Examples:
  UPROAR_AGENT_KEY=… uproar-loadtest agent --listen 0.0.0.0:7070
  uproar-loadtest agent --listen 127.0.0.1:7071        on one machine no key is needed
  uproar-loadtest run hall --agents 127.0.0.1:7071,127.0.0.1:7072,127.0.0.1:7073

Whoever knows the key can have this machine send load anywhere. The key itself never travels, but what
is said is not encrypted: keep agents in a network of their own.";

/// Waits for `run --agents` and plays its share of the phones, until Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Where the coordinator connects
    #[arg(long, default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// What the coordinator must know
    #[arg(long, env = "UPROAR_AGENT_KEY", hide_env_values = true, hide = true)]
    key: Option<String>,
    /// Ends after one run: as a Kubernetes Job does
    #[arg(long)]
    once: bool,
    /// Ends with standard input, and so with the process that started it
    #[arg(long, hide = true)]
    until_input_ends: bool,
}

/// Runs the command.
///
/// # Errors
/// It cannot listen.
pub async fn run(arguments: Arguments) -> anyhow::Result<u8> {
    let agent = Agent::bind(arguments.listen, arguments.key).await?;
    // For whoever started it: the port may have been chosen by the system.
    println!("{}", json!({ "listen": agent.address()?.to_string() }));
    let ended = async {
        if arguments.until_input_ends {
            let mut lines = super::rig::lines_of_standard_input();
            while lines.recv().await.is_some() {}
        } else {
            std::future::pending::<()>().await;
        }
    };
    let serving = agent.serve(arguments.once, |step| eprintln!("{step}"));
    super::until_interrupted(async {
        tokio::select! {
            served = serving => served,
            () = ended => Ok(()),
        }
    })
    .await?;
    Ok(0)
}
