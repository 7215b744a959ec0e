//! What the servers counted: gateways on their operations ports, the readers in Redis and in Postgres.

use super::target::Target;
use crate::compare::Cell;
use crate::evidence::{self, Reader};
use crate::smoke::wait_for;
use anyhow::Context;
use shared::cluster::{Cluster, RedisSettings};
use shared::room::RoomCode;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Counters of all gateways together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    /// Open sockets.
    pub sockets: f64,
    /// Room-wide frames sent.
    pub frames_sent: f64,
    /// Room-wide frames left out because a viewer was behind.
    pub frames_behind: f64,
    /// Taps taken.
    pub taps: f64,
    /// Taps acknowledged.
    pub acks: f64,
    /// Entries appended.
    pub appends: f64,
    /// Joins.
    pub joins: f64,
}

impl Counters {
    /// Asks all gateways whose operations ports are known; none if there is none or one does not answer.
    pub async fn ask(target: &Target) -> Option<Counters> {
        let mut counters = Counters::default();
        let ports = target.operations("gateway");
        if ports.is_empty() {
            return None;
        }
        for address in ports {
            let (_, text) = rig::get(address, "/metrics").await.ok()?;
            let metric = |name: &str| rig::metric(&text, &format!("uproar_gateway_{name}"), "");
            counters.sockets += metric("sockets");
            counters.frames_sent += metric("frames_sent_total");
            counters.frames_behind += metric("frames_behind_total");
            counters.taps += metric("taps_total");
            counters.acks += metric("acks_total");
            counters.appends += metric("appends_total");
            counters.joins += metric("joins_total");
        }
        Some(counters)
    }
}

/// What Redis and Postgres hold.
#[derive(Debug, Default)]
pub struct Counts {
    /// Totals in Redis.
    pub totals: BTreeMap<Cell, u64>,
    /// Rows and sums in Postgres, where it can be reached.
    pub rows: Option<evidence::Rows>,
}

/// The places where readers leave what they counted, of a rig and of a system elsewhere alike.
#[derive(Debug)]
pub struct Stores {
    cluster: Cluster,
    /// Its URL, where it can be reached.
    postgres: Option<String>,
    /// Ends the connection when dropped.
    _stop: DropGuard,
}

impl Stores {
    /// Connects; none where Redis is out of reach.
    ///
    /// # Errors
    /// It should be in reach and is not, or is not fit.
    pub async fn connect(target: &Target) -> anyhow::Result<Option<Stores>> {
        let nodes = target.redis();
        if nodes.is_empty() {
            return Ok(None);
        }
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let connecting = Cluster::connect(RedisSettings::new(nodes), &tracker, stop.clone());
        Ok(Some(Stores {
            cluster: connecting.await.context("Redis cannot be reached")?,
            postgres: target.postgres(),
            _stop: stop.drop_guard(),
        }))
    }

    /// Waits until all that these rooms' logs hold now is counted, wherever it will be compared. A system whose database
    /// is out of reach may have no persister: it is not waited for.
    ///
    /// # Errors
    /// That did not come in time, or a master does not answer.
    pub async fn wait_until_counted(
        &self,
        rooms: &[RoomCode],
        at_most: Duration,
    ) -> anyhow::Result<()> {
        let readers = match self.postgres {
            Some(_) => [Reader::Aggregator, Reader::Persister].as_slice(),
            None => &[Reader::Aggregator],
        };
        let shards = self.cluster.shards();
        wait_for(at_most, "the readers have caught up", async || {
            evidence::have_read(&self.cluster, shards, rooms, readers).await
        })
        .await
    }

    /// What they hold of these rooms.
    ///
    /// # Errors
    /// One of them does not answer.
    pub async fn counts(&self, rooms: &[RoomCode]) -> anyhow::Result<Counts> {
        let rows = match &self.postgres {
            Some(url) => Some(evidence::rows(url, rooms).await?),
            None => None,
        };
        Ok(Counts {
            totals: evidence::totals(&self.cluster, self.cluster.shards(), rooms).await?,
            rows,
        })
    }
}
