//! Reads the logs and hears the ticks of a run's rooms as they come: the servers' own stamps for each tap.
//!
//! A tap's place among the counted ones of its reaction says which total shows it; its entry's id says when it was in
//! the log, and the stamp of the first tick with that total says when it was published.

use anyhow::Context;
use redis::cmd;
use redis::streams::StreamRangeReply;
use shared::cluster::subscribe::{FeedEvent, subscribe_to_ticks};
use shared::cluster::{Cluster, RedisSettings};
use shared::counting::codec::decode;
use shared::counting::entry::{Batch, Entry};
use shared::counting::ids::{EntryId, TapId};
use shared::room::RoomCode;
use shared::shards::ShardId;
use shared::ticks::FeedMessage;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often the logs are read. They hold two and a half minutes.
const READ_EVERY: Duration = Duration::from_millis(500);

/// Entries per read: at 40 a second and gateway far more than come between two reads.
const ENTRIES_PER_READ: usize = 2000;

/// What the servers' clocks say of a counted tap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// It is the n-th tap of its reaction in its room, from 1: the total that shows it.
    pub number: u64,
    /// When the gateway took it, in log time.
    pub taken_ms: u64,
    /// When its entry was appended.
    pub appended_ms: u64,
}

/// All that was read and heard.
#[derive(Debug, Default)]
pub struct Stamps {
    taps: HashMap<TapId, Stamp>,
    counted: HashMap<(RoomCode, String), u64>,
    /// By room and reaction: total, and the stamp of the first tick that had it.
    ticks: HashMap<(RoomCode, String), Vec<(u64, u64)>>,
}

impl Stamps {
    /// What is known of a tap; none: it is not in the log.
    pub fn of(&self, tap: TapId) -> Option<Stamp> {
        self.taps.get(&tap).copied()
    }

    /// When the first tick with at least this total was made, in log time.
    pub fn published_ms(&self, room: &RoomCode, key: &str, total: u64) -> Option<u64> {
        let ticks = self.ticks.get(&(room.clone(), key.to_owned()))?;
        let first = ticks.partition_point(|(seen, _)| *seen < total);
        ticks.get(first).map(|(_, at_ms)| *at_ms)
    }

    fn entry(&mut self, rooms: &BTreeSet<RoomCode>, id: EntryId, batch: &Batch) {
        if id.ms > batch.void_after_ms {
            return;
        }
        for part in batch.rooms.iter().filter(|part| rooms.contains(&part.code)) {
            for tap in &part.taps {
                // A batch that was appended twice, or a tap that was sent twice, counts once.
                if self.taps.contains_key(&tap.id) {
                    continue;
                }
                let key = (part.code.clone(), tap.key.as_str().to_owned());
                let number = self.counted.entry(key).or_default();
                *number += 1;
                let stamp = Stamp {
                    number: *number,
                    taken_ms: tap.tapped_at_ms,
                    appended_ms: id.ms,
                };
                self.taps.insert(tap.id, stamp);
            }
        }
    }

    fn tick(&mut self, rooms: &BTreeSet<RoomCode>, message: &FeedMessage) {
        let FeedMessage::Tick(tick) = message else {
            return;
        };
        for (code, room) in tick.rooms.iter().filter(|(code, _)| rooms.contains(*code)) {
            for (key, total) in &room.totals {
                let key = (code.clone(), key.as_str().to_owned());
                let ticks = self.ticks.entry(key).or_default();
                if ticks.last().is_none_or(|(last, _)| last < total) {
                    ticks.push((*total, tick.at_ms));
                }
            }
        }
    }
}

/// Reading and hearing, in a task of its own.
#[derive(Debug)]
pub struct Follower {
    stop: CancellationToken,
    following: JoinHandle<anyhow::Result<Stamps>>,
}

impl Follower {
    /// Begins. The rooms must be new: what was counted in them before is not known.
    ///
    /// # Errors
    /// Redis cannot be reached.
    pub async fn start(nodes: Vec<String>, rooms: &[RoomCode]) -> anyhow::Result<Follower> {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let connecting = Cluster::connect(RedisSettings::new(nodes), &tracker, stop.clone());
        let cluster = connecting.await.context("Redis cannot be followed")?;
        let (events, resubscribe) = subscribe_to_ticks(&cluster, &tracker, stop.clone());
        let rooms: BTreeSet<RoomCode> = rooms.iter().cloned().collect();
        let stopping = stop.clone();
        let following = tokio::spawn(async move {
            // Dropping this would end the subscription.
            let _resubscribe = resubscribe;
            follow(&cluster, &rooms, events, &stopping).await
        });
        Ok(Follower { stop, following })
    }

    /// Ends it; all taps must be in the log and published by now.
    ///
    /// # Errors
    /// A log could not be read.
    pub async fn finish(self) -> anyhow::Result<Stamps> {
        // Once more, for what came since the last read.
        tokio::time::sleep(READ_EVERY * 2).await;
        self.stop.cancel();
        self.following.await.context("the follower panicked")?
    }
}

