//! Sharded subscriptions that survive a failover, a slot migration and a cut connection: the I/O around `feed`.

use super::client::Cluster;
use super::errors::tells_of_change;
use super::feed::{Action, ConnectionId, Feed, Input};
use crate::shards::ShardId;
use bytes::Bytes;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{PushInfo, PushKind, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Events waiting for the consumer; some seconds of a busy cluster.
const EVENTS_MAX: usize = 1_024;

/// Pushes waiting to be turned into events. When there are more, the connection they came by is given up: its shards are
/// then subscribed anew, and the consumer is told of a gap rather than left behind for ever.
const PUSHES_MAX: usize = 4_096;

/// Wishes to subscribe anew that wait.
const WISHES_MAX: usize = 1_024;

/// How often what is missing is asked for again.
const TICK: Duration = Duration::from_millis(50);

/// How often a connection is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(1);

/// How long a command on a subscription's connection may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What a subscription tells, in the order of its channel; messages can come twice around a change of master.
#[derive(Debug, Clone)]
pub enum FeedEvent {
    /// The channel is subscribed (again): what was published before may have been missed.
    Subscribed(ShardId),
    /// The channel is not subscribed at the moment.
    Lost(ShardId),
    /// A message.
    Message(ShardId, Bytes),
}

/// Subscribes to the ticks channels of all shards and keeps them subscribed until `shutdown`.
/// `resubscribe` takes shards whose channel the caller found dead (it did not hear its own probe).
pub fn subscribe_to_ticks(
    cluster: &Cluster,
    tracker: &TaskTracker,
    shutdown: CancellationToken,
) -> (mpsc::Receiver<FeedEvent>, mpsc::Sender<ShardId>) {
    let (events, receiver) = mpsc::channel(EVENTS_MAX);
    let (wishes, wished) = mpsc::channel(WISHES_MAX);
    let subscriber = Subscriber::new(cluster.clone(), events);
    tracker.spawn(async move {
        // Nothing is lost by stopping anywhere: the connections are closed with the subscriber.
        shutdown.run_until_cancelled(subscriber.run(wished)).await;
    });
    (receiver, wishes)
}

struct Subscriber {
    cluster: Cluster,
    channels: Arc<HashMap<Vec<u8>, ShardId>>,
    feed: Feed,
    events: mpsc::Sender<FeedEvent>,
    pushes: mpsc::Sender<(ConnectionId, PushInfo)>,
    pushed: Option<mpsc::Receiver<(ConnectionId, PushInfo)>>,
    links: HashMap<ConnectionId, Link>,
    work: JoinSet<Done>,
    ever_subscribed: HashSet<ShardId>,
}

/// An open connection.
struct Link {
    connection: MultiplexedConnection,
    overflowed: Arc<AtomicBool>,
    pinging: bool,
    pinged: Instant,
}

/// What a piece of work brought.
enum Done {
    Opened(ConnectionId, MultiplexedConnection, Arc<AtomicBool>),
    Failed(ConnectionId),
    Asked(ConnectionId, Vec<ShardId>),
    Pinged(ConnectionId),
}

impl Subscriber {
    fn new(cluster: Cluster, events: mpsc::Sender<FeedEvent>) -> Self {
        let shards = cluster.shards();
        let channels = shards
            .all()
            .map(|shard| (shards.ticks(shard).into_bytes(), shard));
        let channels = Arc::new(channels.collect());
        let feed = Feed::new(shards.all().map(|shard| shards.slot(shard)), Instant::now());
        let (pushes, pushed) = mpsc::channel(PUSHES_MAX);
        Subscriber {
            cluster,
            channels,
            feed,
            events,
            pushes,
            pushed: Some(pushed),
            links: HashMap::new(),
            work: JoinSet::new(),
            ever_subscribed: HashSet::new(),
        }
    }

    async fn run(mut self, mut wished: mpsc::Receiver<ShardId>) {
        let Some(mut pushed) = self.pushed.take() else {
            return;
        };
        let mut topology = self.cluster.topology();
        topology.mark_changed();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let actions = tokio::select! {
                // Pushes last, so that a busy channel cannot keep the rest waiting.
                biased;
                changed = topology.changed() => match changed {
                    Ok(()) => {
                        let now = topology.borrow_and_update().clone();
                        self.feed.route(&now, Instant::now())
                    }
                    // The watcher has ended: so will we.
                    Err(_) => return,
                },
                Some(shard) = wished.recv() => self.apply(Input::Resubscribe(shard)),
                Some(done) = self.work.join_next(), if !self.work.is_empty() => match done {
                    Ok(done) => self.take_in(done),
                    Err(error) => {
                        tracing::error!(%error, "a subscription task failed");
                        continue;
                    }
                },
                _ = ticks.tick() => self.look_after_links(),
                Some((id, push)) = pushed.recv() => match self.read(id, push) {
                    Some(input) => self.apply(input),
                    None => continue,
                },
            };
            for action in actions {
                if self.perform(action).await.is_err() {
                    return;
                }
            }
        }
    }

    fn apply(&mut self, input: Input) -> Vec<Action> {
        self.feed.apply(input, Instant::now())
    }

    fn take_in(&mut self, done: Done) -> Vec<Action> {
        match done {
            Done::Opened(id, connection, overflowed) => {
                let link = Link {
                    connection,
                    overflowed,
                    pinging: false,
                    pinged: Instant::now(),
                };
                self.links.insert(id, link);
                self.apply(Input::Opened(id))
            }
            Done::Failed(id) => {
                self.cluster.poll_topology();
                self.apply(Input::Broken(id))
            }
            Done::Asked(id, refused) => {
                let mut actions = Vec::new();
                for shard in refused {
                    actions.extend(self.apply(Input::Refused(id, shard)));
                }
                actions
            }
            Done::Pinged(id) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.pinging = false;
                }
                Vec::new()
            }
        }
    }

    /// Pings the quiet, gives up the overflowed.
    fn look_after_links(&mut self) -> Vec<Action> {
        let mut overflowed = Vec::new();
        for (id, link) in &mut self.links {
            if link.overflowed.load(Ordering::Relaxed) {
                overflowed.push(*id);
            } else if !link.pinging && link.pinged.elapsed() >= PING_EVERY {
                link.pinging = true;
                link.pinged = Instant::now();
                let (id, mut connection) = (*id, link.connection.clone());
                self.work.spawn(async move {
                    match connection.req_packed_command(&redis::cmd("PING")).await {
                        Ok(_) => Done::Pinged(id),
                        Err(_) => Done::Failed(id),
                    }
                });
            }
        }
        let mut actions = self.apply(Input::Tick);
        for id in overflowed {
            tracing::warn!("ticks came faster than they were taken in: subscribing anew");
            self.cluster.inner.metrics.feed_overflows.inc();
            actions.extend(self.apply(Input::Broken(id)));
        }
        actions
    }

    /// What a push says.
    fn read(&self, id: ConnectionId, push: PushInfo) -> Option<Input> {
        if push.kind == PushKind::Disconnection {
            self.cluster.poll_topology();
            return Some(Input::Broken(id));
        }
        let mut data = push.data.into_iter();
        let Some(Value::BulkString(channel)) = data.next() else {
            return None;
        };
        let shard = *self.channels.get(&channel)?;
        match (push.kind, data.next()) {
            (PushKind::SMessage, Some(Value::BulkString(payload))) => {
                Some(Input::Message(id, shard, Bytes::from(payload)))
            }
            (PushKind::SSubscribe, _) => Some(Input::Confirmed(id, shard)),
            (PushKind::SUnsubscribe, _) => {
                self.cluster.poll_topology();
                Some(Input::Ended(id, shard))
            }
            _ => None,
        }
    }

    async fn perform(&mut self, action: Action) -> Result<(), mpsc::error::SendError<FeedEvent>> {
        match action {
            Action::Open(id, address) => self.open(id, address),
            Action::Close(id) => drop(self.links.remove(&id)),
            Action::Subscribe(id, shards) => self.subscribe(id, shards),
            Action::Tell(tell) => {
                let event = FeedEvent::from(tell);
                if let FeedEvent::Subscribed(shard) = event
                    && !self.ever_subscribed.insert(shard)
                {
                    self.cluster.inner.metrics.resubscriptions.inc();
                }
                self.events.send(event).await?;
            }
        }
        Ok(())
    }

    fn open(&mut self, id: ConnectionId, address: String) {
        if self.links.is_empty() && self.ever_subscribed.is_empty() {
            tracing::debug!(address, "subscribing to ticks");
        } else {
            self.cluster.inner.metrics.reconnects.inc();
        }
        let overflowed = Arc::new(AtomicBool::new(false));
        let (flag, pushes) = (overflowed.clone(), self.pushes.clone());
        let push = move |push: PushInfo| {
            pushes
                .try_send((id, push))
                .inspect_err(|_| flag.store(true, Ordering::Relaxed))
        };
        let dialer = self.cluster.inner.dialer.clone();
        self.work.spawn(async move {
            match dialer
                .open_with_pushes(&address, ANSWER_TIMEOUT, push)
                .await
            {
                Ok(connection) => Done::Opened(id, connection, overflowed),
                Err(error) => {
                    tracing::debug!(address, %error, "no connection to subscribe on");
                    Done::Failed(id)
                }
            }
        });
    }

    /// Asks for each channel by itself: one SSUBSCRIBE for several slots is refused as a whole. Whether it worked is
    /// told by the pushes, which stand in the order of the messages.
    fn subscribe(&mut self, id: ConnectionId, shards: Vec<ShardId>) {
        let Some(link) = self.links.get(&id) else {
            return;
        };
        let mut connection = link.connection.clone();
        let cluster = self.cluster.clone();
        self.work.spawn(async move {
            let mut refused = Vec::new();
            for shard in shards {
                let mut command = redis::cmd("SSUBSCRIBE");
                command.arg(cluster.shards().ticks(shard));
                match connection.req_packed_command(&command).await {
                    Ok(Value::ServerError(error)) => {
                        if tells_of_change(&error) {
                            cluster.poll_topology();
                        }
                        refused.push(shard);
                    }
                    Ok(_) => {}
                    Err(_) => return Done::Failed(id),
                }
            }
            Done::Asked(id, refused)
        });
    }
}
