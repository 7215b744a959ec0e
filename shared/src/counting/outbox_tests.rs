use super::*;
use proptest::prelude::*;

const LIMITS: OutboxLimits = OutboxLimits { open_taps_max: 100 };
const NOW: u64 = 1_800_000_000_000;

fn tap(client: u64, seq: u32) -> TapId {
    TapId {
        client: ClientHash(client),
        page: PageId(1),
        seq,
    }
}

fn room() -> RoomCode {
    "KX7M2P".parse().expect("well formed")
}

fn key() -> ReactionKey {
    "clap".parse().expect("well formed")
}

fn outbox() -> Outbox<u32> {
    Outbox::new(ProducerId(1), LIMITS)
}

fn push(outbox: &mut Outbox<u32>, id: TapId, tapped_at_ms: u64) {
    outbox
        .push(&room(), id, &key(), tapped_at_ms, id.seq)
        .expect("there is room");
}

fn next() -> ProducerId {
    ProducerId(2)
}

fn never() -> ProducerId {
    panic!("no batch is given up here")
}

fn id(ms: u64) -> EntryId {
    EntryId { ms, seq: 0 }
}

/// The bytes to append, and what they say.
fn append(step: Step<u32>) -> (Bytes, crate::counting::entry::Batch, Vec<u32>) {
    match step {
        Step::Append {
            value,
            too_old,
            number,
        } => match codec::decode(b"b", &value) {
            Ok(Entry::Batch(batch)) => {
                assert_eq!(batch.number, number);
                (value, batch, too_old)
            }
            other => panic!("not a batch: {other:?}"),
        },
        other => panic!("nothing to append: {other:?}"),
    }
}

fn given_up(step: Step<u32>) -> Vec<u32> {
    match step {
        Step::GaveUp(tickets) => tickets,
        other => panic!("not given up: {other:?}"),
    }
}

#[test]
fn an_empty_outbox_is_idle() {
    let mut outbox = outbox();
    assert!(outbox.is_empty());
    assert!(matches!(outbox.step(NOW, never), Step::Idle));
}

#[test]
fn tickets_may_be_nothing() {
    let mut outbox = Outbox::new(ProducerId(1), LIMITS);
    outbox
        .push(&room(), tap(1, 1), &key(), NOW, ())
        .expect("there is room");
    assert!(matches!(outbox.step(NOW, never), Step::Append { .. }));
}

#[test]
fn a_batch_says_what_was_pushed() {
    let mut outbox = outbox();
    push(&mut outbox, tap(7, 1), NOW - 5);
    outbox.set_people(&room(), 3);
    let (_, batch, too_old) = append(outbox.step(NOW, never));
    assert!(too_old.is_empty());
    assert_eq!(batch.producer, ProducerId(1));
    assert_eq!(
        (batch.number, batch.void_after_ms),
        (1, NOW + VOID_AFTER_MS)
    );
    let [part] = &batch.rooms[..] else {
        panic!("one room: {batch:?}")
    };
    assert_eq!((&part.code, part.people), (&room(), Some(3)));
    let tap = crate::counting::entry::Tap {
        id: tap(7, 1),
        key: key(),
        tapped_at_ms: NOW - 5,
    };
    assert_eq!(part.taps, [tap]);
    assert_eq!(outbox.taps(), 1);
}

#[test]
fn a_head_count_goes_out_alone_and_only_once() {
    let mut outbox = outbox();
    outbox.set_people(&room(), 3);
    outbox.set_people(&room(), 4);
    assert!(!outbox.is_empty());
    let (_, batch, _) = append(outbox.step(NOW, never));
    assert_eq!(batch.rooms[0].people, Some(4));
    assert!(matches!(
        outbox.resolve(AppendOutcome::Stable(id(NOW)), never),
        Resolution::Acknowledge(tickets) if tickets.is_empty()
    ));
    assert!(matches!(outbox.step(NOW, never), Step::Idle));
}

#[test]
fn an_unknown_fate_means_the_same_bytes_again_and_later_taps_wait() {
    let mut outbox = outbox();
    push(&mut outbox, tap(7, 1), NOW);
    let (first, ..) = append(outbox.step(NOW, never));
    push(&mut outbox, tap(7, 2), NOW);
    assert!(matches!(
        outbox.resolve(AppendOutcome::Unknown, never),
        Resolution::Retry
    ));
    let (again, ..) = append(outbox.step(NOW + VOID_AFTER_MS, never));
    assert_eq!(first, again);
    match outbox.resolve(AppendOutcome::Stable(id(NOW + VOID_AFTER_MS)), never) {
        Resolution::Acknowledge(tickets) => assert_eq!(tickets, [1]),
        other => panic!("{other:?}"),
    }
    let (_, second, _) = append(outbox.step(NOW + VOID_AFTER_MS, never));
    assert_eq!((second.number, second.rooms[0].taps[0].id), (2, tap(7, 2)));
}

