//! One step, one transaction: dictionary, rows, roll-ups, head counts, changes, rejected entries, producers, and last
//! the ledger's compare-and-set.
//!
//! COMMIT is ambiguous when the connection dies, and so is nothing else here: whatever fails, the caller drops the
//! connection, throws away all it holds and loads the ledger again, which says what happened.

use crate::copy::{self, Row};
use crate::database::connection::Connection;
use crate::database::from_ms;
use crate::dictionary::{Dictionary, Numbers, state_text, without_nul};
use crate::ledger::{self, Advance, big, shard_number};
use crate::maintenance;
use crate::shed::Shedding;
use crate::step::Step;
use crate::tappers::{Group, Tappers};
use futures_util::SinkExt;
use shared::counting::entry::RoomChangeKind;
use shared::shards::ShardId;
use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use tokio_postgres::Error;

/// Why a step was not stored, or is not known to be.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Postgres said no, or nothing any more.
    #[error("{}", crate::database::connection::told(.0))]
    Postgres(#[from] Error),
    /// The ledger is not as it was loaded: another persister is at work on this shard.
    #[error("the ledger was changed by another persister")]
    ForeignLedger,
}

/// What a transaction stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Taps in the counts.
    pub taps: u64,
    /// Taps with a row of their own.
    pub rows: u64,
}

/// What belongs to a room, reaction and second.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    taps: i32,
    tappers: i32,
    unrecorded: i32,
}

/// Stores a step. `dictionary` and `tappers` are changed on the way: after an error they must be thrown away.
///
/// # Errors
/// See [`CommitError`]; after any, drop the connection.
pub(crate) async fn commit(
    connection: &mut Connection,
    step: &Step,
    advance: &Advance,
    dictionary: &mut Dictionary,
    tappers: &mut Tappers,
    shedding: Shedding,
) -> Result<Stored, CommitError> {
    connection.client().batch_execute("BEGIN").await?;
    let numbers = dictionary.resolve(connection, step).await?;
    let rows = rows(step, &numbers);
    let counts = count(connection, &rows, tappers, shedding).await?;
    let recorded: Vec<Row> = rows
        .iter()
        .filter(|row| shedding.keeps(row.client))
        .copied()
        .collect();
    copy_rows(connection, &recorded).await?;
    write_counts(connection, &counts).await?;
    write_tap_times(connection, &rows).await?;
    write_people(connection, step, &numbers).await?;
    write_changes(connection, advance.shard, step, &numbers).await?;
    write_rejected(connection, advance.shard, step).await?;
    ledger::write_producers(connection, advance).await?;
    if !ledger::compare_and_set(connection, advance, big(rows.len() as u64)).await? {
        return Err(CommitError::ForeignLedger);
    }
    connection.client().batch_execute("COMMIT").await?;
    tappers.forget_old();
    let (taps, rows) = (rows.len() as u64, recorded.len() as u64);
    Ok(Stored { taps, rows })
}

fn rows(step: &Step, numbers: &[Numbers]) -> Vec<Row> {
    let row = |tap: &crate::step::TapRow| {
        let numbers = &numbers[tap.segment as usize];
        Row {
            tapped_at_ms: tap.tapped_at_ms,
            client: tap.client,
            room_id: numbers.room_id,
            reaction_id: numbers.reactions[tap.key as usize],
        }
    };
    step.taps.iter().map(row).collect()
}

fn group(row: &Row) -> Group {
    let second = row.tapped_at_ms.div_euclid(1_000);
    Group {
        room_id: row.room_id,
        second,
        reaction_id: row.reaction_id,
    }
}

/// The roll-up of the rows; in order, so that two transactions at one table wait and do not deadlock.
async fn count(
    connection: &mut Connection,
    rows: &[Row],
    tappers: &mut Tappers,
    shedding: Shedding,
) -> Result<BTreeMap<Group, Count>, Error> {
    let mut counts: BTreeMap<Group, Count> = BTreeMap::new();
    for row in rows {
        let count = counts.entry(group(row)).or_default();
        count.taps += 1;
        count.unrecorded += i32::from(!shedding.keeps(row.client));
    }
    let unknown = counts
        .keys()
        .copied()
        .filter(|group| !tappers.knows(*group));
    let unknown: Vec<Group> = unknown.collect();
    recall(connection, &unknown, tappers).await?;
    for row in rows {
        let group = group(row);
        if tappers.add(group, row.client)
            && let Some(count) = counts.get_mut(&group)
        {
            count.tappers += 1;
        }
    }
    Ok(counts)
}

