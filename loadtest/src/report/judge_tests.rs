use super::*;
use crate::report::CrossCheck;

/// A run in which everything is as it should be.
fn good() -> RunReport {
    RunReport {
        phones: 5000,
        joined: 5000,
        join_p95_ms: Some(80.0),
        joined_max_ms: Some(200.0),
        expected: 1_000_000,
        delivered: 1_000_000,
        acked: 9_000,
        totals: Some(9_000),
        taps: Some(9_000),
        tap_counts: Some(9_000),
        lost: Some(0),
        doubled: Some(0),
        ack_p99_ms: Some(40.0),
        tick_p99_ms: Some(320.0),
        beyond_window_p99_ms: Some(60.0),
        generator_busy: 0.4,
        generator_late_p99_ms: 3.0,
        ..RunReport::default()
    }
}

fn all() -> Thresholds {
    Thresholds {
        delivered_percent_min: Some(100.0),
        lost_max: Some(0),
        doubled_max: Some(0),
        unsettled_max: Some(0),
        joins_refused_max: Some(0),
        join_p95_ms_max: Some(1_000.0),
        joined_max_ms_max: Some(5_000.0),
        ack_p99_ms_max: Some(100.0),
        tick_p99_ms_max: Some(400.0),
        beyond_window_p99_ms_max: Some(100.0),
    }
}

/// The good run once it was altered, judged.
fn judged(alter: impl FnOnce(&mut RunReport)) -> RunReport {
    let mut report = good();
    alter(&mut report);
    report.judge(&all());
    report
}

#[test]
fn a_good_run_passes() {
    let report = judged(|_| {});
    assert_eq!(report.exit_code(), 0);
    assert!(report.passed && report.crossed.is_empty() && report.vetoes.is_empty());
    assert_eq!(report.bounds.len(), 10);
    assert!(report.bounds.iter().all(|bound| bound.held));
    assert_eq!(report.headline(), "Passed: 10 thresholds held.");
}

#[test]
fn bounds_themselves_are_allowed() {
    let report = judged(|report| {
        report.join_p95_ms = Some(1_000.0);
        report.joined_max_ms = Some(5_000.0);
        report.ack_p99_ms = Some(100.0);
        report.tick_p99_ms = Some(400.0);
        report.beyond_window_p99_ms = Some(100.0);
        report.generator_busy = GENERATOR_BUSY_MAX;
        report.generator_late_p99_ms = GENERATOR_LATE_P99_MS_MAX;
    });
    assert_eq!(
        report.exit_code(),
        0,
        "{:?} {:?}",
        report.crossed,
        report.vetoes
    );
}

#[test]
fn each_threshold_fires_and_says_by_how_much() {
    type Alter = fn(&mut RunReport);
    let cases: [(Alter, &str); 11] = [
        (
            |report| report.delivered = 999_900,
            "delivered is 99.99 % and the bound 100 %: 100 of 1,000,000 frames are missing",
        ),
        (
            |report| report.lost = Some(3),
            "lost is 3, 3 above the bound of 0",
        ),
        (
            |report| report.doubled = Some(1),
            "doubled is 1, 1 above the bound of 0",
        ),
        (
            |report| report.unsettled = 7,
            "unsettled is 7, 7 above the bound of 0",
        ),
        (
            |report| report.joins_refused = 2,
            "joins_refused is 2, 2 above the bound of 0",
        ),
        (
            |report| report.join_p95_ms = Some(1_200.5),
            "join_p95_ms is 1,200 ms, 200.5 ms above the bound of 1,000 ms",
        ),
        (
            |report| report.joined_max_ms = Some(5_001.0),
            "joined_max_ms is 5,001 ms, 1 ms above the bound of 5,000 ms",
        ),
        (
            |report| report.ack_p99_ms = Some(132.46),
            "ack_p99_ms is 132.5 ms, 32.46 ms above the bound of 100 ms",
        ),
        (
            |report| report.tick_p99_ms = Some(401.0),
            "tick_p99_ms is 401 ms, 1 ms above the bound of 400 ms",
        ),
        (
            |report| report.beyond_window_p99_ms = Some(100.1),
            "beyond_window_p99_ms is 100.1 ms, 0.1 ms above the bound of 100 ms",
        ),
        (
            |report| report.joined = 4_990,
            "joined: 10 of 5,000 phones never came into their room",
        ),
    ];
    for (alter, said) in cases {
        let report = judged(alter);
        assert_eq!(report.crossed, [said]);
        assert_eq!(report.exit_code(), 99);
        assert!(!report.passed);
        assert_eq!(report.headline(), "Not passed: 1 check did not hold.");
    }
}

/// A server that drops one frame in ten thousand, or in ten million, does not pass as a hundred percent.
#[test]
fn a_single_missing_frame_is_told() {
    let report = judged(|report| {
        report.expected = 10_000_000;
        report.delivered = 9_999_999;
    });
    assert_eq!(
        report.crossed,
        ["delivered is 99.99999 % and the bound 100 %: 1 of 10,000,000 frames are missing"]
    );
}

