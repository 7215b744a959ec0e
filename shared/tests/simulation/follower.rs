//! The two readers of a shard as processes: leases, reads behind the barrier, commits to Redis or to Postgres.

use crate::common::commit_model::{Begins, CommitCommand, CommitReply, RoomCommit, Totals};
use crate::executor::{Filled, Shared, Value};
use crate::plants::{Filter, barrier};
use crate::postgres::{self, Query, Row};
use crate::redis::{Command, Kind, Reply};
use crate::rooms::sleep;
use crate::seat::Seat;
use crate::world::{ProcessId, World};
use shared::counting::fold::Folded;
use shared::counting::ids::{EntryId, Nonce, ProducerId, TapId};
use shared::counting::lease::LeaseWatch;
use shared::counting::reader::{ProducerMark, RawEntry, ReadError};
use shared::room::RoomCode;
use std::collections::BTreeMap;
use std::time::Duration;

type AllTotals = BTreeMap<RoomCode, Totals>;

/// One process's part in one shard.
struct Follower {
    world: Shared,
    process: ProcessId,
    kind: Kind,
    shard: usize,
    nonce: Nonce,
    seat: Seat,
    filter: Filter,
    loaded: EntryId,
    /// Folded and not committed.
    rows: Vec<Row>,
    totals: AllTotals,
}

/// Why a turn with the lease is over.
enum Over {
    /// Load again.
    Failed,
    /// Somebody else's, or let go.
    LeaseGone,
}

/// Waits for the lease, holds it for as long as it can, for ever.
pub(crate) async fn follow(world: Shared, process: ProcessId, kind: Kind, shard: usize) {
    let plant = world.borrow().plant;
    let nonce = Nonce(world.borrow_mut().random.next());
    let mut follower = Follower {
        world,
        process,
        kind,
        shard,
        nonce,
        seat: Seat::new(plant),
        filter: Filter::default(),
        loaded: EntryId::ZERO,
        rows: Vec::new(),
        totals: AllTotals::new(),
    };
    let mut watch = LeaseWatch::default();
    loop {
        follower.sleep(100, 600).await;
        let Some(Reply::Lease(record)) = follower.ask(Command::Lease(kind)).await else {
            continue;
        };
        if record.owner != Some(nonce) {
            let now = Duration::from_millis(follower.world.borrow().now_ms);
            if !watch.observe(record, now) {
                continue;
            }
            let claim = Command::Claim {
                kind,
                expected: record,
                owner: nonce,
            };
            let Some(Reply::Claimed(true)) = follower.ask(claim).await else {
                continue;
            };
        }
        while !matches!(follower.turn().await, Over::LeaseGone) {
            follower.sleep(20, 300).await;
        }
    }
}

impl Follower {
    /// From a load to the first failure.
    async fn turn(&mut self) -> Over {
        self.rows.clear();
        self.totals.clear();
        self.filter = Filter::default();
        let Some((offset, producers)) = self.load().await else {
            return Over::LeaseGone;
        };
        self.trace(|| format!("loads offset {offset}"));
        self.loaded = offset;
        self.seat.loaded(offset, producers);
        loop {
            match self.read().await {
                Ok(()) | Err(ReadError::NotStable) => {}
                Err(ReadError::LeaseLost) => return Over::LeaseGone,
                Err(error) => {
                    let at = format!("{:?} of {}: {error}", self.kind, self.shard);
                    self.world.borrow_mut().checks.fail(at);
                    return Over::Failed;
                }
            }
            if self.seat.is_live() && !self.commit().await {
                return Over::Failed;
            }
            if self.world.borrow_mut().lets_go() {
                let release = Command::Release {
                    kind: self.kind,
                    owner: self.nonce,
                };
                let _ = self.ask(release).await;
                return Over::LeaseGone;
            }
            self.sleep(200, 300).await;
        }
    }

    async fn load(&mut self) -> Option<(EntryId, BTreeMap<ProducerId, ProducerMark>)> {
        if self.kind == Kind::Persister {
            let reply = self.query(Query::Load).await;
            let Some(postgres::Reply::Loaded { offset, producers }) = reply else {
                return None;
            };
            return Some((offset, producers));
        }
        let Some(Reply::Loaded(loaded)) = self.ask(Command::Load).await else {
            return None;
        };
        self.totals = loaded.totals;
        Some((loaded.offset, loaded.producers))
    }

