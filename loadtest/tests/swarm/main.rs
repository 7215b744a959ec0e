//! The load generator: what it notices, and what it says of itself.
#![expect(
    clippy::unwrap_used,
    reason = "clippy sees that functions are tests, not that their helpers are"
)]

mod fake;
mod against_fake;
mod against_gateways;

use loadtest::scenario::Scenario;
use loadtest::scenario::for_tests::scenario;
use loadtest::swarm::assignment::{Assignment, RoomPlan};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn assignment(scenario: Scenario, target: SocketAddr) -> Assignment {
    Assignment {
        seed: 1,
        phones: 0..scenario.phones,
        targets: vec![target],
        host: target.to_string(),
        rooms: vec![RoomPlan {
            code: "PARTY7".parse().unwrap(),
            keys: vec!["clap".parse().unwrap()],
        }],
        threads: 2,
        sources: Vec::new(),
        scenario,
    }
}

/// Looks every few milliseconds.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
