use super::*;
use crate::scenario::for_tests;
use crate::swarm::assignment::{Assignment, RoomPlan};
use crate::swarm::harvest::TapFate;
use shared::protocol::Why;

const SECOND: u64 = 1_000_000;
const ROOM: &str = r#"{"room":{"title":"T","palette":[{"key":"clap","emoji":"👏","label":"Applause"}],"cooldown_ms":1000,"state":"open","totals":{"clap":3}}}"#;

/// One phone that taps each two seconds, and a clock to be moved by hand.
struct Stand {
    phone: Phone,
    scene: Scene,
}

impl Stand {
    fn new() -> Stand {
        let mut scenario = for_tests::scenario(1, Some([2.0, 2.0]));
        scenario.seconds = 600.0;
        scenario.rooms.cooldown_ms = 1000;
        let assignment = Assignment {
            scenario,
            seed: 1,
            phones: 0..1,
            targets: vec!["127.0.0.1:1".parse().unwrap()],
            host: "test".to_owned(),
            rooms: vec![RoomPlan {
                code: "PARTY7".parse().unwrap(),
                keys: vec!["clap".parse().unwrap()],
            }],
            threads: 1,
            sources: Vec::new(),
        };
        let mut scene = Scene::new(&assignment);
        let (script, room) = Script::new(&assignment.scenario, 1, 0);
        let phone = Phone::new(0, script, room, &mut scene);
        Stand { phone, scene }
    }

    /// One that has joined at this time.
    fn joined(at_us: u64) -> Stand {
        let mut stand = Stand::new();
        stand.join(at_us);
        stand
    }

    fn join(&mut self, at_us: u64) {
        assert!(matches!(self.wake(at_us), Wish::Connect));
        self.phone.connected(&mut self.scene);
        let head = b"HTTP/1.1 101 Switching Protocols\r\nuproar-gateway: 0badcafe\r\n\r\n";
        assert_eq!(self.phone.take(head, &mut self.scene).unwrap(), head.len());
        self.scene.out.clear();
        self.hear(ROOM);
        assert_eq!(self.phone.stage, Stage::In);
    }

    fn wake(&mut self, at_us: u64) -> Wish {
        self.scene.now_us = at_us;
        self.phone.wake(&mut self.scene)
    }

    fn hear(&mut self, text: &str) {
        let mut frame = vec![0x81, 126];
        frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
        frame.extend(text.as_bytes());
        assert_eq!(
            self.phone.take(&frame, &mut self.scene).unwrap(),
            frame.len()
        );
    }

    /// The texts that it sent since it was asked last.
    fn said(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        let mut out = &self.scene.out[..];
        while let [0x81, length, a, b, c, d, rest @ ..] = out {
            let length = usize::from(length & 0x7f);
            let mask = [*a, *b, *c, *d];
            let text = rest[..length].iter().zip(mask.iter().cycle());
            texts.push(String::from_utf8(text.map(|(byte, mask)| byte ^ mask).collect()).unwrap());
            out = &rest[length..];
        }
        assert_eq!(out, b"");
        self.scene.out.clear();
        texts
    }

    fn first_due(&self) -> u64 {
        self.phone.script.tap_due_us()
    }
}

