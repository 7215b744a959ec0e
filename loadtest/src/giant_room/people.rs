//! Who taps: millions of people with ids of their own, each of whom taps about every three seconds, so that the
//! readers' memory of seen taps is as large, and as badly cached, as in reality.

use shared::counting::ids::{ClientHash, PageId, TapId};
use shared::room::ReactionKey;
use std::time::Duration;

/// How long a person waits between two taps: a little more than the usual cooldown of 3 s.
pub const TAP_EVERY: Duration = Duration::from_millis(3_300);

/// What is tapped, and how often of a hundred: some reactions are loved more than others.
const REACTIONS: [(&str, u64); 6] = [
    ("clap", 40),
    ("heart", 25),
    ("fire", 15),
    ("laugh", 10),
    ("wow", 7),
    ("think", 3),
];

/// The keys that are tapped, in the order of their indexes.
pub fn keys() -> Vec<ReactionKey> {
    let parse = |(key, _): &(&str, u64)| key.parse().expect("the keys above are well-formed");
    REACTIONS.iter().map(parse).collect()
}

/// How many people it takes for so many taps.
pub fn count(taps_per_second: u64) -> u64 {
    let people = u128::from(taps_per_second) * TAP_EVERY.as_millis() / 1_000;
    u64::try_from(people).unwrap_or(u64::MAX).max(1)
}

/// The identity of a person's tap; ids are spread like the keyed hashes and random page ids that they stand for.
pub fn tap_id(person: u64, seq: u32) -> TapId {
    let page = mix(!person).to_le_bytes();
    TapId {
        client: ClientHash(mix(person)),
        page: PageId(u32::from_le_bytes([page[0], page[1], page[2], page[3]])),
        seq,
    }
}

/// Which reaction a tap is of, as an index into [`keys`].
pub fn reaction(id: TapId) -> u8 {
    let mut chance = mix(id.client.0 ^ u64::from(id.seq)) % 100;
    for (index, (_, percent)) in (0..).zip(&REACTIONS) {
        match chance.checked_sub(*percent) {
            Some(left) => chance = left,
            None => return index,
        }
    }
    0
}

/// The people of one virtual gateway, who tap in turn.
#[derive(Debug, Clone)]
pub struct Turns {
    first: u64,
    people: u64,
    next: u64,
    seq: u32,
}

impl Turns {
    /// The people from `first` on; each has tapped `tapped` times before.
    pub fn new(first: u64, people: u64, tapped: u32) -> Self {
        Turns {
            first,
            people: people.max(1),
            next: 0,
            seq: tapped + 1,
        }
    }

    /// The next tap.
    pub fn tap(&mut self) -> TapId {
        let id = tap_id(self.first + self.next, self.seq);
        self.next += 1;
        if self.next == self.people {
            self.next = 0;
            self.seq += 1;
        }
        id
    }
}

/// The finisher of SplitMix64: every bit of the input moves every bit of the output, and no two inputs meet.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn everybody_taps_in_turn_and_no_tap_comes_twice() {
        let mut turns = Turns::new(100, 7, 3);
        let ids: Vec<TapId> = (0..21).map(|_| turns.tap()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 21);
        assert_eq!(ids[0].client, ids[7].client);
        assert_eq!((ids[0].seq, ids[6].seq, ids[7].seq), (4, 4, 5));
        let clients: HashSet<_> = ids.iter().map(|id| (id.client, id.page)).collect();
        assert_eq!(clients.len(), 7);
    }

    #[test]
    fn reactions_are_as_loved_as_they_should_be() {
        assert_eq!(
            REACTIONS.iter().map(|(_, percent)| percent).sum::<u64>(),
            100
        );
        let mut counts = HashMap::new();
        for person in 0..100_000 {
            *counts.entry(reaction(tap_id(person, 1))).or_insert(0) += 1;
        }
        assert!((39_000..41_000).contains(&counts[&0]), "{counts:?}");
        assert!((2_500..3_500).contains(&counts[&5]), "{counts:?}");
    }
}
