//! One shard's side of the database: where its ledger stands, and the caches that hold as long as nobody else moves it.

use crate::commit::{self, CommitError, Stored};
use crate::database::connection::Connection;
use crate::database::partitions::{AUDIENCE_COUNTS, Partition, Partitions, TAP_COUNTS, TAPS};
use crate::dictionary::Dictionary;
use crate::ledger::{self, Advance, Mark};
use crate::shed::Shedding;
use crate::step::Step;
use crate::tappers::Tappers;
use shared::counting::ids::{EntryId, ProducerId};
use shared::counting::reader::ProducerMark;
use shared::shards::ShardId;
use std::collections::HashSet;
use tokio_postgres::Error;

/// One shard's side of the database.
#[derive(Debug)]
pub struct Store {
    shard: ShardId,
    mark: Mark,
    dictionary: Dictionary,
    tappers: Tappers,
    tappers_memory_max: usize,
}

/// What a step makes of the ledger.
#[derive(Debug, Clone, Default)]
pub struct Next {
    /// The last entry folded.
    pub offset: EntryId,
    /// Producers whose last batch is another now.
    pub changed: Vec<(ProducerId, ProducerMark)>,
    /// Producers of which nothing was heard for long.
    pub forgotten: Vec<ProducerId>,
}

impl Store {
    /// Knows nothing until it is loaded.
    pub fn new(shard: ShardId, tappers_memory_max: usize) -> Self {
        Store {
            shard,
            mark: Mark {
                offset: EntryId::ZERO,
                version: 0,
            },
            dictionary: Dictionary::default(),
            tappers: Tappers::new(tappers_memory_max),
            tappers_memory_max,
        }
    }

    /// Reads the ledger; what was known before is forgotten. The producers and their marks.
    ///
    /// # Errors
    /// Whatever Postgres says: drop the connection.
    pub async fn load(
        &mut self,
        connection: &mut Connection,
    ) -> Result<Vec<(ProducerId, ProducerMark)>, Error> {
        self.discard();
        let loaded = ledger::load(connection, self.shard).await?;
        self.mark = loaded.mark;
        Ok(loaded.producers)
    }

    /// The offset that was loaded or committed last.
    pub fn offset(&self) -> EntryId {
        self.mark.offset
    }

    /// Stores a step and moves the ledger on, in one transaction.
    ///
    /// # Errors
    /// See [`CommitError`]. Whether the transaction was committed may then be unknown: drop the connection, and load
    /// again on another.
    pub async fn commit(
        &mut self,
        connection: &mut Connection,
        partitions: &Partitions,
        step: &Step,
        next: Next,
        shedding: Shedding,
    ) -> Result<Stored, CommitError> {
        partitions.ensure(connection, partitions_of(step)).await?;
        let Next {
            offset,
            changed,
            forgotten,
        } = next;
        let advance = Advance {
            shard: self.shard,
            from: self.mark,
            to: offset,
            changed,
            forgotten,
        };
        let stored = commit::commit(
            connection,
            step,
            &advance,
            &mut self.dictionary,
            &mut self.tappers,
            shedding,
        )
        .await?;
        self.mark = advance.mark();
        Ok(stored)
    }

    /// After any error: forgets all that is only true if it was stored.
    pub fn discard(&mut self) {
        *self = Store::new(self.shard, self.tappers_memory_max);
    }
}

/// The partitions that a step writes to.
fn partitions_of(step: &Step) -> Vec<Partition> {
    const DAY_MS: i64 = 86_400_000;
    let days: HashSet<i64> = step
        .taps
        .iter()
        .map(|tap| tap.tapped_at_ms.div_euclid(DAY_MS))
        .collect();
    let slots: HashSet<i64> = step
        .people
        .keys()
        .map(|(_, slot)| slot.div_euclid(DAY_MS))
        .collect();
    let of_taps = days.iter().flat_map(|day| {
        [
            Partition::of(TAPS, day * DAY_MS),
            Partition::of(TAP_COUNTS, day * DAY_MS),
        ]
    });
    let of_people = slots
        .iter()
        .map(|day| Partition::of(AUDIENCE_COUNTS, day * DAY_MS));
    of_taps.chain(of_people).collect()
}
