//! The frames of one room as one gateway sends them, as far as this thread's phones see them.
//!
//! All phones of a room get the same bytes. So a frame is read as JSON when its bytes are seen for the first time, and
//! known by its bytes after that. What it is known as is the *sum* of the room's totals with it.
//!
//! Phones are not read in step: one may show the frame after next before another shows the next. So the table keeps
//! the room's states in their order, and a frame leads from the last state that it has news for: that is the one
//! before it, whoever showed it first.

use super::harvest::FrameSeen;
use shared::protocol::ServerFrame;
use shared::room::{ReactionKey, RoomState};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Frames that are compared first: phones of a thread are rarely further apart than two ticks, and in between lie the
/// room frames of those who join.
const RECENT: usize = 6;
/// States and frames that are kept for those who lag: over four minutes of them, and a gateway closes a phone that takes
/// nothing for 30 s.
const KEPT_MAX: usize = 1024;

/// What a frame means for a phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Totals have grown to this sum; 0: none of the phones here can need it.
    Tick(u64),
    /// The room as a whole, with this sum; whether it takes taps.
    Room(u64, bool),
}

/// The frames of a room by a gateway.
#[derive(Debug)]
pub(super) struct Table {
    /// The room, by index.
    pub(super) room: u32,
    /// The gateway's id.
    pub(super) gateway: String,
    keys: Vec<ReactionKey>,
    /// The newest first.
    recent: VecDeque<Frame>,
    known: HashMap<Box<[u8]>, Meaning>,
    states: VecDeque<State>,
    /// Tick frames by sum.
    log: BTreeMap<u64, FrameSeen>,
}

#[derive(Debug)]
struct Frame {
    bytes: Box<[u8]>,
    meaning: Meaning,
    /// By the log only two phones' sights are wanted.
    first_phone: u32,
    is_seen_twice: bool,
}

/// Totals by key, and their sum. A key beyond the end has none.
#[derive(Debug)]
struct State {
    sum: u64,
    totals: Vec<u64>,
}

impl State {
    fn new(totals: Vec<u64>) -> State {
        State {
            sum: totals.iter().sum(),
            totals,
        }
    }

    /// Whether these totals are no news.
    fn covers(&self, totals: &[(usize, u64)]) -> bool {
        let known = |key: usize| self.totals.get(key).copied().unwrap_or(0);
        totals.iter().all(|(key, total)| known(*key) >= *total)
    }

    fn with(&self, totals: &[(usize, u64)]) -> State {
        let mut merged = self.totals.clone();
        for (key, total) in totals {
            if merged.len() <= *key {
                merged.resize(*key + 1, 0);
            }
            merged[*key] = merged[*key].max(*total);
        }
        State::new(merged)
    }
}

impl Table {
    /// `keys` as the plan numbers them.
    pub(super) fn new(room: u32, gateway: &str, keys: Vec<ReactionKey>) -> Table {
        Table {
            room,
            gateway: gateway.to_owned(),
            keys,
            recent: VecDeque::with_capacity(RECENT + 1),
            known: HashMap::new(),
            states: VecDeque::new(),
            log: BTreeMap::new(),
        }
    }

    /// A tick or room frame came; none if its bytes are neither. On the hot path: mostly a comparison or two.
    #[inline]
    pub(super) fn meaning(&mut self, payload: &[u8], now_us: u64, phone: u32) -> Option<Meaning> {
        for frame in &mut self.recent {
            if *frame.bytes == *payload {
                let meaning = frame.meaning;
                if !frame.is_seen_twice && frame.first_phone != phone {
                    frame.is_seen_twice = true;
                    self.saw_again(meaning, now_us, phone);
                }
                return Some(meaning);
            }
        }
        self.unusual(payload, now_us, phone)
    }

