use super::*;
use proptest::prelude::*;
use shared::counting::freshness::TRANSIT_MAX_MS;
use shared::room::Palette;

/// A session in a room, with a clock of its own.
struct Test {
    session: Session,
    clients: Mutex<Clients>,
    room: Room,
    now_ms: u64,
    busy: Option<u64>,
}

impl Test {
    fn new() -> Self {
        let room = Room {
            code: "PARTY7".parse().unwrap(),
            title: "A room".to_owned(),
            palette: Palette::standard(),
            cooldown_ms: 3000,
            state: RoomState::Open,
            version: 1,
            created_at_ms: 1,
        };
        Test {
            session: Session::new(1_000_000),
            clients: Mutex::default(),
            room,
            now_ms: 1_000_000,
            busy: None,
        }
    }

    fn joined(role: Role) -> Self {
        let mut test = Test::new();
        test.session
            .joined(Member::new(ClientHash(7), PageId(1), role));
        test
    }

    fn receive(&mut self, text: &str) -> Action {
        let surroundings = Surroundings {
            room: Arc::new(self.room.clone()),
            clients: &self.clients,
            now_ms: self.now_ms,
            log_now_ms: self.now_ms + LOG_AHEAD_MS,
            tolerance_ms: 1000,
            busy: self.busy,
        };
        self.session.receive(text.as_bytes(), &surroundings)
    }

    fn tap(&mut self, seq: u32, age_ms: u64) -> Action {
        let key = self.room.palette.entries()[0].key.clone();
        self.receive(&format!(
            r#"{{"tap":{{"key":"{key}","seq":{seq},"age_ms":{age_ms}}}}}"#
        ))
    }

    fn why(&mut self, seq: u32, age_ms: u64) -> Option<Why> {
        match self.tap(seq, age_ms) {
            Action::Take(_) => None,
            Action::Reply(ServerFrame::Refused(refused)) => {
                assert_eq!(refused.seq, seq);
                Some(refused.why)
            }
            other => panic!("a tap is taken or refused, not {other:?}"),
        }
    }
}

fn is_closed(action: &Action) -> bool {
    matches!(action, Action::Close(reason) if !reason.is_empty())
}

/// The log's clock has nothing to do with the gateway's.
const LOG_AHEAD_MS: u64 = 1_700_000_000_000;

const JOIN: &str =
    r#"{"join":{"client":"00112233445566778899aabbccddeeff","page":"0badcafe","role":"phone"}}"#;

#[test]
fn the_first_frame_is_a_join_and_only_the_first() {
    for other in [
        r#"{"tap":{"key":"clap","seq":1}}"#,
        r#"{"ping":1}"#,
        r#"{"wave":1}"#,
        "{}",
        "nonsense",
        "",
    ] {
        assert!(is_closed(&Test::new().receive(other)), "{other}");
    }
    assert!(matches!(Test::new().receive(JOIN), Action::Join(_)));
    assert!(is_closed(&Test::joined(Role::Phone).receive(JOIN)));
}

