//! Rows of `taps` in the binary form of COPY.

use bytes::{BufMut, Bytes, BytesMut};

/// Microseconds from 1970 to 2000, where Postgres's time begins.
const EPOCH_2000_US: i64 = 946_684_800_000_000;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// What is sent at a time: large enough that the messages' overhead vanishes, small enough to stay in the cache.
const CHUNK_BYTES: usize = 64 * 1024;

/// The statement that takes the rows.
pub(crate) const COPY_TAPS: &str =
    "COPY taps (tapped_at, client, room_id, reaction_id) FROM STDIN (FORMAT binary)";

/// A row of `taps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) tapped_at_ms: i64,
    pub(crate) client: i64,
    pub(crate) room_id: i32,
    pub(crate) reaction_id: i16,
}

/// All rows, in chunks.
pub(crate) fn chunks(rows: &[Row]) -> impl Iterator<Item = Bytes> {
    /// Four columns, each with its length in front.
    const ROW_BYTES: usize = 2 + 4 * 4 + 8 + 8 + 4 + 2;
    let per_chunk = CHUNK_BYTES / ROW_BYTES;
    let last = rows.len().div_ceil(per_chunk).max(1) - 1;
    (0..=last).map(move |index| {
        let from = (index * per_chunk).min(rows.len());
        let part = &rows[from..(from + per_chunk).min(rows.len())];
        let mut chunk = BytesMut::with_capacity(part.len() * ROW_BYTES + 32);
        if index == 0 {
            chunk.put_slice(SIGNATURE);
            // No flags, no extension.
            chunk.put_i32(0);
            chunk.put_i32(0);
        }
        for row in part {
            put_row(&mut chunk, row);
        }
        if index == last {
            chunk.put_i16(-1);
        }
        chunk.freeze()
    })
}

fn put_row(chunk: &mut BytesMut, row: &Row) {
    chunk.put_i16(4);
    chunk.put_i32(8);
    chunk.put_i64(
        row.tapped_at_ms
            .saturating_mul(1_000)
            .saturating_sub(EPOCH_2000_US),
    );
    chunk.put_i32(8);
    chunk.put_i64(row.client);
    chunk.put_i32(4);
    chunk.put_i32(row.room_id);
    chunk.put_i32(2);
    chunk.put_i16(row.reaction_id);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_rows_and_trailer_stand_once_however_many_chunks_there_are() {
        let row = Row {
            tapped_at_ms: 946_684_800_001,
            client: -1,
            room_id: 7,
            reaction_id: 2,
        };
        for count in [0, 1, 1_500, 5_000] {
            let all: Vec<u8> = chunks(&vec![row; count]).flatten().collect();
            assert_eq!(
                all.len(),
                SIGNATURE.len() + 8 + count * 40 + 2,
                "{count} rows"
            );
            assert!(all.starts_with(SIGNATURE));
            assert!(all.ends_with(&[0xff, 0xff]));
        }
        let one: Vec<u8> = chunks(&[row]).flatten().collect();
        assert_eq!(
            one[25..33],
            1_000_i64.to_be_bytes(),
            "microseconds since 2000"
        );
    }
}
