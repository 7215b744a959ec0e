//! Against a gateway that makes mistakes on purpose.

use crate::fake::{Fake, Said, frame, text};
use crate::{assignment, scenario, wait_until};
use loadtest::scenario::{Away, Parting, Stall};
use loadtest::swarm::Swarm;
use loadtest::swarm::evaluate::{Delivery, Evaluation, ack_waits, lateness};
use loadtest::swarm::harvest::{Harvest, TapFate};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PHONES: u32 = 40;
const TICKS: usize = 250;

/// All are told of each tick, but for what `leave_out` says; what came of it.
fn watched(leave_out: impl Fn(&Fake, usize) -> Option<usize>) -> (Harvest, Delivery) {
    let (fake, address) = Fake::start();
    let assignment = assignment(scenario(PHONES, None), address);
    let swarm = Swarm::start(assignment, Instant::now()).unwrap();
    wait_until("all have joined", || {
        swarm.snapshot().joined == u64::from(PHONES)
    });
    for tick in 0..TICKS {
        fake.tick_but(leave_out(&fake, tick));
        sleep(Duration::from_millis(1));
    }
    let harvest = swarm.finish();
    let total = Evaluation::new(std::slice::from_ref(&harvest), 1).total();
    (harvest, total)
}

#[test]
fn all_that_was_sent_was_delivered() {
    let (harvest, total) = watched(|_, _| None);
    assert_eq!((total.expected, total.delivered), (10_000, 10_000));
    assert_eq!(harvest.errors, []);
    // Each phone's first frame, and the ticks.
    assert_eq!(harvest.frames_received, 10_040);
    let [log] = &harvest.frames[..] else {
        panic!("one room, one gateway: {:?}", harvest.frames);
    };
    assert_eq!((log.room, log.gateway.as_str()), (0, "0badcafe"));
    assert!(
        log.frames
            .iter()
            .all(|frame| frame.second_us >= Some(frame.first_us))
    );
}

#[test]
fn one_dropped_frame_in_ten_thousand_is_noticed() {
    for dropped in [0, 100, TICKS - 1] {
        let (_, total) = watched(|_, tick| (tick == dropped).then_some(17));
        assert_eq!(
            (total.expected, total.delivered),
            (10_000, 9_999),
            "{dropped}"
        );
    }
}

#[test]
fn a_slow_phone_that_gets_all_totals_at_once_has_missed_nothing() {
    let (harvest, total) = watched(|fake, tick| {
        if tick == 150 {
            fake.make_good(17);
        }
        (50..150).contains(&tick).then_some(17)
    });
    assert_eq!((total.expected, total.delivered), (10_000, 10_000));
    let stays = harvest.phones.iter().flat_map(|phone| &phone.stays);
    let skipped: Vec<_> = stays.flat_map(|stay| &stay.skipped).collect();
    assert_eq!(skipped, [&(50, 150)]);
}

#[test]
fn whoever_does_not_read_for_a_while_reads_it_all_afterwards() {
    let (fake, address) = Fake::start();
    let mut scenario = scenario(4, Some([0.2; 2]));
    scenario.stall = vec![Stall {
        at_seconds: 0.5,
        percent: 50.0,
        seconds: 1.5,
    }];
    let swarm = Swarm::start(assignment(scenario, address), Instant::now()).unwrap();
    wait_until("all have joined", || swarm.snapshot().joined == 4);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2500) {
        fake.tick_but(None);
        sleep(Duration::from_millis(20));
    }
    let harvest = swarm.finish();
    let total = Evaluation::new(std::slice::from_ref(&harvest), 1).total();
    assert_eq!(total.expected, total.delivered);
    let during = |phone: &&loadtest::swarm::harvest::PhoneHarvest| {
        let mut taps = phone.taps.iter();
        !taps.any(|tap| (500_000..2_000_000).contains(&tap.sent_us))
    };
    assert_eq!(
        harvest.phones.iter().filter(during).count(),
        2,
        "half of them tapped meanwhile"
    );
    assert!(harvest.phones.iter().all(|phone| phone.stays.len() == 1));
}

