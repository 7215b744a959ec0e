//! All virtual gateways, on threads of their own: what they cost is told apart from all else that this process does.

use super::board::Board;
use super::people::{self, Turns};
use super::producer::{Part, Producer};
use anyhow::Context;
use shared::cluster::Cluster;
use shared::room::RoomCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What the threads are called.
pub(crate) const THREADS: &str = "producers";

/// From the start to the first batch: all connections are there by then.
const HEAD_START: Duration = Duration::from_millis(500);

/// How much is tapped, and by whom.
#[derive(Debug, Clone)]
pub struct Load {
    /// Virtual gateways, each with a connection of its own.
    pub producers: u32,
    /// Batches of all of them together.
    pub appends_per_second: u64,
    /// Taps of all of them together.
    pub taps_per_second: u64,
    /// Threads that they share.
    pub threads: usize,
    /// How often each person has tapped before.
    pub tapped_before: u32,
}

/// Virtual gateways at work. Dropped, they stop by themselves, but nobody waits for what is in flight.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) board: Arc<Board>,
    stop: CancellationToken,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Fleet {
    /// Starts them.
    pub(crate) fn start(load: &Load, room: &RoomCode, cluster: &Cluster) -> anyhow::Result<Fleet> {
        let shards = cluster.shards();
        let shard = shards.of(room);
        let topology = cluster.topology();
        let master = topology.borrow().master_of(shards.slot(shard)).cloned();
        let master = master.context("the room's shard has no master")?.id;
        let board = Arc::new(Board::default());
        let stop = CancellationToken::new();
        let parts = parts(load, room, cluster);
        let mut threads = Vec::new();
        for thread in 0..load.threads {
            let mine = parts.iter().skip(thread).step_by(load.threads);
            let producers: Vec<Producer> = mine
                .map(|part| {
                    let (cluster, board) = (cluster.clone(), Arc::clone(&board));
                    Producer::new(part.clone(), cluster, master.clone(), board)
                })
                .collect();
            let stop = stop.clone();
            let thread = std::thread::Builder::new()
                .name(format!("{THREADS}-{thread}"))
                .spawn(move || work(producers, &stop))?;
            threads.push(thread);
        }
        Ok(Fleet {
            board,
            stop,
            threads,
        })
    }

    /// Stops tapping, and waits until all that is in flight is settled.
    pub(crate) async fn finish(mut self) -> anyhow::Result<Arc<Board>> {
        self.stop.cancel();
        let threads = std::mem::take(&mut self.threads);
        let joined = tokio::task::spawn_blocking(move || {
            for thread in threads {
                let ended = thread.join();
                ended.map_err(|_| anyhow::anyhow!("a thread of virtual gateways panicked"))??;
            }
            anyhow::Ok(())
        });
        joined.await??;
        Ok(Arc::clone(&self.board))
    }
}

/// One thread's work: a runtime of its own, since the one of the commands has other threads as well.
fn work(producers: Vec<Producer>, stop: &CancellationToken) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut working = tokio::task::JoinSet::new();
        for producer in producers {
            working.spawn(producer.run(stop.clone()));
        }
        while let Some(ended) = working.join_next().await {
            ended?;
        }
        anyhow::Ok(())
    })
}

/// The parts of all, their batches due evenly over the flush interval.
fn parts(load: &Load, room: &RoomCode, cluster: &Cluster) -> Vec<Part> {
    let producers = f64::from(load.producers);
    let flush_interval = Duration::from_secs_f64(producers / load.appends_per_second as f64);
    let people = people::count(load.taps_per_second).div_ceil(u64::from(load.producers));
    let begin = Instant::now() + HEAD_START;
    let part = |index: u32| Part {
        room: room.clone(),
        shard: cluster.shards().of(room),
        people: Turns::new(u64::from(index) * people, people, load.tapped_before),
        people_count: u32::try_from(people).unwrap_or(u32::MAX),
        taps_per_second: load.taps_per_second as f64 / producers,
        flush_interval,
        first_due: begin + flush_interval.mul_f64(f64::from(index) / producers),
    };
    (0..load.producers).map(part).collect()
}
