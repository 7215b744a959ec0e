//! Whether a run notices what it must: each of these is a run on the whole system in which something is wrong on
//! purpose.
#![expect(
    clippy::unwrap_used,
    reason = "clippy sees that functions are tests, not that their helpers are"
)]

mod lossy;

use loadtest::report::RunReport;
use loadtest::run::generators::Placement;
use loadtest::run::progress::Progress;
use loadtest::run::target::{Elsewhere, Target};
use loadtest::run::{self, RunOptions};
use loadtest::scenario::Scenario;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Small, and with everything asked that a healthy system holds with ease, even on a busy machine.
const SCENARIO: &str = r#"
title = "Trust"
about = "A small room in which something may be wrong."
phones = 400
seconds = 8
warm_up_seconds = 1

[rooms]
count = 1
cooldown_ms = 1000

[[arrive]]
percent = 100
over_seconds = 1

[tap]
every_seconds = [1.1, 1.5]

[thresholds]
delivered_percent_min = 100
lost_max = 0
doubled_max = 0
unsettled_max = 0
ack_p99_ms_max = 700
"#;

/// When a stall begins: the window is open, and a second later it still is.
const MIDDLE: Duration = Duration::from_secs(5);
/// An eighth of the window, and more than what the threshold on acknowledgements allows.
const STALL: Duration = Duration::from_secs(1);
/// Until four seconds past the window, by when all else has settled.
const PERSISTER_LATE: Duration = Duration::from_secs(9);

fn options(placement: Placement) -> RunOptions {
    RunOptions {
        scenario: Scenario::from_toml("trust", SCENARIO).unwrap(),
        seed: 7,
        placement,
        threads: 1,
        browser: false,
        command: "a test".to_owned(),
    }
}

async fn rig() -> Target {
    let scenario = options(Placement::Here).scenario;
    Target::rig(&scenario, Vec::new(), |step| println!("{step}"))
        .await
        .unwrap()
}

async fn play(target: &Target, placement: Placement) -> RunReport {
    let never = CancellationToken::new();
    let report = run::run(&options(placement), target, &never, &Progress::default())
        .await
        .unwrap();
    println!("{}", report.headline());
    report
}

/// All on one rig, one after another: each has the machine for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_notices_what_is_wrong() {
    let target = rig().await;
    nothing_wrong_is_held_against_a_sound_system(&target).await;
    three_generators_find_what_one_finds(&target).await;
    one_frame_in_ten_thousand_is_missed(&target).await;
    a_server_that_answers_late_is_noticed(&target).await;
    a_generator_that_is_too_slow_says_so(&target).await;
}

async fn nothing_wrong_is_held_against_a_sound_system(target: &Target) {
    let report = play(target, Placement::Here).await;
    assert_eq!(
        report.exit_code(),
        0,
        "{:?} {:?}",
        report.crossed,
        report.vetoes
    );
    assert_eq!((report.joined, report.joins_refused), (400, 0));
    assert_eq!(report.expected, report.delivered);
    assert!(report.expected > 400 * 4 * 7, "{}", report.expected);
    let counted = [report.totals, report.taps, report.tap_counts];
    assert_eq!(counted, [Some(report.acked); 3]);
    assert!(report.tick_p99_ms.unwrap() > report.beyond_window_p99_ms.unwrap());
    assert!(report.cross_checks.len() >= 5, "{:?}", report.cross_checks);
}

async fn three_generators_find_what_one_finds(target: &Target) {
    let report = play(target, Placement::Processes(3)).await;
    assert_eq!(
        report.exit_code(),
        0,
        "{:?} {:?}",
        report.crossed,
        report.vetoes
    );
    assert_eq!((report.joined, report.expected), (400, report.delivered));
    let generators = report
        .processes
        .iter()
        .filter(|process| process.kind == "generator");
    assert_eq!(generators.count(), 3);
}

/// Between phones and gateway one of ten thousand ticks is left out.
async fn one_frame_in_ten_thousand_is_missed(target: &Target) {
    let Target::Rig(stack) = target else {
        panic!("the tests have a rig");
    };
    let lossy = lossy::start(target.addresses()[0], 10_000).await;
    let behind = Elsewhere {
        url: format!("http://{}", lossy.address()),
        admin_key: stack.rig.admin_key().to_owned(),
        redis: stack.rig.redis_nodes(),
        postgres: Some(stack.rig.postgres_url()),
        client_hash_key: Some(stack.rig.client_hash_key().to_owned()),
        operations: Vec::new(),
        windows: target.windows(),
    };
    let behind = Target::elsewhere(behind).unwrap();
    // The persister comes later than the last answer: it is waited for, also where only its Redis and Postgres are known.
    let persister = stack.services().persisters[0].pid();
    let (report, ()) = tokio::join!(
        play(&behind, Placement::Here),
        stall(async || persister, PERSISTER_LATE)
    );
    assert_eq!((report.lost, report.doubled), (Some(0), Some(0)));
    assert_eq!(report.taps, Some(report.acked));
    assert!(
        lossy.dropped() > 0,
        "nothing was left out: the test shows nothing"
    );
    assert_eq!(report.expected - report.delivered, lossy.dropped());
    assert_eq!(
        report.exit_code(),
        99,
        "{:?} {:?}",
        report.crossed,
        report.vetoes
    );
    assert!(
        report.crossed[0].contains("deliver"),
        "{:?}",
        report.crossed
    );
}

/// The gateway stands still for a second. Phones go on tapping when it is due, and each of those taps waited.
async fn a_server_that_answers_late_is_noticed(target: &Target) {
    let Target::Rig(stack) = target else {
        panic!("the tests have a rig");
    };
    let gateway = stack.services().gateways[0].pid();
    let (report, ()) = tokio::join!(
        play(target, Placement::Here),
        stall(async || gateway, STALL)
    );
    // An eighth of the taps fell due while it stood still; the first of them waited for all of the second.
    assert!(
        report.ack_p99_ms.unwrap() > 700.0,
        "{:?}",
        report.ack_p99_ms
    );
    assert_eq!(
        report.exit_code(),
        99,
        "{:?} {:?}",
        report.crossed,
        report.vetoes
    );
    assert_eq!((report.lost, report.doubled), (Some(0), Some(0)));
}

/// The generator stands still for a second: its taps are late, which it must say, and their waits count from when they
/// were due, so that it does not make the server look fast.
async fn a_generator_that_is_too_slow_says_so(target: &Target) {
    let (report, ()) = tokio::join!(
        play(target, Placement::Processes(1)),
        stall(async || child("agent"), STALL)
    );
    assert_eq!(
        report.exit_code(),
        98,
        "{:?} {:?}",
        report.crossed,
        report.vetoes
    );
    assert!(
        report.generator_late_p99_ms > 500.0,
        "{}",
        report.generator_late_p99_ms
    );
    assert!(
        report.ack_p99_ms.unwrap() > 500.0,
        "{:?}",
        report.ack_p99_ms
    );
}

/// The process that this test started with this argument.
fn child(argument: &str) -> u32 {
    let family = loadtest::process::family(std::process::id());
    let has_argument = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').nth(1) == Some(argument)
    };
    family.into_iter().find(has_argument).unwrap()
}

/// In the middle of the window a process, asked for only then, stands still for a while.
async fn stall(process: impl AsyncFn() -> u32, length: Duration) {
    tokio::time::sleep(MIDDLE).await;
    let pid = nix::unistd::Pid::from_raw(i32::try_from(process().await).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    tokio::time::sleep(length).await;
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
}
