//! Entries to bytes and back: what a gateway appends and both readers decode.
//!
//! Rules:
//! - An entry has one field; its name says what the value is. Each value states its version first, so a reader
//!   can tell what it must not guess at ([`DecodeError::NewerVersion`]: stop) from what nobody can read
//!   ([`DecodeError::Malformed`]: keep aside and go on).
//! - Decoding never panics, whatever the bytes, and never reserves more than the bytes could fill.
//! - Only well-formed codes (in canonical form) and keys come out, whatever any palette says.
//! - A batch's taps keep their whole identities (they are what makes counting exact), in their order.

use super::entry::{Batch, Entry, RoomChange};
use super::wire;
use serde::Deserialize;

/// The field of a batch entry.
pub const BATCH_FIELD: &str = "b";
/// The field of a room-change entry.
pub const CHANGE_FIELD: &str = "c";

/// The only form of a room change so far ([`RoomChange::v`]).
pub const CHANGE_VERSION: u32 = 1;

/// Why bytes are no entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Written by newer software: the reader must stop, not skip.
    #[error("the entry has version {0}, newer than this service reads")]
    NewerVersion(u32),
    /// Not an entry: kept aside and counted.
    #[error("the entry cannot be read: {0}")]
    Malformed(String),
}

impl DecodeError {
    pub(super) fn malformed(why: impl Into<String>) -> Self {
        DecodeError::Malformed(why.into())
    }
}

/// A batch as the value of [`BATCH_FIELD`].
pub fn encode_batch(batch: &Batch) -> Vec<u8> {
    let taps = || batch.rooms.iter().flat_map(|room| &room.taps);
    let newest_ms = taps()
        .map(|tap| tap.tapped_at_ms)
        .max()
        .unwrap_or(batch.void_after_ms);
    let mut writer = wire::Writer::new(newest_ms, taps().count());
    for room in &batch.rooms {
        writer.room(&room.code, room.people, room.taps.len());
        for tap in &room.taps {
            let key = writer.key(tap.key.clone());
            writer.tap(tap.id, key, tap.tapped_at_ms);
        }
    }
    writer.finish(batch.producer, batch.number, batch.void_after_ms)
}

/// A room change as the value of [`CHANGE_FIELD`].
pub fn encode_change(change: &RoomChange) -> Vec<u8> {
    serde_json::to_vec(change)
        .expect("a room change has only string keys and no failing serialiser")
}

/// An entry from its one field.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(field: &[u8], value: &[u8]) -> Result<Entry, DecodeError> {
    if field == BATCH_FIELD.as_bytes() {
        wire::read(value).map(Entry::Batch)
    } else if field == CHANGE_FIELD.as_bytes() {
        decode_change(value).map(Entry::RoomChange)
    } else {
        let name = String::from_utf8_lossy(&field[..field.len().min(32)]).into_owned();
        Err(DecodeError::Malformed(format!(
            "no entry has a field {name:?}"
        )))
    }
}

/// Just the version: a newer record may have any other shape.
#[derive(Deserialize)]
struct Versioned {
    v: u32,
}

