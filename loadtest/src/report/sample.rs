//! A run as it could have been, for tests of what is made of it: a hall of 5,000 phones, one second with trouble.

use super::{
    Circumstances, CrossCheck, Distribution, ProcessReport, RoomReport, RunReport, Second,
};
use crate::scenario::{Scenario, Thresholds};
use hdrhistogram::Histogram;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// When the measured window begins.
const FROM: u32 = 37;

/// A run whose measured window is so long; the same each time.
pub(crate) fn run(seconds: u32) -> RunReport {
    let mut random = StdRng::seed_from_u64(seconds.into());
    let until = FROM + seconds;
    let mut report = RunReport {
        scenario: "Keynote hall".to_owned(),
        phones: 5000,
        joined: 5000,
        join_p95_ms: Some(48.2),
        joined_max_ms: Some(131.7),
        joins_per_core_second: Some(4_812.0),
        acked: 66_012,
        taps_refused: 12,
        totals: Some(66_012),
        taps: Some(66_012),
        tap_counts: Some(66_012),
        lost: Some(0),
        doubled: Some(0),
        gateway_cores: Some(0.312),
        generator_busy: 0.41,
        generator_late_p99_ms: 3.1,
        gateway_us_per_frame: Some(9.87),
        generator_us_per_frame: Some(4.02),
        cross_checks: cross_checks(),
        window: (f64::from(FROM), f64::from(until)),
        seconds: course(&mut random, until),
        processes: processes(&mut random, until),
        errors: vec![("connection reset by peer".to_owned(), 2)],
        circumstances: circumstances(),
        ..RunReport::default()
    };
    report.rooms = vec![RoomReport {
        code: "KX7M2P".to_owned(),
        phones: 5000,
        expected: 1_203_400,
        delivered: 1_203_400,
        acked: 66_012,
        totals: Some(66_012),
    }];
    (report.expected, report.delivered) = (1_203_400, 1_203_400);
    report.distributions = distributions(&mut random);
    let p99 = |name: &str| {
        let found = report.distributions.iter().find(|one| one.name == name);
        found.map(|one| one.percentiles[3])
    };
    report.ack_p99_ms = p99("ack");
    report.tick_p99_ms = p99("tick");
    report.beyond_window_p99_ms = p99("beyond_window");
    report.judge(&thresholds());
    report
}

/// What the hall asks.
pub(crate) fn thresholds() -> Thresholds {
    let hall = Scenario::named_or_path("hall").expect("it is part of the program");
    hall.thresholds
}

fn course(random: &mut StdRng, until: u32) -> Vec<Second> {
    let second = |at: u32| {
        let joined = (u64::from(at) * 5000 / 25).min(5000);
        let cue = at >= FROM && (at - FROM) % 20 == 15;
        let trouble = at == FROM + 41;
        let taps = joined / 5 * (1 + 2 * u64::from(cue)) + random.random_range(0..40);
        let slow = if trouble { 280.0 } else { 0.0 };
        let ack = 31.0 + random.random::<f64>() * 4.0;
        let tick = 161.0 + random.random::<f64>() * 9.0;
        let waits = at < until && taps > 0;
        Second {
            at,
            joined,
            taps: if at < until { taps } else { 0 },
            frames: joined * 4,
            errors: 2 * u64::from(trouble),
            ack_ms: waits.then_some((ack, ack * 1.7 + slow)),
            tick_ms: waits.then_some((tick, tick * 1.9 + slow)),
        }
    };
    (0..until + 5).map(second).collect()
}

fn distributions(random: &mut StdRng) -> Vec<Distribution> {
    let mut make = |name: &str, count: u32, shape: fn(&mut StdRng) -> f64| {
        let mut waits = Histogram::<u64>::new(3).expect("three digits are allowed");
        for _ in 0..count {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "waits are positive and below a minute"
            )]
            waits
                .record((shape(random) * 1000.0) as u64)
                .expect("it grows");
        }
        Distribution::of(name, &waits)
    };
    [
        make("join", 5000, |random| 8.0 + tail(random, 13.0)),
        make("ack", 20_000, |random| {
            4.0 + random.random::<f64>() * 25.0 + tail(random, 5.0)
        }),
        make("tick", 20_000, |random| {
            20.0 + random.random::<f64>() * 275.0 + tail(random, 9.0)
        }),
        make("beyond_window", 20_000, |random| 6.0 + tail(random, 11.0)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// An exponential wait.
fn tail(random: &mut StdRng, mean: f64) -> f64 {
    -random.random::<f64>().max(1e-9).ln() * mean
}

fn processes(random: &mut StdRng, until: u32) -> Vec<ProcessReport> {
    let mut process = |name: &str, kind: &str, cores: f64, megabytes: u64| {
        let second = |at: u32| {
            let arriving = if at < 25 { 1.8 } else { 1.0 };
            let used = cores * arriving * (0.9 + random.random::<f64>() * 0.2);
            let grown = megabytes * 1_000_000 * u64::from(at.min(30) + 20) / 50;
            (at, used, grown)
        };
        ProcessReport {
            name: name.to_owned(),
            kind: kind.to_owned(),
            cores,
            memory_bytes_max: megabytes * 1_000_000,
            seconds: (0..until + 5).map(second).collect(),
        }
    };
    let mut all = vec![
        process("gateway 1", "gateway", 0.312, 38),
        process("aggregator 1", "aggregator", 0.041, 12),
        process("persister 1", "persister", 0.062, 21),
    ];
    for port in 7001..7007 {
        let name = format!("redis 127.0.0.1:{port}");
        all.push(process(&name, "redis", 0.02, 9));
    }
    all.push(process("postgres", "postgres", 0.11, 164));
    all.push(process("generator 1", "generator", 0.41, 212));
    all.push(process("browser", "browser", 0.08, 310));
    all
}

fn cross_checks() -> Vec<CrossCheck> {
    let check = |what: &str, one: &str, one_says, other: &str, other_says| CrossCheck {
        what: what.to_owned(),
        one: one.to_owned(),
        one_says,
        other: other.to_owned(),
        other_says,
        agrees: true,
    };
    vec![
        check(
            "phones in their rooms",
            "generator",
            5000.0,
            "gateways (uproar_gateway_phones)",
            5000.0,
        ),
        check(
            "open connections",
            "generator",
            5000.0,
            "kernel (established sockets)",
            5001.0,
        ),
        check(
            "taps accepted",
            "generator",
            66_012.0,
            "gateways (uproar_gateway_taps_total)",
            66_012.0,
        ),
        check(
            "totals of KX7M2P",
            "Redis",
            66_012.0,
            "a browser page in the room",
            66_012.0,
        ),
    ]
}

fn circumstances() -> Circumstances {
    let pairs = |list: &[(&str, &str)]| {
        list.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    Circumstances {
        at: "2026-03-14T09:26:53Z".to_owned(),
        command: "uproar-loadtest run hall --phones 5000 --json hall.json --html hall.html"
            .to_owned(),
        machine: pairs(&[
            ("operating system", "Linux 6.8.0, Debian 12"),
            ("processor", "Example CPU at 2.6 GHz"),
            ("cores", "2"),
            ("memory", "8.3 GB"),
        ]),
        versions: pairs(&[
            ("uproar", "0.1.0 (release)"),
            ("redis", "7.0.15"),
            ("postgres", "15.10"),
            ("browser", "Chromium 128"),
        ]),
        settings: pairs(&[
            ("flush interval", "25 ms"),
            ("tick interval", "250 ms"),
            ("shards", "64"),
            ("generator threads", "1"),
        ]),
    }
}