#[test]
fn a_stalled_generator_sends_late_and_its_waits_count_from_when_taps_were_due() {
    let mut stand = Stand::joined(0);
    let due_us = stand.first_due();
    // Ten seconds in which this thread did nothing: five taps and the first.
    let late_us = due_us + 10 * SECOND;
    assert!(matches!(stand.wake(late_us), Wish::Nothing));
    assert_eq!(stand.said().len(), 6);
    stand.scene.now_us = late_us + SECOND;
    stand.hear(r#"{"ack":1}"#);
    let tap = stand.phone.sheet.taps[0];
    assert_eq!((tap.due_us, tap.sent_us), (due_us, late_us));
    assert_eq!(u64::from(tap.late_us), 10 * SECOND);
    assert_eq!(tap.fate, TapFate::Acknowledged(due_us + 11 * SECOND));
    assert_eq!(stand.scene.tally.counts.waiting, 5);
}

#[test]
fn what_could_not_be_tapped_offline_is_not_tapped_all_at_once_afterwards() {
    let mut stand = Stand::joined(0);
    let due_us = stand.first_due();
    stand.phone.ended(&Ending::Silent, &mut stand.scene);
    stand.phone.connect_at_us = due_us + 9 * SECOND;
    stand.join(due_us + 9 * SECOND);
    assert!(matches!(stand.wake(due_us + 9 * SECOND), Wish::Nothing));
    // Of five that were due, the last: a second old, and no fault of the generator.
    assert_eq!(stand.said(), [r#"{"tap":{"key":"clap","seq":1}}"#]);
    let tap = stand.phone.sheet.taps[0];
    assert_eq!((tap.due_us, tap.late_us), (due_us + 8 * SECOND, 0));
    // The next is due within the cooldown of that one.
    assert!(matches!(stand.wake(due_us + 10 * SECOND), Wish::Nothing));
    assert_eq!(stand.said(), [""; 0]);
    assert!(matches!(stand.wake(due_us + 12 * SECOND), Wish::Nothing));
    assert_eq!(stand.said().len(), 1);
}

#[test]
fn silence_is_asked_about_and_then_given_up() {
    let mut stand = Stand::joined(0);
    let due_us = stand.first_due();
    stand.wake(due_us);
    stand.scene.is_tapping = false;
    assert_eq!(stand.said().len(), 1);
    stand.wake(due_us + SECOND);
    assert_eq!(stand.said(), [""; 0]);
    assert!(matches!(stand.wake(due_us + 5 * SECOND), Wish::Nothing));
    assert_eq!(stand.said(), [r#"{"ping":1}"#]);
    // An answer is enough, whichever.
    stand.hear(r#"{"pong":1}"#);
    assert!(matches!(stand.wake(due_us + 7 * SECOND), Wish::Nothing));
    assert!(matches!(stand.wake(due_us + 10 * SECOND), Wish::Nothing));
    assert_eq!(stand.said(), [r#"{"ping":1}"#]);
    assert!(matches!(
        stand.wake(due_us + 12 * SECOND),
        Wish::GiveUp(Ending::Silent)
    ));
}

#[test]
fn taps_without_an_answer_are_sent_again_with_their_age_and_refusals_of_those_are_not_final() {
    let mut stand = Stand::joined(0);
    let due_us = stand.first_due();
    stand.wake(due_us);
    stand.wake(due_us + 2 * SECOND);
    stand.said();
    stand
        .phone
        .ended(&Ending::Closed(Some(1013)), &mut stand.scene);
    stand.phone.connect_at_us = due_us + 3 * SECOND;
    stand.join(due_us + 3 * SECOND);
    assert_eq!(
        stand.said(),
        [
            r#"{"tap":{"key":"clap","seq":1,"age_ms":3000}}"#,
            r#"{"tap":{"key":"clap","seq":2,"age_ms":1000}}"#
        ]
    );
    stand.hear(r#"{"refused":{"seq":1,"why":"cooldown","retry_ms":1200}}"#);
    stand.hear(r#"{"ack":2}"#);
    assert_eq!(stand.phone.sheet.taps[0].fate, TapFate::Unknown);
    stand.wake(due_us + 4 * SECOND);
    stand.hear(r#"{"refused":{"seq":3,"why":"busy"}}"#);
    assert_eq!(stand.phone.sheet.taps[2].fate, TapFate::Refused(Why::Busy));
    let counts = &stand.scene.tally.counts;
    assert_eq!(
        (counts.taps, counts.acked, counts.refused, counts.waiting),
        (3, 1, 1, 0)
    );
}

#[test]
fn a_farewell_says_when_to_come_back() {
    let mut stand = Stand::joined(0);
    stand.scene.now_us = SECOND;
    stand.hear(r#"{"bye":{"why":"drain","retry_ms":3417}}"#);
    stand
        .phone
        .ended(&Ending::Closed(Some(1012)), &mut stand.scene);
    assert_eq!(stand.phone.wake_us(), SECOND + 3_417_000);
    assert_eq!(stand.phone.turn(), 1, "and elsewhere");
    stand.join(SECOND + 3_417_000);
    stand
        .phone
        .ended(&Ending::Closed(Some(1001)), &mut stand.scene);
    assert!(stand.phone.wake_us() <= SECOND + 3_417_000 + 500_000);
    let harvest = stand.phone.harvest(0);
    assert_eq!((harvest.stays.len(), harvest.joins_refused), (2, 0));
    assert_eq!(harvest.stays[1].due_us, SECOND + 3_417_000);
}

#[test]
fn who_is_turned_away_tries_again_and_waits_since_the_first_time() {
    let mut stand = Stand::new();
    assert!(matches!(stand.wake(10), Wish::Connect));
    stand.phone.connected(&mut stand.scene);
    let full = stand.phone.take(
        b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
        &mut stand.scene,
    );
    let ending = full.unwrap_err();
    assert!(matches!(ending, Ending::Status(503)));
    stand.phone.ended(&ending, &mut stand.scene);
    stand.scene.out.clear();
    stand.join(SECOND);
    let harvest = stand.phone.harvest(SECOND);
    assert_eq!(harvest.joins_refused, 1);
    assert_eq!(
        (harvest.stays[0].due_us, harvest.stays[0].joined_us),
        (0, SECOND)
    );
    assert_eq!(stand.scene.tally.errors["handshake: answered 503"], 1);
}

#[test]
fn a_room_frame_stands_for_what_was_skipped_and_a_paused_room_is_not_tapped() {
    let mut stand = Stand::joined(0);
    stand.hear(r#"{"tick":{"totals":{"clap":5}}}"#);
    stand.hear(&ROOM.replace(":3}", ":9}").replace("open", "paused"));
    stand.hear(r#"{"tick":{"totals":{"clap":9}}}"#);
    stand.hear(r#"{"tick":{"totals":{"clap":10}}}"#);
    let due_us = stand.first_due();
    stand.wake(due_us);
    assert_eq!(stand.said(), [""; 0]);
    let stay = &stand.phone.harvest(0).stays[0];
    assert_eq!((stay.from_sum, stay.until_sum, stay.ticks), (3, 10, 2));
    assert_eq!((&stay.skipped[..], stay.to_the_end), (&[(5, 9)][..], true));
}

#[test]
fn pings_are_answered_with_their_payload() {
    let mut stand = Stand::joined(0);
    stand
        .phone
        .take(&[0x89, 3, b'a', b'b', b'c'], &mut stand.scene)
        .unwrap();
    let out = &stand.scene.out;
    assert_eq!(out[..2], [0x8a, 0x83]);
    let payload: Vec<u8> = (0..3).map(|at| out[6 + at] ^ out[2 + at]).collect();
    assert_eq!(payload, b"abc");
}
