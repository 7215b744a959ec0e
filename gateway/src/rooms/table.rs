//! The copies by room code: each is loaded once, kept current by the feed, and dropped when nobody looks at it.

use super::RoomCopy;
use super::load;
use crate::clock::Clock;
use crate::fanout::Fanout;
use hashbrown::HashMap;
use shared::cluster::Cluster;
use shared::room::RoomCode;
use shared::shards::ShardId;
use shared::ticks::RoomTick;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;

/// How long a copy outlives its last viewer: a hall that reconnects after a cut finds it still there.
const UNUSED_KEPT: Duration = Duration::from_secs(60);

/// The copies.
#[derive(Debug)]
pub struct Rooms {
    cluster: Cluster,
    clock: Clock,
    fanout: Arc<Fanout>,
    entries: Mutex<HashMap<RoomCode, Arc<Entry>, foldhash::fast::RandomState>>,
}

/// A room that is loaded, or is being loaded. It stands in the table before its snapshot is asked for, so that no tick
/// is missed between the snapshot and the first one applied.
#[derive(Debug, Default)]
struct Entry {
    copy: OnceCell<Arc<RoomCopy>>,
    /// What the feed told while the snapshot was on its way.
    early: Mutex<RoomTick>,
}

/// Why there is no copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoomError {
    /// No such room.
    #[error("there is no room {0}")]
    Unknown(RoomCode),
    /// Redis does not answer.
    #[error("the room cannot be read at the moment")]
    Unavailable,
}

/// What a second reading of a shard's rooms brought.
#[derive(Debug, Default)]
pub(crate) struct Refreshed {
    /// Their members have to be told.
    pub(crate) changed: Vec<Arc<RoomCopy>>,
    /// They are gone.
    pub(crate) expired: Vec<Arc<RoomCopy>>,
    /// How many could not be read: try again.
    pub(crate) failed: usize,
}

impl Rooms {
    pub(crate) fn new(cluster: Cluster, clock: Clock, fanout: Arc<Fanout>) -> Self {
        Rooms {
            cluster,
            clock,
            fanout,
            entries: Mutex::default(),
        }
    }

    /// The copy of a room, loaded if need be; many who ask at once share one load.
    ///
    /// # Errors
    /// See [`RoomError`].
    ///
    /// # Cancel safety
    /// Safe: the load begins again with the next who waits or asks.
    pub async fn open(&self, code: &RoomCode) -> Result<Arc<RoomCopy>, RoomError> {
        let entry = Arc::clone(self.lock().entry(code.clone()).or_default());
        match entry.copy.get_or_try_init(|| self.load(code)).await {
            Ok(copy) => {
                entry.settle(copy);
                copy.used(self.clock.tenths());
                Ok(Arc::clone(copy))
            }
            Err(error) => {
                self.remove_if(code, |held| {
                    Arc::ptr_eq(held, &entry) && !held.copy.initialized()
                });
                Err(error)
            }
        }
    }

    async fn load(&self, code: &RoomCode) -> Result<Arc<RoomCopy>, RoomError> {
        let snapshot = load::read(&self.cluster, code).await.map_err(|error| {
            tracing::warn!(room = %code, %error, "cannot read a room");
            RoomError::Unavailable
        })?;
        let snapshot = snapshot.ok_or_else(|| RoomError::Unknown(code.clone()))?;
        let shard = self.cluster.shards().of(code);
        let (fanout, now) = (Arc::clone(&self.fanout), self.clock.tenths());
        Ok(Arc::new(RoomCopy::new(
            shard,
            snapshot.room,
            snapshot.totals,
            fanout,
            now,
        )))
    }

    /// Merges what the feed tells of a room, if somebody here looks at it. The copy, if its members have to be told.
    pub(crate) fn apply(&self, code: &RoomCode, tick: &RoomTick) -> Option<Arc<RoomCopy>> {
        let entry = Arc::clone(self.lock().get(code)?);
        let mut early = entry.early.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(copy) = entry.copy.get() else {
            join(&mut early, tick);
            return None;
        };
        drop(early);
        copy.merge(tick).then(|| Arc::clone(copy))
    }

    /// The room has expired: its copy goes, and is given back so that its members can be told.
    pub(crate) fn expire(&self, code: &RoomCode) -> Option<Arc<RoomCopy>> {
        let entry = self.lock().remove(code)?;
        entry.copy.get().cloned()
    }

    /// Reads a shard's rooms again, after ticks were missed.
    ///
    /// # Cancel safety
    /// What was merged stays merged, but its members are told only with the next change: do not cancel but at the end.
    pub(crate) async fn refresh(&self, shard: ShardId) -> Refreshed {
        let mut refreshed = Refreshed::default();
        for copy in self.all().into_iter().filter(|copy| copy.shard() == shard) {
            match load::read(&self.cluster, copy.code()).await {
                Ok(Some(snapshot)) => {
                    let tick = RoomTick {
                        totals: snapshot.totals,
                        room: Some(snapshot.room),
                        ..RoomTick::default()
                    };
                    if copy.merge(&tick) {
                        refreshed.changed.push(copy);
                    }
                }
                // The tick that said so may be one of those that were missed.
                Ok(None) => refreshed.expired.extend(self.expire(copy.code())),
                Err(error) => {
                    tracing::warn!(room = %copy.code(), %error, "cannot read a room again");
                    refreshed.failed += 1;
                }
            }
        }
        refreshed
    }

    /// All copies.
    pub(crate) fn all(&self) -> Vec<Arc<RoomCopy>> {
        self.lock()
            .values()
            .filter_map(|entry| entry.copy.get().cloned())
            .collect()
    }

    /// Drops copies that nobody has looked at for a while.
    pub(crate) fn sweep(&self) {
        let now = self.clock.tenths();
        self.lock().retain(|_, entry| {
            // Whoever waits for it holds the entry; whoever has opened it, or joined, the copy.
            let waited_for = Arc::strong_count(entry) > 1;
            let Some(copy) = entry.copy.get() else {
                return waited_for;
            };
            let held = waited_for || Arc::strong_count(copy) > 1;
            held || now.since(copy.used_at()) < UNUSED_KEPT
                || copy.people_told.lock().is_ok_and(|told| told.people > 0)
        });
    }

    fn remove_if(&self, code: &RoomCode, condition: impl FnOnce(&Arc<Entry>) -> bool) {
        let mut entries = self.lock();
        if entries.get(code).is_some_and(condition) {
            entries.remove(code);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RoomCode, Arc<Entry>, foldhash::fast::RandomState>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Merges what came while the copy was being loaded. Nobody has joined before that, so nobody has to be told.
    fn settle(&self, copy: &RoomCopy) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        if *early != RoomTick::default() {
            copy.merge(&std::mem::take(&mut *early));
        }
    }
}

/// Merges two ticks of one room.
fn join(early: &mut RoomTick, tick: &RoomTick) {
    for (key, total) in &tick.totals {
        let known = early.totals.entry(key.clone()).or_insert(0);
        *known = (*known).max(*total);
    }
    if tick.room.is_some() {
        early.room.clone_from(&tick.room);
    }
}
