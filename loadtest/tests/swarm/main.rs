//! The load generator: what it notices, and what it says of itself.
#![expect(
    clippy::unwrap_used,
    reason = "clippy sees that functions are tests, not that their helpers are"
)]

mod fake;
mod against_fake;
mod against_gateways;

use loadtest::scenario::{Distribution, Scenario, Tapping};
use loadtest::swarm::assignment::{Assignment, RoomPlan};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// All phones arrive at once in one room with one reaction, and tap that often, if at all.
fn scenario(phones: u32, every_seconds: Option<f64>) -> Scenario {
    let mut scenario: Scenario = toml::from_str(
        r#"
        title = "Test"
        about = "For tests."
        phones = 1
        seconds = 60
        rooms = { count = 1, cooldown_ms = 100, reactions = 1 }
        arrive = [{ percent = 100, over_seconds = 0 }]
        "#,
    )
    .unwrap();
    scenario.phones = phones;
    scenario.tap = every_seconds.map(|every_seconds| Tapping {
        every_seconds: [every_seconds; 2],
        distribution: Distribution::Uniform,
    });
    scenario
}

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
