//! Taps to the log: one outbox per shard, and per master a task that appends what its shards have gathered, in one
//! pipeline with one WAIT. Acknowledges when it is safe, repeats when it is not known, gives up when it is too late.

mod drive;
mod settle;

pub(crate) use drive::run;

use crate::app::App;
use crate::peer::Peer;
use crate::rooms::RoomCopy;
use crate::session::Taken;
use bytes::Bytes;
use settle::{Settled, give_up};
use shared::counting::ids::ProducerId;
use shared::counting::outbox::{AppendOutcome, Outbox, OutboxLimits, Resolution, Step};
use shared::protocol::ServerFrame;
use shared::room::RoomCode;
use shared::shards::ShardId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{oneshot, watch};

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
    /// Told when something comes into an outbox that was empty: those who append sleep while all are.
    filled: watch::Sender<()>,
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

impl Outboxes {
    pub(crate) fn new(shards: u16, open_taps_max: usize) -> Self {
        let shard = || Shard {
            outbox: Outbox::new(new_producer(), OutboxLimits { open_taps_max }),
            in_pipeline: false,
        };
        Outboxes {
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
            filled: watch::Sender::new(()),
        }
    }

    /// Changes whenever an outbox that was empty is not any more.
    fn filled(&self) -> watch::Receiver<()> {
        self.filled.subscribe()
    }

    /// Takes a socket's tap. False: the outbox is full.
    pub(crate) fn take(&self, copy: &RoomCopy, tap: &Taken, peer: &Arc<Peer>) -> bool {
        peer.tap_sent();
        let taken = self.push(copy, tap, From::Socket(Arc::clone(peer)));
        if !taken {
            peer.taps_settled(1);
        }
        taken
    }

    /// Takes a posted tap; the answer comes once it is safe, or never. None: the outbox is full.
    pub(crate) fn take_posted(
        &self,
        copy: &RoomCopy,
        tap: &Taken,
    ) -> Option<oneshot::Receiver<ServerFrame>> {
        let (sender, receiver) = oneshot::channel();
        self.push(copy, tap, From::Post(sender)).then_some(receiver)
    }

    fn push(&self, copy: &RoomCopy, tap: &Taken, from: From) -> bool {
        let ticket = Ticket {
            seq: tap.id.seq,
            taken_at_ms: tap.taken_at_ms,
            from,
        };
        let mut shard = self.lock(copy.shard());
        if let From::Socket(peer) = &ticket.from
            && !peer.is_open()
        {
            // Its batch was given up while this frame was read: no tap of it may follow, see `Step::GaveUp`.
            return false;
        }
        let was_empty = shard.outbox.is_empty();
        let pushed = shard
            .outbox
            .push(copy.code(), tap.id, &tap.key, tap.tapped_at_ms, ticket);
        drop(shard);
        if was_empty {
            self.filled.send_replace(());
        }
        pushed.is_ok()
    }

    /// Has the shard's next batch carry a head count.
    pub(crate) fn set_people(&self, shard: ShardId, code: &RoomCode, people: u32) {
        let mut shard = self.lock(shard);
        let was_empty = shard.outbox.is_empty();
        shard.outbox.set_people(code, people);
        drop(shard);
        if was_empty {
            self.filled.send_replace(());
        }
    }

    /// Whether nothing waits in these shards to be appended, or to be appended again.
    fn are_empty(&self, shards: &[ShardId]) -> bool {
        shards
            .iter()
            .all(|shard| self.lock(*shard).outbox.is_empty())
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
