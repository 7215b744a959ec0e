//! The tasks that append: one per master, since a WAIT blocks what stands behind it on a connection.

use super::settle::settle;
use crate::app::App;
use shared::cluster::append::{Appended, Appender};
use shared::cluster::topology::Topology;
use shared::counting::outbox::AppendOutcome;
use shared::shards::ShardId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Keeps a task per master until `stopping`, as the topology changes.
///
/// # Cancel safety
/// Not to be cancelled: batches in a pipeline would stay marked so. It ends by itself.
pub(crate) async fn run(app: Arc<App>) {
    let mut topology = app.cluster.topology();
    let mut masters: HashMap<String, tokio::task::AbortHandle> = HashMap::new();
    let mut tasks = JoinSet::new();
    let mut orphans = tokio::time::interval(Duration::from_millis(250));
    orphans.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let current = Arc::clone(&topology.borrow_and_update());
        masters.retain(|_, task| !task.is_finished());
        for master in &current.masters {
            if !masters.contains_key(&master.id) {
                let task = tasks.spawn(drive(Arc::clone(&app), master.id.clone()));
                masters.insert(master.id.clone(), task);
            }
        }
        // All of these are cancel-safe.
        tokio::select! {
            changed = topology.changed() => if changed.is_err() { break },
            _ = orphans.tick() => settle_orphans(&app, &current).await,
            Some(_) = tasks.join_next() => {}
            () = app.stopping.cancelled() => break,
        }
    }
    tasks.join_all().await;
}

/// Shards that no master holds at the moment: their batches are given up in time all the same.
async fn settle_orphans(app: &App, topology: &Topology) {
    let orphans: Vec<_> = app
        .outboxes
        .all()
        .filter(|shard| {
            topology
                .master_of(app.cluster.shards().slot(*shard))
                .is_none()
        })
        .collect();
    let mut settled = Vec::new();
    for (shard, _) in app.outboxes.seal(app, &orphans, &mut settled) {
        settled.extend(app.outboxes.resolve(app, shard, AppendOutcome::Unknown));
    }
    settle(app, settled).await;
}

/// Appends for one master until the topology no longer has it: at once what comes while nothing waits, and what comes
/// after that once per flush interval. It sleeps while nothing waits.
async fn drive(app: Arc<App>, master: String) {
    let mut connection = Appender::new(app.cluster.clone(), master.clone());
    let mut topology = app.cluster.topology();
    let mut filled = app.outboxes.filled();
    let mut known: Option<Arc<Topology>> = None;
    let mut shards = Vec::new();
    let mut flush = tokio::time::interval(app.settings.flush_interval);
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // What comes after this mark wakes it again, so nothing is missed between the look at the shards and the sleep. So
    // does each change of the topology, by which it may get shards that are not empty.
    let mut is_idle = false;
    loop {
        // All of these are cancel-safe.
        if is_idle {
            tokio::select! {
                _ = filled.changed() => {}
                changed = topology.changed() => if changed.is_err() { return },
                () = app.stopping.cancelled() => return,
            }
        }
        tokio::select! {
            _ = flush.tick() => {}
            () = app.stopping.cancelled() => return,
        }
        filled.mark_unchanged();
        let current = Arc::clone(&topology.borrow_and_update());
        if !known
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &current))
        {
            if !current.masters.iter().any(|held| held.id == master) {
                return;
            }
            let ours = |shard: &ShardId| {
                current
                    .master_of(app.cluster.shards().slot(*shard))
                    .is_some_and(|held| held.id == master)
            };
            shards = app.outboxes.all().filter(ours).collect();
            known = Some(current);
        }
        flush_once(&app, &mut connection, &shards).await;
        is_idle = app.outboxes.are_empty(&shards);
    }
}

async fn flush_once(app: &App, connection: &mut Appender, shards: &[ShardId]) {
    let mut settled = Vec::new();
    let batches = app.outboxes.seal(app, shards, &mut settled);
    if !batches.is_empty() {
        let started = Instant::now();
        let appended = connection.append(&batches).await;
        app.metrics
            .append_seconds
            .observe(started.elapsed().as_secs_f64());
        app.metrics.appends.inc_by(batches.len() as u64);
        // A result that is missing is one that is not known.
        let mut appended = appended.into_iter();
        for (shard, _) in &batches {
            let outcome = appended.next().map_or(AppendOutcome::Unknown, |appended| {
                note(app, *shard, appended)
            });
            settled.extend(app.outboxes.resolve(app, *shard, outcome));
        }
    }
    settle(app, settled).await;
}

fn note(app: &App, shard: ShardId, appended: Appended) -> AppendOutcome {
    if appended.outcome == AppendOutcome::Unknown {
        app.metrics.appends_unsettled.inc();
        let error = appended.error.unwrap_or_default();
        tracing::debug!(
            shard = shard.0,
            error,
            out_of_memory = appended.out_of_memory,
            "an append is repeated"
        );
    } else if appended.unreplicated {
        app.metrics.appends_unreplicated.inc();
    }
    appended.outcome
}
