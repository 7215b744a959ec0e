//! The servers' own counters, from their operations ports.

use super::target::Target;
use anyhow::Context;
use shared::cluster::{Cluster, RedisSettings};
use std::ops::Deref;
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

/// A connection to a cluster, which ends when dropped.
#[derive(Debug)]
pub struct Connected {
    cluster: Cluster,
    _stop: DropGuard,
}

impl Deref for Connected {
    type Target = Cluster;
    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// Connects to a cluster.
///
/// # Errors
/// It cannot be reached, or is not fit.
pub async fn cluster(nodes: Vec<String>) -> anyhow::Result<Connected> {
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let connecting = Cluster::connect(RedisSettings::new(nodes), &tracker, stop.clone());
    Ok(Connected {
        cluster: connecting.await.context("Redis cannot be reached")?,
        _stop: stop.drop_guard(),
    })
}
