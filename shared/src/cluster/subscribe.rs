//! Sharded subscriptions that survive a failover, a slot migration and a cut connection.

use super::client::Cluster;
use crate::shards::ShardId;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a subscription tells, in the order of its channel; messages can come twice around a change of master.
#[derive(Debug, Clone)]
pub enum FeedEvent {
    /// The channel is subscribed (again): what was published before may have been missed.
    Subscribed(ShardId),
    /// The channel is not subscribed at the moment.
    Lost(ShardId),
    /// A message.
    Message(ShardId, Bytes),
}

/// Subscribes to the ticks channels of all shards and keeps them subscribed until `shutdown`.
/// `resubscribe` takes shards whose channel the caller found dead (it did not hear its own probe).
pub fn subscribe_to_ticks(
    _cluster: &Cluster,
    _tracker: &TaskTracker,
    _shutdown: CancellationToken,
) -> (mpsc::Receiver<FeedEvent>, mpsc::Sender<ShardId>) {
    todo!()
}
