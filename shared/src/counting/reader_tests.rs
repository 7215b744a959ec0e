use super::*;
use crate::counting::codec::{encode_batch, encode_change};
use crate::counting::entry::{Batch, RoomBatch, RoomChange, RoomChangeKind, Tap};
use crate::counting::ids::{ClientHash, PageId, TapId};
use crate::room::{Palette, Room, RoomCode, RoomState};

const HELD: Barrier = Barrier {
    lease_held: true,
    stable: true,
};
const START: u64 = 1_800_000_000_000;

fn at(ms: u64) -> EntryId {
    EntryId {
        ms: START + ms,
        seq: 0,
    }
}

fn code() -> RoomCode {
    "KX7M2P".parse().expect("well formed")
}

/// A batch of producer 1 that stands in the log at `ms`.
fn batch(ms: u64, number: u64, seqs: &[u32]) -> RawEntry {
    batch_void_after(ms, number, seqs, ms + 20_000)
}

fn batch_void_after(ms: u64, number: u64, seqs: &[u32], void_after: u64) -> RawEntry {
    let tap = |seq: &u32| Tap {
        id: TapId {
            client: ClientHash(5),
            page: PageId(6),
            seq: *seq,
        },
        key: "clap".parse().expect("well formed"),
        tapped_at_ms: START + ms,
    };
    let value = encode_batch(&Batch {
        producer: ProducerId(1),
        number,
        void_after_ms: START + void_after,
        rooms: vec![RoomBatch {
            code: code(),
            people: Some(9),
            taps: seqs.iter().map(tap).collect(),
        }],
    });
    RawEntry {
        id: at(ms),
        field: b"b".to_vec(),
        value,
    }
}

fn change(ms: u64) -> RawEntry {
    let room = Room {
        code: code(),
        title: "Title".to_owned(),
        palette: Palette::standard(),
        cooldown_ms: 3_000,
        state: RoomState::Open,
        version: 1,
        created_at_ms: START,
    };
    let value = encode_change(&RoomChange {
        v: 1,
        kind: RoomChangeKind::Created,
        room,
    });
    RawEntry {
        id: at(ms),
        field: b"c".to_vec(),
        value,
    }
}

fn strange(ms: u64, value: &[u8]) -> RawEntry {
    RawEntry {
        id: at(ms),
        field: b"b".to_vec(),
        value: value.to_vec(),
    }
}

fn fresh() -> Reader {
    let mut reader = Reader::new();
    reader.loaded(EntryId::ZERO, []);
    reader
}

/// What a read told, as short texts.
fn read(reader: &mut Reader, entries: &[RawEntry]) -> Result<Vec<String>, ReadError> {
    read_with(reader, entries, HELD)
}

fn read_with(
    reader: &mut Reader,
    entries: &[RawEntry],
    barrier: Barrier,
) -> Result<Vec<String>, ReadError> {
    let mut told = Vec::new();
    reader.read(entries, true, barrier, &mut |id, folded| {
        let at = id.ms - START;
        told.push(match folded {
            Folded::Taps { taps, .. } => {
                format!(
                    "{at}:{:?}",
                    taps.iter().map(|tap| tap.id.seq).collect::<Vec<_>>()
                )
            }
            Folded::People { people, .. } => format!("{at}:people {people}"),
            Folded::Change(change) => format!("{at}:{:?}", change.kind),
            Folded::Rejected { .. } => format!("{at}:rejected"),
        });
    })?;
    Ok(told
        .into_iter()
        .filter(|told| !told.ends_with("people 9"))
        .collect())
}

fn commit(reader: &mut Reader) {
    reader.commit().expect("loaded").succeeded();
}

#[test]
fn entries_are_folded_once_and_in_order() {
    let mut reader = fresh();
    assert!(reader.is_live());
    assert_eq!(reader.cursor(), Some(EntryId::ZERO));
    let told = read(
        &mut reader,
        &[change(0), batch(1, 1, &[1, 2]), batch(2, 2, &[3])],
    );
    assert_eq!(
        told,
        Ok(vec!["0:Created".into(), "1:[1, 2]".into(), "2:[3]".into()])
    );
    assert_eq!(
        (reader.cursor(), reader.folded_offset()),
        (Some(at(2)), at(2))
    );
    assert_eq!(reader.committed_offset(), EntryId::ZERO);
    commit(&mut reader);
    assert_eq!(reader.committed_offset(), at(2));
}

