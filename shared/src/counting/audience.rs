//! Head counts, folded from what each gateway last told.
//!
//! Rules: a gateway's word about a room holds until it gives a newer one, and no longer than
//! [`PEOPLE_FORGOTTEN_AFTER_MS`] of log time, so that a gateway that died stops counting by itself. Head counts are
//! told, not counted: they may be off for that long after a death, and nothing else rests on them.

use super::ids::ProducerId;
use crate::room::RoomCode;
use hashbrown::HashMap;

/// A gateway's head count is forgotten when it was not told again for this long, in log time. Gateways repeat it
/// every ten seconds: two may be late.
pub const PEOPLE_FORGOTTEN_AFTER_MS: u64 = 30_000;

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

#[derive(Debug, Clone, Copy)]
struct Told {
    people: u32,
    log_ms: u64,
}

impl Told {
    fn holds(self, log_now_ms: u64) -> bool {
        log_now_ms.saturating_sub(self.log_ms) <= PEOPLE_FORGOTTEN_AFTER_MS
    }
}

/// Who is present, by room and producer.
#[derive(Debug, Default)]
pub struct Audience {
    rooms: Map<RoomCode, Map<ProducerId, Told>>,
}

impl Audience {
    /// A gateway told its head count of a room.
    pub fn observe(&mut self, room: &RoomCode, producer: ProducerId, people: u32, log_ms: u64) {
        let told = self.rooms.entry(room.clone()).or_default();
        let newer = told
            .get(&producer)
            .is_none_or(|before| before.log_ms <= log_ms);
        if newer {
            told.insert(producer, Told { people, log_ms });
        }
    }

    /// Phones present in a room, over all gateways.
    pub fn people(&self, room: &RoomCode, log_now_ms: u64) -> u32 {
        self.rooms.get(room).map_or(0, |told| sum(told, log_now_ms))
    }

    /// Rooms with anybody present, in the order of their codes; forgets what is outdated.
    pub fn present(&mut self, log_now_ms: u64) -> Vec<(RoomCode, u32)> {
        self.rooms.retain(|_, told| {
            told.retain(|_, told| told.holds(log_now_ms));
            !told.is_empty()
        });
        let mut present: Vec<(RoomCode, u32)> = self
            .rooms
            .iter()
            .map(|(room, told)| (room.clone(), sum(told, log_now_ms)))
            .filter(|(_, people)| *people > 0)
            .collect();
        present.sort_unstable();
        present
    }
}

fn sum(told: &Map<ProducerId, Told>, log_now_ms: u64) -> u32 {
    told.values()
        .filter(|told| told.holds(log_now_ms))
        .fold(0, |sum, told| sum.saturating_add(told.people))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(code: &str) -> RoomCode {
        code.parse().expect("well formed")
    }

    #[test]
    fn gateways_add_up_and_the_latest_word_of_each_holds() {
        let mut audience = Audience::default();
        let party = room("PARTY7");
        audience.observe(&party, ProducerId(1), 10, 1_000);
        audience.observe(&party, ProducerId(2), 5, 1_000);
        assert_eq!(audience.people(&party, 1_000), 15);
        audience.observe(&party, ProducerId(1), 3, 2_000);
        audience.observe(&party, ProducerId(1), 99, 1_500);
        assert_eq!(audience.people(&party, 2_000), 8);
        assert_eq!(audience.people(&room("OTHER1"), 2_000), 0);
    }

    #[test]
    fn a_silent_gateway_is_forgotten() {
        let mut audience = Audience::default();
        let party = room("PARTY7");
        audience.observe(&party, ProducerId(1), 10, 0);
        audience.observe(&party, ProducerId(2), 5, 20_000);
        assert_eq!(audience.people(&party, PEOPLE_FORGOTTEN_AFTER_MS), 15);
        assert_eq!(audience.people(&party, PEOPLE_FORGOTTEN_AFTER_MS + 1), 5);
        assert_eq!(
            audience.present(PEOPLE_FORGOTTEN_AFTER_MS + 1),
            [(party, 5)]
        );
        assert_eq!(audience.present(60_000), []);
        assert!(audience.rooms.is_empty(), "nothing is held for ever");
    }

    #[test]
    fn rooms_come_in_order_and_empty_ones_not_at_all() {
        let mut audience = Audience::default();
        for (code, people) in [("ROOMB", 2), ("ROOMA", 1), ("ROOMC", 0)] {
            audience.observe(&room(code), ProducerId(1), people, 0);
        }
        assert_eq!(
            audience.present(0),
            [(room("ROOMA"), 1), (room("ROOMB"), 2)]
        );
    }

    #[test]
    fn a_sum_beyond_the_type_stops_at_its_end() {
        let mut audience = Audience::default();
        let party = room("PARTY7");
        audience.observe(&party, ProducerId(1), u32::MAX, 0);
        audience.observe(&party, ProducerId(2), 5, 0);
        assert_eq!(audience.people(&party, 0), u32::MAX);
    }
}