    async fn read(&mut self) -> Result<(), ReadError> {
        let count = {
            let mut world = self.world.borrow_mut();
            *world.random.pick(&[3, 20, 1_000, 1_000])
        };
        let command = Command::Read {
            kind: self.kind,
            after: self.seat.cursor(),
            count,
            owner: self.nonce,
        };
        let Some(Reply::Read {
            entries,
            reached_end,
            lease_held,
            waited,
        }) = self.ask(command).await
        else {
            return Err(ReadError::NotStable);
        };
        let barrier = barrier(&self.world, lease_held, waited).await;
        let entries = self.plant(entries);
        let rows_before = self.rows.len();
        let mut decided: BTreeMap<EntryId, Vec<TapId>> = BTreeMap::new();
        let (rows, totals) = (&mut self.rows, &mut self.totals);
        self.seat.read(
            &entries,
            reached_end,
            barrier,
            &mut |id, folded| match folded {
                Folded::Taps { room, taps } => {
                    decided
                        .entry(id)
                        .or_default()
                        .extend(taps.iter().map(|tap| tap.id));
                    for tap in taps {
                        let totals = totals.entry(room.clone()).or_default();
                        *totals.entry(tap.key.clone()).or_default() += 1;
                        rows.push(Row {
                            id: tap.id,
                            room: room.clone(),
                            key: tap.key.clone(),
                        });
                    }
                }
                Folded::People { .. } | Folded::Change(_) => {}
                Folded::Rejected { .. } => {
                    unreachable!("the model writes nothing that cannot be read")
                }
            },
        )?;
        let mut world = self.world.borrow_mut();
        if self.rows.len() > rows_before {
            world.trace(|| format!("{:?} of {} folds {decided:?}", self.kind, self.shard));
        }
        for entry in entries.iter().filter(|entry| entry.id > self.loaded) {
            let taps = decided.remove(&entry.id).unwrap_or_default();
            world.checks.decided(self.shard, entry.id, taps);
        }
        Ok(())
    }

    /// What a planted mistake makes of what was read.
    fn plant(&mut self, entries: Vec<RawEntry>) -> Vec<RawEntry> {
        let mut world = self.world.borrow_mut();
        let World {
            plant,
            rooms,
            checks,
            ..
        } = &mut *world;
        checks.palettes.observe(rooms, &entries);
        self.filter.filter(*plant, &checks.palettes, entries)
    }

    /// Commits all that was folded, if anything was; whether the reader may go on.
    async fn commit(&mut self) -> bool {
        let commit = self.seat.commit();
        let plan = commit.plan();
        if plan.offset == plan.expected {
            commit.succeeded();
            return true;
        }
        let is_done = if self.kind == Kind::Aggregator {
            let command = Command::Commit(CommitCommand {
                owner: self.nonce,
                expected: plan.expected,
                offset: plan.offset,
                changed_producers: plan.changed_producers,
                forgotten_producers: plan.forgotten_producers,
                rooms: self.totals.iter().map(kept).collect(),
            });
            let reply = ask(&self.world, self.process, self.shard, command).await;
            matches!(reply, Some(Reply::Committed(CommitReply::Done)))
        } else {
            let query = Query::Commit {
                expected: plan.expected,
                offset: plan.offset,
                rows: std::mem::take(&mut self.rows),
                changed_producers: plan.changed_producers,
                forgotten_producers: plan.forgotten_producers,
            };
            let reply = query_postgres(&self.world, self.process, self.shard, query).await;
            matches!(reply, Some(postgres::Reply::Committed(true)))
        };
        if is_done {
            commit.succeeded();
        } else {
            drop(commit);
        }
        self.rows.clear();
        self.trace(|| format!("commit up to {}: {is_done}", plan.offset));
        if is_done && self.kind == Kind::Persister {
            let _ = self.ask(Command::StoreOffset(plan.offset)).await;
            let _ = self.ask(Command::Trim).await;
        }
        is_done
    }

    async fn sleep(&self, low_ms: u64, high_ms: u64) {
        let wait_ms = self.world.borrow_mut().random.range(low_ms, high_ms);
        sleep(&self.world, wait_ms).await;
    }

    async fn ask(&self, command: Command) -> Option<Reply> {
        ask(&self.world, self.process, self.shard, command).await
    }

    async fn query(&self, query: Query) -> Option<postgres::Reply> {
        query_postgres(&self.world, self.process, self.shard, query).await
    }

    fn trace(&self, line: impl FnOnce() -> String) {
        let world = self.world.borrow();
        world.trace(|| {
            format!(
                "{:?} {:?} of {} {}",
                self.process,
                self.kind,
                self.shard,
                line()
            )
        });
    }
}

fn kept((code, totals): (&RoomCode, &Totals)) -> RoomCommit {
    RoomCommit {
        code: code.clone(),
        begins: Begins::Kept,
        version: 0,
        active_ms: None,
        totals: totals.clone(),
    }
}

async fn ask(world: &Shared, process: ProcessId, shard: usize, command: Command) -> Option<Reply> {
    let filled = Filled::new(world, |world, slot| {
        world.request(process, shard, command, slot);
    });
    match filled.await {
        Value::Redis(reply) => Some(reply),
        _ => None,
    }
}

async fn query_postgres(
    world: &Shared,
    process: ProcessId,
    shard: usize,
    query: Query,
) -> Option<postgres::Reply> {
    let filled = Filled::new(world, |world, slot| {
        world.query(postgres::Request {
            from: process,
            shard,
            query,
            slot,
        });
    });
    match filled.await {
        Value::Postgres(reply) => Some(reply),
        _ => None,
    }
}
