//! What a subscriber knows and decides, without I/O: which connection each shard's channel is subscribed on, and what to
//! do about it.
//!
//! A library's own re-subscription does not survive failovers and migrations of slots. So the wanted state follows
//! from the topology alone, and everything that is not as wanted is done again until it is.

use super::subscribe::FeedEvent;
use super::topology::Topology;
use crate::shards::ShardId;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A subscription that was not confirmed is asked for again after this long; it does no harm twice.
const UNCONFIRMED_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// One that was refused (the slot is on its way) is asked for again after this long.
const REFUSED_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// A connection that could not be opened is tried again after this long, and twice as long each time, up to
/// [`REDIAL_AFTER_MAX`].
const REDIAL_AFTER_MIN: Duration = Duration::from_millis(50);
const REDIAL_AFTER_MAX: Duration = Duration::from_millis(800);

/// One connection; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConnectionId(pub(super) u64);

/// What happened.
#[derive(Debug)]
pub(super) enum Input {
    /// A connection stands.
    Opened(ConnectionId),
    /// A connection could not be opened, or broke, or must not be trusted any more.
    Broken(ConnectionId),
    /// The server refused a subscription.
    Refused(ConnectionId, ShardId),
    /// The server confirmed a subscription.
    Confirmed(ConnectionId, ShardId),
    /// The server ended a subscription.
    Ended(ConnectionId, ShardId),
    /// A message came.
    Message(ConnectionId, ShardId, Bytes),
    /// The caller found a shard's channel dead.
    Resubscribe(ShardId),
    /// Time has passed.
    Tick,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Open(ConnectionId, String),
    Close(ConnectionId),
    Subscribe(ConnectionId, Vec<ShardId>),
    Tell(Tell),
}

/// An event for the consumer, comparable.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tell {
    Subscribed(ShardId),
    Lost(ShardId),
    Message(ShardId, Bytes),
}

impl From<Tell> for FeedEvent {
    fn from(tell: Tell) -> Self {
        match tell {
            Tell::Subscribed(shard) => FeedEvent::Subscribed(shard),
            Tell::Lost(shard) => FeedEvent::Lost(shard),
            Tell::Message(shard, payload) => FeedEvent::Message(shard, payload),
        }
    }
}

#[derive(Debug)]
struct Channel {
    slot: u16,
    /// Node id of the master it should be subscribed on.
    wanted: Option<String>,
    subscribed: Option<ConnectionId>,
    ask_at: Instant,
}

#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    address: String,
    state: State,
    redial_after: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    /// To be opened again at this time.
    Down(Instant),
}

/// All channels and connections.
#[derive(Debug)]
pub(super) struct Feed {
    channels: Vec<Channel>,
    /// By the master's node id.
    connections: BTreeMap<String, Connection>,
    connections_made: u64,
}

impl Feed {
    /// For the shards whose channels lie in these slots, in order.
    pub(super) fn new(slots: impl IntoIterator<Item = u16>, now: Instant) -> Self {
        let channel = |slot| Channel {
            slot,
            wanted: None,
            subscribed: None,
            ask_at: now,
        };
        Feed {
            channels: slots.into_iter().map(channel).collect(),
            connections: BTreeMap::new(),
            connections_made: 0,
        }
    }

