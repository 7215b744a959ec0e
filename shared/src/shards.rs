//! Which log a room lives in, and the names of all its keys in Redis.
//!
//! A shard's keys share one hash tag, so one script can touch them all. The tags are chosen so that the
//! shards lie evenly over the slots: for shard i of n, of the tags `s{i}.{k}` with k < 2000 the one whose slot
//! is nearest to the middle of the i-th n-th of the 16384 slots.

use crate::room::RoomCode;
use serde::{Deserialize, Serialize};

/// The number of a shard, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ShardId(pub u16);

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
    /// A table of `count` shards, a power of two from 1 to 1024.
    pub fn new(_count: u16) -> Self {
        todo!()
    }

    /// How many shards there are.
    pub fn count(&self) -> u16 {
        todo!()
    }

    /// All shards, in order.
    pub fn all(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.count()).map(ShardId)
    }

    /// The shard a room lives in, for ever: FNV-1a of its code.
    pub fn of(&self, _code: &RoomCode) -> ShardId {
        todo!()
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