    #[cold]
    fn unusual(&mut self, payload: &[u8], now_us: u64, phone: u32) -> Option<Meaning> {
        if let Some(meaning) = self.known.get(payload).copied() {
            // Whoever lags must not push out what the others get.
            self.saw_again(meaning, now_us, phone);
            return Some(meaning);
        }
        let (meaning, totals) = match serde_json::from_slice(payload).ok()? {
            ServerFrame::Tick(tick) => {
                let totals = self.numbered(tick.totals);
                (Meaning::Tick(self.tick(&totals)), totals)
            }
            ServerFrame::Room(room) => {
                let is_open = room.state == RoomState::Open;
                let totals = self.numbered(room.totals);
                (Meaning::Room(self.whole(&totals), is_open), totals)
            }
            _ => return None,
        };
        self.log(meaning, &totals, now_us, phone);
        self.keep(payload, meaning, phone);
        Some(meaning)
    }

    fn keep(&mut self, payload: &[u8], meaning: Meaning, first_phone: u32) {
        if self.known.len() >= KEPT_MAX {
            // Should one of them come after all, it is read once more, and its state is still known.
            self.known.clear();
        }
        self.known.insert(payload.into(), meaning);
        let frame = Frame {
            bytes: payload.into(),
            meaning,
            first_phone,
            is_seen_twice: false,
        };
        self.recent.push_front(frame);
        self.recent.truncate(RECENT);
    }

    fn numbered(&mut self, totals: BTreeMap<ReactionKey, u64>) -> Vec<(usize, u64)> {
        let number = |(key, total): (ReactionKey, u64)| {
            let known = self.keys.iter().position(|known| *known == key);
            let number = known.unwrap_or_else(|| {
                // The host added it to the palette.
                self.keys.push(key);
                self.keys.len() - 1
            });
            (number, total)
        };
        totals.into_iter().map(number).collect()
    }

    /// The sum of the state that a tick leads to.
    fn tick(&mut self, totals: &[(usize, u64)]) -> u64 {
        let before = self.states.iter().rposition(|state| !state.covers(totals));
        let Some(before) = before else {
            // Older than what any phone here began with.
            return 0;
        };
        let state = self.states[before].with(totals);
        self.insert(before + 1, state)
    }

    /// The sum of a whole room.
    fn whole(&mut self, totals: &[(usize, u64)]) -> u64 {
        let state = State::new(Vec::new()).with(totals);
        let place = self.states.partition_point(|known| known.sum < state.sum);
        self.insert(place, state)
    }

    fn insert(&mut self, place: usize, state: State) -> u64 {
        let sum = state.sum;
        if self.states.get(place).is_none_or(|next| next.sum != sum) {
            self.states.insert(place, state);
            if self.states.len() > KEPT_MAX {
                self.states.pop_front();
            }
        }
        sum
    }

    fn log(&mut self, meaning: Meaning, totals: &[(usize, u64)], now_us: u64, phone: u32) {
        let Meaning::Tick(sum @ 1..) = meaning else {
            return;
        };
        if self.log.contains_key(&sum) {
            return self.saw_again(meaning, now_us, phone);
        }
        let totals = totals.iter();
        let totals = totals.filter_map(|(key, total)| Some((u8::try_from(*key).ok()?, *total)));
        let seen = FrameSeen {
            sum,
            first_us: now_us,
            first_phone: phone,
            second_us: None,
            totals: totals.collect(),
        };
        self.log.insert(sum, seen);
    }

    fn saw_again(&mut self, meaning: Meaning, now_us: u64, phone: u32) {
        if let Meaning::Tick(sum) = meaning
            && let Some(seen) = self.log.get_mut(&sum)
            && seen.second_us.is_none()
            && seen.first_phone != phone
        {
            seen.second_us = Some(now_us);
        }
    }

    /// Each distinct tick frame, in order.
    pub(super) fn into_log(self) -> (u32, String, Vec<FrameSeen>) {
        (self.room, self.gateway, self.log.into_values().collect())
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
