//! Several aggregators share the shards.

use crate::support::{Client, Instance, eventually, eventually_or_last, room_in, taps};
use rig::{Options, Rig};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How many shards each owner has; free ones under none.
async fn shares(client: &Client) -> BTreeMap<Option<u64>, usize> {
    let mut shares = BTreeMap::new();
    for owner in client.owners().await {
        *shares.entry(owner).or_default() += 1;
    }
    shares
}

/// Waits until `members` owners hold all shards, none more than its fair share.
async fn expect_shares(client: &Client, members: usize) {
    let (is_even, got) = eventually_or_last(async || {
        let shares = shares(client).await;
        let is_even = shares.len() == members
            && !shares.contains_key(&None)
            && shares
                .values()
                .all(|shards| *shards <= 64_usize.div_ceil(members));
        (is_even, (is_even, shares))
    })
    .await;
    assert!(is_even, "{members} members hold {got:?}");
}

#[tokio::test]
async fn shares_are_even_and_pass_on() {
    let rig = Rig::start(Options {
        postgres: false,
        ..Options::default()
    })
    .await
    .unwrap();
    let client = Client::connect(&rig).await;
    let first = Instance::start(rig.redis_nodes());
    expect_shares(&client, 1).await;
    let second = Instance::start(rig.redis_nodes());
    expect_shares(&client, 2).await;

    // One is killed: the other has all its shards in about two seconds.
    let before = client.owners().await;
    let killed = Instant::now();
    first.kill();
    eventually("the survivor has all", async || {
        (shares(&client).await.len() == 1).then_some(())
    })
    .await;
    let took = killed.elapsed();
    assert!(
        (Duration::from_millis(1_500)..Duration::from_secs(5)).contains(&took),
        "taken over in {took:?}"
    );
    println!("64 shards: taken over in {took:?}");
    let survivor = client.owners().await[0];
    assert_eq!(
        before.iter().filter(|owner| **owner == survivor).count(),
        32,
        "it had half before"
    );

    // What was appended without an owner is counted, by the one that is left.
    let code = room_in(40);
    client
        .append_batch(&client.batch(1, 1, &code, taps(1, 1, &["clap"])))
        .await;
    client.expect_totals(&code, &[("clap", 1)]).await;

    // Two more come: thirds. One ends in good order: its shards pass on without a wait.
    let third = Instance::start(rig.redis_nodes());
    let fourth = Instance::start(rig.redis_nodes());
    expect_shares(&client, 3).await;
    third.stop().await;
    let stopped = Instant::now();
    expect_shares(&client, 2).await;
    assert!(
        stopped.elapsed() < Duration::from_secs(3),
        "passed on in {:?}",
        stopped.elapsed()
    );
    fourth.stop().await;
    second.stop().await;
    let owners = client.owners().await;
    assert!(
        owners.iter().all(Option::is_none),
        "all let go at the end: {owners:?}"
    );
}
