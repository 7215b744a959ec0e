//! Which log a room lives in, and the names of all its keys in Redis.
//!
//! A shard's keys share one hash tag, so one script can touch them all. The tags are chosen so that the
//! shards lie evenly over the slots: for shard i of n, of the tags `s{i}.{k}` with k < 2000 the one whose slot
//! is nearest to the middle of the i-th n-th of the 16384 slots.

use crate::room::RoomCode;
use serde::{Deserialize, Serialize};

/// The slots of a Redis Cluster.
pub const SLOTS: u16 = 16_384;
/// More shards than this would be more logs than any cluster has cores for.
pub const SHARDS_MAX: u16 = 1024;
/// With so many candidates the nearest slot is at most a few slots away from where it should be.
const CANDIDATES: u32 = 2000;

/// The number of a shard, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ShardId(pub u16);

impl std::fmt::Display for ShardId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The fixed table of shards.
#[derive(Debug, Clone)]
pub struct Shards {
    tags: Vec<Tag>,
}

#[derive(Debug, Clone)]
struct Tag {
    text: String,
    slot: u16,
}

impl Shards {
    /// A table of `count` shards.
    ///
    /// # Panics
    /// Where `count` is no power of two from 1 to [`SHARDS_MAX`]: see [`Shards::is_count`].
    pub fn new(count: u16) -> Self {
        assert!(
            Self::is_count(count),
            "the number of shards is a power of two up to {SHARDS_MAX}, not {count}"
        );
        let width = SLOTS / count;
        let tags = (0..count)
            .map(|shard| nearest_tag(shard, width * shard + width / 2))
            .collect();
        Shards { tags }
    }

    /// Whether there can be so many shards: a power of two from 1 to [`SHARDS_MAX`].
    pub fn is_count(count: u16) -> bool {
        count.is_power_of_two() && count <= SHARDS_MAX
    }

    /// How many shards there are.
    pub fn count(&self) -> u16 {
        u16::try_from(self.tags.len()).expect("made from a u16")
    }

    /// All shards, in order.
    pub fn all(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.count()).map(ShardId)
    }

    /// The shard a room lives in, for ever: FNV-1a of its code (64 bits, both halves folded into one).
    pub fn of(&self, code: &RoomCode) -> ShardId {
        let hash = code
            .as_str()
            .bytes()
            .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
        let folded = (hash >> 32) ^ (hash & 0xFFFF_FFFF);
        ShardId(u16::try_from(folded % u64::from(self.count())).expect("less than a u16"))
    }

    /// The hash slot of all of a shard's keys.
    pub fn slot(&self, shard: ShardId) -> u16 {
        self.tags[usize::from(shard.0)].slot
    }

    /// `uproar:{tag}:log`, a stream.
    pub fn log(&self, shard: ShardId) -> String {
        self.key(shard, "log")
    }

    /// `uproar:{tag}:aggregator`, a hash: owner, beat, offset.
    pub fn aggregator(&self, shard: ShardId) -> String {
        self.key(shard, "aggregator")
    }

    /// `uproar:{tag}:persister`, a hash: owner, beat, offset.
    pub fn persister(&self, shard: ShardId) -> String {
        self.key(shard, "persister")
    }

    /// `uproar:{tag}:producers`, a hash: producer -> "number log_ms".
    pub fn producers(&self, shard: ShardId) -> String {
        self.key(shard, "producers")
    }

    /// `uproar:{tag}:activity`, a sorted set: room code by the log time of its last tap or change.
    pub fn activity(&self, shard: ShardId) -> String {
        self.key(shard, "activity")
    }

    /// `uproar:{tag}:ticks`, a sharded channel.
    pub fn ticks(&self, shard: ShardId) -> String {
        self.key(shard, "ticks")
    }

    /// `uproar:{tag}:totals:CODE`, a hash: reaction key -> total.
    pub fn totals(&self, code: &RoomCode) -> String {
        format!("{}:{code}", self.key(self.of(code), "totals"))
    }

    /// `uproar:{tag}:room:CODE`, a hash.
    pub fn room(&self, code: &RoomCode) -> String {
        format!("{}:{code}", self.key(self.of(code), "room"))
    }

    /// `uproar:{tag of shard 0}:members:KIND`, a hash: who takes part in sharing out the shards.
    pub fn members(&self, kind: &str) -> String {
        format!("{}:{kind}", self.key(ShardId(0), "members"))
    }

    fn key(&self, shard: ShardId, what: &str) -> String {
        format!("uproar:{{{}}}:{what}", self.tags[usize::from(shard.0)].text)
    }
}