    /// Takes in a new topology.
    pub(super) fn route(&mut self, topology: &Topology, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        let gone: Vec<String> = self
            .connections
            .iter()
            .filter(|(id, connection)| {
                topology
                    .master(id)
                    .is_none_or(|master| master.address != connection.address)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for channel in &mut self.channels {
            // While a slot has no master the old subscription is the best there is.
            if let Some(master) = topology.master_of(channel.slot)
                && channel.wanted.as_deref() != Some(&master.id)
            {
                channel.wanted = Some(master.id.clone());
                channel.ask_at = now;
            }
        }
        for id in gone {
            if let Some(connection) = self.connections.remove(&id) {
                self.lose_all(connection.id, &mut actions);
                actions.push(Action::Close(connection.id));
            }
        }
        for master in &topology.masters {
            let wanted = self
                .channels
                .iter()
                .any(|c| c.wanted.as_ref() == Some(&master.id));
            if wanted && !self.connections.contains_key(&master.id) {
                let id = self.next_id();
                let connection = Connection {
                    id,
                    address: master.address.clone(),
                    state: State::Opening,
                    redial_after: REDIAL_AFTER_MIN,
                };
                self.connections.insert(master.id.clone(), connection);
                actions.push(Action::Open(id, master.address.clone()));
            }
        }
        self.ask(now, &mut actions);
        actions
    }

    /// Takes in what happened.
    pub(super) fn apply(&mut self, input: Input, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Opened(id) => {
                // One that broke before it was told of as open is not there any more.
                let opening = |c: &&mut Connection| c.state == State::Opening;
                if let Some(connection) = self.connection(id).filter(opening) {
                    connection.state = State::Open;
                    let master = self.master_of(id);
                    for channel in &mut self.channels {
                        if channel.wanted == master {
                            channel.ask_at = now;
                        }
                    }
                } else {
                    actions.push(Action::Close(id));
                }
            }
            Input::Broken(id) => self.drop_connection(id, now, &mut actions),
            Input::Refused(id, shard) => {
                if self.is_wanted_on(shard, id) {
                    self.channels[usize::from(shard.0)].ask_at = now + REFUSED_AGAIN_AFTER;
                }
            }
            Input::Confirmed(id, shard) => {
                if self.connection(id).is_some()
                    && let Some(channel) = self.channels.get_mut(usize::from(shard.0))
                    && channel.subscribed != Some(id)
                {
                    channel.subscribed = Some(id);
                    actions.push(Action::Tell(Tell::Subscribed(shard)));
                }
            }
            Input::Ended(id, shard) => {
                if let Some(channel) = self.channels.get_mut(usize::from(shard.0))
                    && channel.subscribed == Some(id)
                {
                    channel.subscribed = None;
                    channel.ask_at = now;
                    actions.push(Action::Tell(Tell::Lost(shard)));
                }
            }
            Input::Message(id, shard, payload) => {
                if self.connection(id).is_some() {
                    actions.push(Action::Tell(Tell::Message(shard, payload)));
                }
            }
            Input::Resubscribe(shard) => {
                let subscribed = self
                    .channels
                    .get(usize::from(shard.0))
                    .and_then(|channel| channel.subscribed);
                // One that is not subscribed is being seen to already, perhaps because of another shard of its master.
                if let Some(id) = subscribed {
                    self.drop_connection(id, now, &mut actions);
                }
            }
            Input::Tick => {}
        }
        self.redial(now, &mut actions);
        self.ask(now, &mut actions);
        actions
    }

    fn next_id(&mut self) -> ConnectionId {
        self.connections_made += 1;
        ConnectionId(self.connections_made)
    }

    fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections
            .values_mut()
            .find(|connection| connection.id == id)
    }

    fn master_of(&self, id: ConnectionId) -> Option<String> {
        let mut connections = self.connections.iter();
        connections
            .find(|(_, connection)| connection.id == id)
            .map(|(master, _)| master.clone())
    }

    fn is_wanted_on(&self, shard: ShardId, id: ConnectionId) -> bool {
        let channel = self.channels.get(usize::from(shard.0));
        let master = self.master_of(id);
        master.is_some() && channel.is_some_and(|channel| channel.wanted == master)
    }

    fn lose_all(&mut self, id: ConnectionId, actions: &mut Vec<Action>) {
        for (shard, channel) in (0..).map(ShardId).zip(&mut self.channels) {
            if channel.subscribed == Some(id) {
                channel.subscribed = None;
                actions.push(Action::Tell(Tell::Lost(shard)));
            }
        }
    }

    /// A connection is no good any more: all on it is lost, and a new one is opened in its place.
    fn drop_connection(&mut self, id: ConnectionId, now: Instant, actions: &mut Vec<Action>) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        match connection.state {
            State::Down(_) => return,
            State::Open => {
                connection.state = State::Down(now);
                connection.redial_after = REDIAL_AFTER_MIN;
            }
            State::Opening => {
                connection.state = State::Down(now + connection.redial_after);
                connection.redial_after = (connection.redial_after * 2).min(REDIAL_AFTER_MAX);
            }
        }
        self.lose_all(id, actions);
        actions.push(Action::Close(id));
    }

    fn redial(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for connection in self.connections.values_mut() {
            if matches!(connection.state, State::Down(at) if at <= now) {
                self.connections_made += 1;
                connection.id = ConnectionId(self.connections_made);
                connection.state = State::Opening;
                actions.push(Action::Open(connection.id, connection.address.clone()));
            }
        }
    }

    /// Asks for all that is wanted on an open connection and not subscribed there.
    fn ask(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for (master, connection) in &self.connections {
            if connection.state != State::Open {
                continue;
            }
            let mut shards = Vec::new();
            for (shard, channel) in (0..).map(ShardId).zip(&mut self.channels) {
                if channel.wanted.as_ref() == Some(master)
                    && channel.subscribed != Some(connection.id)
                    && channel.ask_at <= now
                {
                    channel.ask_at = now + UNCONFIRMED_AGAIN_AFTER;
                    shards.push(shard);
                }
            }
            if !shards.is_empty() {
                actions.push(Action::Subscribe(connection.id, shards));
            }
        }
    }
}

#[cfg(test)]
mod tests;
