//! The simulation of exactly-once counting: seeded histories of phones, gateways, Redis, aggregators, persisters and
//! Postgres, with everything going wrong that can, around the real outbox, reader, codec and lease.
//!
//! - `UPROAR_SIM_SEEDS=2000` runs so many seeds (200 otherwise).
//! - `UPROAR_SIM_SEED=17` runs that one only; with `UPROAR_SIM_TRACE=1` it tells all that happens.
//!
//! Nothing here looks at a clock or draws a number but from the seed: a seed that fails fails again.

#[path = "../common/mod.rs"]
#[expect(
    dead_code,
    reason = "the differential test of the commit script uses more of it"
)]
mod common;
mod executor;
mod world;
mod network;
mod redis;
mod postgres;
mod rooms;
mod phone;
mod gateway;
mod appender;
mod plants;
mod seat;
mod follower;
mod faults;
mod checks;
mod history;

use checks::Summary;
use plants::Plant;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds of a usual run.
const SEEDS: u64 = 200;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}")),
    )
}

/// Runs seeds on all cores; what each came to, in their order.
fn run_all(seeds: std::ops::Range<u64>, plant: Plant) -> Vec<(u64, Result<Summary, String>)> {
    let next = AtomicU64::new(seeds.start);
    let results = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let result = std::panic::catch_unwind(|| history::run(seed, plant, false))
                        .unwrap_or_else(|_| Err("it panicked (see above)".to_owned()));
                    results
                        .lock()
                        .expect("no thread panics with it")
                        .push((seed, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panicked with it");
    results.sort_by_key(|(seed, _)| *seed);
    results
}

fn replay(seed: u64) -> String {
    format!(
        "UPROAR_SIM_SEED={seed} UPROAR_SIM_TRACE=1 cargo test --profile ci -p shared --test simulation \
         -- --nocapture every_promise"
    )
}

#[test]
fn every_promise_holds() {
    let is_traced = std::env::var_os("UPROAR_SIM_TRACE").is_some();
    if let Some(seed) = number("UPROAR_SIM_SEED") {
        match history::run(seed, Plant::Nothing, is_traced) {
            Ok(summary) => return println!("seed {seed}: {summary:?}"),
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
    let seeds = number("UPROAR_SIM_SEEDS").unwrap_or(SEEDS);
    let mut sum = Summary::default();
    let mut failed = 0;
    for (seed, result) in run_all(0..seeds, Plant::Nothing) {
        match result {
            Ok(summary) => {
                sum.sent += summary.sent;
                sum.acknowledged += summary.acknowledged;
                sum.counted += summary.counted;
            }
            Err(failure) => {
                failed += 1;
                println!("seed {seed}: {failure}\n  replay: {}", replay(seed));
            }
        }
    }
    println!("{seeds} seeds: {sum:?}");
    assert_eq!(failed, 0, "seeds failed");
}

/// A planted mistake must be found by one of so many seeds; they are run by the dozen until it is.
fn is_found(plant: Plant, seeds_max: u64) {
    let seeds_max = number("UPROAR_SIM_SEEDS").unwrap_or(seeds_max);
    let mut from = 0;
    while from < seeds_max {
        let upto = (from + 24).min(seeds_max);
        let results = run_all(from..upto, plant);
        let mut found = results
            .iter()
            .filter_map(|(seed, result)| Some((seed, result.as_ref().err()?)));
        if let Some((seed, failure)) = found.next() {
            let count = 1 + found.count();
            println!("{plant:?}: found by {count} of seeds {from} to {upto}; by {seed}: {failure}");
            return;
        }
        from = upto;
    }
    panic!("{plant:?} was not found by {seeds_max} seeds");
}

#[test]
fn finds_a_missing_read_barrier() {
    is_found(Plant::NoReadBarrier, 60);
}

#[test]
fn finds_a_memory_kept_after_a_failed_commit() {
    is_found(Plant::MemoryKept, 60);
}

#[test]
fn finds_batches_that_never_get_void() {
    is_found(Plant::NoVoidAfter, 600);
}

#[test]
fn finds_an_acknowledgement_on_an_unsatisfied_wait() {
    is_found(Plant::UnsatisfiedWait, 60);
}

#[test]
fn finds_an_acknowledgement_because_no_replica_is_attached() {
    is_found(Plant::NoReplicaAttached, 60);
}

#[test]
fn finds_a_maximum_instead_of_a_window() {
    is_found(Plant::Maximum, 60);
}

#[test]
fn finds_readers_that_apply_the_palette() {
    is_found(Plant::ReadersApplyPalette, 60);
}

#[test]
fn finds_frames_of_any_age() {
    is_found(Plant::FramesOfAnyAge, 600);
}

#[test]
fn finds_a_topology_from_before_the_append() {
    is_found(Plant::TopologyFromBefore, 1_000);
}

#[test]
fn finds_phones_that_run_ahead() {
    is_found(Plant::PhonesRunAhead, 1_000);
}

#[test]
fn finds_a_log_trimmed_too_close() {
    is_found(Plant::TrimTooClose, 200);
}
