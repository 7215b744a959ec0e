//! Whom to kill in the middle of a smoke run: the one at work for a room.

use crate::evidence;
use crate::stack::Stack;
use anyhow::{Context, bail};
use shared::room::RoomCode;
use shared::shards::Shards;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kill {
    /// A gateway with phones of the room; it does not come back.
    Gateway,
    /// The aggregator that holds the room's shard; it does not come back.
    Aggregator,
    /// The persister that holds the room's shard; it does not come back.
    Persister,
    /// The master that serves the room's shard; it comes back as a replica.
    RedisMaster,
}

/// Who was killed.
#[derive(Debug)]
pub struct Killed {
    what: String,
    master: Option<KilledMaster>,
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Killed {
    /// A master is to be started again, once another has its place.
    pub fn comes_back(self) -> Option<KilledMaster> {
        self.master
    }
}

/// A master that is down.
#[derive(Debug)]
pub struct KilledMaster {
    address: String,
    slot: u16,
}

impl KilledMaster {
    /// Starts it again if its replica has taken over; else gives it back.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn back_as_replica(self, stack: &Stack) -> anyhow::Result<Option<KilledMaster>> {
        match stack.rig.cluster.master_of(self.slot).await {
            Ok(master) if master != self.address => {
                stack.rig.cluster.restart(&self.address)?;
                Ok(None)
            }
            _ => Ok(Some(self)),
        }
    }
}

impl Kill {
    /// Kills the one at work for `room`.
    ///
    /// # Errors
    /// Nobody is found at work for it.
    pub async fn strike(
        self,
        stack: &Stack,
        shards: &Shards,
        room: &RoomCode,
    ) -> anyhow::Result<Killed> {
        let shard = shards.of(room);
        let slot = shards.slot(shard);
        let (kind, reader) = match self {
            Kill::RedisMaster => {
                let address = stack.rig.cluster.master_of(slot).await?;
                stack.rig.cluster.kill(&address)?;
                let what = format!("the master {address} of room {room}");
                return Ok(Killed {
                    what,
                    master: Some(KilledMaster { address, slot }),
                });
            }
            Kill::Gateway => ("gateway", None),
            Kill::Aggregator => ("aggregator", Some(shards.aggregator(shard))),
            Kill::Persister => ("persister", Some(shards.persister(shard))),
        };
        let owner = match &reader {
            Some(reader) => {
                let owner = evidence::owner(&stack.rig, slot, reader).await?;
                Some(owner.with_context(|| format!("nobody holds the lease {reader}"))?)
            }
            None => None,
        };
        let index = at_work(stack, kind, owner.as_deref()).await?;
        let mut services = stack.services();
        let service = &services.of_kind(kind)?[index];
        service.kill9();
        let what = format!(
            "{kind} {index} (process {}) at work for room {room}",
            service.pid()
        );
        Ok(Killed { what, master: None })
    }
}

/// The index of the service at work: the one that has logged that it is the lease's owner, or, where no lease is asked
/// for, the first one with phones.
async fn at_work(stack: &Stack, kind: &str, owner: Option<&str>) -> anyhow::Result<usize> {
    let services: Vec<(SocketAddr, PathBuf)> = {
        let mut services = stack.services();
        let services = services.of_kind(kind)?.iter();
        services
            .map(|service| (service.operations(), service.log().to_owned()))
            .collect()
    };
    for (index, (operations, log)) in services.into_iter().enumerate() {
        let is_at_work = match owner {
            Some(owner) => std::fs::read_to_string(log)?.contains(owner),
            None => {
                let (_, metrics) = rig::get(operations, "/metrics").await?;
                rig::metric(&metrics, "uproar_gateway_sockets", "") > 0.0
            }
        };
        if is_at_work {
            return Ok(index);
        }
    }
    bail!("no {kind} is at work (lease owner: {owner:?})");
}
