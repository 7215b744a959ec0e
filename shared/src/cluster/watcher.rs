//! Follows the cluster: one node tells how it sees it, each master tells of itself, and what follows from both is
//! published as a [`Topology`].

use super::clock::local_now_ms;
use super::dial::Dialer;
use super::fitness::{self, ELECTABLE_UNREADABLE};
use super::metrics::ClusterMetrics;
use super::pools::Pools;
use super::probe::{Electable, Findings, Probe};
use super::replicas::Replicas;
use super::settings::RedisSettings;
use super::topology::{Master, Topology};
use super::view::{View, ViewError};
use super::view_source::ViewSource;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The least time between two polls, however many requests ask for one.
const POLL_GAP: Duration = Duration::from_millis(20);

/// A view with an older epoch than we have seen is not believed, unless no newer one comes for this long (the
/// cluster was made anew at the same addresses).
const OLD_VIEW_BELIEVED_AFTER: Duration = Duration::from_secs(10);

/// Follows the topology.
pub(super) struct Watcher {
    settings: RedisSettings,
    dialer: Dialer,
    source: ViewSource,
    view: View,
    /// When the view was asked for.
    view_since: Option<Instant>,
    old_view_since: Option<Instant>,
    probes: BTreeMap<String, Probe>,
    probe_tasks: JoinSet<()>,
    replicas: Replicas,
    judged: BTreeSet<String>,
    clocks: Option<String>,
    publish: watch::Sender<Arc<Topology>>,
    pools: Arc<Pools>,
    hint: Arc<Notify>,
    polled: Arc<Notify>,
    metrics: ClusterMetrics,
}

impl Watcher {
    pub(super) fn new(
        settings: RedisSettings,
        dialer: Dialer,
        publish: watch::Sender<Arc<Topology>>,
        pools: Arc<Pools>,
        hint: Arc<Notify>,
        polled: Arc<Notify>,
        metrics: ClusterMetrics,
    ) -> Self {
        let source = ViewSource::new(dialer.clone(), settings.nodes.clone());
        Watcher {
            settings,
            dialer,
            source,
            view: View::default(),
            view_since: None,
            old_view_since: None,
            probes: BTreeMap::new(),
            probe_tasks: JoinSet::new(),
            replicas: Replicas::default(),
            judged: BTreeSet::new(),
            clocks: None,
            publish,
            pools,
            hint,
            polled,
            metrics,
        }
    }

