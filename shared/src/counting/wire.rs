//! The bytes of a batch, version 1. Numbers are LEB128 varints unless a width is given (then big endian).
//!
//! ```text
//! version (1 B) · producer (8 B) · number · void_after_ms · void_after_ms - newest_ms · keys · rooms
//! per key:  length (1 B) · text
//! per room: length (1 B) · code · people + 1, or 0 for none · taps
//! per tap:  client (8 B) · page (4 B) · seq · index of its key · newest_ms - tapped_at_ms
//! ```
//! Client and page are random and cannot be made smaller; all the rest of a tap is 3 to 5 bytes. Differences wrap,
//! so that any numbers survive the wire, also those that only a mistake could write.

use super::codec::DecodeError;
use super::entry::{Batch, RoomBatch, Tap};
use super::ids::{ClientHash, PageId, ProducerId, TapId};
use crate::room::{ReactionKey, RoomCode};
use hashbrown::HashMap;

/// The version that this file writes and reads.
const VERSION: u8 = 1;
/// What a tap takes at least: its two random ids and three varints of a byte.
const TAP_BYTES_MIN: usize = 15;
/// What a room takes at least: two lengths, a code of four symbols, people.
const ROOM_BYTES_MIN: usize = 7;

/// Writes a batch's rooms and taps as they are told, and the header at the end, when all keys are known.
pub(super) struct Writer {
    newest_ms: u64,
    keys: Vec<ReactionKey>,
    key_indexes: HashMap<ReactionKey, u64, foldhash::fast::RandomState>,
    rooms: u64,
    body: Vec<u8>,
}

impl Writer {
    /// `newest_ms` should be the largest `tapped_at_ms`; `taps` is how many will be told.
    pub(super) fn new(newest_ms: u64, taps: usize) -> Self {
        Writer {
            newest_ms,
            keys: Vec::new(),
            key_indexes: HashMap::default(),
            rooms: 0,
            body: Vec::with_capacity(64 + taps * (TAP_BYTES_MIN + 3)),
        }
    }

    /// Begins a room; exactly `taps` calls of [`Writer::tap`] must follow.
    pub(super) fn room(&mut self, code: &RoomCode, people: Option<u32>, taps: usize) {
        self.rooms += 1;
        put_text(&mut self.body, code.as_str());
        put_varint(
            &mut self.body,
            people.map_or(0, |people| u64::from(people) + 1),
        );
        put_varint(&mut self.body, taps as u64);
    }

    /// The index of a key in this batch.
    pub(super) fn key(&mut self, key: ReactionKey) -> u64 {
        let next = self.keys.len() as u64;
        *self.key_indexes.entry(key).or_insert_with_key(|key| {
            self.keys.push(key.clone());
            next
        })
    }

    /// One tap of the room begun last.
    pub(super) fn tap(&mut self, id: TapId, key: u64, tapped_at_ms: u64) {
        self.body.extend_from_slice(&id.client.0.to_be_bytes());
        self.body.extend_from_slice(&id.page.0.to_be_bytes());
        put_varint(&mut self.body, u64::from(id.seq));
        put_varint(&mut self.body, key);
        put_varint(&mut self.body, self.newest_ms.wrapping_sub(tapped_at_ms));
    }

    /// The whole value.
    pub(super) fn finish(self, producer: ProducerId, number: u64, void_after_ms: u64) -> Vec<u8> {
        let keys_bytes: usize = self.keys.iter().map(|key| 1 + key.as_str().len()).sum();
        let mut value = Vec::with_capacity(48 + keys_bytes + self.body.len());
        value.push(VERSION);
        value.extend_from_slice(&producer.0.to_be_bytes());
        put_varint(&mut value, number);
        put_varint(&mut value, void_after_ms);
        put_varint(&mut value, void_after_ms.wrapping_sub(self.newest_ms));
        put_varint(&mut value, self.keys.len() as u64);
        for key in &self.keys {
            put_text(&mut value, key.as_str());
        }
        put_varint(&mut value, self.rooms);
        value.extend_from_slice(&self.body);
        value
    }
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("codes and keys have at most 24 bytes"));
    out.extend_from_slice(text.as_bytes());
}

