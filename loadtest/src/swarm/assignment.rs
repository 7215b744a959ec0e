//! What one generator is to do.

use crate::scenario::Scenario;
use anyhow::ensure;
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

impl Assignment {
    /// Whether it can be played.
    ///
    /// # Errors
    /// What does not fit, and what would.
    pub fn check(&self) -> anyhow::Result<()> {
        let Assignment {
            scenario,
            phones,
            targets,
            rooms,
            sources,
            ..
        } = self;
        let wanted = usize::try_from(scenario.rooms.count)?;
        ensure!(
            rooms.len() == wanted,
            "the scenario has {wanted} rooms, and {} were named",
            rooms.len()
        );
        for RoomPlan { code, keys } in rooms {
            ensure!(
                keys.len() >= scenario.rooms.reactions,
                "the scenario taps {} reactions, and room {code} has {}",
                scenario.rooms.reactions,
                keys.len()
            );
        }
        ensure!(
            phones.start <= phones.end && phones.end <= scenario.phones,
            "phones {} to {} are not among the scenario's {}",
            phones.start,
            phones.end,
            scenario.phones
        );
        ensure!(!targets.is_empty(), "there is no target to connect to");
        ensure!(
            sources.is_empty() || targets.iter().all(SocketAddr::is_ipv4),
            "the source addresses are IPv4, and not all targets are"
        );
        ensure!(self.threads > 0, "a generator needs a thread at least");
        Ok(())
    }
}
