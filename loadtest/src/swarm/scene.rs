//! What the phones of a thread have in common.

use super::assignment::Assignment;
use super::frames::Table;
use super::handshake::Request;
use super::harvest::FrameLog;
use super::sheet::Sending;
use super::tally::Tally;
use super::wire::{self, opcode};
use crate::scenario::Scenario;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt};
use shared::room::ReactionKey;
use std::collections::HashMap;
use std::io::Write;

/// Beyond the cooldown: see [`crate::scenario::taps`].
const MARGIN_MS: u64 = 50;

/// The surroundings of a thread's phones.
#[derive(Debug)]
pub(super) struct Scene {
    /// Now, microseconds from zero.
    pub(super) now_us: u64,
    /// Whether the phone at work has only got what does not change when it is to be woken.
    pub(super) is_only_news: bool,
    /// Whether phones tap.
    pub(super) is_tapping: bool,
    /// After so long a tap that could not be made is not made any more, microseconds.
    pub(super) patience_us: u64,
    /// The least time between two taps of a phone, microseconds.
    pub(super) gap_us: u64,
    /// What the phone at work is to send.
    pub(super) out: Vec<u8>,
    pub(super) tally: Tally,
    pub(super) tables: Tables,
    requests: Vec<Request>,
    keys: Vec<Vec<ReactionKey>>,
    masks: SmallRng,
    text: Vec<u8>,
}

impl Scene {
    pub(super) fn new(assignment: &Assignment) -> Scene {
        let Scenario { tap, rooms, .. } = &assignment.scenario;
        let gap_us = (rooms.cooldown_ms + MARGIN_MS) * 1000;
        let longest = tap.map(|tap| tap.every_seconds[1]);
        let patience = longest.map(std::time::Duration::try_from_secs_f64);
        let keys: Vec<_> = assignment
            .rooms
            .iter()
            .map(|room| room.keys.clone())
            .collect();
        Scene {
            now_us: 0,
            is_only_news: false,
            is_tapping: true,
            patience_us: patience
                .and_then(Result::ok)
                .map_or(gap_us, super::clock::microseconds),
            gap_us,
            out: Vec::new(),
            tally: Tally::default(),
            tables: Tables {
                keys: keys.clone(),
                tables: Vec::new(),
                numbers: HashMap::new(),
            },
            requests: (0..keys.len())
                .map(|room| Request::new(assignment, room))
                .collect(),
            keys,
            masks: rand::make_rng(),
            text: Vec::new(),
        }
    }

    /// The handshake for a room.
    pub(super) fn request(&mut self, room: u32) {
        self.requests[index(room)].append(&mut self.out);
    }

    /// A phone's first frame.
    pub(super) fn join(&mut self, client: [u8; 16], page: u32) {
        let client = u128::from_be_bytes(client);
        self.say(format_args!(
            r#"{{"join":{{"client":"{client:032x}","page":"{page:08x}","role":"phone","token":null}}}}"#
        ));
    }

    /// A tap, for the first time or again.
    pub(super) fn tap(&mut self, room: u32, tap: Sending) {
        let Sending { key, seq, age_ms } = tap;
        let keys = std::mem::take(&mut self.keys);
        let key = &keys[index(room)][usize::from(key)];
        match age_ms {
            0 => self.say(format_args!(r#"{{"tap":{{"key":"{key}","seq":{seq}}}}}"#)),
            _ => self.say(format_args!(
                r#"{{"tap":{{"key":"{key}","seq":{seq},"age_ms":{age_ms}}}}}"#
            )),
        }
        self.keys = keys;
    }

    /// A ping of the browser protocol.
    pub(super) fn ping(&mut self) {
        self.say(format_args!(r#"{{"ping":1}}"#));
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) {
        let mut bytes = std::mem::take(&mut self.text);
        bytes.clear();
        bytes
            .write_fmt(text)
            .expect("writing to a vector does not fail");
        self.frame(opcode::TEXT, &bytes);
        self.text = bytes;
    }

    /// A frame with any payload.
    pub(super) fn frame(&mut self, opcode: u8, payload: &[u8]) {
        let mask = self.masks.next_u32().to_le_bytes();
        wire::append(&mut self.out, opcode, payload, mask);
    }

    /// 128 random bits for a client and 32 for a page.
    pub(super) fn ids(&mut self) -> ([u8; 16], u32) {
        (self.masks.random(), self.masks.random())
    }
}

/// The tables of frames, by room and gateway.
#[derive(Debug)]
pub(super) struct Tables {
    keys: Vec<Vec<ReactionKey>>,
    tables: Vec<Table>,
    /// By room and gateway: asked at joins only.
    numbers: HashMap<(u32, String), usize>,
}

impl Tables {
    /// The number of a room's table at a gateway.
    pub(super) fn number(&mut self, room: u32, gateway: &str) -> usize {
        let name = (room, gateway.to_owned());
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let keys = self.keys[index(room)].clone();
        self.tables.push(Table::new(room, gateway, keys));
        self.numbers.insert(name, self.tables.len() - 1);
        self.tables.len() - 1
    }

    /// A table by its number.
    #[inline]
    pub(super) fn table(&mut self, number: usize) -> &mut Table {
        &mut self.tables[number]
    }

    /// What was seen.
    pub(super) fn into_logs(self) -> Vec<FrameLog> {
        let logs = self.tables.into_iter().map(|table| {
            let (room, gateway, frames) = table.into_log();
            FrameLog {
                room,
                gateway,
                frames,
            }
        });
        logs.collect()
    }
}

fn index(room: u32) -> usize {
    usize::try_from(room).unwrap_or(usize::MAX)
}
