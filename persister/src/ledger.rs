//! The ledger: how far each shard's log has been stored. It is the truth that every persister starts from, and the one
//! row that decides who stored a step.

use crate::database::connection::Connection;
use shared::counting::ids::{EntryId, ProducerId};
use shared::counting::reader::ProducerMark;
use shared::shards::ShardId;
use tokio_postgres::Error;

/// A shard's row as it was loaded or committed: the next commit succeeds only if it still stands so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) offset: EntryId,
    pub(crate) version: i64,
}

/// What a reader starts from.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) mark: Mark,
    pub(crate) producers: Vec<(ProducerId, ProducerMark)>,
}

/// What a commit makes of the ledger.
#[derive(Debug)]
pub(crate) struct Advance {
    pub(crate) shard: ShardId,
    /// As it was loaded or committed last.
    pub(crate) from: Mark,
    /// The last entry folded.
    pub(crate) to: EntryId,
    pub(crate) changed: Vec<(ProducerId, ProducerMark)>,
    pub(crate) forgotten: Vec<ProducerId>,
}

impl Advance {
    /// The ledger after the commit.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            offset: self.to,
            version: self.from.version + 1,
        }
    }
}

/// The number of a shard as the tables have it.
pub(crate) fn shard_number(shard: ShardId) -> i16 {
    i16::try_from(shard.0).expect("there are at most 1024 shards")
}

/// Stream ids and batch numbers are far from 2^63; one that is not would stop at it.
pub(crate) fn big(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A shard's ledger, made if it is not there.
///
/// A commit between the two reads gives producers that are newer than the offset; such a load is never committed from,
/// since the version has moved on.
///
/// # Errors
/// Whatever Postgres says: drop the connection.
pub(crate) async fn load(connection: &mut Connection, shard: ShardId) -> Result<Loaded, Error> {
    let number = shard_number(shard);
    connection
        .execute(
            "INSERT INTO ledger (shard, offset_ms, offset_seq, version, taps, committed_at) \
             VALUES ($1, 0, 0, 0, 0, now()) ON CONFLICT (shard) DO NOTHING",
            &[&number],
        )
        .await?;
    let rows = connection
        .query(
            "SELECT offset_ms, offset_seq, version FROM ledger WHERE shard = $1",
            &[&number],
        )
        .await?;
    let row = &rows[0];
    let offset = EntryId {
        ms: row.get::<_, i64>(0).cast_unsigned(),
        seq: row.get::<_, i64>(1).cast_unsigned(),
    };
    let mark = Mark {
        offset,
        version: row.get(2),
    };
    let rows = connection
        .query(
            "SELECT producer, number, log_ms FROM ledger_producers WHERE shard = $1",
            &[&number],
        )
        .await?;
    let producers = rows.iter().map(|row| {
        let number = row.get::<_, i64>(1).cast_unsigned();
        let log_ms = row.get::<_, i64>(2).cast_unsigned();
        (
            ProducerId(row.get::<_, i64>(0).cast_unsigned()),
            ProducerMark { number, log_ms },
        )
    });
    Ok(Loaded {
        mark,
        producers: producers.collect(),
    })
}

/// The producers' numbers.
///
/// # Errors
/// Whatever Postgres says: drop the connection.
pub(crate) async fn write_producers(
    connection: &mut Connection,
    advance: &Advance,
) -> Result<(), Error> {
    let shard = shard_number(advance.shard);
    if !advance.changed.is_empty() {
        let mut changed = advance.changed.clone();
        // In one order everywhere, so that two persisters at work on one shard wait and do not deadlock.
        changed.sort_by_key(|(producer, _)| *producer);
        let ids: Vec<i64> = changed.iter().map(|(id, _)| id.0.cast_signed()).collect();
        let numbers: Vec<i64> = changed.iter().map(|(_, mark)| big(mark.number)).collect();
        let times: Vec<i64> = changed.iter().map(|(_, mark)| big(mark.log_ms)).collect();
        connection
            .execute(
                "INSERT INTO ledger_producers (shard, producer, number, log_ms) \
                 SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) \
                 ON CONFLICT (shard, producer) DO UPDATE SET number = excluded.number, log_ms = excluded.log_ms",
                &[&shard, &ids, &numbers, &times],
            )
            .await?;
    }
    if !advance.forgotten.is_empty() {
        let ids: Vec<i64> = advance
            .forgotten
            .iter()
            .map(|id| id.0.cast_signed())
            .collect();
        connection
            .execute(
                "DELETE FROM ledger_producers WHERE shard = $1 AND producer = ANY($2)",
                &[&shard, &ids],
            )
            .await?;
    }
    Ok(())
}

/// The last statement of each transaction: moves the ledger on if it stands as it was loaded. False: somebody else has
/// moved it, and nothing of this transaction may stay.
///
/// # Errors
/// Whatever Postgres says: drop the connection.
pub(crate) async fn compare_and_set(
    connection: &mut Connection,
    advance: &Advance,
    taps: i64,
) -> Result<bool, Error> {
    let changed = connection
        .execute(
            "UPDATE ledger SET offset_ms = $5, offset_seq = $6, version = version + 1, taps = taps + $7, \
             committed_at = clock_timestamp() \
             WHERE shard = $1 AND offset_ms = $2 AND offset_seq = $3 AND version = $4",
            &[
                &shard_number(advance.shard),
                &big(advance.from.offset.ms),
                &big(advance.from.offset.seq),
                &advance.from.version,
                &big(advance.to.ms),
                &big(advance.to.seq),
                &taps,
            ],
        )
        .await?;
    Ok(changed == 1)
}
