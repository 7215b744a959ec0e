//! One room as this gateway knows it: what the host set, the totals, and who looks at it.

use super::clients::Clients;
use super::members::Members;
use super::news::NewsDesk;
use crate::clock::Tenths;
use crate::encoded::Encoded;
use crate::fanout::Fanout;
use crate::peer::Peer;
use crate::session::Taken;
use arc_swap::ArcSwap;
use shared::counting::ids::ClientHash;
use shared::protocol::{Role, RoomFrame, ServerFrame};
use shared::room::{ReactionKey, Room, RoomCode};
use shared::shards::ShardId;
use shared::ticks::RoomTick;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A copy of a room.
#[derive(Debug)]
pub struct RoomCopy {
    code: RoomCode,
    shard: ShardId,
    room: ArcSwap<Room>,
    state: Mutex<State>,
    /// Phones, stages and hosts.
    pub(crate) members: Members,
    /// Hosts once more, for what only they get.
    pub(crate) hosts: Members,
    pub(crate) clients: Mutex<Clients>,
    /// What is to be sent to the members.
    news: Mutex<NewsDesk>,
    fanout: Arc<Fanout>,
    /// When it was last opened or had a member, in tenths of a second.
    used_at: AtomicU32,
    pub(crate) people_told: Mutex<PeopleTold>,
}

#[derive(Debug)]
struct State {
    totals: BTreeMap<ReactionKey, u64>,
    /// The room frame, until something changes.
    encoded: Option<Encoded>,
}

/// The head count that the log was last told.
#[derive(Debug, Default)]
pub(crate) struct PeopleTold {
    pub(crate) people: u32,
    pub(crate) at_ms: u64,
}

/// A viewer's membership; left with [`RoomCopy::leave`].
#[derive(Debug)]
pub(crate) struct Membership {
    place: usize,
    host_place: Option<usize>,
    phone: Option<ClientHash>,
}

impl RoomCopy {
    pub(crate) fn new(
        shard: ShardId,
        room: Room,
        totals: BTreeMap<ReactionKey, u64>,
        fanout: Arc<Fanout>,
        now: Tenths,
    ) -> Self {
        RoomCopy {
            code: room.code.clone(),
            shard,
            room: ArcSwap::from_pointee(room),
            state: Mutex::new(State {
                totals,
                encoded: None,
            }),
            members: Members::default(),
            hosts: Members::default(),
            clients: Mutex::default(),
            news: Mutex::default(),
            fanout,
            used_at: AtomicU32::new(now.0),
            people_told: Mutex::default(),
        }
    }

    /// Its code.
    pub fn code(&self) -> &RoomCode {
        &self.code
    }

    /// The shard it lives in.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// What the host set.
    pub fn room(&self) -> Arc<Room> {
        self.room.load_full()
    }

    /// Totals, as far as this gateway has heard.
    pub fn totals(&self) -> BTreeMap<ReactionKey, u64> {
        self.lock().totals.clone()
    }

    /// Both, as a page gets them.
    pub fn frame(&self) -> RoomFrame {
        RoomFrame::new(&self.room(), &self.totals())
    }

    /// The room frame, encoded once for all who join or catch up until something changes.
    pub(crate) fn encoded(&self) -> Encoded {
        let mut state = self.lock();
        let State { totals, encoded } = &mut *state;
        let frame = encoded.get_or_insert_with(|| {
            Encoded::new(&ServerFrame::Room(RoomFrame::new(
                &self.room.load(),
                totals,
            )))
        });
        frame.clone()
    }

    /// The new totals of these reactions, encoded.
    pub(crate) fn encoded_tick<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a ReactionKey>,
    ) -> Encoded {
        let state = self.lock();
        let totals = keys
            .into_iter()
            .filter_map(|key| Some((key, *state.totals.get(key)?)));
        Encoded::written(|json| shared::protocol::write_tick(json, totals))
    }

    /// Merges what the feed or a snapshot tells, and notes what is news for the members. True if there is any.
    pub(crate) fn merge(&self, tick: &RoomTick) -> bool {
        let mut changed = Vec::new();
        let mut room_changed = false;
        {
            let mut state = self.lock();
            for (key, total) in &tick.totals {
                let known = state.totals.entry(key.clone()).or_insert(0);
                if *total > *known {
                    *known = *total;
                    changed.push(key.clone());
                }
            }
            if let Some(room) = &tick.room
                && is_newer(room, &self.room.load())
            {
                self.room.store(Arc::new(room.clone()));
                room_changed = true;
            }
            if room_changed || !changed.is_empty() {
                state.encoded = None;
            }
        }
        self.lock_news().add(changed, room_changed, tick.audience)
    }

    /// A host changed the room through this gateway: shows it at once to all who are here, if it is newer than what
    /// the copy has. (The feed brings it to the other gateways, and here once more.)
    pub fn changed(self: &Arc<Self>, room: Room) {
        let tick = RoomTick {
            room: Some(room),
            ..RoomTick::default()
        };
        if self.merge(&tick) {
            self.tell();
        }
    }

    /// Sends the news to all members.
    pub(crate) fn tell(self: &Arc<Self>) {
        self.fanout.tell(Arc::clone(self));
    }

    /// A tap that was admitted could not be taken.
    pub(crate) fn refund(&self, tap: &Taken) {
        if let Some(charge) = tap.charge {
            self.lock_clients().refund(charge);
        }
    }

    /// A viewer joins; the first frame it gets is the room.
    pub(crate) fn join(
        &self,
        peer: &Arc<Peer>,
        client: ClientHash,
        role: Role,
        now: Tenths,
    ) -> Membership {
        self.used(now);
        peer.join();
        let phone = (role == Role::Phone).then_some(client);
        if let Some(client) = phone {
            self.lock_clients().join(client);
        }
        Membership {
            place: self.members.join(Arc::clone(peer)),
            host_place: (role == Role::Host).then(|| self.hosts.join(Arc::clone(peer))),
            phone,
        }
    }

    /// A viewer leaves.
    pub(crate) fn leave(&self, membership: &Membership, now: Tenths) {
        self.used(now);
        self.members.leave(membership.place);
        if let Some(place) = membership.host_place {
            self.hosts.leave(place);
        }
        if let Some(client) = membership.phone {
            self.lock_clients().leave(client);
        }
    }

    /// Somebody looks at it.
    pub(crate) fn used(&self, now: Tenths) {
        self.used_at.store(now.0, Ordering::Relaxed);
    }

    /// When somebody last did.
    pub(crate) fn used_at(&self) -> Tenths {
        Tenths(self.used_at.load(Ordering::Relaxed))
    }

    pub(crate) fn lock_news(&self) -> MutexGuard<'_, NewsDesk> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A code can be used again after its room has expired: a later creation is newer than any version of the former.
fn is_newer(room: &Room, known: &Room) -> bool {
    (room.created_at_ms, room.version) > (known.created_at_ms, known.version)
}
