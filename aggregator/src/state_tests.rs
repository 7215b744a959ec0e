//! Tests of a shard's state.

use super::*;
use shared::counting::ids::{ClientHash, PageId, ProducerId, TapId};
use shared::room::{Palette, RoomState};

const NOW: u64 = 1_780_000_000_000;

fn code(text: &str) -> RoomCode {
    text.parse().unwrap()
}

fn totals(pairs: &[(&str, u64)]) -> Totals {
    pairs
        .iter()
        .map(|(key, total)| (key.parse().unwrap(), *total))
        .collect()
}

fn id(ms: u64) -> EntryId {
    EntryId { ms, seq: 0 }
}

fn tap(state: &mut State, room: &str, keys: &[&str], ms: u64) {
    let tap = |(seq, key): (usize, &&str)| Tap {
        id: TapId {
            client: ClientHash(1),
            page: PageId(1),
            seq: u32::try_from(seq).unwrap() + 1,
        },
        key: key.parse().unwrap(),
        tapped_at_ms: ms,
    };
    let taps: Vec<Tap> = keys.iter().enumerate().map(tap).collect();
    state.fold(
        id(ms),
        Folded::Taps {
            room: &code(room),
            taps: &taps,
        },
    );
}

#[test]
fn more_keys_than_a_palette_has_are_counted_as_well() {
    let keys: Vec<String> = (0..100).map(|tap| format!("key-{}", tap % 40)).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut state = State::new(7);
    tap(&mut state, "PARTY7", &keys, 1);
    state.learn(code("PARTY7"), Totals::new());
    let prepared = state.prepare();
    let (_, totals) = &prepared[&code("PARTY7")];
    assert_eq!(totals.len(), 40);
    assert!(totals.iter().all(|(key, total)| {
        let number: u64 = key.as_str()["key-".len()..].parse().unwrap();
        *total == if number < 20 { 3 } else { 2 }
    }));
}

fn change(state: &mut State, room: &str, kind: RoomChangeKind, version: u64, ms: u64) -> Room {
    let room = Room {
        code: code(room),
        title: format!("version {version}"),
        palette: Palette::standard(),
        cooldown_ms: 3_000,
        state: RoomState::Open,
        version,
        created_at_ms: ms,
    };
    state.fold(
        id(ms),
        Folded::Change(&RoomChange {
            v: 1,
            kind,
            room: room.clone(),
        }),
    );
    room
}

fn people(state: &mut State, room: &str, producer: u64, people: u32, ms: u64) {
    let room = code(room);
    state.fold(
        id(ms),
        Folded::People {
            room: &room,
            producer: ProducerId(producer),
            people,
        },
    );
}

#[test]
fn taps_are_added_to_what_was_read() {
    let mut state = State::new(5);
    tap(&mut state, "PARTY7", &["clap", "clap", "fire"], NOW);
    tap(&mut state, "PARTY7", &["clap"], NOW + 1);
    assert_eq!(state.missing(), [code("PARTY7")]);
    state.learn(code("PARTY7"), totals(&[("clap", 100), ("heart", 7)]));
    assert!(state.missing().is_empty());
    let prepared = state.prepare();
    let (pending, changed) = &prepared[&code("PARTY7")];
    assert_eq!(
        *changed,
        totals(&[("clap", 103), ("fire", 1)]),
        "only what changed"
    );
    assert_eq!(
        (pending.begins, pending.active_ms),
        (Begins::Kept, Some(NOW + 1))
    );
    tap(&mut state, "PARTY7", &["clap"], NOW + 2);
    assert!(state.missing().is_empty(), "known from now on");
    assert_eq!(state.prepare()[&code("PARTY7")].1, totals(&[("clap", 104)]));
    let tick = state.tick(NOW, false);
    assert_eq!((tick.epoch, tick.serial), (5, 1));
    assert_eq!(
        tick.rooms[&code("PARTY7")].totals,
        totals(&[("clap", 104), ("fire", 1)]),
        "of both commits"
    );
    assert!(!state.has_untold());
    assert_eq!(
        state.tick(NOW, false),
        Tick {
            epoch: 5,
            serial: 2,
            at_ms: NOW,
            rooms: BTreeMap::new()
        }
    );
}

#[test]
fn what_was_folded_is_counted_once() {
    let mut state = State::new(1);
    people(&mut state, "PARTY7", 1, 10, NOW - 5);
    tap(&mut state, "PARTY7", &["clap", "fire"], NOW);
    tap(&mut state, "OTHER", &["clap"], NOW + 1);
    let counted = state.take_counted();
    assert_eq!(
        counted,
        Counted {
            taps: 3,
            oldest_ms: Some(NOW),
            ..Counted::default()
        }
    );
    assert_eq!(state.take_counted(), Counted::default());
}