#[test]
fn past_the_deadline_a_batch_is_given_up_with_what_its_pages_have_waiting() {
    let mut outbox = outbox();
    push(&mut outbox, tap(7, 1), NOW);
    append(outbox.step(NOW, never));
    push(&mut outbox, tap(7, 2), NOW);
    push(&mut outbox, tap(8, 30), NOW);
    let mut tickets = given_up(outbox.step(NOW + VOID_AFTER_MS + 1, next));
    tickets.sort_unstable();
    assert_eq!(tickets, [1, 2]);
    let (_, batch, _) = append(outbox.step(NOW + VOID_AFTER_MS + 1, never));
    assert_eq!(
        (batch.producer, batch.number),
        (ProducerId(2), 1),
        "a new producer begins"
    );
    assert_eq!(batch.rooms[0].taps.len(), 1, "the other page's tap goes on");
    assert_eq!(batch.rooms[0].taps[0].id, tap(8, 30));
}

#[test]
fn an_id_past_the_deadline_gives_the_batch_up() {
    let mut outbox = outbox();
    push(&mut outbox, tap(7, 1), NOW);
    append(outbox.step(NOW, never));
    push(&mut outbox, tap(7, 2), NOW);
    match outbox.resolve(AppendOutcome::Stable(id(NOW + VOID_AFTER_MS + 1)), next) {
        Resolution::GaveUp(tickets) => assert_eq!(tickets, [1, 2]),
        other => panic!("{other:?}"),
    }
    assert!(outbox.is_empty());
}

#[test]
fn taps_too_old_at_sealing_are_left_out() {
    let mut outbox = outbox();
    push(&mut outbox, tap(7, 1), NOW - TAP_AGE_MAX_MS - 1);
    push(&mut outbox, tap(7, 2), NOW - TAP_AGE_MAX_MS);
    let (_, batch, too_old) = append(outbox.step(NOW, never));
    assert_eq!(too_old, [1]);
    assert_eq!(batch.rooms[0].taps.len(), 1);
    assert_eq!(outbox.taps(), 1);
}

#[test]
fn a_full_open_batch_refuses_and_hands_the_ticket_back() {
    let mut outbox = outbox();
    for seq in 1..=100 {
        push(&mut outbox, tap(7, seq), NOW);
    }
    assert_eq!(
        outbox.push(&room(), tap(7, 101), &key(), NOW, 101),
        Err((Full, 101))
    );
    append(outbox.step(NOW, never));
    push(&mut outbox, tap(7, 102), NOW);
    assert_eq!(outbox.taps(), 101);
}

proptest! {
    /// Whatever is pushed into whatever rooms over several batches comes out once, in order, where it belongs.
    #[test]
    fn every_ticket_comes_back_and_every_tap_goes_out_once(
        batches in prop::collection::vec(
            prop::collection::vec((0..5usize, 0..15usize, any::<bool>()), 0..30), 1..6,
        ),
    ) {
        let rooms: Vec<RoomCode> =
            (0..5).map(|i| format!("ROOM{i}").parse().expect("well formed")).collect();
        let keys: Vec<ReactionKey> =
            (0..15).map(|i| format!("key{i}").parse().expect("well formed")).collect();
        let mut outbox = Outbox::new(ProducerId(1), LIMITS);
        let mut seq = 0;
        for pushes in batches {
            let mut expected = vec![Vec::new(); rooms.len()];
            let mut refused = Vec::new();
            for (room, key, is_old) in pushes {
                seq += 1;
                let tapped_at_ms = if is_old { NOW - TAP_AGE_MAX_MS - 1 } else { NOW - u64::from(seq) };
                outbox.push(&rooms[room], tap(9, seq), &keys[key], tapped_at_ms, seq).expect("room");
                if is_old { refused.push(seq) } else { expected[room].push((seq, keys[key].clone(), tapped_at_ms)) }
            }
            let Step::Append { value, mut too_old, .. } = outbox.step(NOW, never) else {
                prop_assert!(refused.is_empty() && expected.iter().all(Vec::is_empty));
                continue;
            };
            let Ok(Entry::Batch(batch)) = codec::decode(b"b", &value) else { panic!("a batch") };
            for part in &batch.rooms {
                let room = rooms.iter().position(|code| *code == part.code).expect("one of ours");
                let taps: Vec<_> = part.taps.iter().map(|t| (t.id.seq, t.key.clone(), t.tapped_at_ms)).collect();
                prop_assert_eq!(&taps, &std::mem::take(&mut expected[room]));
            }
            prop_assert!(expected.iter().all(Vec::is_empty), "left out: {:?}", expected);
            too_old.sort_unstable();
            prop_assert_eq!(too_old, refused);
            let Resolution::Acknowledge(tickets) = outbox.resolve(AppendOutcome::Stable(id(NOW)), never) else {
                panic!("acknowledged")
            };
            let sent: usize = batch.rooms.iter().map(|room| room.taps.len()).sum();
            prop_assert_eq!(tickets.len(), sent);
            prop_assert!(outbox.is_empty());
        }
    }
}
