//! After a commit: how far we are goes to Redis, and what neither reader needs any more is trimmed, in one script.

use crate::context::Context;
use redis::Value;
use shared::cluster::leases::hex;
use shared::cluster::scripts::Script;
use shared::counting::ids::{EntryId, Nonce};
use shared::counting::reader::TRIM_BEHIND_MS;
use shared::shards::ShardId;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

static TRIM: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../shared/src/cluster/scripts/trim.lua")));

/// At most this often: minutes are kept anyway, so a second more or less frees next to nothing.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells Redis a shard's offset, at bounded frequency.
#[derive(Debug)]
pub(crate) struct Publisher {
    shard: ShardId,
    owner: Nonce,
    /// Committed, and not told yet.
    offset: Option<EntryId>,
    last: Option<Instant>,
}

impl Publisher {
    pub(crate) fn new(shard: ShardId, owner: Nonce) -> Self {
        Publisher {
            shard,
            owner,
            offset: None,
            last: None,
        }
    }

    /// There is something to tell. It stays true whatever happens then: the ledger never goes back.
    pub(crate) fn committed(&mut self, offset: EntryId) {
        self.offset = Some(offset);
    }

    /// Tells it, if it is time, or `at_once`. A failure is no matter: it is told again after the next pause, and whether
    /// the lease is still ours is found out by the next read.
    pub(crate) async fn publish(&mut self, context: &Context, at_once: bool) {
        let Some(offset) = self.offset else { return };
        if !at_once && self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        self.last = Some(Instant::now());
        let shards = context.cluster.shards();
        let keys = [
            shards.persister(self.shard),
            shards.aggregator(self.shard),
            shards.log(self.shard),
        ];
        let arguments = [
            hex(self.owner),
            offset.to_string(),
            TRIM_BEHIND_MS.to_string(),
        ];
        let arguments = arguments.map(String::into_bytes);
        match context
            .cluster
            .script(self.shard, &TRIM, &keys, &arguments)
            .await
        {
            Ok(Value::Int(trimmed)) if trimmed >= 0 => {
                context.metrics.trimmed.inc_by(trimmed.unsigned_abs());
                self.offset = None;
            }
            Ok(_) => tracing::debug!(shard = self.shard.0, "not trimmed: the lease is another's"),
            Err(error) => tracing::debug!(shard = self.shard.0, %error, "not trimmed"),
        }
    }
}
