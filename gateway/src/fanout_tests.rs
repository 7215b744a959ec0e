//! Fan-out to streams of events, which need no socket: the same members, marks and merging.

use super::*;
use crate::clock::Tenths;
use crate::peer::Peer;
use crate::rooms::Membership;
use bytes::Bytes;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use shared::counting::ids::ClientHash;
use shared::protocol::Role;
use shared::room::{Palette, Room, RoomState};
use shared::shards::ShardId;
use shared::ticks::{Audience, RoomTick};
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

const NOW: Tenths = Tenths(36_000);

struct Hall {
    fanout: Arc<Fanout>,
    copy: Arc<RoomCopy>,
    metrics: Metrics,
}

impl Hall {
    fn new() -> Self {
        let metrics = Metrics::new(&mut Registry::default());
        let fanout = Fanout::new(
            &TaskTracker::new(),
            &metrics,
            Clock::default(),
            Duration::from_secs(10),
        );
        let copy = RoomCopy::new(
            ShardId(0),
            room(1),
            BTreeMap::new(),
            Arc::clone(&fanout),
            NOW,
        );
        Hall {
            fanout,
            copy: Arc::new(copy),
            metrics,
        }
    }

    fn join(&self, id: u64, role: Role) -> (Arc<Peer>, Membership) {
        let peer = Arc::new(Peer::events(None, NOW));
        let membership = self.copy.join(&peer, ClientHash(id), role, NOW);
        (peer, membership)
    }

    async fn tick(&self, tick: RoomTick) {
        if self.copy.merge(&tick) && self.copy.lock_news().begin() {
            Arc::clone(&self.fanout).work(Arc::clone(&self.copy)).await;
        }
    }

    async fn total(&self, total: u64) {
        let totals = BTreeMap::from([("clap".parse().unwrap(), total)]);
        self.tick(RoomTick {
            totals,
            ..RoomTick::default()
        })
        .await;
    }

    fn next(&self, peer: &Peer) -> Option<Value> {
        let mut context = Context::from_waker(Waker::noop());
        match peer.poll_event(&mut context, &self.copy, NOW) {
            Poll::Ready(event) => event.map(|json: Bytes| serde_json::from_slice(&json).unwrap()),
            Poll::Pending => None,
        }
    }
}

fn room(version: u64) -> Room {
    Room {
        code: "PARTY7".parse().unwrap(),
        title: format!("Version {version}"),
        palette: Palette::standard(),
        cooldown_ms: 3000,
        state: RoomState::Open,
        version,
        created_at_ms: 1,
    }
}

fn tick(total: u64) -> Option<Value> {
    Some(json!({"tick": {"totals": {"clap": total}}}))
}

#[tokio::test]
async fn a_hall_that_several_tasks_serve_gets_each_frame_once() {
    let hall = Hall::new();
    let members = 3 * (RUNS_PER_TASK * RUN) as u64 + 7;
    let peers: Vec<_> = (0..members).map(|id| hall.join(id, Role::Phone)).collect();
    assert!(peers.iter().all(|(peer, _)| {
        hall.next(peer)
            .is_some_and(|frame| frame.get("room").is_some())
    }));
    hall.total(1).await;
    for (peer, _) in &peers {
        assert_eq!(hall.next(peer), tick(1));
        assert_eq!(hall.next(peer), None);
    }
    assert_eq!(hall.metrics.frames_sent.get(), members);
}

#[tokio::test]
async fn who_is_behind_gets_the_whole_room_and_then_ticks_again() {
    let hall = Hall::new();
    let (peer, _membership) = hall.join(1, Role::Phone);
    assert!(hall.next(&peer).is_some());
    for total in 1..=20 {
        hall.total(total).await;
    }
    let mut frames: Vec<_> = std::iter::from_fn(|| hall.next(&peer)).collect();
    let last = frames.pop().unwrap();
    assert_eq!(last["room"]["totals"]["clap"], 20, "all that it missed");
    assert_eq!(frames.len(), 8, "what waited for it is bounded");
    assert!(hall.metrics.frames_behind.get() >= 12);
    hall.total(21).await;
    assert_eq!(hall.next(&peer), tick(21));
}

#[tokio::test]
async fn the_first_frame_is_the_room_whatever_happens_meanwhile() {
    let hall = Hall::new();
    let (peer, _membership) = hall.join(1, Role::Phone);
    hall.total(5).await;
    assert_eq!(hall.next(&peer).unwrap()["room"]["totals"]["clap"], 5);
    assert_eq!(hall.next(&peer), None, "the tick is in it");
}

#[tokio::test]
async fn an_older_room_does_not_replace_a_newer_one() {
    let hall = Hall::new();
    let (peer, _membership) = hall.join(1, Role::Phone);
    assert!(hall.next(&peer).is_some());
    hall.tick(RoomTick {
        room: Some(room(3)),
        ..RoomTick::default()
    })
    .await;
    hall.tick(RoomTick {
        room: Some(room(2)),
        ..RoomTick::default()
    })
    .await;
    assert_eq!(hall.next(&peer).unwrap()["room"]["title"], "Version 3");
    assert_eq!(hall.next(&peer), None);
    let again = Room {
        created_at_ms: 2,
        ..room(1)
    };
    hall.tick(RoomTick {
        room: Some(again),
        ..RoomTick::default()
    })
    .await;
    assert_eq!(
        hall.next(&peer).unwrap()["room"]["title"],
        "Version 1",
        "a room made anew under its code"
    );
}

#[tokio::test]
async fn the_audience_goes_to_hosts_only() {
    let hall = Hall::new();
    let (phone, _phone) = hall.join(1, Role::Phone);
    let (host, _host) = hall.join(2, Role::Host);
    assert!(hall.next(&phone).is_some() && hall.next(&host).is_some());
    let audience = Some(Audience {
        people: 3,
        taps_per_second: 2,
    });
    hall.tick(RoomTick {
        audience,
        ..RoomTick::default()
    })
    .await;
    assert_eq!(
        hall.next(&host),
        Some(json!({"audience": {"people": 3, "taps_per_second": 2}}))
    );
    assert_eq!(hall.next(&phone), None);
}

#[tokio::test]
async fn who_has_left_gets_nothing_and_its_place_is_used_again() {
    let hall = Hall::new();
    let (gone, membership) = hall.join(1, Role::Host);
    let (_stays, _membership) = hall.join(2, Role::Phone);
    hall.copy.leave(&membership, NOW);
    assert_eq!((hall.copy.members.len(), hall.copy.hosts.len()), (1, 0));
    hall.join(3, Role::Phone);
    assert_eq!(
        (hall.copy.members.len(), hall.copy.lock_clients().people()),
        (2, 2)
    );
    hall.total(1).await;
    assert!(
        hall.next(&gone).unwrap().get("room").is_some(),
        "what it was owed when it left, and no tick"
    );
    assert_eq!(hall.next(&gone), None);
}