#[test]
fn a_late_server_is_seen_as_one() {
    let (fake, address) = Fake::start();
    fake.acks_after_ms.store(300, Relaxed);
    let assignment = assignment(scenario(10, Some([2.0; 2])), address);
    let swarm = Swarm::start(assignment, Instant::now()).unwrap();
    let mut ack_ms = Vec::new();
    wait_until("thirty acks are there", || {
        ack_ms.extend(swarm.snapshot().ack_ms);
        ack_ms.len() >= 30
    });
    assert!(ack_ms.iter().all(|(milliseconds, _)| *milliseconds >= 300));
    swarm.stop_tapping();
    wait_until("all is answered", || swarm.snapshot().waiting == 0);
    let harvest = [swarm.finish()];
    assert!(ack_waits(&harvest, 0..u64::MAX).all(|(_, wait_us)| wait_us >= 300_000));
    assert!(
        harvest[0]
            .phones
            .iter()
            .flat_map(|phone| &phone.taps)
            .all(|tap| {
                matches!(tap.fate, TapFate::Acknowledged(at_us) if at_us >= tap.sent_us + 300_000)
            })
    );
}

#[test]
fn a_generator_that_is_too_slow_says_so() {
    let (fake, address) = Fake::start();
    let mut assignment = assignment(scenario(40, Some([0.5; 2])), address);
    assignment.threads = 1;
    let swarm = Swarm::start(assignment, Instant::now()).unwrap();
    wait_until("all have joined", || swarm.snapshot().joined == 40);
    // Frames that are all different have to be read as JSON, so many that no thread keeps up.
    let flood = Arc::clone(&fake);
    std::thread::spawn(move || {
        let mut total = 1_000_u64;
        loop {
            let frames: Vec<u8> = (0..500)
                .flat_map(|_| {
                    total += 1;
                    text(&format!(r#"{{"tick":{{"totals":{{"clap":{total}}}}}}}"#))
                })
                .collect();
            if flood.send(&frames).is_err() {
                return;
            }
        }
    });
    let mut late_ms = Vec::new();
    wait_until("fifty taps are sent", || {
        late_ms.extend(swarm.snapshot().late_ms);
        late_ms.iter().map(|(_, count)| count).sum::<u32>() >= 50
    });
    let harvest = [swarm.finish()];
    let late_us = lateness(&harvest, 0..u64::MAX).max().unwrap();
    let busiest = harvest[0]
        .busy
        .iter()
        .map(|(_, share)| *share)
        .fold(0.0, f64::max);
    println!("{busiest} busy, {late_us} us late");
    assert!(
        busiest > 0.8 || late_us > 50_000,
        "{busiest} busy, {late_us} us late"
    );
}

#[test]
fn pings_are_answered_with_the_same() {
    let (fake, address) = Fake::start();
    let swarm = Swarm::start(assignment(scenario(2, None), address), Instant::now()).unwrap();
    wait_until("both have joined", || swarm.snapshot().joined == 2);
    fake.send(&frame(9, b"fresh?")).unwrap();
    let pong = Said::Pong(b"fresh?".to_vec());
    wait_until("both have answered", || {
        fake.said().iter().all(|said| said.contains(&pong))
    });
    swarm.finish();
    wait_until("both have said goodbye", || {
        fake.said()
            .iter()
            .all(|said| said.last() == Some(&Said::Close))
    });
}

#[test]
fn what_was_not_answered_before_a_cut_is_sent_again_with_its_age() {
    let (fake, address) = Fake::start();
    fake.is_mute.store(true, Relaxed);
    let mut scenario = scenario(1, Some([0.4; 2]));
    scenario.away = vec![Away {
        at_seconds: 1.0,
        percent: 100.0,
        over_seconds: 0.0,
        for_seconds: [0.3, 0.3],
        how: Parting::Cut,
    }];
    let swarm = Swarm::start(assignment(scenario, address), Instant::now()).unwrap();
    wait_until("it is back", || fake.joined() == 2);
    fake.is_mute.store(false, Relaxed);
    swarm.stop_tapping();
    let taps = |connection: usize| -> Vec<String> {
        let said = fake.said();
        let texts = said[connection].iter().filter_map(|said| match said {
            Said::Text(text) if text.starts_with(r#"{"tap""#) => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    };
    let first = taps(0);
    assert!(!first.is_empty(), "it taps more often than it is there");
    wait_until("all are there again", || taps(1).len() >= first.len());
    for (seq, (first, again)) in (1..).zip(first.iter().zip(taps(1))) {
        assert_eq!(*first, format!(r#"{{"tap":{{"key":"clap","seq":{seq}}}}}"#));
        let again: serde_json::Value = serde_json::from_str(&again).unwrap();
        assert_eq!(again["tap"]["seq"], seq);
        assert!(again["tap"]["age_ms"].as_u64().unwrap() >= 300);
    }
    // They may have come before the fake spoke again; then nothing answers them but a third connection.
    let phone = &swarm.finish().phones[0];
    assert!(
        phone
            .taps
            .iter()
            .take(first.len())
            .all(|tap| tap.attempts == 2)
    );
    assert_eq!((phone.stays.len(), phone.joins_refused), (2, 0));
    assert!(!phone.stays[0].to_the_end && phone.stays[1].to_the_end);
    assert_eq!(phone.stays[1].due_us, 1_300_000);
}

#[test]
fn who_is_turned_away_is_counted_and_comes_back() {
    let (fake, address) = Fake::start();
    fake.is_full.store(true, Relaxed);
    let swarm = Swarm::start(assignment(scenario(5, None), address), Instant::now()).unwrap();
    wait_until("all were turned away", || swarm.snapshot().errors >= 5);
    fake.is_full.store(false, Relaxed);
    wait_until("all have joined", || swarm.snapshot().joined == 5);
    let harvest = swarm.finish();
    let refused: u32 = harvest.phones.iter().map(|phone| phone.joins_refused).sum();
    assert!(refused >= 5);
    assert_eq!(
        harvest.errors,
        [("handshake: answered 503".to_owned(), u64::from(refused))]
    );
    assert!(
        harvest
            .phones
            .iter()
            .all(|phone| phone.stays[0].due_us == 0)
    );
}

#[test]
fn phones_come_from_the_addresses_in_turn() {
    let (fake, address) = Fake::start();
    let mut assignment = assignment(scenario(6, None), address);
    let sources = [2, 3].map(|last| Ipv4Addr::new(127, 0, 0, last));
    assignment.sources = sources.to_vec();
    let swarm = Swarm::start(assignment, Instant::now()).unwrap();
    wait_until("all have joined", || swarm.snapshot().joined == 6);
    for source in sources {
        assert_eq!(fake.members_from(source), 3);
    }
}

#[test]
fn an_assignment_that_cannot_be_played_is_not_begun() {
    let target = "127.0.0.1:1".parse().unwrap();
    let start = |change: fn(&mut loadtest::swarm::assignment::Assignment)| {
        let mut assignment = assignment(scenario(100_000_000, None), target);
        assignment.phones = 0..1;
        change(&mut assignment);
        Swarm::start(assignment, Instant::now())
            .unwrap_err()
            .to_string()
    };
    assert!(start(|assignment| assignment.threads = 0).contains("thread"));
    assert!(start(|assignment| assignment.rooms.clear()).contains("rooms"));
    assert!(start(|assignment| assignment.targets.clear()).contains("target"));
    assert!(start(|assignment| assignment.rooms[0].keys.clear()).contains("reactions"));
    assert!(start(|assignment| assignment.phones = 0..100_000_001).contains("phones"));
    assert!(start(|assignment| assignment.phones = 0..100_000_000).contains("ulimit -n"));
}