fn decode_change(value: &[u8]) -> Result<RoomChange, DecodeError> {
    let malformed = |error: serde_json::Error| DecodeError::Malformed(error.to_string());
    match serde_json::from_slice::<Versioned>(value)
        .map_err(malformed)?
        .v
    {
        CHANGE_VERSION => serde_json::from_slice(value).map_err(malformed),
        0 => Err(DecodeError::malformed("version 0 was never written")),
        newer => Err(DecodeError::NewerVersion(newer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::entry::{RoomBatch, RoomChangeKind, Tap};
    use crate::counting::ids::{ClientHash, PageId, ProducerId, TapId};
    use crate::room::{Palette, ReactionKey, Room, RoomCode, RoomState};
    use proptest::prelude::*;

    fn code() -> impl Strategy<Value = RoomCode> {
        "[A-Z0-9]{4,12}".prop_map(|text| text.parse().expect("matches the form"))
    }

    fn key() -> impl Strategy<Value = ReactionKey> {
        "[a-z0-9_-]{1,24}".prop_map(|text| text.parse().expect("matches the form"))
    }

    fn tap() -> impl Strategy<Value = Tap> {
        (
            any::<u64>(),
            any::<u32>(),
            any::<u32>(),
            key(),
            any::<u64>(),
        )
            .prop_map(|(client, page, seq, key, tapped_at_ms)| Tap {
                id: TapId {
                    client: ClientHash(client),
                    page: PageId(page),
                    seq,
                },
                key,
                tapped_at_ms,
            })
    }

    fn room() -> impl Strategy<Value = RoomBatch> {
        (
            code(),
            any::<Option<u32>>(),
            prop::collection::vec(tap(), 0..8),
        )
            .prop_map(|(code, people, taps)| RoomBatch { code, people, taps })
    }

    fn batch() -> impl Strategy<Value = Batch> {
        (
            any::<u64>(),
            any::<u64>(),
            any::<u64>(),
            prop::collection::vec(room(), 0..5),
        )
            .prop_map(|(producer, number, void_after_ms, rooms)| Batch {
                producer: ProducerId(producer),
                number,
                void_after_ms,
                rooms,
            })
    }

    proptest! {
        #[test]
        fn a_batch_survives_the_wire(batch in batch()) {
            let value = encode_batch(&batch);
            prop_assert_eq!(decode(b"b", &value), Ok(Entry::Batch(batch)));
        }

        #[test]
        fn any_bytes_are_an_entry_or_an_error(
            field in prop_oneof![Just(b"b".to_vec()), Just(b"c".to_vec()), any::<Vec<u8>>()],
            value in any::<Vec<u8>>(),
        ) {
            let _ = decode(&field, &value);
        }

        // Random bytes seldom get past the header; broken copies of real batches get everywhere.
        #[test]
        fn a_damaged_batch_is_a_batch_or_an_error(
            batch in batch(), at in any::<prop::sample::Index>(), byte: u8,
        ) {
            let mut value = encode_batch(&batch);
            let position = at.index(value.len());
            value[position] = byte;
            let _ = decode(b"b", &value);
        }

        #[test]
        fn a_shortened_batch_is_refused(batch in batch(), cut in any::<prop::sample::Index>()) {
            let value = encode_batch(&batch);
            let read = decode(b"b", &value[..cut.index(value.len())]);
            prop_assert!(matches!(read, Err(DecodeError::Malformed(_))), "{:?}", read);
        }
    }

    #[test]
    fn two_hundred_taps_of_two_hundred_pages_take_at_most_18_bytes_each() {
        let keys: Vec<ReactionKey> = (0..12)
            .map(|i| format!("reaction-{i}").parse().expect("well formed"))
            .collect();
        let tap = |i: u64| Tap {
            id: TapId {
                client: ClientHash(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                page: PageId(u32::try_from(i).expect("small").wrapping_mul(0x9e37_79b9)),
                seq: 1 + u32::try_from(i).expect("small") * 7,
            },
            key: keys[usize::try_from(i).expect("small") % keys.len()].clone(),
            // Most come at once, one in eight is a re-send from up to 40 s ago.
            tapped_at_ms: 1_800_000_000_000 + i / 8 - if i.is_multiple_of(8) { i * 200 } else { 0 },
        };
        let rooms: Vec<RoomBatch> = (0..4)
            .map(|room| RoomBatch {
                code: format!("ROOM{room}").parse().expect("well formed"),
                people: Some(3_000),
                taps: (room * 50..(room + 1) * 50).map(tap).collect(),
            })
            .collect();
        let batch = Batch {
            producer: ProducerId(u64::MAX),
            number: 1_000_000,
            void_after_ms: 1_800_000_020_000,
            rooms,
        };
        let bytes = encode_batch(&batch).len();
        assert!(bytes <= 200 * 18, "{bytes} bytes for 200 taps");
    }

    fn change() -> RoomChange {
        RoomChange {
            v: CHANGE_VERSION,
            kind: RoomChangeKind::Updated,
            room: Room {
                code: "KX7M2P".parse().expect("well formed"),
                title: "Opening – يوم".to_owned(),
                palette: Palette::standard(),
                cooldown_ms: 3_000,
                state: RoomState::Paused,
                version: 4,
                created_at_ms: 1_800_000_000_000,
            },
        }
    }

    #[test]
    fn a_change_survives_the_wire() {
        let value = encode_change(&change());
        assert_eq!(decode(b"c", &value), Ok(Entry::RoomChange(change())));
    }

    #[test]
    fn newer_versions_are_told_from_rubbish() {
        assert_eq!(decode(b"b", &[2, 0, 0]), Err(DecodeError::NewerVersion(2)));
        assert_eq!(
            decode(b"c", br#"{"v":7,"other":[]}"#),
            Err(DecodeError::NewerVersion(7))
        );
        for (field, value) in [
            (&b"b"[..], &b""[..]),
            (b"b", &[0]),
            (b"b", &[1]),
            (b"c", b""),
            (b"c", br#"{"v":0}"#),
            (b"c", br#"{"v":1}"#),
            (b"c", b"[]"),
            (b"x", b"1"),
            (b"", b""),
        ] {
            let read = decode(field, value);
            assert!(
                matches!(read, Err(DecodeError::Malformed(_))),
                "{field:?} {value:?}: {read:?}"
            );
        }
    }

    #[test]
    fn bytes_behind_a_batch_are_refused() {
        let mut value = encode_batch(&Batch {
            producer: ProducerId(1),
            number: 1,
            void_after_ms: 1,
            rooms: Vec::new(),
        });
        value.push(0);
        assert!(matches!(
            decode(b"b", &value),
            Err(DecodeError::Malformed(_))
        ));
    }

    #[test]
    fn a_code_or_key_that_is_not_canonical_is_refused() {
        let batch = Batch {
            producer: ProducerId(1),
            number: 1,
            void_after_ms: 1,
            rooms: vec![RoomBatch {
                code: "KX7M2P".parse().expect("well formed"),
                people: None,
                taps: vec![Tap {
                    id: TapId {
                        client: ClientHash(1),
                        page: PageId(1),
                        seq: 1,
                    },
                    key: "clap".parse().expect("well formed"),
                    tapped_at_ms: 1,
                }],
            }],
        };
        let value = encode_batch(&batch);
        for (from, to) in [
            (&b"KX7M2P"[..], &b"kx7m2p"[..]),
            (b"KX7M2P", b"KX7-2P"),
            (b"clap", b"Clap"),
        ] {
            let at = value
                .windows(from.len())
                .position(|window| window == from)
                .expect("is there");
            let mut changed = value.clone();
            changed[at..at + to.len()].copy_from_slice(to);
            assert!(
                matches!(decode(b"b", &changed), Err(DecodeError::Malformed(_))),
                "{to:?}"
            );
        }
    }
}