async fn follow(
    cluster: &Cluster,
    rooms: &BTreeSet<RoomCode>,
    mut events: mpsc::Receiver<FeedEvent>,
    stop: &CancellationToken,
) -> anyhow::Result<Stamps> {
    let mut stamps = Stamps::default();
    let shards = rooms.iter().map(|room| cluster.shards().of(room));
    let mut logs: BTreeMap<ShardId, EntryId> = shards.map(|shard| (shard, EntryId::ZERO)).collect();
    let mut timer = interval(READ_EVERY);
    loop {
        // All of these are cancel-safe; the logs are read outside.
        tokio::select! {
            () = stop.cancelled() => return Ok(stamps),
            event = events.recv() => {
                if let Some(FeedEvent::Message(shard, bytes)) = event
                    && logs.contains_key(&shard)
                    && let Ok(message) = FeedMessage::decode(&bytes)
                {
                    stamps.tick(rooms, &message);
                }
            }
            _ = timer.tick() => {
                for (shard, last) in &mut logs {
                    read(cluster, *shard, last, rooms, &mut stamps).await;
                }
            }
        }
    }
}

/// Reads what is new. While a master is being replaced nobody answers; then the next read brings it.
async fn read(
    cluster: &Cluster,
    shard: ShardId,
    last: &mut EntryId,
    rooms: &BTreeSet<RoomCode>,
    stamps: &mut Stamps,
) {
    loop {
        let range = cmd("XRANGE")
            .arg(cluster.shards().log(shard))
            .arg(format!("({last}"))
            .arg("+")
            .arg("COUNT")
            .arg(ENTRIES_PER_READ)
            .to_owned();
        let Ok(value) = cluster.request(shard, &range).await else {
            return;
        };
        let Ok(reply) = redis::from_redis_value::<StreamRangeReply>(value) else {
            return;
        };
        let count = reply.ids.len();
        for entry in reply.ids {
            let Ok(id) = entry.id.parse::<EntryId>() else {
                continue;
            };
            *last = id;
            for (field, value) in &entry.map {
                let redis::Value::BulkString(bytes) = value else {
                    continue;
                };
                if let Ok(Entry::Batch(batch)) = decode(field.as_bytes(), bytes) {
                    stamps.entry(rooms, id, &batch);
                }
            }
        }
        if count < ENTRIES_PER_READ {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::counting::entry::{RoomBatch, Tap};
    use shared::counting::ids::{ClientHash, PageId, ProducerId};
    use shared::ticks::{RoomTick, Tick};

    fn tap(client: u64, seq: u32) -> Tap {
        let id = TapId {
            client: ClientHash(client),
            page: PageId(1),
            seq,
        };
        Tap {
            id,
            key: "clap".parse().unwrap(),
            tapped_at_ms: 990,
        }
    }

    fn batch(taps: Vec<Tap>, void_after_ms: u64) -> Batch {
        let code = "PARTY7".parse().unwrap();
        Batch {
            producer: ProducerId(1),
            number: 1,
            void_after_ms,
            rooms: vec![RoomBatch {
                code,
                people: None,
                taps,
            }],
        }
    }

    #[test]
    fn a_tap_is_shown_by_the_total_that_is_its_number() {
        let code: RoomCode = "PARTY7".parse().unwrap();
        let rooms = BTreeSet::from([code.clone()]);
        let mut stamps = Stamps::default();
        let id = |ms| EntryId { ms, seq: 0 };
        stamps.entry(&rooms, id(1000), &batch(vec![tap(1, 1), tap(2, 1)], 9000));
        stamps.entry(&rooms, id(1010), &batch(vec![tap(1, 1)], 9000));
        stamps.entry(&rooms, id(9999), &batch(vec![tap(3, 1)], 9000));
        stamps.entry(&rooms, id(1020), &batch(vec![tap(3, 1)], 9000));
        assert_eq!(stamps.of(tap(2, 1).id).unwrap().number, 2);
        let last = stamps.of(tap(3, 1).id).unwrap();
        assert_eq!(
            (last.number, last.appended_ms, last.taken_ms),
            (3, 1020, 990)
        );
        for (at_ms, total) in [(1250, 2), (1500, 2), (1750, 3)] {
            let totals = BTreeMap::from([("clap".parse().unwrap(), total)]);
            let room = RoomTick {
                totals,
                ..RoomTick::default()
            };
            let tick = Tick {
                epoch: 1,
                serial: 1,
                at_ms,
                rooms: BTreeMap::from([(code.clone(), room)]),
            };
            stamps.tick(&rooms, &FeedMessage::Tick(tick));
        }
        assert_eq!(stamps.published_ms(&code, "clap", 1), Some(1250));
        assert_eq!(stamps.published_ms(&code, "clap", 3), Some(1750));
        assert_eq!(stamps.published_ms(&code, "clap", 4), None);
    }
}
