//! What one generator is to do.

use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use shared::room::{ReactionKey, RoomCode};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;

/// All that a generator needs to know; travels to agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Assignment {
    /// The scenario.
    pub scenario: Scenario,
    /// Makes the timelines; the same for all generators of a run.
    pub seed: u64,
    /// Which phones this generator plays.
    pub phones: Range<u32>,
    /// Gateways, or what stands before them; phone n connects to the n-th, in turn.
    pub targets: Vec<SocketAddr>,
    /// The `Host` header, as the public address of the target has it.
    pub host: String,
    /// The rooms, by index.
    pub rooms: Vec<RoomPlan>,
    /// Threads.
    pub threads: usize,
    /// Local addresses to connect from, in turn: each gives some 28,000 ports. Empty: the system chooses.
    pub sources: Vec<Ipv4Addr>,
}

/// A room to be played in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RoomPlan {
    /// Its code.
    pub code: RoomCode,
    /// Its palette's keys; a tap names one by its index.
    pub keys: Vec<ReactionKey>,
}
