//! The ticks of the room's shard, as a gateway gets them, and subscribers that stand for all the other gateways.

use anyhow::Context;
use shared::cluster::Cluster;
use shared::cluster::subscribe::{FeedEvent, subscribe_to_ticks};
use shared::room::{ReactionKey, RoomCode};
use shared::shards::ShardId;
use shared::ticks::{FeedMessage, Tick};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A tick as it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) epoch: u64,
    pub(crate) serial: u64,
    /// The room's taps with it.
    pub(crate) total: u64,
}

/// What came so far.
#[derive(Debug, Default)]
struct Log {
    ticks: Vec<Seen>,
    totals: BTreeMap<ReactionKey, u64>,
}

/// Watches a shard's ticks until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    log: Arc<Mutex<Log>>,
    /// Ends with the watch.
    subscribers: JoinSet<()>,
    _stop: tokio_util::sync::DropGuard,
}

impl Watch {
    /// Subscribes, and waits until the first tick is there.
    pub(crate) async fn start(cluster: &Cluster, room: &RoomCode) -> anyhow::Result<Watch> {
        let shard = cluster.shards().of(room);
        let tracker = TaskTracker::new();
        let stop = CancellationToken::new();
        let (events, wishes) = subscribe_to_ticks(cluster, &tracker, stop.clone());
        let log = Arc::new(Mutex::new(Log::default()));
        let noting = note_all(events, wishes, shard, room.clone(), Arc::clone(&log));
        tracker.spawn(noting);
        let watch = Watch {
            log,
            subscribers: JoinSet::new(),
            _stop: stop.drop_guard(),
        };
        let first = async {
            while watch.log().ticks.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        // An idle shard ticks each second.
        let first = tokio::time::timeout(Duration::from_secs(20), first).await;
        first.context("no tick came within 20 s; see the aggregator's log")?;
        Ok(watch)
    }

    /// Further subscribers of the shard's channel, on connections of their own, that take what comes and do no more.
    pub(crate) async fn add_subscribers(
        &mut self,
        master: &str,
        channel: &str,
        count: u32,
    ) -> anyhow::Result<()> {
        let command = format!(
            "*2\r\n$10\r\nSSUBSCRIBE\r\n${}\r\n{channel}\r\n",
            channel.len()
        );
        for _ in 0..count {
            let mut stream = TcpStream::connect(master)
                .await
                .with_context(|| format!("no connection to Redis at {master} to subscribe on"))?;
            stream.write_all(command.as_bytes()).await?;
            self.subscribers.spawn(async move {
                let mut buffer = [0; 512];
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
            });
        }
        Ok(())
    }

    /// All ticks since `from`.
    pub(crate) fn ticks_since(&self, from: Instant) -> Vec<Seen> {
        let log = self.log();
        let begin = log.ticks.partition_point(|tick| tick.at < from);
        log.ticks[begin..].to_vec()
    }

    /// The room's taps with the last tick.
    pub(crate) fn total(&self) -> u64 {
        self.log().totals.values().sum()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }
}

async fn note_all(
    mut events: mpsc::Receiver<FeedEvent>,
    // Held, since the subscription ends when nobody can wish for anything any more.
    _wishes: mpsc::Sender<ShardId>,
    shard: ShardId,
    room: RoomCode,
    log: Arc<Mutex<Log>>,
) {
    while let Some(event) = events.recv().await {
        let FeedEvent::Message(of, message) = event else {
            continue;
        };
        if of == shard
            && let Ok(FeedMessage::Tick(tick)) = FeedMessage::decode(&message)
        {
            note(&mut lock(&log), tick, &room, Instant::now());
        }
    }
}

fn note(log: &mut Log, mut tick: Tick, room: &RoomCode, at: Instant) {
    // The same again comes around a change of master.
    let is_known = |seen: &Seen| seen.epoch == tick.epoch && seen.serial >= tick.serial;
    if log.ticks.last().is_some_and(is_known) {
        return;
    }
    if let Some(changed) = tick.rooms.remove(room) {
        for (key, total) in changed.totals {
            let known = log.totals.entry(key).or_default();
            *known = total.max(*known);
        }
    }
    log.ticks.push(Seen {
        at,
        epoch: tick.epoch,
        serial: tick.serial,
        total: log.totals.values().sum(),
    });
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::ticks::RoomTick;

    #[test]
    fn totals_are_merged_and_repetitions_left_out() {
        let room: RoomCode = "GIANT1".parse().unwrap();
        let tick = |serial, total| Tick {
            epoch: 7,
            serial,
            at_ms: 0,
            rooms: BTreeMap::from([(
                room.clone(),
                RoomTick {
                    totals: BTreeMap::from([("clap".parse().unwrap(), total)]),
                    ..RoomTick::default()
                },
            )]),
        };
        let mut log = Log::default();
        let now = Instant::now();
        for (serial, total) in [(1, 5), (2, 9), (2, 9), (4, 8)] {
            note(&mut log, tick(serial, total), &room, now);
        }
        let seen: Vec<_> = log
            .ticks
            .iter()
            .map(|tick| (tick.serial, tick.total))
            .collect();
        assert_eq!(seen, [(1, 5), (2, 9), (4, 9)]);
    }
}
