//! What travels on a shard's `ticks` channel: JSON, one message a tick.

use crate::room::{ReactionKey, Room, RoomCode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A message on the channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedMessage {
    /// From the aggregator.
    Tick(Tick),
    /// From a gateway to itself, to learn whether its feed is alive: a random id.
    Probe(String),
}

/// What changed in the rooms of a shard. An idle shard sends an empty one each second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// Random, new at each load of the state.
    pub epoch: u64,
    /// Grows by one per message of an epoch, from 1.
    pub serial: u64,
    /// When it was made: the aggregator's estimate of log time, milliseconds since 1970.
    pub at_ms: u64,
    /// The rooms that changed.
    pub rooms: BTreeMap<RoomCode, RoomTick>,
}

/// What changed in one room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomTick {
    /// The reactions that changed, with their new totals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub totals: BTreeMap<ReactionKey, u64>,
    /// For hosts, at most once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
    /// The room as the host left it, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
    /// The room has expired and is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
}

/// Head count and rate of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Audience {
    /// Phones present.
    pub people: u32,
    /// Taps counted per second, over the last five.
    pub taps_per_second: u32,
}
