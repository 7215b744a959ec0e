//! What a backlog consists of: pure, and the same taps for the logs and for the bare COPY.
//!
//! The log time of a backlog lies in the past, as if the persister had been down while people tapped: entries are
//! appended with the ids that they would have got then.

use crate::giant_room::people;
use shared::counting::ids::{EntryId, ProducerId};
use shared::counting::outbox::{AppendOutcome, Outbox, OutboxLimits, Step};
use shared::room::{ReactionKey, RoomCode};

/// As gateways flush.
const FLUSH_MS: u64 = 25;
/// How long a person of a backlog waits between two taps.
const TAP_EVERY_MS: u64 = 5_000;

/// The size of one round's backlog.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Taps in all rooms together.
    pub taps: u64,
    /// How long it took people to tap them.
    pub span_ms: u64,
    /// Gateways that took them: each appends for each room.
    pub gateways: u64,
}

/// A row of `taps` as it has to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) tapped_at_ms: u64,
    pub(crate) client: u64,
    /// Into the rooms.
    pub(crate) room: usize,
    /// Into [`people::keys`].
    pub(crate) reaction: u8,
}

/// An entry of a room's log.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: EntryId,
    pub(crate) value: bytes::Bytes,
}

/// One room's people, over all rounds.
#[derive(Debug)]
pub(crate) struct Part {
    index: usize,
    code: RoomCode,
    keys: Vec<ReactionKey>,
    gateways: Vec<Gateway>,
}

#[derive(Debug)]
struct Gateway {
    outbox: Outbox<()>,
    people: people::Turns,
}

impl Part {
    /// Of the `index`-th of `rooms` rooms.
    pub(crate) fn new(size: &Size, rooms: u64, index: usize, code: RoomCode) -> Part {
        let taps_per_second = size.taps / rooms * 1_000 / size.span_ms.max(1);
        let people = (taps_per_second * TAP_EVERY_MS / 1_000 / size.gateways).max(1);
        let first = index as u64 * 100_000_000;
        let gateway = |number: u64| Gateway {
            outbox: Outbox::new(
                ProducerId(rand::random()),
                OutboxLimits {
                    open_taps_max: 1_000_000,
                },
            ),
            people: people::Turns::new(first + number * people, people, 0),
        };
        Part {
            index,
            code,
            keys: people::keys(),
            gateways: (0..size.gateways).map(gateway).collect(),
        }
    }

    /// The entries and rows of `taps` taps, evenly from `from_ms` on over `span_ms`, both in the order of the log.
    pub(crate) fn fill(&mut self, taps: u64, from_ms: u64, span_ms: u64) -> (Vec<Entry>, Vec<Row>) {
        let flushes = (span_ms / FLUSH_MS).max(1) * self.gateways.len() as u64;
        let (mut entries, mut rows) = (Vec::new(), Vec::new());
        let mut tapped = 0;
        for flush in 0..flushes {
            let due = taps * (flush + 1) / flushes;
            let count = self.gateways.len() as u64;
            let now_ms = from_ms + (flush / count + 1) * FLUSH_MS;
            let number = usize::try_from(flush % count).unwrap_or_default();
            let gateway = &mut self.gateways[number];
            for tap in tapped..due {
                let id = gateway.people.tap();
                let reaction = people::reaction(id);
                let tapped_at_ms = now_ms - tap % FLUSH_MS;
                let key = &self.keys[usize::from(reaction)];
                let pushed = gateway.outbox.push(&self.code, id, key, tapped_at_ms, ());
                pushed.expect("the bound is beyond what a flush can hold");
                rows.push(Row {
                    tapped_at_ms,
                    client: id.client.0,
                    room: self.index,
                    reaction,
                });
            }
            tapped = due;
            let id = EntryId {
                ms: now_ms,
                seq: flush % count,
            };
            if let Step::Append { value, .. } = gateway.outbox.step(now_ms, fresh_producer) {
                let stable = AppendOutcome::Stable(id);
                drop(gateway.outbox.resolve(stable, fresh_producer));
                entries.push(Entry { id, value });
            }
        }
        (entries, rows)
    }
}

fn fresh_producer() -> ProducerId {
    ProducerId(rand::random())
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::counting::codec;
    use shared::counting::entry::Entry as Decoded;

    #[test]
    fn rows_are_what_the_entries_hold_in_their_order() {
        let size = Size {
            taps: 2_000,
            span_ms: 10_000,
            gateways: 2,
        };
        let mut part = Part::new(&size, 2, 1, "ROOM23".parse().unwrap());
        let mut last = EntryId::ZERO;
        for round in 0..2 {
            let from_ms = 1_800_000_000_000 + round * 10_000;
            let (entries, rows) = part.fill(1_000, from_ms, 10_000);
            assert_eq!(rows.len(), 1_000);
            assert_eq!(entries.len(), 800, "two gateways flush 40 times a second");
            let mut found = Vec::new();
            for entry in &entries {
                assert!(entry.id > last && entry.id.ms > from_ms);
                assert!(entry.id.ms <= from_ms + 10_000);
                last = entry.id;
                let decoded = codec::decode(b"b", &entry.value);
                let Ok(Decoded::Batch(batch)) = decoded else {
                    panic!("{decoded:?}")
                };
                assert!(batch.void_after_ms > entry.id.ms);
                for tap in &batch.rooms[0].taps {
                    found.push((tap.id.client.0, tap.key.clone(), tap.tapped_at_ms));
                }
            }
            let keys = people::keys();
            let told: Vec<_> = rows
                .iter()
                .map(|row| {
                    let key = keys[usize::from(row.reaction)].clone();
                    (row.client, key, row.tapped_at_ms)
                })
                .collect();
            assert_eq!(found, told);
        }
    }
}
