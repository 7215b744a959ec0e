//! Taps to the log: one outbox per shard, and per master a task that appends what its shards have gathered, in one
//! pipeline with one WAIT. Acknowledges when it is safe, repeats when it is not known, gives up when it is too late.

use crate::app::App;
use crate::connection::Farewell;
use crate::encoded::append_text;
use crate::metrics::WhyLabel;
use crate::peer::Peer;
use crate::rooms::RoomCopy;
use crate::session::Taken;
use bytes::Bytes;
use shared::cluster::append::{Appended, Appender};
use shared::cluster::topology::Topology;
use shared::counting::ids::ProducerId;
use shared::counting::outbox::{AppendOutcome, Outbox, OutboxLimits, Resolution, Step};
use shared::protocol::{Refused, ServerFrame, Why, write_ack, write_refused};
use shared::room::RoomCode;
use shared::shards::ShardId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// What is handed back when a tap's fate is known.
#[derive(Debug)]
pub(crate) struct Ticket {
    seq: u32,
    /// By the gateway's clock; when it was taken.
    taken_at_ms: u64,
    from: From,
}

#[derive(Debug)]
enum From {
    Socket(Arc<Peer>),
    /// Dropped without an answer when the fate is not known.
    Post(oneshot::Sender<ServerFrame>),
}

/// The outboxes of all shards.
#[derive(Debug)]
pub(crate) struct Outboxes {
    shards: Vec<Mutex<Shard>>,
}

#[derive(Debug)]
struct Shard {
    outbox: Outbox<Ticket>,
    /// Its batch is in some master's pipeline. While that is so no other task may touch the batch: after a change of
    /// master, the answer to the old append would be taken for that to the next batch.
    in_pipeline: bool,
}

/// How long to wait before trying again when a shard takes no taps: some seconds, not the same for all.
pub(crate) fn busy_retry_ms() -> u64 {
    rand::random_range(1_000..4_000)
}

/// Tickets settled before others get a turn on this thread: each is a write of some 2 us.
const SETTLED_PER_TURN: usize = 256;

impl Outboxes {
    pub(crate) fn new(shards: u16, open_taps_max: usize) -> Self {
        let shard = || Shard {
            outbox: Outbox::new(new_producer(), OutboxLimits { open_taps_max }),
            in_pipeline: false,
        };
        Outboxes {
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
        }
    }

    /// Takes a socket's tap. False: the outbox is full.
    pub(crate) fn take(&self, app: &App, copy: &RoomCopy, tap: &Taken, peer: &Arc<Peer>) -> bool {
        peer.tap_sent();
        let taken = self.push(app, copy, tap, From::Socket(Arc::clone(peer)));
        if !taken {
            peer.taps_settled(1);
        }
        taken
    }

    /// Takes a posted tap; the answer comes once it is safe, or never. None: the outbox is full.
    pub(crate) fn take_posted(
        &self,
        app: &App,
        copy: &RoomCopy,
        tap: &Taken,
    ) -> Option<oneshot::Receiver<ServerFrame>> {
        let (sender, receiver) = oneshot::channel();
        self.push(app, copy, tap, From::Post(sender))
            .then_some(receiver)
    }

    fn push(&self, app: &App, copy: &RoomCopy, tap: &Taken, from: From) -> bool {
        let tapped_at_ms = app
            .cluster
            .log_now_ms(copy.shard())
            .saturating_sub(tap.age_ms);
        let ticket = Ticket {
            seq: tap.id.seq,
            taken_at_ms: app.clock.now_ms(),
            from,
        };
        let mut shard = self.lock(copy.shard());
        if let From::Socket(peer) = &ticket.from
            && !peer.is_open()
        {
            // Its batch was given up while this frame was read: no tap of it may follow, see `Step::GaveUp`.
            return false;
        }
        shard
            .outbox
            .push(copy.code(), tap.id, &tap.key, tapped_at_ms, ticket)
            .is_ok()
    }

    /// Has the shard's next batch carry a head count.
    pub(crate) fn set_people(&self, shard: ShardId, code: &RoomCode, people: u32) {
        self.lock(shard).outbox.set_people(code, people);
    }

    /// Taps that wait for an append or for its answer.
    pub(crate) fn taps(&self) -> usize {
        self.all().map(|shard| self.lock(shard).outbox.taps()).sum()
    }

    fn all(&self) -> impl Iterator<Item = ShardId> {
        (0..self.shards.len()).map(|shard| ShardId(u16::try_from(shard).unwrap_or(u16::MAX)))
    }

    fn lock(&self, shard: ShardId) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(shard.0)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals what is open in these shards. `settle` gets the tickets whose fate that decides.
    fn seal(
        &self,
        app: &App,
        shards: &[ShardId],
        settled: &mut Vec<Settled>,
    ) -> Vec<(ShardId, Bytes)> {
        let mut batches = Vec::new();
        for &id in shards {
            let mut shard = self.lock(id);
            if shard.in_pipeline {
                continue;
            }
            match shard.outbox.step(app.cluster.log_now_ms(id), new_producer) {
                Step::Idle => {}
                Step::Append { value, too_old, .. } => {
                    shard.in_pipeline = true;
                    settled.push(Settled::TooOld(too_old));
                    batches.push((id, value));
                }
                Step::GaveUp(tickets) => give_up(app, tickets),
            }
        }
        batches
    }