#[test]
fn repetitions_void_entries_and_seen_taps_are_skipped_and_counted() {
    let mut reader = fresh();
    let entries = [
        batch(1, 1, &[1]),
        batch(2, 1, &[1, 2]),
        batch_void_after(3, 2, &[3], 2),
        batch(4, 2, &[1, 2, 3, 3]),
    ];
    // The repetition's tap 2 was marked as seen; the void entry left no trace.
    assert_eq!(
        read(&mut reader, &entries),
        Ok(vec!["1:[1]".into(), "4:[3]".into()])
    );
    let skipped = Skipped {
        void_entries: 1,
        duplicate_batches: 1,
        duplicate_taps: 3,
    };
    assert_eq!(reader.skipped(), skipped);
}

#[test]
fn an_entry_is_void_only_past_its_deadline() {
    let mut reader = fresh();
    let entries = [
        batch_void_after(5, 1, &[1], 5),
        batch_void_after(7, 2, &[2], 6),
    ];
    assert_eq!(read(&mut reader, &entries), Ok(vec!["5:[1]".into()]));
}

#[test]
fn what_cannot_be_read_is_told_and_passed() {
    let mut reader = fresh();
    let told = read(&mut reader, &[strange(1, b"\x01"), batch(2, 1, &[1])]);
    assert_eq!(told, Ok(vec!["1:rejected".into(), "2:[1]".into()]));
}

#[test]
fn a_newer_version_stops_the_reader_after_what_stands_before_it() {
    let mut reader = fresh();
    let entries = [batch(1, 1, &[1]), strange(2, b"\x02"), batch(3, 2, &[2])];
    assert_eq!(read(&mut reader, &entries), Ok(vec!["1:[1]".into()]));
    commit(&mut reader);
    assert_eq!(reader.committed_offset(), at(1));
    assert_eq!(
        read(&mut reader, &entries[1..]),
        Err(ReadError::NewerVersion {
            id: at(2),
            version: 2
        })
    );
    assert_eq!(reader.cursor(), None);
}

#[test]
fn an_unstable_read_changes_nothing() {
    let mut reader = fresh();
    let barrier = Barrier {
        lease_held: true,
        stable: false,
    };
    assert_eq!(
        read_with(&mut reader, &[batch(1, 1, &[1])], barrier),
        Err(ReadError::NotStable)
    );
    assert_eq!(
        read(&mut reader, &[batch(1, 1, &[1])]),
        Ok(vec!["1:[1]".into()])
    );
}

#[test]
fn a_lost_lease_and_a_wrong_order_discard() {
    for stable in [false, true] {
        let mut reader = fresh();
        let barrier = Barrier {
            lease_held: false,
            stable,
        };
        assert_eq!(
            read_with(&mut reader, &[], barrier),
            Err(ReadError::LeaseLost)
        );
        assert_eq!(reader.cursor(), None);
    }
    let mut reader = fresh();
    let twice = [batch(1, 1, &[1]), batch(1, 1, &[1])];
    assert_eq!(read(&mut reader, &twice), Err(ReadError::OutOfOrder(at(1))));
    assert_eq!(reader.cursor(), None);
    assert_eq!(
        read(&mut reader, &[]),
        Err(ReadError::OutOfOrder(EntryId::ZERO)),
        "not loaded"
    );
}

#[test]
fn a_commit_that_is_not_known_to_have_succeeded_discards_all() {
    let mut reader = fresh();
    read(&mut reader, &[batch(1, 1, &[1])]).expect("stable");
    drop(reader.commit().expect("loaded"));
    assert_eq!(reader.cursor(), None);
    assert!(reader.commit().is_none());
    // Loaded again, the very same tap is no longer seen.
    reader.loaded(EntryId::ZERO, []);
    assert_eq!(
        read(&mut reader, &[batch(1, 1, &[1])]),
        Ok(vec!["1:[1]".into()])
    );
}

