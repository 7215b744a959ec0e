//! A virtual gateway: takes its people's taps as they are due, and appends a batch of them every flush interval through
//! the real outbox and the real appender, one batch in flight.

use super::board::Board;
use super::people::{self, Turns};
use shared::cluster::Cluster;
use shared::cluster::append::Appender;
use shared::counting::ids::ProducerId;
use shared::counting::outbox::{AppendOutcome, Outbox, OutboxLimits, Resolution, Step};
use shared::room::{ReactionKey, RoomCode};
use shared::shards::ShardId;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// As the gateway has it by default: beyond it a tap is refused as busy.
const OPEN_TAPS_MAX: usize = 20_000;
/// How often a gateway tells its head count.
const PEOPLE_EVERY: Duration = Duration::from_secs(10);

/// What one virtual gateway does.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) room: RoomCode,
    pub(crate) shard: ShardId,
    pub(crate) people: Turns,
    pub(crate) people_count: u32,
    pub(crate) taps_per_second: f64,
    pub(crate) flush_interval: Duration,
    /// When its first batch is due.
    pub(crate) first_due: Instant,
}

/// A virtual gateway at work.
pub(crate) struct Producer {
    part: Part,
    cluster: Cluster,
    appender: Appender,
    /// Hands back which reaction a tap was of.
    outbox: Outbox<u8>,
    keys: Vec<ReactionKey>,
    board: Arc<Board>,
    /// Taps that were due so far.
    tapped: u64,
    people_told: Option<Instant>,
}

impl Producer {
    pub(crate) fn new(part: Part, cluster: Cluster, master: String, board: Arc<Board>) -> Self {
        let limits = OutboxLimits {
            open_taps_max: OPEN_TAPS_MAX,
        };
        Producer {
            appender: Appender::new(cluster.clone(), master),
            outbox: Outbox::new(new_producer(), limits),
            keys: people::keys(),
            tapped: 0,
            people_told: None,
            part,
            cluster,
            board,
        }
    }

    /// Works until `stop`; then what is in flight is settled.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut due = self.part.first_due;
        loop {
            let free = Instant::now();
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {}
                () = stop.cancelled() => break,
            }
            let now = Instant::now();
            // While a batch is in flight the next one waits: that is Redis's doing, not ours.
            self.board.note_late(now - due.max(free));
            self.take_taps(now);
            self.flush().await;
            due += self.part.flush_interval;
            let behind = Instant::now().saturating_duration_since(due);
            let flushes = behind.as_nanos() / self.part.flush_interval.as_nanos();
            due += self.part.flush_interval * u32::try_from(flushes).unwrap_or(u32::MAX);
        }
        while !self.outbox.is_empty() {
            self.flush().await;
            if !self.outbox.is_empty() {
                tokio::time::sleep(self.part.flush_interval).await;
            }
        }
    }

    /// Takes the taps that are due by now.
    fn take_taps(&mut self, now: Instant) {
        if self
            .people_told
            .is_none_or(|told| told.elapsed() >= PEOPLE_EVERY)
        {
            self.people_told = Some(now);
            let people = self.part.people_count;
            self.outbox.set_people(&self.part.room, people);
        }
        let span = now.saturating_duration_since(self.part.first_due) + self.part.flush_interval;
        let due = span.as_secs_f64() * self.part.taps_per_second;
        // As many as fit between two flushes, and no fraction of one.
        let due = Duration::from_secs_f64(due).as_secs();
        let new = due.saturating_sub(self.tapped);
        let log_now_ms = self.cluster.log_now_ms(self.part.shard);
        let spread_ms = u64::try_from(self.part.flush_interval.as_millis()).unwrap_or(1);
        let mut refused = 0;
        for index in 0..new {
            let id = self.part.people.tap();
            let reaction = people::reaction(id);
            let key = &self.keys[usize::from(reaction)];
            let tapped_at_ms = log_now_ms - index * spread_ms / new;
            let room = &self.part.room;
            let pushed = self.outbox.push(room, id, key, tapped_at_ms, reaction);
            refused += u64::from(pushed.is_err());
        }
        self.tapped = due;
        self.board.tapped.fetch_add(new, Relaxed);
        self.board.refused.fetch_add(refused, Relaxed);
    }

    async fn flush(&mut self) {
        let log_now_ms = self.cluster.log_now_ms(self.part.shard);
        let value = match self.outbox.step(log_now_ms, new_producer) {
            Step::Idle => return,
            Step::GaveUp(tickets) => return self.give_up(&tickets),
            Step::Append { value, .. } => value,
        };
        let started = Instant::now();
        let results = self.appender.append(&[(self.part.shard, value)]).await;
        self.board.note_append(started.elapsed());
        let outcome = match results.into_iter().next() {
            Some(appended) => {
                if let Some(error) = appended.error {
                    let mut last = self.board.last_error.lock();
                    if let Ok(last) = &mut last {
                        **last = Some(error);
                    }
                }
                appended.outcome
            }
            None => AppendOutcome::Unknown,
        };
        match self.outbox.resolve(outcome, new_producer) {
            Resolution::Acknowledge(tickets) => {
                for key in &tickets {
                    self.board.by_key[usize::from(*key)].fetch_add(1, Relaxed);
                }
                let taps = tickets.len() as u64;
                self.board.acknowledged.fetch_add(taps, Relaxed);
                self.board.appended.fetch_add(1, Relaxed);
            }
            Resolution::Retry => _ = self.board.repeated.fetch_add(1, Relaxed),
            Resolution::GaveUp(tickets) => self.give_up(&tickets),
        }
    }

    fn give_up(&self, tickets: &[u8]) {
        self.board.given_up.fetch_add(tickets.len() as u64, Relaxed);
    }
}

fn new_producer() -> ProducerId {
    ProducerId(rand::random())
}
