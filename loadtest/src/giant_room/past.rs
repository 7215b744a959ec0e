//! What the log holds from before the run: every person has tapped once in each of the epochs that a reader still
//! remembers. Without it the first minutes would fold into a small, well cached memory, as no long event does.

use super::people;
use anyhow::Context;
use redis::aio::MultiplexedConnection;
use shared::counting::codec::{BATCH_FIELD, encode_batch};
use shared::counting::entry::{Batch, RoomBatch, Tap};
use shared::counting::ids::{EntryId, ProducerId};
use shared::counting::memory::{EPOCH_MS, EPOCHS_BEFORE};
use shared::counting::outbox::VOID_AFTER_MS;
use shared::room::RoomCode;

/// Entries of some 4 KB, as full batches are.
const TAPS_PER_ENTRY: u64 = 250;
/// Entries sent before the answers are read: a pipeline of some 400 KB.
const ENTRIES_AT_ONCE: usize = 100;

/// How often each person has tapped afterwards.
pub(crate) fn taps_each() -> u32 {
    u32::try_from(EPOCHS_BEFORE).expect("three")
}

/// Appends taps of so many people in each of the epochs before that of `now_ms` (log time), in another room of the same
/// shard: the memory is the shard's. The log must be empty.
pub(crate) async fn fill(
    master: &mut MultiplexedConnection,
    log: &str,
    room: &RoomCode,
    people: u64,
    now_ms: u64,
) -> anyhow::Result<()> {
    let producer = ProducerId(rand::random());
    let mut number = 0;
    let mut pipeline = redis::pipe();
    for back in (1..=EPOCHS_BEFORE).rev() {
        let epoch_ms = (now_ms / EPOCH_MS).saturating_sub(back) * EPOCH_MS;
        let seq = u32::try_from(EPOCHS_BEFORE - back + 1)?;
        for first in (0..people).step_by(usize::try_from(TAPS_PER_ENTRY)?) {
            let last = people.min(first + TAPS_PER_ENTRY);
            number += 1;
            let id = EntryId {
                ms: epoch_ms + first * EPOCH_MS / people,
                seq: number,
            };
            let value = encode_batch(&Batch {
                producer,
                number,
                void_after_ms: id.ms + VOID_AFTER_MS,
                rooms: vec![RoomBatch {
                    code: room.clone(),
                    people: None,
                    taps: taps(first..last, seq, id.ms),
                }],
            });
            let mut add = redis::cmd("XADD");
            add.arg(log).arg(id.to_string()).arg(BATCH_FIELD).arg(value);
            pipeline.add_command(add).ignore();
            if pipeline.len() == ENTRIES_AT_ONCE {
                send(master, &mut pipeline).await?;
            }
        }
    }
    send(master, &mut pipeline).await
}

fn taps(people: std::ops::Range<u64>, seq: u32, at_ms: u64) -> Vec<Tap> {
    let keys = people::keys();
    let tap = |person| {
        let id = people::tap_id(person, seq);
        Tap {
            id,
            key: keys[usize::from(people::reaction(id))].clone(),
            tapped_at_ms: at_ms,
        }
    };
    people.map(tap).collect()
}

async fn send(
    master: &mut MultiplexedConnection,
    pipeline: &mut redis::Pipeline,
) -> anyhow::Result<()> {
    if !pipeline.is_empty() {
        let sent = pipeline.query_async::<()>(master).await;
        sent.context("the log could not be filled")?;
        pipeline.clear();
    }
    Ok(())
}