#[test]
fn a_commit_says_what_to_store() {
    let mut reader = fresh();
    read(&mut reader, &[batch(1, 1, &[1]), batch(2, 2, &[2])]).expect("stable");
    let commit = reader.commit().expect("loaded");
    assert_eq!((commit.expected, commit.offset), (EntryId::ZERO, at(2)));
    let mark = ProducerMark {
        number: 2,
        log_ms: START + 2,
    };
    assert_eq!(commit.changed_producers, [(ProducerId(1), mark)]);
    assert_eq!(commit.forgotten_producers, []);
    commit.succeeded();
    let later = PRODUCER_FORGOTTEN_AFTER_MS + 3;
    read(&mut reader, &[change(later)]).expect("stable");
    let commit = reader.commit().expect("loaded");
    assert_eq!((commit.expected, commit.offset), (at(2), at(later)));
    assert_eq!(commit.changed_producers, []);
    assert_eq!(commit.forgotten_producers, [ProducerId(1)]);
    commit.succeeded();
}

#[test]
fn a_rebuild_reads_from_before_the_offset_and_tells_only_head_counts() {
    let mark = ProducerMark {
        number: 2,
        log_ms: START + 170_000,
    };
    let mut reader = Reader::new();
    reader.loaded(at(170_000), [(ProducerId(1), mark)]);
    assert!(!reader.is_live());
    let cursor = reader.cursor().expect("loaded");
    assert!(
        cursor < at(20_000),
        "it must read at least 150 s before the offset: {cursor}"
    );
    let mut people = 0;
    let before = [batch(20_000, 1, &[1]), batch(170_000, 2, &[2])];
    reader
        .read(&before, false, HELD, &mut |_, folded| match folded {
            Folded::People { people: told, .. } => people += told,
            other => panic!("told while rebuilding: {other:?}"),
        })
        .expect("stable");
    assert_eq!(people, 18);
    assert!(reader.is_live());
    assert_eq!(
        (reader.committed_offset(), reader.folded_offset()),
        (at(170_000), at(170_000))
    );
    let told = read(
        &mut reader,
        &[batch(170_001, 2, &[9]), batch(170_002, 3, &[1, 2, 3])],
    );
    assert_eq!(told, Ok(vec!["170002:[3]".into()]));
}

#[test]
fn a_log_without_the_entry_at_the_offset_is_refused() {
    for (entries, reached_end) in [(vec![], true), (vec![batch(180_000, 3, &[1])], false)] {
        let mut reader = Reader::new();
        reader.loaded(at(170_000), []);
        let read = reader.read(&entries, reached_end, HELD, &mut |_, _| panic!("told"));
        assert_eq!(read, Err(ReadError::OffsetMissing(at(170_000))));
        assert_eq!(reader.cursor(), None);
    }
    let mut reader = Reader::new();
    reader.loaded(at(170_000), []);
    reader
        .read(&[batch(1_000, 1, &[1])], false, HELD, &mut |_, _| {})
        .expect("cut short");
    assert!(!reader.is_live());
}

#[test]
fn the_log_is_kept_behind_the_slower_reader() {
    let id = |ms| EntryId { ms, seq: 3 };
    assert_eq!(
        trim_before_ms(id(500_000), id(900_000)),
        Some(500_000 - TRIM_BEHIND_MS)
    );
    assert_eq!(
        trim_before_ms(id(900_000), id(500_000)),
        Some(500_000 - TRIM_BEHIND_MS)
    );
    assert_eq!(trim_before_ms(id(500_000), EntryId::ZERO), None);
    assert_eq!(trim_before_ms(id(TRIM_BEHIND_MS), id(500_000)), None);
}

#[test]
fn a_rebuild_never_needs_what_may_have_been_trimmed() {
    for ms in (0..400_000).step_by(777) {
        let offset = at(ms);
        let trimmed_before = trim_before_ms(offset, offset).expect("far from the beginning");
        assert!(memory::rebuild_from_ms(offset.ms) >= trimmed_before);
    }
}