/// Of a shard's possible tags the first whose slot is nearest to where the shard should lie.
fn nearest_tag(shard: u16, middle: u16) -> Tag {
    (0..CANDIDATES)
        .map(|k| {
            let text = format!("s{shard}.{k}");
            let slot = slot_of(text.as_bytes());
            Tag { text, slot }
        })
        .min_by_key(|tag| tag.slot.abs_diff(middle))
        .expect("there are candidates")
}

/// The hash slot of a tag, as Redis Cluster computes it.
fn slot_of(tag: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many shards each of `masters` gets when the slots are cut into equal runs, as redis-cli does.
    fn per_master(shards: &Shards, masters: u32) -> Vec<u32> {
        let mut counts = vec![0; masters as usize];
        for shard in shards.all() {
            let slot = u32::from(shards.slot(shard));
            counts[(slot * masters / u32::from(SLOTS)) as usize] += 1;
        }
        counts
    }

    #[test]
    fn shards_lie_evenly_over_the_masters() {
        let shards = Shards::new(64);
        assert!(
            per_master(&shards, 15)
                .iter()
                .all(|count| (4..=5).contains(count))
        );
        assert!(
            per_master(&shards, 6)
                .iter()
                .all(|count| (10..=11).contains(count))
        );
        assert!(
            per_master(&shards, 3)
                .iter()
                .all(|count| (21..=22).contains(count))
        );
    }

    #[test]
    fn a_tag_lies_where_redis_says() {
        // The example of the Redis Cluster specification: CRC16 of 123456789 is 0x31C3.
        assert_eq!(slot_of(b"123456789"), 0x31C3);
        let shards = Shards::new(64);
        for shard in shards.all() {
            assert!(
                shards.slot(shard).abs_diff(256 * shard.0 + 128) < 64,
                "{shard}"
            );
        }
    }

    #[test]
    fn any_power_of_two_makes_a_table() {
        for count in [1, 2, 16, 64, 256] {
            assert_eq!(Shards::new(count).count(), count);
        }
        for count in [0, 3, 65, 2048] {
            assert!(!Shards::is_count(count));
        }
        assert!(Shards::is_count(SHARDS_MAX));
    }

    #[test]
    fn rooms_are_spread_over_the_shards_and_stay_there() {
        let shards = Shards::new(64);
        let mut rooms = vec![0_u32; 64];
        let mut rng = rand::rng();
        for _ in 0..64_000 {
            rooms[usize::from(shards.of(&RoomCode::generate(&mut rng)).0)] += 1;
        }
        // 1,000 each, with a standard deviation of 31.
        assert!(
            rooms.iter().all(|count| (800..1_200).contains(count)),
            "{rooms:?}"
        );
        // Data at rest depends on these: a change of the hash or of the tags loses every room.
        let of = |code: &str| shards.of(&code.parse().unwrap()).0;
        assert_eq!((of("PARTY7"), of("KX7M2P"), of("RUST")), (25, 1, 11));
        assert_eq!(shards.log(ShardId(0)), "uproar:{s0.293}:log");
    }

    #[test]
    fn the_keys_of_a_room_carry_the_tag_of_its_shard() {
        let shards = Shards::new(64);
        let code: RoomCode = "PARTY7".parse().unwrap();
        let log = shards.log(shards.of(&code));
        let tag = &log[..=log.find('}').unwrap()];
        assert_eq!(shards.totals(&code), format!("{tag}:totals:PARTY7"));
        assert_eq!(shards.room(&code), format!("{tag}:room:PARTY7"));
        assert_eq!(shards.ticks(shards.of(&code)), format!("{tag}:ticks"));
        assert!(
            shards
                .members("aggregator")
                .ends_with("}:members:aggregator")
        );
    }
}