/// Reads back who tapped in those of `groups` that earlier transactions have stored.
async fn recall(
    connection: &mut Connection,
    groups: &[Group],
    tappers: &mut Tappers,
) -> Result<(), Error> {
    let seconds = || groups.iter().map(|group| group.second);
    let (Some(first), Some(last)) = (seconds().min(), seconds().max()) else {
        return Ok(());
    };
    let rooms: Vec<i32> = groups.iter().map(|group| group.room_id).collect();
    let reactions: Vec<i16> = groups.iter().map(|group| group.reaction_id).collect();
    let seconds: Vec<i64> = seconds().collect();
    let stored = connection
        .query(
            "SELECT c.room_id, extract(epoch FROM c.second)::bigint, c.reaction_id \
             FROM unnest($1::integer[], $2::bigint[], $3::smallint[]) AS g (room_id, second, reaction_id) \
             JOIN tap_counts c ON c.room_id = g.room_id AND c.second = to_timestamp(g.second) \
                              AND c.reaction_id = g.reaction_id \
             WHERE c.second BETWEEN to_timestamp($4::bigint) AND to_timestamp($5::bigint)",
            &[&rooms, &seconds, &reactions, &first, &last],
        )
        .await?;
    if stored.is_empty() {
        return Ok(());
    }
    let stored: std::collections::HashSet<Group> = stored
        .iter()
        .map(|row| Group {
            room_id: row.get(0),
            second: row.get(1),
            reaction_id: row.get(2),
        })
        .collect();
    let rooms: Vec<i32> = stored.iter().map(|group| group.room_id).collect();
    let first = stored
        .iter()
        .map(|group| group.second)
        .min()
        .unwrap_or(first);
    let last = stored
        .iter()
        .map(|group| group.second)
        .max()
        .unwrap_or(last);
    maintenance::summarize(connection, first * 1_000, last * 1_000).await?;
    // By the index, always: a table that has not been analysed since it grew would be read from end to end for one second.
    connection
        .client()
        .batch_execute(
            "SET LOCAL enable_seqscan = off; SET LOCAL max_parallel_workers_per_gather = 0",
        )
        .await?;
    let clients = connection
        .query(
            "SELECT DISTINCT room_id, extract(epoch FROM date_trunc('second', tapped_at))::bigint, reaction_id, client \
             FROM taps WHERE tapped_at >= to_timestamp($1::bigint) AND tapped_at < to_timestamp($2::bigint) \
                         AND room_id = ANY($3)",
            &[&first, &(last + 1), &rooms],
        )
        .await?;
    connection
        .client()
        .batch_execute("RESET enable_seqscan; RESET max_parallel_workers_per_gather")
        .await?;
    for row in &clients {
        let group = Group {
            room_id: row.get(0),
            second: row.get(1),
            reaction_id: row.get(2),
        };
        if stored.contains(&group) {
            tappers.add(group, row.get(3));
        }
    }
    Ok(())
}

async fn copy_rows(connection: &Connection, rows: &[Row]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut sink = pin!(connection.client().copy_in(copy::COPY_TAPS).await?);
    for chunk in copy::chunks(rows) {
        sink.feed(chunk).await?;
    }
    sink.finish().await?;
    Ok(())
}

async fn write_counts(
    connection: &mut Connection,
    counts: &BTreeMap<Group, Count>,
) -> Result<(), Error> {
    if counts.is_empty() {
        return Ok(());
    }
    let rooms: Vec<i32> = counts.keys().map(|group| group.room_id).collect();
    let seconds: Vec<i64> = counts.keys().map(|group| group.second).collect();
    let reactions: Vec<i16> = counts.keys().map(|group| group.reaction_id).collect();
    let taps: Vec<i32> = counts.values().map(|count| count.taps).collect();
    let tappers: Vec<i32> = counts.values().map(|count| count.tappers).collect();
    let unrecorded: Vec<i32> = counts.values().map(|count| count.unrecorded).collect();
    connection
        .execute(
            "INSERT INTO tap_counts AS c (room_id, second, reaction_id, taps, tappers, unrecorded) \
             SELECT room_id, to_timestamp(second), reaction_id, taps, tappers, unrecorded \
             FROM unnest($1::integer[], $2::bigint[], $3::smallint[], $4::integer[], $5::integer[], $6::integer[]) \
                  AS n (room_id, second, reaction_id, taps, tappers, unrecorded) \
             ON CONFLICT (room_id, second, reaction_id) DO UPDATE SET taps = c.taps + excluded.taps, \
             tappers = c.tappers + excluded.tappers, unrecorded = c.unrecorded + excluded.unrecorded",
            &[&rooms, &seconds, &reactions, &taps, &tappers, &unrecorded],
        )
        .await?;
    Ok(())
}