#[test]
fn what_is_unknown_is_ignored_and_what_is_wrong_closes() {
    let mut test = Test::joined(Role::Phone);
    assert_eq!(test.receive(r#"{"wave":{"to":"all"}}"#), Action::Nothing);
    assert_eq!(
        test.receive(r#"{"ping":1}"#),
        Action::Reply(ServerFrame::Pong(1))
    );
    assert!(is_closed(&test.receive("{")));
    assert!(is_closed(
        &Test::joined(Role::Phone).receive(r#"{"tap":{"key":"clap"}}"#)
    ));
}

#[test]
fn only_phones_tap() {
    assert!(is_closed(&Test::joined(Role::Stage).tap(1, 0)));
    assert!(is_closed(&Test::joined(Role::Host).tap(1, 0)));
    assert_eq!(Test::joined(Role::Phone).why(1, 0), None);
}

#[test]
fn each_refusal_has_its_reason() {
    let mut test = Test::joined(Role::Phone);
    test.room.state = RoomState::Paused;
    assert_eq!(test.why(1, 0), Some(Why::Paused));
    test.room.state = RoomState::Closed;
    assert_eq!(test.why(2, 0), Some(Why::Closed));
    test.room.state = RoomState::Open;
    let unknown = test.receive(r#"{"tap":{"key":"no-such","seq":3}}"#);
    let refused = Refused {
        seq: 3,
        why: Why::UnknownReaction,
        retry_ms: None,
    };
    assert_eq!(unknown, Action::Reply(ServerFrame::Refused(refused)));
    assert_eq!(test.why(4, TAP_AGE_MAX_MS + 1), Some(Why::TooOld));
    test.busy = Some(1500);
    assert_eq!(test.why(5, 0), Some(Why::Busy));
    test.busy = None;
    assert_eq!(
        test.why(6, 0),
        None,
        "none of those refused began a cooldown"
    );
    assert_eq!(test.why(7, 0), Some(Why::Cooldown));
}

#[test]
fn a_seq_grows_and_does_not_jump() {
    let mut test = Test::joined(Role::Phone);
    test.room.cooldown_ms = 0;
    assert_eq!(test.why(0, 0), Some(Why::Seq));
    assert_eq!(test.why(1000, 0), None, "the first may be any");
    assert_eq!(test.why(1000, 0), Some(Why::Seq), "twice");
    assert_eq!(test.why(999, 0), Some(Why::Seq), "back");
    assert_eq!(test.why(1064, 0), Some(Why::Seq), "64 ahead");
    assert_eq!(test.why(1063, 0), None, "63 ahead");
}

#[test]
fn a_refused_seq_is_used_up() {
    let mut test = Test::joined(Role::Phone);
    test.room.state = RoomState::Paused;
    assert_eq!(test.why(1, 0), Some(Why::Paused));
    test.room.state = RoomState::Open;
    assert_eq!(test.why(1, 0), Some(Why::Seq));
}

#[test]
fn taps_from_offline_come_at_once_and_were_made_one_per_cooldown() {
    let mut test = Test::joined(Role::Phone);
    assert_eq!(test.why(1, 9_000), None);
    assert_eq!(test.why(2, 6_000), None);
    assert_eq!(test.why(3, 3_000), None);
    assert_eq!(test.why(4, 2_900), Some(Why::Cooldown));
}

#[test]
fn a_tap_sent_again_on_a_new_connection_is_taken_again() {
    let mut test = Test::joined(Role::Phone);
    assert_eq!(test.why(1, 0), None);
    test.session = Session::new(test.now_ms);
    test.session
        .joined(Member::new(ClientHash(7), PageId(1), Role::Phone));
    test.now_ms += 500;
    let Action::Take(taken) = test.tap(1, 500) else {
        panic!("readers know it; it is not for the gateway to refuse")
    };
    assert_eq!(taken.charge, None);
}

#[test]
fn a_flood_is_closed_and_a_fast_thumb_is_not() {
    let mut test = Test::joined(Role::Phone);
    for seq in 1..=1000 {
        test.now_ms += 100;
        test.session.answered(test.now_ms, test.now_ms);
        assert!(!is_closed(&test.tap(seq, 0)), "ten a second");
    }
    let closed = (0..1000).any(|_| is_closed(&test.receive(r#"{"ping":1}"#)));
    assert!(closed, "a thousand at once");
}

#[test]
fn a_tap_that_may_have_been_under_way_for_long_is_not_taken() {
    let mut test = Test::joined(Role::Phone);
    test.now_ms += TRANSIT_MAX_MS;
    assert_eq!(test.why(1, 0), None);
    test.now_ms += 1;
    assert_eq!(test.tap(2, 0), Action::Stale);
    test.session.answered(test.now_ms - 100, test.now_ms);
    test.now_ms += TRANSIT_MAX_MS - 100;
    assert_eq!(test.why(2, 0), None, "it came behind the answer to a ping");
}

proptest! {
    /// Whatever is sent, in whatever order: no panic, and nothing but a join is ever taken before the join.
    #[test]
    fn no_input_breaks_a_session(
        texts in proptest::collection::vec(prop_oneof![
            Just(JOIN.to_owned()),
            ".{0,60}",
            (any::<u32>(), any::<u64>()).prop_map(|(seq, age)| format!(r#"{{"tap":{{"key":"clap","seq":{seq},"age_ms":{age}}}}}"#)),
            Just(r#"{"ping":1}"#.to_owned()),
        ], 0..40),
        joined in any::<bool>(),
    ) {
        let mut test = if joined { Test::joined(Role::Phone) } else { Test::new() };
        let mut last = 0;
        for text in texts {
            match test.receive(&text) {
                Action::Take(taken) => {
                    prop_assert!(joined);
                    prop_assert!(taken.id.seq > last, "no seq is taken twice");
                    last = taken.id.seq;
                }
                Action::Join(_) => prop_assert!(!joined),
                Action::Close(_) | Action::Stale => break,
                Action::Nothing | Action::Reply(_) => prop_assert!(joined),
            }
        }
    }
}
