//! The Redis Cluster: three masters with a replica each, and the faults it can be made to suffer.

use crate::nodes::{Node, NodeView};
use anyhow::{Context, bail};
use nix::sys::signal::Signal;
use redis::{Cmd, FromRedisValue, cmd};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Masters, and replicas of them.
const MASTERS: usize = 3;

/// How long the cluster may take to become healthy, on a busy machine.
const HEALTHY_WITHIN: Duration = Duration::from_secs(30);

/// The running cluster. Nodes are named by their address.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) nodes: Vec<Node>,
}

impl Cluster {
    pub(crate) async fn start(
        folder: &Path,
        extra: &[(String, String)],
    ) -> anyhow::Result<Cluster> {
        let mut nodes = Vec::new();
        for index in 0..2 * MASTERS {
            nodes.push(Node::new(folder, index)?);
        }
        for (index, node) in nodes.iter().enumerate() {
            node.write_configuration(extra)?;
            std::fs::write(node.directory.join("nodes.conf"), membership(&nodes, index))?;
            node.start()?;
        }
        let cluster = Cluster { nodes };
        cluster.wait_healthy().await?;
        Ok(cluster)
    }

    /// `host:port` of all nodes, dead ones included.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// The process id of a node that runs.
    pub fn pid(&self, address: &str) -> anyhow::Result<u32> {
        Ok(self.running(address)?.pid())
    }

    /// kill -9. Its replica takes over after two to three seconds.
    ///
    /// # Errors
    /// There is no such node.
    pub fn kill(&self, address: &str) -> anyhow::Result<()> {
        self.node(address)?.kill9();
        Ok(())
    }

    /// Starts a killed node again, with the data that it had on disk. Does not wait: see [`Cluster::wait_healthy`].
    ///
    /// # Errors
    /// There is no such node, or it still runs.
    pub fn restart(&self, address: &str) -> anyhow::Result<()> {
        let node = self.node(address)?;
        if node.process().is_some_and(|process| process.is_running()) {
            bail!("the Redis node {address} still runs");
        }
        node.start()
    }

    /// Stops a node in the middle of whatever it does (SIGSTOP): its sockets stay open and silent.
    ///
    /// # Errors
    /// There is no such node, or it does not run.
    pub fn stall(&self, address: &str) -> anyhow::Result<()> {
        self.running(address)?.signal(Signal::SIGSTOP);
        Ok(())
    }

    /// Lets a stalled node go on.
    ///
    /// # Errors
    /// There is no such node, or it does not run.
    pub fn resume(&self, address: &str) -> anyhow::Result<()> {
        self.running(address)?.signal(Signal::SIGCONT);
        Ok(())
    }

    /// All nodes, as the first that answers sees them.
    ///
    /// # Errors
    /// None answers.
    pub async fn view(&self) -> anyhow::Result<Vec<NodeView>> {
        let mut last = None;
        for node in self.nodes.iter().filter(|node| node.process().is_some()) {
            match node.ask::<String>(cmd("CLUSTER").arg("NODES")).await {
                Ok(text) => return Ok(text.lines().filter_map(NodeView::parse).collect()),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("no Redis node runs")))
    }

    /// The address of the master that serves a slot.
    ///
    /// # Errors
    /// No node answers, or none serves it.
    pub async fn master_of(&self, slot: u16) -> anyhow::Result<String> {
        let view = self.view().await?;
        let master = view
            .into_iter()
            .find(|node| node.is_master && node.has_slot(slot));
        Ok(master
            .with_context(|| format!("no master serves slot {slot}"))?
            .address)
    }

    /// One command to the master that serves a slot, on a connection of its own.
    ///
    /// # Errors
    /// No node serves the slot, or it gave an error or no answer.
    pub async fn request<T: FromRedisValue>(&self, slot: u16, command: &Cmd) -> anyhow::Result<T> {
        let master = self.master_of(slot).await?;
        self.node(&master)?.ask(command).await
    }

