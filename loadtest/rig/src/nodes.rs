//! One Redis node: its configuration, its process, and asking it things.

use crate::folder::tail;
use crate::ports::free_address;
use crate::process::{Process, Program};
use anyhow::{Context, bail};
use redis::{Cmd, FromRedisValue};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// How long a node may take to answer: a stalled one never does.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A node of the cluster.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) address: String,
    pub(crate) bus_port: u16,
    pub(crate) directory: PathBuf,
    process: Mutex<Option<Arc<Process>>>,
}

impl Node {
    pub(crate) fn new(folder: &Path, index: usize) -> anyhow::Result<Node> {
        let address = free_address()?.to_string();
        let bus_port = free_address()?.port();
        let directory = folder.join(format!("redis-{index}"));
        std::fs::create_dir(&directory)?;
        let id = format!("{:032x}{index:08x}", rand::random::<u128>());
        Ok(Node {
            id,
            address,
            bus_port,
            directory,
            process: Mutex::new(None),
        })
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }

    /// The same for each node but for ports: everything to disk within a second, a failover in some two seconds,
    /// replicas that come back without a pause.
    pub(crate) fn write_configuration(&self, extra: &[(String, String)]) -> anyhow::Result<()> {
        let mut text = format!(
            "bind 127.0.0.1\nport {}\ndir {}\nsave \"\"\nappendonly yes\nappendfsync everysec\nauto-aof-rewrite-min-size 1gb\n\
             maxmemory-policy noeviction\nrepl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n\
             cluster-enabled yes\ncluster-port {}\ncluster-config-file nodes.conf\n\
             cluster-announce-ip 127.0.0.1\ncluster-node-timeout 1000\n\
             cluster-replica-validity-factor 2\ncluster-require-full-coverage no\n",
            self.port(),
            self.directory.display(),
            self.bus_port,
        );
        for (name, value) in extra {
            writeln!(text, "{name} {value}")?;
        }
        Ok(std::fs::write(self.directory.join("redis.conf"), text)?)
    }

    pub(crate) fn start(&self) -> anyhow::Result<()> {
        let process = start_server(&self.directory)?;
        *self.slot() = Some(Arc::new(process));
        Ok(())
    }

    pub(crate) fn process(&self) -> Option<Arc<Process>> {
        self.slot().clone()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Process>>> {
        self.process
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn kill9(&self) {
        if let Some(process) = self.slot().take() {
            process.kill9();
        }
    }

    /// One command, on a connection of its own.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> anyhow::Result<T> {
        ask(&self.address, command).await
    }

    pub(crate) fn log_tail(&self) -> String {
        tail(&self.directory.join("redis.log"))
    }
}

/// A node as the cluster sees it: a line of CLUSTER NODES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Node id.
    pub id: String,
    /// `host:port`.
    pub address: String,
    /// Whether it is a master.
    pub is_master: bool,
    /// Whether it is marked as failed, for sure or perhaps.
    pub is_failing: bool,
    /// A replica's master (its id).
    pub master_id: Option<String>,
    /// Ranges of slots it serves, both ends included.
    pub slots: Vec<(u16, u16)>,
}

impl NodeView {
    pub(crate) fn parse(line: &str) -> Option<NodeView> {
        let mut words = line.split_whitespace();
        let id = words.next()?.to_owned();
        let address = words.next()?.split('@').next()?.to_owned();
        let flags: Vec<&str> = words.next()?.split(',').collect();
        let master_id = words
            .next()
            .filter(|master| *master != "-")
            .map(str::to_owned);
        let slots = words.skip(4).filter_map(parse_range).collect();
        Some(NodeView {
            id,
            address,
            is_master: flags.contains(&"master"),
            is_failing: flags
                .iter()
                .any(|flag| flag.starts_with("fail") || *flag == "noaddr"),
            master_id,
            slots,
        })
    }

    /// Whether it serves this slot.
    pub fn has_slot(&self, slot: u16) -> bool {
        self.slots
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// `5` or `0-5460`; `[5->-id]` says that a slot is on the move, which is not what we want to know.
fn parse_range(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

pub(crate) async fn ask<T: FromRedisValue>(address: &str, command: &Cmd) -> anyhow::Result<T> {
    let asking = async {
        let client = redis::Client::open(format!("redis://{address}/"))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        command.query_async(&mut connection).await
    };
    let answer = timeout(ANSWER_TIMEOUT, asking).await;
    let answer = answer.with_context(|| format!("the Redis node {address} does not answer"))?;
    answer.with_context(|| format!("the Redis node {address} gave an error"))
}

fn start_server(directory: &Path) -> anyhow::Result<Process> {
    Program {
        name: "redis-server",
        program: "redis-server".into(),
        arguments: vec![directory.join("redis.conf").display().to_string()],
        environment: Vec::new(),
        directory,
        log: directory.join("redis.log"),
        user: None,
    }
    .start()
}

pub(crate) async fn start_alone(
    folder: &Path,
    lines: &[(&str, &str)],
) -> anyhow::Result<(String, Process)> {
    let address = free_address()?;
    let directory = folder.join(format!("redis-alone-{}", address.port()));
    std::fs::create_dir(&directory)?;
    let mut text = format!("bind 127.0.0.1\nport {}\nsave \"\"\n", address.port());
    // Where `lines` make a cluster of it: by itself it would take the port ten thousand above its own, which may be one
    // that the kernel gave to an outgoing connection.
    writeln!(text, "cluster-port {}", free_address()?.port())?;
    writeln!(text, "dir {}", directory.display())?;
    for (name, value) in lines {
        writeln!(text, "{name} {value}")?;
    }
    std::fs::write(directory.join("redis.conf"), text)?;
    let process = start_server(&directory)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while tokio::net::TcpStream::connect(address).await.is_err() {
        if !process.is_running() || Instant::now() > deadline {
            bail!("a Redis did not come up:\n{}", tail(process.log()));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok((address.to_string(), process))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_cluster_nodes_is_read() {
        let line =
            "07c3 127.0.0.1:30004@31004,host master,fail? - 0 14 4 connected 0-5460 7000 [5->-x]";
        let node = NodeView::parse(line).unwrap();
        assert_eq!(node.address, "127.0.0.1:30004");
        assert!(node.is_master && node.is_failing);
        assert_eq!(node.slots, [(0, 5460), (7000, 7000)]);
        assert!(node.has_slot(7000) && !node.has_slot(7001));
        let replica =
            NodeView::parse("e7d1 127.0.0.1:2@3 myself,slave 07c3 0 0 1 connected").unwrap();
        assert_eq!(replica.master_id.as_deref(), Some("07c3"));
        assert!(!replica.is_master && !replica.is_failing);
    }
}
