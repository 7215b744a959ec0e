//! A scenario for tests, here and under `tests/`, to be changed where a test is about something.

use super::{Distribution, Scenario, Tapping};

/// A minute in one room with one reaction: all arrive at once, and tap that often, if at all.
///
/// # Panics
/// Never: the text is a scenario.
pub fn scenario(phones: u32, tap_every_seconds: Option<[f64; 2]>) -> Scenario {
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
    .expect("this is a scenario");
    scenario.phones = phones;
    scenario.tap = tap_every_seconds.map(|every_seconds| Tapping {
        every_seconds,
        distribution: Distribution::Uniform,
    });
    scenario
}
