//! A small giant room on a real Redis Cluster with a real aggregator: it holds, and what was acknowledged is counted.

use loadtest::giant_room::fleet::Load;
use loadtest::giant_room::{self, Options};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn options() -> Options {
    Options {
        load: Load {
            producers: 4,
            appends_per_second: 100,
            taps_per_second: 1_000,
            threads: 2,
            tapped_before: 0,
        },
        window: Duration::from_secs(3),
        step: None,
        remembered: true,
        persister: false,
        core: 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_tap_is_in_the_totals_and_the_ticks() {
    let going_on = CancellationToken::new();
    let options = options();
    let run = giant_room::run(&options, &going_on, |step| println!("{step}"));
    let (report, _) = run.await.unwrap();
    println!("{report:?}");
    let stage = &report.stage;
    assert_eq!((stage.missed, stage.doubled, stage.given_up), (0, 0, 0));
    assert_eq!(stage.acknowledged, stage.totals);
    assert!(stage.last_tick_has_all);
    // Of 6 s; a busy machine may be late, but loses nothing.
    assert!((4_000..8_000).contains(&stage.acknowledged), "{stage:?}");
    assert_eq!(report.remembered, 3_300);
    assert!(stage.ticks >= 5, "{stage:?}");
    assert!(stage.aggregator_us_per_entry > 0.0 && stage.redis_us_per_entry > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_tells_what_it_has() {
    let interrupted = CancellationToken::new();
    let token = interrupted.clone();
    // As soon as the first second of taps is told.
    let progress = move |step: &str| {
        if step.contains("appends/s") {
            token.cancel();
        }
    };
    let options = Options {
        window: Duration::from_secs(60),
        ..options()
    };
    let (report, _) = giant_room::run(&options, &interrupted, progress)
        .await
        .unwrap();
    assert!(report.interrupted);
    assert_eq!(report.stage.acknowledged, report.stage.totals);
    assert!(report.stage.acknowledged > 0);
}