#[test]
fn what_could_not_be_measured_does_not_pass() {
    type Alter = fn(&mut RunReport);
    let cases: [(Alter, &str); 8] = [
        (|report| report.lost = None, "lost"),
        (|report| report.doubled = None, "doubled"),
        (|report| report.join_p95_ms = None, "join_p95_ms"),
        (|report| report.joined_max_ms = None, "joined_max_ms"),
        (|report| report.ack_p99_ms = None, "ack_p99_ms"),
        (|report| report.tick_p99_ms = None, "tick_p99_ms"),
        (
            |report| report.beyond_window_p99_ms = None,
            "beyond_window_p99_ms",
        ),
        // No frame had to be delivered: then nothing was shown.
        (
            |report| {
                report.expected = 0;
                report.delivered = 0;
            },
            "delivered",
        ),
    ];
    for (alter, figure) in cases {
        let report = judged(alter);
        assert_eq!(report.crossed.len(), 1, "{:?}", report.crossed);
        let said = format!("{figure} could not be measured, so nobody knows whether it is at ");
        assert!(report.crossed[0].starts_with(&said), "{:?}", report.crossed);
        assert_eq!(report.exit_code(), 99);
        assert_eq!(
            report.headline(),
            "Not passed: 1 threshold could not be measured."
        );
    }
}

#[test]
fn what_is_out_of_reach_says_what_to_give() {
    let report = judged(|report| {
        report.lost = None;
        report.unsettled = 7;
        let remedy = ("lost".to_owned(), "give --redis".to_owned());
        report.out_of_reach = [remedy].into();
    });
    assert_eq!(
        report.crossed[0],
        "lost could not be measured, so nobody knows whether it is at most 0: give --redis"
    );
    assert_eq!(
        report.headline(),
        "Not passed: 1 check did not hold, and 1 threshold could not be measured."
    );
}

#[test]
fn what_is_not_asked_is_not_judged() {
    let mut report = RunReport::default();
    report.judge(&Thresholds::default());
    assert!(report.passed && report.bounds.is_empty());
    assert_eq!(report.headline(), "Passed: no threshold was asked.");
    let mut report = good();
    report.lost = None;
    report.joined = 1;
    report.delivered = 0;
    report.judge(&Thresholds::default());
    assert_eq!(report.exit_code(), 0);
}

#[test]
fn more_delivered_than_expected_is_a_mistake() {
    let report = judged(|report| report.delivered = 1_000_001);
    assert_eq!(
        report.crossed,
        ["delivered is 1,000,001 frames and only 1,000,000 had to be: the counting is wrong"]
    );
}

#[test]
fn sides_that_do_not_agree_cross() {
    let check = |agrees| CrossCheck {
        what: "phones in their rooms".to_owned(),
        one: "generator".to_owned(),
        one_says: 5_000.0,
        other: "gateways".to_owned(),
        other_says: 4_998.0,
        agrees,
    };
    let report = judged(|report| report.cross_checks = vec![check(true), check(false)]);
    assert_eq!(
        report.crossed,
        ["phones in their rooms: generator says 5,000, gateways says 4,998"]
    );
    assert_eq!(report.exit_code(), 99);
}

#[test]
fn a_generator_that_is_too_slow_is_a_veto() {
    let report = judged(|report| report.generator_busy = 0.93);
    assert_eq!(report.vetoes.len(), 1);
    assert!(
        report.vetoes[0].contains("was 93 % busy"),
        "{:?}",
        report.vetoes
    );
    assert_eq!(report.exit_code(), 98);
    assert!(!report.passed);

    let report = judged(|report| report.generator_late_p99_ms = 81.0);
    assert_eq!(report.vetoes.len(), 1);
    assert!(report.vetoes[0].contains("81 ms or more after it was due, 31 ms above"));
    assert_eq!(report.exit_code(), 98);

    let both = judged(|report| {
        report.generator_busy = f64::NAN;
        report.generator_late_p99_ms = f64::NAN;
    });
    assert_eq!(both.vetoes.len(), 2, "what is not known is no alibi");
}

#[test]
fn a_veto_wins_and_what_was_crossed_is_said_too() {
    let report = judged(|report| {
        report.generator_busy = 0.99;
        report.tick_p99_ms = Some(900.0);
    });
    assert_eq!(report.exit_code(), 98);
    assert_eq!((report.vetoes.len(), report.crossed.len()), (1, 1));
    assert!(report.headline().contains("1 check did not hold either"));
}

#[test]
fn an_interrupted_run_says_so_and_is_judged_by_what_there_is() {
    let report = judged(|report| {
        report.interrupted = true;
        report.joined = 100;
    });
    assert_eq!(
        report.exit_code(),
        0,
        "those who had not arrived yet are not missed"
    );
    assert!(report.headline().contains("interrupted"));
}

#[test]
fn judging_again_forgets_the_first_time() {
    let mut report = judged(|report| report.lost = Some(3));
    report.lost = Some(0);
    report.judge(&all());
    assert!(report.passed && report.crossed.is_empty());
}