/// From when to when each room was tapped: by these the views find the partitions of a room.
async fn write_tap_times(connection: &mut Connection, rows: &[Row]) -> Result<(), Error> {
    let mut times: BTreeMap<i32, (i64, i64)> = BTreeMap::new();
    for row in rows {
        let at = row.tapped_at_ms;
        let (first, last) = times.entry(row.room_id).or_insert((at, at));
        *first = at.min(*first);
        *last = at.max(*last);
    }
    if times.is_empty() {
        return Ok(());
    }
    let rooms: Vec<i32> = times.keys().copied().collect();
    let first: Vec<i64> = times.values().map(|(first, _)| *first).collect();
    let last: Vec<i64> = times.values().map(|(_, last)| *last).collect();
    connection
        .execute(
            concat!(
                "UPDATE rooms r SET first_tap_at = least(r.first_tap_at, ",
                from_ms!("n.first"),
                "), last_tap_at = greatest(r.last_tap_at, ",
                from_ms!("n.last"),
                ") FROM unnest($1::integer[], $2::bigint[], $3::bigint[]) AS n (room_id, first, last) \
                 WHERE r.room_id = n.room_id"
            ),
            &[&rooms, &first, &last],
        )
        .await?;
    Ok(())
}

async fn write_people(
    connection: &mut Connection,
    step: &Step,
    numbers: &[Numbers],
) -> Result<(), Error> {
    if step.people.is_empty() {
        return Ok(());
    }
    // Two segments can lie in the same ten seconds of the same room: of two rows for one key the upsert would fail.
    let mut most: HashMap<(i32, i64), i32> = HashMap::new();
    for ((segment, slot), people) in &step.people {
        let people = i32::try_from(*people).unwrap_or(i32::MAX);
        let row = most
            .entry((numbers[*segment as usize].room_id, *slot))
            .or_default();
        *row = people.max(*row);
    }
    let mut most: Vec<_> = most.into_iter().collect();
    most.sort_unstable();
    let rooms: Vec<i32> = most.iter().map(|((room, _), _)| *room).collect();
    let slots: Vec<i64> = most.iter().map(|((_, slot), _)| *slot / 1_000).collect();
    let people: Vec<i32> = most.iter().map(|(_, people)| *people).collect();
    connection
        .execute(
            "INSERT INTO audience_counts AS a (room_id, slot, people) \
             SELECT room_id, to_timestamp(slot), people \
             FROM unnest($1::integer[], $2::bigint[], $3::integer[]) AS n (room_id, slot, people) \
             ON CONFLICT (room_id, slot) DO UPDATE SET people = greatest(a.people, excluded.people)",
            &[&rooms, &slots, &people],
        )
        .await?;
    Ok(())
}

async fn write_changes(
    connection: &mut Connection,
    shard: ShardId,
    step: &Step,
    numbers: &[Numbers],
) -> Result<(), Error> {
    for (segment, numbers) in step.segments.iter().zip(numbers) {
        for (id, change) in &segment.changes {
            let kind = match change.kind {
                RoomChangeKind::Created => "created",
                RoomChangeKind::Updated => "updated",
                RoomChangeKind::Expired => "expired",
            };
            let room = &change.room;
            let palette = serde_json::to_string(&room.palette)
                .expect("a palette is plain data")
                .replace("\\u0000", "\\ufffd");
            connection
                .execute(
                    concat!(
                        "INSERT INTO room_changes (shard, log_ms, log_seq, room_id, changed_at, kind, version, title, \
                         state, cooldown_ms, palette) VALUES ($1, $2, $3, $4, ",
                        from_ms!("$2::bigint"),
                        ", $5, $6, $7, $8, $9, $10::text::jsonb)"
                    ),
                    &[
                        &shard_number(shard),
                        &big(id.ms),
                        &big(id.seq),
                        &numbers.room_id,
                        &kind,
                        &big(room.version),
                        &without_nul(&room.title),
                        &state_text(room.state),
                        &i32::try_from(room.cooldown_ms).unwrap_or(i32::MAX),
                        &palette,
                    ],
                )
                .await?;
        }
    }
    Ok(())
}

async fn write_rejected(
    connection: &mut Connection,
    shard: ShardId,
    step: &Step,
) -> Result<(), Error> {
    for rejected in &step.rejected {
        connection
            .execute(
                "INSERT INTO rejected_batches (shard, log_ms, log_seq, reason, field, value, value_bytes) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
                &[
                    &shard_number(shard),
                    &big(rejected.id.ms),
                    &big(rejected.id.seq),
                    &without_nul(&rejected.reason),
                    &rejected.field,
                    &rejected.value,
                    &i32::try_from(rejected.value_bytes).unwrap_or(i32::MAX),
                ],
            )
            .await?;
    }
    Ok(())
}
