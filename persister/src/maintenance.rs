//! Upkeep beside the shards: partitions ahead and past their retention, ANALYZE after loads, and how far behind we are.

use crate::context::Context;
use crate::database::connection::{Connection, told};
use crate::database::partitions::{self, Partition, Period, TABLES, TAPS, Table};
use crate::database::pool::Unfit;
use crate::metrics::TableLabel;
use redis::{FromRedisValue, Value};
use shared::counting::ids::EntryId;
use shared::shards::ShardId;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::Error;
use tokio_util::sync::CancellationToken;

/// Partitions are made days ahead, so a minute is soon enough; it bounds how late ANALYZE comes.
const UPKEEP: Duration = Duration::from_secs(60);
/// After a round that failed.
const UPKEEP_RETRY: Duration = Duration::from_secs(5);
/// Alerts look back over minutes.
const LAG: Duration = Duration::from_secs(5);

/// Keeps the database in order until `shutdown`.
///
/// # Errors
/// The database will not do.
pub(crate) async fn upkeep(
    context: Arc<Context>,
    shutdown: CancellationToken,
) -> Result<(), Unfit> {
    let mut told_before = None;
    loop {
        let mut connection = tokio::select! {
            connection = context.pool.get() => connection?,
            () = shutdown.cancelled() => return Ok(()),
        };
        let pause = match keep_up(&context, &mut connection).await {
            Ok(()) => {
                connection.give_back();
                told_before = None;
                UPKEEP
            }
            Err(error) => {
                drop(connection);
                context.partitions.forget();
                context.metrics.maintenance_failures.inc();
                let why = told(&error);
                if told_before.as_ref() != Some(&why) {
                    tracing::warn!(%why, "upkeep failed, trying again");
                    told_before = Some(why);
                }
                UPKEEP_RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }
}

async fn keep_up(context: &Context, connection: &mut Connection) -> Result<(), Error> {
    let settings = &context.settings;
    let now = context.pool.now_ms();
    for table in TABLES {
        let ahead = partitions::ahead(table, now, settings.partitions_ahead_days);
        context.partitions.ensure(connection, ahead).await?;
    }
    for table in TABLES {
        drop_old(context, connection, table, now).await?;
        let there = partitions::list(connection, table).await?.len();
        let label = TableLabel { table: table.name };
        let gauge = context.metrics.partitions.get_or_create(&label).clone();
        gauge.set(i64::try_from(there).unwrap_or(i64::MAX));
    }
    summarize(connection, now.saturating_sub(86_400_000), now).await?;
    for partition in context.loads.take_due(Instant::now()) {
        connection
            .client()
            .batch_execute(&format!("ANALYZE {}", partition.name()))
            .await?;
        context.metrics.analyzed.inc();
    }
    let newest = |partition: &Partition| partition.end_ms() > now - 7 * 86_400_000;
    context.loads.retain(newest);
    Ok(())
}

/// Has the index by time of the partitions of two times know all that is stored. What it does not know yet is read from end
/// to end by whoever asks for a time: analysts, and we ourselves, who after a start ask for each room who tapped in its last
/// second. The server does it too, but only when its own upkeep comes by.
pub(crate) async fn summarize(
    connection: &Connection,
    first_ms: i64,
    last_ms: i64,
) -> Result<(), Error> {
    let [first, last] = [first_ms, last_ms].map(|ms| Partition::of(TAPS, ms).name());
    // Whoever vacuums a partition does the same, and is not waited for.
    connection
        .client()
        .batch_execute(&format!(
            "DO $$ DECLARE patience text := current_setting('lock_timeout'); \
             BEGIN PERFORM set_config('lock_timeout', '200ms', true); \
             PERFORM brin_summarize_new_values(x.indexrelid) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid \
             JOIN pg_am a ON a.oid = i.relam AND a.amname = 'brin' \
             WHERE x.indrelid IN (to_regclass('{first}'), to_regclass('{last}')); \
             PERFORM set_config('lock_timeout', patience, true); \
             EXCEPTION WHEN lock_not_available THEN NULL; END $$"
        ))
        .await
}

async fn drop_old(
    context: &Context,
    connection: &Connection,
    table: Table,
    now_ms: i64,
) -> Result<(), Error> {
    let retention = match table.period {
        Period::Day => context.settings.taps_retention,
        Period::Month => context.settings.counts_retention,
    };
    if retention.is_zero() {
        return Ok(());
    }
    let keep_from = now_ms.saturating_sub(i64::try_from(retention.as_millis()).unwrap_or(i64::MAX));
    for name in context
        .partitions
        .drop_before(connection, table, keep_from)
        .await?
    {
        tracing::info!(partition = name, "partition dropped after its retention");
        context.metrics.partitions_dropped.inc();
    }
    Ok(())
}

/// Tells how far behind the logs are until `shutdown`: all of them, also those that nobody stores at the moment, since
/// that is when it matters.
pub(crate) async fn watch_lag(context: Arc<Context>, shutdown: CancellationToken) {
    loop {
        for shard in context.cluster.shards().all() {
            if let Some((lag_ms, entries)) = lag(&context, shard).await {
                let label = &shard.into();
                context.metrics.lag_ms.get_or_create(label).set(lag_ms);
                context
                    .metrics
                    .log_entries
                    .get_or_create(label)
                    .set(entries);
            }
            if shutdown.is_cancelled() {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LAG) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn lag(context: &Context, shard: ShardId) -> Option<(i64, i64)> {
    let (cluster, shards) = (&context.cluster, context.cluster.shards());
    let (log, lease) = (shards.log(shard), shards.persister(shard));
    let entries = cluster
        .request(shard, redis::cmd("XLEN").arg(&log))
        .await
        .ok()?;
    let entries = i64::from_redis_value(entries).ok()?;
    let offset = cluster.read_lease(shard, &lease).await.ok()?.offset;
    let newest = edge(context, shard, "XREVRANGE", &log, ["+", "-"]).await;
    let lag_ms = match (newest, offset) {
        (None, _) => 0,
        (Some(newest), Some(offset)) => newest.ms.saturating_sub(offset.ms),
        (Some(newest), None) => {
            let oldest = edge(context, shard, "XRANGE", &log, ["-", "+"]).await?;
            newest.ms.saturating_sub(oldest.ms)
        }
    };
    Some((i64::try_from(lag_ms).unwrap_or(i64::MAX), entries))
}

/// The first id of a range.
async fn edge(
    context: &Context,
    shard: ShardId,
    command: &str,
    log: &str,
    range: [&str; 2],
) -> Option<EntryId> {
    let mut command = redis::cmd(command);
    command
        .arg(log)
        .arg(range[0])
        .arg(range[1])
        .arg("COUNT")
        .arg(1);
    let Value::Array(entries) = context.cluster.request(shard, &command).await.ok()? else {
        return None;
    };
    let Value::Array(entry) = entries.into_iter().next()? else {
        return None;
    };
    String::from_redis_value(entry.into_iter().next()?)
        .ok()?
        .parse()
        .ok()
}