    fn resolve(&self, app: &App, id: ShardId, outcome: AppendOutcome) -> Option<Settled> {
        let mut shard = self.lock(id);
        shard.in_pipeline = false;
        match shard.outbox.resolve(outcome, new_producer) {
            Resolution::Acknowledge(tickets) => Some(Settled::Safe(tickets)),
            Resolution::Retry => None,
            Resolution::GaveUp(tickets) => {
                give_up(app, tickets);
                None
            }
        }
    }
}

fn new_producer() -> ProducerId {
    ProducerId(rand::random())
}

/// Tickets whose fate is known.
#[derive(Debug)]
enum Settled {
    Safe(Vec<Ticket>),
    TooOld(Vec<Ticket>),
}

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

/// Appends for one master until the topology no longer has it.
async fn drive(app: Arc<App>, master: String) {
    let mut connection = Appender::new(app.cluster.clone(), master.clone());
    let topology = app.cluster.topology();
    let mut known: Option<Arc<Topology>> = None;
    let mut shards = Vec::new();
    let mut flush = tokio::time::interval(app.settings.flush_interval);
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Both are cancel-safe.
        tokio::select! {
            _ = flush.tick() => {}
            () = app.stopping.cancelled() => return,
        }
        let current = Arc::clone(&topology.borrow());
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

/// Tells those whose taps these were.
async fn settle(app: &App, settled: Vec<Settled>) {
    for settled in settled {
        match settled {
            Settled::Safe(tickets) => {
                let now_ms = app.clock.now_ms();
                for ticket in &tickets {
                    let waited_ms = now_ms.saturating_sub(ticket.taken_at_ms);
                    app.metrics
                        .ack_seconds
                        .observe(Duration::from_millis(waited_ms).as_secs_f64());
                }
                app.metrics.acks.inc_by(tickets.len() as u64);
                answer(app, tickets, ServerFrame::Ack, write_ack).await;
            }
            Settled::TooOld(tickets) => {
                app.metrics
                    .refused
                    .get_or_create(&WhyLabel {
                        why: Why::TooOld.as_str(),
                    })
                    .inc_by(tickets.len() as u64);
                let refused = |seq| {
                    ServerFrame::Refused(Refused {
                        seq,
                        why: Why::TooOld,
                        retry_ms: None,
                    })
                };
                answer(app, tickets, refused, |json, seq| {
                    write_refused(json, seq, Why::TooOld, None);
                })
                .await;
            }
        }
    }
}

/// Answers each tap; all those of one socket in one write.
async fn answer(
    app: &App,
    tickets: Vec<Ticket>,
    frame: impl Fn(u32) -> ServerFrame,
    write: impl Fn(&mut Vec<u8>, u32),
) {
    let mut sockets = Vec::with_capacity(tickets.len());
    for Ticket { seq, from, .. } in tickets {
        match from {
            From::Socket(peer) => sockets.push((peer, seq)),
            // Whoever posted may have gone.
            From::Post(answer) => drop(answer.send(frame(seq))),
        }
    }
    // Stable: the acks of one socket stay in the order of its taps.
    sockets.sort_by_key(|(peer, _)| Arc::as_ptr(peer).addr());
    for (turn, taps) in sockets
        .chunk_by(|one, other| Arc::ptr_eq(&one.0, &other.0))
        .enumerate()
    {
        let peer = &taps[0].0;
        let mut wire = Vec::with_capacity(taps.len() * 16);
        for (_, seq) in taps {
            append_text(&mut wire, |json| write(json, *seq));
        }
        let sent = peer.send_wire(Bytes::from(wire), app.clock.tenths());
        peer.taps_settled(u32::try_from(taps.len()).unwrap_or(u32::MAX));
        if !sent {
            app.overflow(peer);
        }
        if turn % SETTLED_PER_TURN == SETTLED_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
}

/// The fate of these is not known and never will be here: their phones come back and send them again. Posts end
/// without an answer, which says the same. Called while the shard is locked, so that none of these sockets can
/// add a tap to its outbox any more; locks are taken in the order shard, then peer, everywhere.
fn give_up(app: &App, tickets: Vec<Ticket>) {
    app.metrics.given_up_taps.inc_by(tickets.len() as u64);
    tracing::warn!(
        taps = tickets.len(),
        "a batch did not reach the log in time and is given up"
    );
    for Ticket { from, .. } in tickets {
        if let From::Socket(peer) = from {
            peer.taps_settled(1);
            app.close(
                &peer,
                Farewell::Overload(
                    "taps could not be stored in time: send them again",
                    busy_retry_ms(),
                ),
            );
        }
    }
}
