//! A Redis that does not fit is refused with a message that says what would be right; one that is down is waited for.

use crate::faults::redis_rig;
use crate::support::{Client, PATIENCE, ask};
use shared::cluster::{Cluster, ConnectError, RedisSettings};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a connection that cannot be made ends with.
async fn refusal(settings: RedisSettings) -> String {
    let tracker = TaskTracker::new();
    let shutdown = CancellationToken::new();
    let connecting = Cluster::connect(settings, &tracker, shutdown);
    let result = tokio::time::timeout(PATIENCE, connecting)
        .await
        .expect("it was waited for");
    // Nothing goes on in the background for a client that was refused.
    tracker.close();
    tokio::time::timeout(PATIENCE, tracker.wait())
        .await
        .expect("a task was left behind");
    match result {
        Err(ConnectError::Unfit(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_redis_is_refused() {
    let rig = rig::shared().await;
    let (address, _process) = rig.redis_alone(&[]).await.unwrap();
    let why = refusal(RedisSettings::new(vec![address.clone()])).await;
    says(&why, &[&address, "no cluster", "cluster-enabled yes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_asked_for_and_checked() {
    let rig = rig::shared().await;
    let lines = [("cluster-enabled", "yes"), ("requirepass", "secret")];
    let (address, _process) = rig.redis_alone(&lines).await.unwrap();
    let mut settings = RedisSettings::new(vec![address.clone()]);
    says(
        &refusal(settings.clone()).await,
        &[&address, "asks for a password", "redis.password"],
    );
    settings.password = Some("wrong".to_owned());
    let why = refusal(settings.clone()).await;
    says(&why, &[&address, "refuses", "redis.password"]);
    assert!(
        !why.contains("wrong") && !format!("{settings:?}").contains("wrong"),
        "it shows"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_a_password_is_used_with_it() {
    let lines = [("requirepass", "secret"), ("masterauth", "secret")];
    let rig = rig::shared().await;
    let (address, _process) = rig
        .redis_alone(&[&[("cluster-enabled", "yes")], &lines[..]].concat())
        .await
        .unwrap();
    let client = redis::Client::open(format!("redis://:secret@{address}/")).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut slots = redis::cmd("CLUSTER");
    slots.arg("ADDSLOTSRANGE").arg(0).arg(16_383);
    slots.query_async::<()>(&mut connection).await.unwrap();
    let mut settings = RedisSettings::new(vec![address]);
    settings.password = Some("secret".to_owned());
    let client = Client::connect(settings).await;
    let (mut events, _resubscribe) = shared::cluster::subscribe::subscribe_to_ticks(
        &client.cluster,
        &client.tracker,
        client.shutdown.clone(),
    );
    tokio::time::timeout(PATIENCE, events.recv())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_evicts_is_refused() {
    let rig = redis_rig(&[("maxmemory", "100mb")]).await;
    let one = rig.cluster.master_of(9_000).await.unwrap();
    let mut evict = redis::cmd("CONFIG");
    evict.arg("SET").arg("maxmemory-policy").arg("allkeys-lru");
    ask(&one, &evict).await;
    let why = refusal(RedisSettings::new(rig.redis_nodes())).await;
    says(&why, &[&one, "allkeys-lru", "noeviction"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_layout_is_refused() {
    let rig = redis_rig(&[]).await;
    let first = Client::connect(RedisSettings::new(rig.redis_nodes())).await;
    let _second = Client::connect(RedisSettings::new(rig.redis_nodes())).await;
    let mut settings = RedisSettings::new(rig.redis_nodes());
    settings.shards = 32;
    says(
        &refusal(settings.clone()).await,
        &["64 shards", "redis.shards is 32"],
    );
    drop(first);
    let mut layout = redis::cmd("HSET");
    layout.arg("uproar:layout").arg("version").arg("2");
    let slot = crc16::State::<crc16::XMODEM>::calculate(b"uproar:layout") % 16_384;
    ask(&rig.cluster.master_of(slot).await.unwrap(), &layout).await;
    settings.shards = 64;
    says(&refusal(settings).await, &["layout version \"2\"", "has 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_for_a_node_is_refused() {
    says(&refusal(RedisSettings::new(vec![])).await, &["redis.nodes"]);
    let nodes = vec!["redis.example.com".to_owned()];
    says(
        &refusal(RedisSettings::new(nodes)).await,
        &["redis.example.com\"", "host:port"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_down_is_waited_for_until_shutdown() {
    let shutdown = CancellationToken::new();
    let tracker = TaskTracker::new();
    let address = rig::free_address().unwrap().to_string();
    let settings = RedisSettings::new(vec![address.clone()]);
    let connecting = tokio::spawn({
        let (tracker, shutdown) = (tracker.clone(), shutdown.clone());
        async move { Cluster::connect(settings, &tracker, shutdown).await }
    });
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!connecting.is_finished());
    shutdown.cancel();
    let result = tokio::time::timeout(PATIENCE, connecting)
        .await
        .unwrap()
        .unwrap();
    match result {
        Err(ConnectError::Unreachable(why)) => says(&why, &[&address]),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_comes_up_later_is_used() {
    let rig = redis_rig(&[]).await;
    for address in rig.cluster.addresses() {
        rig.cluster.kill(&address).unwrap();
    }
    let connecting = tokio::spawn(Client::connect(RedisSettings::new(rig.redis_nodes())));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!connecting.is_finished());
    for address in rig.cluster.addresses() {
        rig.cluster.restart(&address).unwrap();
    }
    let client = connecting.await.unwrap();
    assert!(client.cluster.topology().borrow().is_whole());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_config_is_enough() {
    let rig = redis_rig(&[("user", "uproar on >secret ~* &* +@all -config")]).await;
    let mut settings = RedisSettings::new(rig.redis_nodes());
    settings.username = Some("uproar".to_owned());
    settings.password = Some("secret".to_owned());
    let client = Client::connect(settings).await;
    let topology = client.cluster.topology().borrow().clone();
    assert!(
        topology
            .masters
            .iter()
            .all(|master| master.electable_replicas == 1),
        "{topology:?}"
    );
}
