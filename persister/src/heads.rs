//! Head counts as they are stored: the most phones present in each ten seconds of log time.

use crate::step::Step;
use shared::counting::audience::Audience;
use shared::counting::ids::{EntryId, ProducerId};
use shared::room::RoomCode;

/// One row of `audience_counts` lasts this long.
const SLOT_MS: u64 = 10_000;
/// A head count is forgotten 30 s after it was told: of a longer silence no more than these slots have anybody.
const SLOTS_BACK_MAX: u64 = 4;

/// Who is present, and which ten seconds are being gathered.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    audience: Audience,
    slot: Option<u64>,
}

impl Heads {
    /// Something of the log at this time: ends the slots that lie before it. `step` is none while what is read had been
    /// stored before.
    pub(crate) fn advance(&mut self, id: EntryId, step: Option<&mut Step>) {
        let now = id.ms / SLOT_MS;
        let begun = self.slot.unwrap_or(now);
        if let Some(step) = step {
            // Those who are there when a slot begins are in it, though nobody may tell of them again for ten seconds.
            let after_silence = now.saturating_sub(SLOTS_BACK_MAX);
            for slot in (begun + 1).max(after_silence)..=now {
                for (room, people) in self.audience.present(slot * SLOT_MS) {
                    step.people(id, &room, slot_ms(slot), people);
                }
            }
        }
        self.slot = Some(begun.max(now));
    }

    /// A gateway told its head count of a room.
    pub(crate) fn observe(
        &mut self,
        id: EntryId,
        room: &RoomCode,
        producer: ProducerId,
        people: u32,
        step: Option<&mut Step>,
    ) {
        self.audience.observe(room, producer, people, id.ms);
        if let Some(step) = step {
            let present = self.audience.people(room, id.ms);
            if present > 0 {
                step.people(id, room, slot_ms(id.ms / SLOT_MS), present);
            }
        }
    }
}

fn slot_ms(slot: u64) -> i64 {
    i64::try_from(slot * SLOT_MS).unwrap_or(i64::MAX)
}
