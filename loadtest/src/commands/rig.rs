//! `uproar-loadtest rig`: the system for another program, such as the browser tests.
//!
//! Prints one line of JSON with all addresses, then obeys lines on standard input, each answered by one line of
//! JSON, and ends with it.

use crate::stack::{Stack, StackOptions};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::mpsc;

/// What can be written to standard input.
const ORDERS: &str = "\
Orders on standard input, one a line, each answered by {\"done\":…} or {\"error\":…}:
  cut | stall | refuse | delay MS | resume    all connections through the one port
  websocket cut | websocket refuse            only those that carry a WebSocket; resume ends it
  kill|terminate|stall|resume KIND INDEX      a service: gateway, aggregator or persister, from 0
  start KIND                                  one more service
  redis kill|restart|stall|resume|failover ADDRESS
  postgres stop|start|kill
The end of standard input ends the rig.";

/// Starts a private Redis Cluster, Postgres and the services, prints their addresses as JSON and waits.
#[derive(Debug, clap::Args)]
#[command(after_help = ORDERS)]
pub struct Arguments {
    /// Gateways behind the one port
    #[arg(long, default_value_t = 2)]
    gateways: usize,
    /// Aggregators
    #[arg(long, default_value_t = 1)]
    aggregators: usize,
    /// Persisters
    #[arg(long, default_value_t = 1)]
    persisters: usize,
    /// The one port [default: any free one]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// A setting for the services that know it, such as UPROAR_GATEWAY__SLIDES_HOSTS=example.org; can be given again
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = name_and_value)]
    settings: Vec<(String, String)>,
}

pub(super) fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("a setting has the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the command.
///
/// # Errors
/// Something did not start.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let options = StackOptions {
        gateways: arguments.gateways,
        aggregators: arguments.aggregators,
        persisters: arguments.persisters,
        listen: arguments.listen,
        public_url: None,
        settings: arguments.settings,
    };
    let stack = Stack::start(options, |step| eprintln!("{step}")).await?;
    println!("{}", addresses(&stack));
    let mut lines = lines_of_standard_input();
    while let Some(line) = lines.recv().await {
        let answer = match obey(&stack, &line).await {
            Ok(()) => json!({ "done": line }),
            Err(error) => json!({ "error": format!("{error:#}") }),
        };
        println!("{answer}");
    }
    Ok(())
}

/// Read by a thread of its own: a read of standard input cannot be cancelled.
pub(super) fn lines_of_standard_input() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn addresses(stack: &Stack) -> Value {
    let services = stack.services();
    let operations = |services: &[rig::Service]| -> Vec<String> {
        services
            .iter()
            .map(|service| format!("http://{}", service.operations()))
            .collect()
    };
    let gateways = services
        .gateways
        .iter()
        .map(|gateway| format!("http://{}", gateway.listen()));
    json!({
        "url": stack.url(),
        "gateways": gateways.collect::<Vec<_>>(),
        "operations": {
            "gateways": operations(&services.gateways),
            "aggregators": operations(&services.aggregators),
            "persisters": operations(&services.persisters),
        },
        "redis": stack.rig.redis_nodes(),
        "postgres": stack.rig.postgres_url(),
        "admin_key": stack.rig.admin_key(),
        "folder": stack.rig.folder(),
    })
}

async fn obey(stack: &Stack, line: &str) -> anyhow::Result<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["cut"] => stack.front.cut(),
        ["stall"] => stack.front.stall(),
        ["refuse"] => stack.front.refuse(true),
        ["delay", milliseconds] => stack
            .front
            .delay(Duration::from_millis(milliseconds.parse()?)),
        ["resume"] => stack.front.resume(),
        ["websocket", "cut"] => stack.front.cut_websockets(),
        ["websocket", "refuse"] => stack.front.refuse_websockets(true),
        ["start", kind] => stack.start_service(kind)?,
        ["redis", what, node] => redis(stack, what, node).await?,
        ["postgres", "stop"] => stack.rig.postgres.stop().await?,
        ["postgres", "start"] => stack.rig.postgres.start_again().await?,
        ["postgres", "kill"] => stack.rig.postgres.kill()?,
        [what, kind, index] => service(stack, what, kind, index.parse()?)?,
        _ => bail!("{line:?} is no order; see --help"),
    }
    Ok(())
}

fn service(stack: &Stack, what: &str, kind: &str, index: usize) -> anyhow::Result<()> {
    let mut services = stack.services();
    let services = services.of_kind(kind)?;
    let service = services
        .get(index)
        .with_context(|| format!("there is no {kind} {index}"))?;
    match what {
        "kill" => service.kill9(),
        "terminate" => service.terminate(),
        "stall" => service.stall(),
        "resume" => service.resume(),
        _ => bail!("{what:?} is none of kill, terminate, stall, resume"),
    }
    Ok(())
}

async fn redis(stack: &Stack, what: &str, node: &str) -> anyhow::Result<()> {
    let cluster = &stack.rig.cluster;
    match what {
        "kill" => cluster.kill(node),
        "restart" => cluster.restart(node),
        "stall" => cluster.stall(node),
        "resume" => cluster.resume(node),
        "failover" => cluster.failover(node).await.map(|_| ()),
        _ => bail!("{what:?} is none of kill, restart, stall, resume, failover"),
    }
}