    /// Polls until `shutdown`.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let mut failures = 0_usize;
        loop {
            // After a failure another node is asked soon, but a round of failures is followed by a pause.
            let retry = failures > 0 && !failures.is_multiple_of(self.source.candidates());
            let pause = if retry {
                POLL_GAP
            } else {
                self.settings.topology_interval
            };
            let asked = async {
                tokio::time::sleep(POLL_GAP).await;
                self.hint.notified().await;
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = asked => self.source.turn(),
            }
            match self.step().await {
                Ok(()) => failures = 0,
                Err((node, error)) => {
                    failures += 1;
                    tracing::debug!(node, ?error, "a node gave no view of the cluster");
                }
            }
            self.judge();
        }
    }

    /// One poll: asks one node, takes in its view, and publishes.
    ///
    /// # Errors
    /// That node gave no view; what is known was published all the same.
    pub(super) async fn step(&mut self) -> Result<(), (String, ViewError)> {
        let since = Instant::now();
        let asked = self.source.ask().await;
        let asked = asked.map(|view| self.take_in(view, since));
        while self.probe_tasks.try_join_next().is_some() {}
        self.publish();
        asked
    }

    /// Whether all slots have a master and every master has told of itself; else what is missing.
    pub(super) fn missing(&self) -> Option<String> {
        if !self.publish.borrow().is_whole() {
            return Some("not all hash slots of the cluster have a master".to_owned());
        }
        if !self.view.ok {
            return Some("the cluster says that its state is not ok".to_owned());
        }
        let silent = self
            .probes
            .values()
            .find(|probe| !probe.findings().is_complete())?;
        Some(format!(
            "the master {} has not answered yet",
            silent.address
        ))
    }

    /// What the masters told of themselves.
    pub(super) fn findings(&self) -> Vec<(String, Findings)> {
        self.probes
            .values()
            .map(|probe| (probe.address.clone(), probe.findings()))
            .collect()
    }

    fn take_in(&mut self, view: View, since: Instant) {
        if view.epoch < self.view.epoch {
            let since = *self.old_view_since.get_or_insert_with(Instant::now);
            if since.elapsed() < OLD_VIEW_BELIEVED_AFTER {
                self.source.turn();
                return;
            }
        }
        self.old_view_since = None;
        if !view.ok {
            self.source.turn();
        }
        let nodes = view
            .shards
            .iter()
            .flat_map(|shard| {
                std::iter::once(&shard.address).chain(shard.replicas.iter().map(|r| &r.address))
            })
            .cloned();
        self.source.know(nodes.collect());
        self.view = view;
        self.view_since = Some(since);
        self.follow_masters();
    }

    /// Starts probes of new masters, ends those of vanished ones.
    fn follow_masters(&mut self) {
        let shards = &self.view.shards;
        self.probes.retain(|id, probe| {
            shards
                .iter()
                .any(|shard| &shard.id == id && shard.address == probe.address)
        });
        self.judged
            .retain(|id| shards.iter().any(|shard| &shard.id == id));
        self.replicas
            .retain_masters(|id| shards.iter().any(|shard| shard.id == id));
        for shard in shards {
            self.probes.entry(shard.id.clone()).or_insert_with(|| {
                Probe::start(
                    self.dialer.clone(),
                    shard.address.clone(),
                    self.settings.topology_interval,
                    &mut self.probe_tasks,
                )
            });
        }
    }

    fn publish(&mut self) {
        let topology = self.compose();
        let before = self.publish.borrow().clone();
        let changed = !topology.routes_as(&before);
        if changed {
            self.tell_changes(&before, &topology);
            self.pools
                .retain(|address| topology.masters.iter().any(|m| m.address == address));
            self.metrics.topology_changes.inc();
        }
        let topology = Arc::new(topology);
        self.publish.send_if_modified(|published| {
            *published = topology;
            changed
        });
        self.polled.notify_waiters();
    }

    fn compose(&mut self) -> Topology {
        let found: Vec<Findings> = self
            .view
            .shards
            .iter()
            .map(|shard| {
                self.probes
                    .get(&shard.id)
                    .map(Probe::findings)
                    .unwrap_or_default()
            })
            .collect();
        let electable_for = self.electable_for(&found);
        // A master that has just taken over has not told its time yet; clocks agree within seconds.
        let offsets: Vec<i64> = found
            .iter()
            .filter_map(|found| found.clock.offset_ms())
            .collect();
        let usual = middle(offsets);
        let mut topology = Topology::empty();
        for (shard, found) in self.view.shards.iter().zip(&found) {
            let Ok(index) = u16::try_from(topology.masters.len()) else {
                break;
            };
            for (first, last) in &shard.slots {
                for slot in *first..=*last {
                    topology.slots[usize::from(slot)] = index;
                }
            }
            let electable_replicas = self.replicas.observe(
                Instant::now(),
                &shard.id,
                &shard.replicas,
                found.links.as_deref(),
                electable_for,
            );
            topology.masters.push(Master {
                id: shard.id.clone(),
                address: shard.address.clone(),
                electable_replicas,
                replicas: self.replicas.listed(&shard.id, &shard.replicas),
                // Without links all replicas count, and only the view can leave one out.
                observed_since: match (found.links_since, self.view_since) {
                    (Some(links), Some(view)) => Some(links.min(view)),
                    (None, view) => view,
                    (Some(_), None) => None,
                },
                clock_offset_ms: found.clock.offset_ms().unwrap_or(usual),
                memory_used_ratio: found.memory_used_ratio,
            });
        }
        topology
    }

    /// The longest that any master's configuration allows: it is the replica's own that counts, and they are alike.
    fn electable_for(&self, found: &[Findings]) -> Option<Duration> {
        if !self.settings.replica_electable.is_zero() {
            return Some(self.settings.replica_electable);
        }
        let of = |findings: &Findings| match findings.electable {
            Electable::For(None) => Duration::MAX,
            Electable::For(Some(time)) => time,
            Electable::Unreadable | Electable::Unasked => ELECTABLE_UNREADABLE,
        };
        let longest = found.iter().map(of).max().unwrap_or(ELECTABLE_UNREADABLE);
        (longest != Duration::MAX).then_some(longest)
    }

    fn tell_changes(&self, before: &Topology, after: &Topology) {
        for master in &after.masters {
            let was = before.master(&master.id);
            if was.is_none() {
                tracing::info!(
                    master = master.address,
                    id = master.id,
                    "Redis master appeared"
                );
            }
            let count = was.map(|was| was.electable_replicas);
            if master.electable_replicas == 0 && count != Some(0) {
                tracing::warn!(
                    master = master.address,
                    "no replica of this Redis master is electable: what is written now has no copy"
                );
            } else if count == Some(0) && master.electable_replicas > 0 {
                tracing::info!(
                    master = master.address,
                    "this Redis master has a replica again"
                );
            }
        }
        for master in &before.masters {
            if after.master(&master.id).is_none() {
                tracing::info!(
                    master = master.address,
                    id = master.id,
                    "Redis master vanished"
                );
            }
        }
    }

    /// Says once what is wrong with a master that has appeared, and with the masters' clocks.
    pub(super) fn judge(&mut self) {
        for (id, probe) in &self.probes {
            if self.judged.contains(id) {
                continue;
            }
            let findings = probe.findings();
            if !findings.is_complete() {
                continue;
            }
            self.judged.insert(id.clone());
            let verdict = fitness::judge(&probe.address, &findings, &self.settings);
            if let Some(unfit) = verdict.unfit {
                tracing::error!("{unfit}");
            }
            for warning in verdict.warnings {
                tracing::warn!("{warning}");
            }
        }
        let offsets: Vec<(String, i64)> = self
            .probes
            .values()
            .filter_map(|probe| Some((probe.address.clone(), probe.findings().clock.offset_ms()?)))
            .collect();
        let clocks = fitness::judge_clocks(&offsets);
        if clocks.is_some() != self.clocks.is_some() {
            match &clocks {
                Some(text) => tracing::warn!(now_ms = local_now_ms(), "{text}"),
                None => tracing::info!("the clocks of the Redis masters agree again"),
            }
        }
        self.clocks = clocks;
    }
}

fn middle(mut offsets: Vec<i64>) -> i64 {
    offsets.sort_unstable();
    offsets.get(offsets.len() / 2).copied().unwrap_or(0)
}