/// Reads a batch back; all of `value` must be it.
pub(super) fn read(value: &[u8]) -> Result<Batch, DecodeError> {
    let mut bytes = Bytes { left: value };
    match bytes.byte()? {
        VERSION => {}
        0 => return Err(DecodeError::malformed("version 0 was never written")),
        newer => return Err(DecodeError::NewerVersion(u32::from(newer))),
    }
    let producer = ProducerId(u64::from_be_bytes(bytes.array()?));
    let number = bytes.varint()?;
    let void_after_ms = bytes.varint()?;
    let newest_ms = void_after_ms.wrapping_sub(bytes.varint()?);
    let keys = read_keys(&mut bytes)?;
    let rooms_count = bytes.count(ROOM_BYTES_MIN)?;
    let mut rooms = Vec::with_capacity(rooms_count);
    for _ in 0..rooms_count {
        rooms.push(read_room(&mut bytes, newest_ms, &keys)?);
    }
    if !bytes.left.is_empty() {
        return Err(DecodeError::malformed("there are bytes behind its end"));
    }
    Ok(Batch {
        producer,
        number,
        void_after_ms,
        rooms,
    })
}

fn read_keys(bytes: &mut Bytes<'_>) -> Result<Vec<ReactionKey>, DecodeError> {
    let count = bytes.count(2)?;
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        let text = bytes.text()?;
        keys.push(
            text.parse()
                .map_err(|error| DecodeError::Malformed(format!("{error}")))?,
        );
    }
    Ok(keys)
}

fn read_room(
    bytes: &mut Bytes<'_>,
    newest_ms: u64,
    keys: &[ReactionKey],
) -> Result<RoomBatch, DecodeError> {
    let text = bytes.text()?;
    let code: RoomCode = text
        .parse()
        .map_err(|error| DecodeError::Malformed(format!("{error}")))?;
    if code.as_str() != text {
        return Err(DecodeError::malformed(
            "a room code is not in its canonical form",
        ));
    }
    let people = match bytes.varint()?.checked_sub(1) {
        None => None,
        Some(people) => Some(narrow(people)?),
    };
    let count = bytes.count(TAP_BYTES_MIN)?;
    let mut taps = Vec::with_capacity(count);
    for _ in 0..count {
        let client = ClientHash(u64::from_be_bytes(bytes.array()?));
        let page = PageId(u32::from_be_bytes(bytes.array()?));
        let seq = narrow(bytes.varint()?)?;
        let index = usize::try_from(bytes.varint()?).unwrap_or(usize::MAX);
        let key = keys
            .get(index)
            .ok_or_else(|| DecodeError::malformed("a tap has no key"))?
            .clone();
        let tapped_at_ms = newest_ms.wrapping_sub(bytes.varint()?);
        taps.push(Tap {
            id: TapId { client, page, seq },
            key,
            tapped_at_ms,
        });
    }
    Ok(RoomBatch { code, people, taps })
}

fn narrow(number: u64) -> Result<u32, DecodeError> {
    u32::try_from(number).map_err(|_| DecodeError::malformed("a number is too large"))
}

/// What is left to be read.
struct Bytes<'a> {
    left: &'a [u8],
}

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.left.split_first().ok_or_else(cut_short)?;
        self.left = rest;
        Ok(*first)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (first, rest) = self.left.split_first_chunk::<N>().ok_or_else(cut_short)?;
        self.left = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DecodeError::malformed("a number has too many digits"))
    }

    /// How many of something follow that takes at least `bytes_min` each.
    fn count(&mut self, bytes_min: usize) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if count.saturating_mul(bytes_min) > self.left.len() {
            return Err(cut_short());
        }
        Ok(count)
    }

    fn text(&mut self) -> Result<&'a str, DecodeError> {
        let length = usize::from(self.byte()?);
        let (text, rest) = self.left.split_at_checked(length).ok_or_else(cut_short)?;
        self.left = rest;
        std::str::from_utf8(text).map_err(|_| DecodeError::malformed("a text is not UTF-8"))
    }
}

fn cut_short() -> DecodeError {
    DecodeError::malformed("it is cut short")
}
