//! The measure of things: a COPY of the same rows into a table with the same partitions and indexes and nothing else, in
//! transactions as large as the persister's, on one connection. The bytes are made before the clock starts.

use super::plan::Row;
use anyhow::Context;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::SinkExt;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// As large as the persister's: what is sent to the server at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Microseconds from 1970 to 2000, where Postgres's time begins.
const EPOCH_2000_US: u64 = 946_684_800_000_000;
/// Signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The numbers that name a room and its reactions in the tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    pub(crate) room_id: i32,
    /// In the order of the keys.
    pub(crate) reactions: Vec<i16>,
}

/// Makes a table like `taps`, with partitions for all of its days and the day before.
pub(crate) async fn make_table(client: &Client, name: &str) -> anyhow::Result<()> {
    client
        .batch_execute(&format!(
            "CREATE TABLE {name} (LIKE taps INCLUDING ALL) PARTITION BY RANGE (tapped_at)"
        ))
        .await?;
    let partitions = client
        .query(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i \
             JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'taps'::regclass",
            &[],
        )
        .await?;
    anyhow::ensure!(!partitions.is_empty(), "the table taps has no partition");
    for partition in partitions {
        let (of, bounds): (&str, &str) = (partition.get(0), partition.get(1));
        let statement = format!("CREATE TABLE {name}_{of} PARTITION OF {name} {bounds}");
        client.batch_execute(&statement).await?;
    }
    Ok(())
}

/// The bytes of each transaction, in chunks.
pub(crate) fn encode(rows: &[Row], numbers: &[Numbers], per_transaction: usize) -> Vec<Vec<Bytes>> {
    let encode = |rows: &[Row]| {
        let mut chunks = Vec::new();
        let mut chunk = BytesMut::from(HEADER);
        for row in rows {
            put_row(&mut chunk, row, &numbers[row.room]);
            if chunk.len() >= CHUNK_BYTES {
                chunks.push(chunk.split().freeze());
            }
        }
        chunk.put_i16(-1);
        chunks.push(chunk.freeze());
        chunks
    };
    rows.chunks(per_transaction.max(1)).map(encode).collect()
}

fn put_row(chunk: &mut BytesMut, row: &Row, numbers: &Numbers) {
    chunk.put_i16(4);
    chunk.put_i32(8);
    chunk.put_u64((row.tapped_at_ms * 1_000).wrapping_sub(EPOCH_2000_US));
    chunk.put_i32(8);
    chunk.put_u64(row.client);
    chunk.put_i32(4);
    chunk.put_i32(numbers.room_id);
    chunk.put_i32(2);
    chunk.put_i16(numbers.reactions[usize::from(row.reaction)]);
}

/// Copies all into a table; how long it took.
pub(crate) async fn copy(
    client: &Client,
    table: &str,
    transactions: Vec<Vec<Bytes>>,
) -> anyhow::Result<Duration> {
    let statement = format!(
        "COPY {table} (tapped_at, client, room_id, reaction_id) FROM STDIN (FORMAT binary)"
    );
    let began = Instant::now();
    for chunks in transactions {
        client.batch_execute("BEGIN").await?;
        let mut sink = pin!(client.copy_in(&statement).await?);
        for chunk in chunks {
            sink.feed(chunk).await?;
        }
        sink.finish().await.context("the bare COPY failed")?;
        client.batch_execute("COMMIT").await?;
    }
    Ok(began.elapsed())
}
