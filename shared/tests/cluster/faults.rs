//! What is done to a cluster.

use crate::support::{PATIENCE, ask};
use rig::{Options, Rig};
use std::time::Duration;

/// A fault, aimed at the master of one slot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// kill -9 of the master; its replica takes over.
    Kill,
    /// SIGSTOP of the master: connections stay open and silent.
    Stall,
    /// CLUSTER FAILOVER: the master becomes a replica in good order.
    Failover,
    /// The slot goes to another master.
    Migration,
    /// All connections to the master are cut, several times.
    CutConnections,
}

/// A rig of Redis only.
pub(crate) async fn redis_rig(lines: &[(&str, &str)]) -> Rig {
    let redis = lines
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Rig::start(Options {
        postgres: false,
        redis: redis.collect(),
    })
    .await
    .unwrap()
}

/// Does it.
pub(crate) async fn inflict(fault: Fault, rig: &Rig, slot: u16) {
    let master = rig.cluster.master_of(slot).await.unwrap();
    match fault {
        Fault::Kill => rig.cluster.kill(&master).unwrap(),
        Fault::Stall => rig.cluster.stall(&master).unwrap(),
        Fault::Failover => drop(rig.cluster.failover(&master).await.unwrap()),
        Fault::Migration => {
            let target = rig
                .cluster
                .master_of(slot.wrapping_add(8_000) % 16_384)
                .await
                .unwrap();
            assert_ne!(target, master);
            let migrating = rig.cluster.migrate_slot(slot, &target);
            tokio::time::timeout(PATIENCE, migrating)
                .await
                .unwrap()
                .unwrap();
        }
        Fault::CutConnections => {
            for _ in 0..10 {
                for kind in ["normal", "pubsub"] {
                    let mut kill = redis::cmd("CLIENT");
                    kill.arg("KILL")
                        .arg("TYPE")
                        .arg(kind)
                        .arg("SKIPME")
                        .arg("yes");
                    ask(&master, &kill).await;
                }
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        }
    }
}