    /// The addresses of a master's replicas.
    ///
    /// # Errors
    /// No node answers, or none has this address.
    pub async fn replicas_of(&self, master: &str) -> anyhow::Result<Vec<String>> {
        let id = &self.node(master)?.id;
        let view = self.view().await?;
        let replicas = view
            .into_iter()
            .filter(|node| node.master_id.as_ref() == Some(id));
        Ok(replicas.map(|node| node.address).collect())
    }

    /// Waits until every node that runs finds the cluster sound and every replica that runs is linked to its master.
    ///
    /// # Errors
    /// It is not within half a minute; the message says which node is not, and holds the end of its log.
    pub async fn wait_healthy(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + HEALTHY_WITHIN;
        loop {
            let Err(error) = self.check_healthy().await else {
                return Ok(());
            };
            if Instant::now() > deadline {
                return Err(error);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn check_healthy(&self) -> anyhow::Result<()> {
        let running: Vec<&Node> = self
            .nodes
            .iter()
            .filter(|node| node.process().is_some())
            .collect();
        let mut agreed: Option<Vec<NodeView>> = None;
        for node in &running {
            let view = check_node(node).await;
            let address = &node.address;
            let mut view =
                view.with_context(|| format!("Redis node {address}; {}", node.log_tail()))?;
            // After a failover the news reaches the nodes one by one.
            view.retain(|seen| running.iter().any(|node| node.id == seen.id));
            view.sort_by(|one, other| one.id.cmp(&other.id));
            if let Some(failing) = view.iter().find(|seen| seen.is_failing) {
                bail!("{address} thinks that {} fails", failing.address);
            }
            if agreed.get_or_insert_with(|| view.clone()) != &view {
                bail!("{address} sees the cluster differently from another node");
            }
        }
        Ok(())
    }

    pub(crate) fn node(&self, address: &str) -> anyhow::Result<&Node> {
        let node = self.nodes.iter().find(|node| node.address == address);
        node.with_context(|| format!("there is no Redis node {address}"))
    }

    fn running(&self, address: &str) -> anyhow::Result<std::sync::Arc<crate::Process>> {
        let process = self.node(address)?.process();
        process.with_context(|| format!("the Redis node {address} does not run"))
    }
}

/// Whether a node finds itself sound, and how it sees the cluster.
async fn check_node(node: &Node) -> anyhow::Result<Vec<NodeView>> {
    if !node.process().is_some_and(|process| process.is_running()) {
        bail!("it ended");
    }
    let info: String = node.ask(cmd("CLUSTER").arg("INFO")).await?;
    if !info.contains("cluster_state:ok") {
        bail!("it finds the cluster not sound");
    }
    let info: String = node.ask(cmd("INFO").arg("replication")).await?;
    if info.contains("role:slave") && !info.contains("master_link_status:up") {
        bail!("its link to its master is down");
    }
    let view: String = node.ask(cmd("CLUSTER").arg("NODES")).await?;
    Ok(view.lines().filter_map(NodeView::parse).collect())
}

/// The `nodes.conf` of a node: the nodes know each other from the start, which saves the seconds in which they
/// would meet.
fn membership(nodes: &[Node], myself: usize) -> String {
    let mut text = String::new();
    for (index, node) in nodes.iter().enumerate() {
        let me = if index == myself { "myself," } else { "" };
        let (id, address, bus) = (&node.id, &node.address, node.bus_port);
        let epoch = index % MASTERS + 1;
        text += &if index < MASTERS {
            let (first, last) = (index * 16384 / MASTERS, (index + 1) * 16384 / MASTERS - 1);
            format!("{id} {address}@{bus} {me}master - 0 0 {epoch} connected {first}-{last}\n")
        } else {
            let master = &nodes[index - MASTERS].id;
            format!("{id} {address}@{bus} {me}slave {master} 0 0 {epoch} connected\n")
        };
    }
    text + &format!("vars currentEpoch {MASTERS} lastVoteEpoch 0\n")
}