#[test]
fn a_change_travels_without_any_tap() {
    let mut state = State::new(1);
    let room = change(&mut state, "PARTY7", RoomChangeKind::Updated, 3, NOW);
    assert!(state.missing().is_empty(), "a change needs no totals");
    let prepared = state.prepare();
    assert_eq!(prepared[&code("PARTY7")].0.active_ms, Some(NOW));
    assert_eq!(
        state.tick(NOW, false).rooms[&code("PARTY7")],
        RoomTick {
            room: Some(room),
            ..RoomTick::default()
        }
    );
}

#[test]
fn a_new_room_begins_with_nothing() {
    let mut state = State::new(1);
    state.learn(code("PARTY7"), totals(&[("clap", 100)]));
    change(&mut state, "PARTY7", RoomChangeKind::Created, 1, NOW);
    tap(&mut state, "PARTY7", &["clap"], NOW);
    let prepared = state.prepare();
    assert_eq!(prepared[&code("PARTY7")].0.begins, Begins::Created);
    assert_eq!(prepared[&code("PARTY7")].1, totals(&[("clap", 1)]));
}

#[test]
fn an_expired_room_is_gone() {
    let mut state = State::new(1);
    state.learn(code("PARTY7"), totals(&[("clap", 100)]));
    tap(&mut state, "PARTY7", &["clap"], NOW);
    change(&mut state, "PARTY7", RoomChangeKind::Expired, 4, NOW + 1);
    let prepared = state.prepare();
    let (pending, changed) = &prepared[&code("PARTY7")];
    assert_eq!(
        (pending.begins, pending.active_ms),
        (Begins::Expired(4), None)
    );
    assert!(changed.is_empty(), "its totals are deleted");
    let told = RoomTick {
        expired: true,
        ..RoomTick::default()
    };
    assert_eq!(state.tick(NOW, false).rooms[&code("PARTY7")], told);
    assert_eq!(state.take_counted().expired, 1);
}

#[test]
fn a_code_that_is_used_again_begins_anew() {
    let mut state = State::new(1);
    state.learn(code("PARTY7"), totals(&[("clap", 100)]));
    change(&mut state, "PARTY7", RoomChangeKind::Expired, 4, NOW);
    state.prepare();
    let room = change(&mut state, "PARTY7", RoomChangeKind::Created, 1, NOW + 1);
    tap(&mut state, "PARTY7", &["fire"], NOW + 2);
    let prepared = state.prepare();
    assert_eq!(prepared[&code("PARTY7")].1, totals(&[("fire", 1)]));
    let tick = state.tick(NOW, false);
    let told = &tick.rooms[&code("PARTY7")];
    assert!(!told.expired && told.room.as_ref() == Some(&room));
    assert_eq!(told.totals, totals(&[("fire", 1)]));
}

#[test]
fn audience_is_told_while_there_is_any_and_once_more_at_its_end() {
    let mut state = State::new(1);
    people(&mut state, "PARTY7", 1, 10, NOW);
    people(&mut state, "PARTY7", 2, 2, NOW);
    tap(&mut state, "PARTY7", &["clap"; 9], NOW);
    state.prepare();
    let told = |tick: &Tick| tick.rooms.get("PARTY7").and_then(|room| room.audience);
    assert_eq!(told(&state.tick(NOW + 1_000, false)), None);
    let first = state.tick(NOW + 1_000, true);
    assert_eq!(
        told(&first),
        Some(Audience {
            people: 12,
            taps_per_second: 2
        })
    );
    let later = state.tick(NOW + 10_000, true);
    assert_eq!(
        told(&later),
        Some(Audience {
            people: 12,
            taps_per_second: 0
        })
    );
    let end = state.tick(NOW + 60_000, true);
    assert_eq!(
        told(&end),
        Some(Audience {
            people: 0,
            taps_per_second: 0
        })
    );
    assert!(state.tick(NOW + 61_000, true).rooms.is_empty());
}

#[test]
fn unused_totals_are_forgotten() {
    let mut state = State::new(1);
    tap(&mut state, "PARTY7", &["clap"], NOW);
    state.learn(code("PARTY7"), totals(&[("clap", 1)]));
    state.prepare();
    state.forget_unused(NOW + TOTALS_KEPT_MS);
    tap(&mut state, "PARTY7", &["clap"], NOW + 1);
    assert!(state.missing().is_empty());
    state.prepare();
    state.forget_unused(NOW + 2 + TOTALS_KEPT_MS);
    tap(&mut state, "PARTY7", &["clap"], NOW + 2);
    assert_eq!(state.missing(), [code("PARTY7")]);
}
