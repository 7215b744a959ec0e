//! The read barrier.

use super::client::{Cluster, add_wait};
use super::errors::{RequestError, answered};
use super::scripts::RENEW;
use crate::counting::ids::{EntryId, Nonce};
use crate::counting::reader::{Barrier, RawEntry};
use crate::shards::ShardId;
use redis::Value;
use std::time::Instant;

/// What one read of a log brought.
#[derive(Debug)]
pub struct LogRead {
    /// The entries, in order.
    pub entries: Vec<RawEntry>,
    /// Fewer came than were asked for.
    pub reached_end: bool,
    /// Whether they may be folded.
    pub barrier: Barrier,
    /// No replica is electable: `stable` is true without any copy.
    pub unreplicated: bool,
}

impl Cluster {
    /// The read barrier: `[XRANGE (after +inf COUNT count, renewal of the lease, WAIT]` in one pipeline on one connection.
    /// `lease_key` is the aggregator's or the persister's hash of that shard, `owner` our nonce.
    ///
    /// The renewal writes after the entries were read, so a WAIT behind it waits for all that were read; where it did
    /// not write, `stable` is false whatever the WAIT said.
    ///
    /// # Errors
    /// See [`RequestError`].
    ///
    /// # Cancel safety
    /// When dropped, the lease may or may not have been renewed.
    pub async fn read_log(
        &self,
        shard: ShardId,
        after: EntryId,
        count: usize,
        lease_key: &str,
        owner: Nonce,
    ) -> Result<LogRead, RequestError> {
        let result = self
            .read_log_once(shard, after, count, lease_key, owner)
            .await;
        self.count(result)
    }

    async fn read_log_once(
        &self,
        shard: ShardId,
        after: EntryId,
        count: usize,
        lease_key: &str,
        owner: Nonce,
    ) -> Result<LogRead, RequestError> {
        let target = self.target(self.inner.shards.slot(shard))?;
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("XRANGE")
            .arg(self.shards().log(shard))
            .arg(format!("({after}"))
            .arg("+")
            .arg("COUNT")
            .arg(count);
        pipeline.add_command(RENEW.call(&[lease_key.to_owned()], &[super::leases::hex(owner)]));
        add_wait(
            &mut pipeline,
            target.electable_replicas,
            self.inner.settings.wait_timeout,
        );
        let mut answers = self
            .pipeline_with_script(&target, &pipeline, &RENEW, 1)
            .await?;
        let answered_at = Instant::now();
        let entries = entries(self.first(&mut answers)?)?;
        // Nothing of the read is lost when the renewal failed: but it may not be folded either.
        let renewed = self.first(&mut answers)?;
        let lease_held = renewed == Value::Int(1);
        let waited = self
            .waited(&target, answers.next().as_ref(), answered_at)
            .await;
        Ok(LogRead {
            reached_end: entries.len() < count,
            entries,
            barrier: Barrier {
                lease_held,
                stable: lease_held && waited.stable,
            },
            unreplicated: waited.unreplicated,
        })
    }
}

/// The entries of an XRANGE.
fn entries(value: Value) -> Result<Vec<RawEntry>, RequestError> {
    let wrong =
        || RequestError::Refused("XRANGE answered something that is no list of entries".to_owned());
    let Value::Array(list) = answered(value).map_err(|error| RequestError::of_answer(&error))?
    else {
        return Err(wrong());
    };
    list.into_iter()
        .map(|entry| parse_entry(entry).ok_or_else(wrong))
        .collect()
}

/// An entry with its first field; one without any field is told as such, and is for the reader to reject.
fn parse_entry(entry: Value) -> Option<RawEntry> {
    let Value::Array(parts) = entry else {
        return None;
    };
    let mut parts = parts.into_iter();
    let (Some(Value::BulkString(id)), Some(Value::Array(fields))) = (parts.next(), parts.next())
    else {
        return None;
    };
    let id: EntryId = std::str::from_utf8(&id).ok()?.parse().ok()?;
    let mut fields = fields.into_iter().map(|field| match field {
        Value::BulkString(bytes) => bytes,
        _ => Vec::new(),
    });
    let field = fields.next().unwrap_or_default();
    let value = fields.next().unwrap_or_default();
    Some(RawEntry { id, field, value })
}
