//! Changes of who serves what that are no fault: an ordered failover, a slot that moves.

use crate::cluster::Cluster;
use anyhow::{Context, bail};
use redis::cmd;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long an ordered failover may take.
const FAILOVER_WITHIN: Duration = Duration::from_secs(15);

impl Cluster {
    /// Has a replica of `master` take over in good order (CLUSTER FAILOVER); gives the new master's address.
    ///
    /// # Errors
    /// It has no replica, or that did not become a master.
    pub async fn failover(&self, master: &str) -> anyhow::Result<String> {
        let replicas = self.replicas_of(master).await?;
        let replica = replicas
            .first()
            .with_context(|| format!("{master} has no replica"))?;
        let node = self.node(replica)?;
        node.ask::<()>(cmd("CLUSTER").arg("FAILOVER")).await?;
        let deadline = Instant::now() + FAILOVER_WITHIN;
        loop {
            let info: String = node.ask(cmd("INFO").arg("replication")).await?;
            if info.contains("role:master") {
                return Ok(replica.clone());
            }
            if Instant::now() > deadline {
                bail!("{replica} did not take over from {master}");
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Moves a slot with all its keys to another master.
    ///
    /// # Errors
    /// A node refused a step; the slot may be left on the move.
    pub async fn migrate_slot(&self, slot: u16, target: &str) -> anyhow::Result<()> {
        let source = self.master_of(slot).await?;
        if source == target {
            return Ok(());
        }
        let (from, to) = (self.node(&source)?, self.node(target)?);
        let set_slot = |what: &str, id: &str| {
            let mut command = cmd("CLUSTER");
            command.arg("SETSLOT").arg(slot).arg(what).arg(id);
            command
        };
        to.ask::<()>(&set_slot("IMPORTING", &from.id)).await?;
        from.ask::<()>(&set_slot("MIGRATING", &to.id)).await?;
        loop {
            let keys = cmd("CLUSTER")
                .arg("GETKEYSINSLOT")
                .arg(slot)
                .arg(100)
                .to_owned();
            let keys: Vec<Vec<u8>> = from.ask(&keys).await?;
            if keys.is_empty() {
                break;
            }
            let mut migrate = cmd("MIGRATE");
            migrate
                .arg("127.0.0.1")
                .arg(to.port())
                .arg("")
                .arg(0)
                .arg(5000)
                .arg("KEYS")
                .arg(keys);
            from.ask::<()>(&migrate).await?;
        }
        // The one that takes it is told first, so that at no time nobody serves it.
        to.ask::<()>(&set_slot("NODE", &to.id)).await?;
        from.ask::<()>(&set_slot("NODE", &to.id)).await?;
        Ok(())
    }
}
