//! Ticks in: merges them into the copies of rooms, and watches that they come.

mod channel;

use crate::app::App;
use crate::fanout;
use channel::{Channel, Due, Health, Order};
use redis::Cmd;
use shared::cluster::subscribe::{FeedEvent, subscribe_to_ticks};
use shared::shards::ShardId;
use shared::ticks::{FeedMessage, Tick};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How often silence is looked for.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
/// The pause before a shard's rooms are read again after that failed.
const REFRESH_PAUSE: Duration = Duration::from_millis(500);

/// The feed's state: only its own task touches it.
struct Feed {
    app: Arc<App>,
    started: Instant,
    channels: Vec<Channel>,
    /// Per shard: whether its rooms are being read again, and whether that has to be done once more.
    refreshes: Vec<Refresh>,
    resubscribe: mpsc::Sender<ShardId>,
    work: JoinSet<Done>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refresh {
    None,
    UnderWay,
    Again,
}

/// What a piece of the feed's work ended with.
#[derive(Clone, Copy)]
enum Done {
    Probed(ShardId, bool),
    /// True if all could be read.
    Refreshed(ShardId, bool),
}

/// Follows the ticks of all shards until `stopping`.
pub(crate) async fn run(app: Arc<App>) {
    let (mut events, resubscribe) =
        subscribe_to_ticks(&app.cluster, &app.tracker, app.stopping.clone());
    let shards = usize::from(app.cluster.shards().count());
    let mut feed = Feed {
        started: Instant::now(),
        channels: (0..shards).map(|_| Channel::default()).collect(),
        refreshes: vec![Refresh::None; shards],
        resubscribe,
        work: JoinSet::new(),
        app,
    };
    let stopping = feed.app.stopping.clone();
    let mut watch = tokio::time::interval(WATCH_INTERVAL);
    loop {
        // All of these are cancel-safe.
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => feed.event(event),
                None => {
                    let ended = Err("the subscriptions have ended".to_owned());
                    return feed.app.readiness.set("feeds", ended);
                }
            },
            Some(Ok(done)) = feed.work.join_next() => feed.done(done),
            _ = watch.tick() => feed.watch(),
            () = stopping.cancelled() => return,
        }
    }
}

impl Feed {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn event(&mut self, event: FeedEvent) {
        let now = self.now();
        match event {
            FeedEvent::Subscribed(shard) => {
                self.channel(shard).subscribed(now);
                self.refresh(shard);
                self.note_started();
            }
            FeedEvent::Lost(shard) => {
                tracing::info!(shard = shard.0, "a ticks channel is lost for now");
            }
            FeedEvent::Message(shard, message) => match serde_json::from_slice(&message) {
                Ok(FeedMessage::Tick(tick)) => self.tick(shard, &tick),
                Ok(FeedMessage::Probe(id)) => self.channel(shard).probe(&id, now),
                Err(error) => {
                    self.app.metrics.ticks_unreadable.inc();
                    tracing::warn!(shard = shard.0, %error, "a message on a ticks channel cannot be read");
                }
            },
        }
    }

    fn tick(&mut self, shard: ShardId, tick: &Tick) {
        let now = self.now();
        self.app.metrics.ticks.inc();
        if self.channel(shard).tick(tick.epoch, tick.serial, now) == Order::Gap {
            self.app.metrics.tick_gaps.inc();
            self.refresh(shard);
        }
        for (code, room) in &tick.rooms {
            if room.expired {
                if let Some(copy) = self.app.rooms.expire(code) {
                    fanout::dismiss(&self.app, &copy);
                }
            } else if let Some(copy) = self.app.rooms.apply(code, room) {
                copy.tell();
            }
        }
    }

    /// Reads a shard's rooms again; one reading at a time, and one more if something was missed meanwhile.
    fn refresh(&mut self, shard: ShardId) {
        let state = &mut self.refreshes[usize::from(shard.0)];
        if *state != Refresh::None {
            *state = Refresh::Again;
            return;
        }
        *state = Refresh::UnderWay;
        self.read_again(shard, Duration::ZERO);
    }

    fn read_again(&mut self, shard: ShardId, pause: Duration) {
        let app = Arc::clone(&self.app);
        self.work.spawn(async move {
            tokio::time::sleep(pause).await;
            let refreshed = app.rooms.refresh(shard).await;
            for copy in refreshed.changed {
                copy.tell();
            }
            for copy in refreshed.expired {
                fanout::dismiss(&app, &copy);
            }
            Done::Refreshed(shard, refreshed.failed == 0)
        });
    }

    fn done(&mut self, done: Done) {
        let now = self.now();
        match done {
            Done::Probed(shard, taken) => self.channel(shard).published(taken, now),
            Done::Refreshed(shard, complete) => {
                let state = &mut self.refreshes[usize::from(shard.0)];
                if complete && *state == Refresh::UnderWay {
                    *state = Refresh::None;
                } else {
                    *state = Refresh::UnderWay;
                    self.read_again(
                        shard,
                        if complete {
                            Duration::ZERO
                        } else {
                            REFRESH_PAUSE
                        },
                    );
                }
            }
        }
    }

    /// Looks for silent channels.
    fn watch(&mut self) {
        let now = self.now();
        for shard in self.app.cluster.shards().all() {
            match self.channel(shard).due(now) {
                Due::Nothing => {}
                Due::Probe => self.probe(shard),
                Due::Resubscribe => {
                    tracing::warn!(
                        shard = shard.0,
                        "a ticks channel does not bring our own probe: subscribing again"
                    );
                    // When the queue is full, this shard is due again after the next probe.
                    let _ = self.resubscribe.try_send(shard);
                }
            }
        }
        self.note_health();
    }

    fn probe(&mut self, shard: ShardId) {
        let id = format!("{:016x}", rand::random::<u64>());
        let Ok(message) = serde_json::to_vec(&FeedMessage::Probe(id.clone())) else {
            return;
        };
        self.channel(shard).publish(id);
        self.app.metrics.probes.inc();
        let app = Arc::clone(&self.app);
        self.work.spawn(async move {
            let mut publish = Cmd::new();
            publish
                .arg("SPUBLISH")
                .arg(app.cluster.shards().ticks(shard))
                .arg(message);
            Done::Probed(shard, app.cluster.request(shard, &publish).await.is_ok())
        });
    }

    fn note_started(&self) {
        let missing = self
            .channels
            .iter()
            .filter(|channel| !channel.was_subscribed)
            .count();
        if missing == 0 {
            self.app.readiness.set("started", Ok(()));
        }
    }

    fn note_health(&self) {
        let count = |health| {
            self.channels
                .iter()
                .filter(|channel| channel.health == health)
                .count()
        };
        let (late, deaf) = (count(Health::Late), count(Health::Deaf));
        self.app
            .metrics
            .shards_late
            .set(i64::try_from(late).unwrap_or(i64::MAX));
        self.app
            .metrics
            .shards_deaf
            .set(i64::try_from(deaf).unwrap_or(i64::MAX));
        let state = if deaf == 0 {
            Ok(())
        } else {
            Err(format!("{deaf} ticks channels do not bring our own probes"))
        };
        self.app.readiness.set("feeds", state);
    }

    fn channel(&mut self, shard: ShardId) -> &mut Channel {
        &mut self.channels[usize::from(shard.0)]
    }
}
