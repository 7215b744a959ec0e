//! Many phones at once, and what they see together.

use crate::ledger::Sheet;
use crate::phone::{self, Plan};
use shared::room::{ReactionKey, RoomCode};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What all phones are to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Be there.
    Wait,
    /// Tap.
    Tap,
    /// Be there until all is answered.
    Settle,
    /// Leave.
    End,
}

/// Counts what all phones do, for progress.
#[derive(Debug, Default)]
pub struct Board {
    /// Phones that have joined.
    pub connected: AtomicUsize,
    /// Times a connection was lost or not had.
    pub reconnects: AtomicUsize,
    /// Taps sent for the first time.
    pub sent: AtomicUsize,
    /// Taps sent again.
    pub sent_again: AtomicUsize,
    /// Answers.
    pub acknowledged: AtomicUsize,
    /// Refusals.
    pub refused: AtomicUsize,
    /// Taps without an answer.
    pub waiting: AtomicUsize,
}

impl std::fmt::Display for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Board {
            connected,
            reconnects,
            sent,
            sent_again,
            acknowledged,
            refused,
            waiting,
        } = self;
        let [
            connected,
            reconnects,
            sent,
            again,
            acknowledged,
            refused,
            waiting,
        ] = [
            connected,
            reconnects,
            sent,
            sent_again,
            acknowledged,
            refused,
            waiting,
        ]
        .map(|counter| counter.load(Relaxed));
        write!(
            f,
            "{connected} phones, {sent} taps, {acknowledged} acknowledged, {refused} refused, \
             {waiting} waiting, {again} sent again, {reconnects} reconnects"
        )
    }
}

/// What an observer sees of a room: its totals, and when each was first seen.
#[derive(Debug, Default)]
pub struct Seen {
    history: Mutex<BTreeMap<ReactionKey, Vec<(u64, Instant)>>>,
}

impl Seen {
    /// Takes the totals as they are shown now.
    pub fn note(&self, totals: &BTreeMap<ReactionKey, u64>, now: Instant) {
        let mut history = self.history();
        for (key, total) in totals {
            let seen = history.entry(key.clone()).or_default();
            if seen.last().is_none_or(|(last, _)| last < total) {
                seen.push((*total, now));
            }
        }
    }

    /// The totals as shown last.
    pub fn totals(&self) -> BTreeMap<ReactionKey, u64> {
        let history = self.history();
        let last = history
            .iter()
            .filter_map(|(key, seen)| Some((key.clone(), seen.last()?.0)));
        last.collect()
    }

    /// When a total of a reaction was first seen to be so high.
    pub fn first_seen(&self, key: &ReactionKey, total: u64) -> Option<Instant> {
        let history = self.history();
        let seen = history.get(key)?;
        seen.iter()
            .find(|(seen, _)| *seen >= total)
            .map(|(_, at)| *at)
    }

    fn history(&self) -> std::sync::MutexGuard<'_, BTreeMap<ReactionKey, Vec<(u64, Instant)>>> {
        self.history
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A running crowd.
#[derive(Debug)]
pub struct Crowd {
    /// What the phones do.
    pub board: Arc<Board>,
    gateway: SocketAddr,
    phase: watch::Sender<Phase>,
    phones: JoinSet<Sheet>,
}

impl Crowd {
    /// Nobody yet. Phones will connect to this address.
    pub fn new(gateway: SocketAddr) -> Self {
        let (phase, _) = watch::channel(Phase::Wait);
        Crowd {
            board: Arc::default(),
            gateway,
            phase,
            phones: JoinSet::new(),
        }
    }

    /// Adds a phone that taps one of these keys every `interval`.
    pub fn add_phone(&mut self, room: &RoomCode, keys: Vec<ReactionKey>, interval: Duration) {
        self.add(room, keys, interval, None);
    }

    /// Adds a phone that only watches; what it sees.
    pub fn add_observer(&mut self, room: &RoomCode) -> Arc<Seen> {
        let seen = Arc::new(Seen::default());
        self.add(
            room,
            Vec::new(),
            Duration::from_secs(1),
            Some(Arc::clone(&seen)),
        );
        seen
    }

    fn add(
        &mut self,
        room: &RoomCode,
        keys: Vec<ReactionKey>,
        interval: Duration,
        seen: Option<Arc<Seen>>,
    ) {
        self.phones.spawn(phone::run(Plan {
            gateway: self.gateway,
            room: room.clone(),
            keys,
            interval,
            phase: self.phase.subscribe(),
            board: Arc::clone(&self.board),
            seen,
        }));
    }

    /// How many phones there are.
    pub fn len(&self) -> usize {
        self.phones.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.phones.is_empty()
    }

    /// Tells all phones what to do.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Has all phones leave; what each of them sent.
    ///
    /// # Panics
    /// When a phone did: its taps are lost to the comparison.
    pub async fn end(self) -> Vec<Sheet> {
        self.set_phase(Phase::End);
        self.phones.join_all().await
    }
}
