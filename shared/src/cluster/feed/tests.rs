use super::*;
use crate::cluster::topology::Master;

const S0: ShardId = ShardId(0);
const S1: ShardId = ShardId(1);

/// Slot 0 is the first master's, slot 1 the second's.
fn topology(of_slots: [&str; 2]) -> Topology {
    let mut topology = Topology::default();
    for id in of_slots {
        if topology.master(id).is_none() {
            let address = format!("{id}:1");
            topology.masters.push(Master {
                id: id.to_owned(),
                address,
                ..Master::default()
            });
        }
    }
    let index = |id: &str| topology.masters.iter().position(|master| master.id == id);
    topology.slots = of_slots
        .map(|id| u16::try_from(index(id).unwrap()).unwrap())
        .to_vec();
    topology
}

fn tells(actions: Vec<Action>) -> Vec<Tell> {
    let tell = |action| match action {
        Action::Tell(tell) => Some(tell),
        _ => None,
    };
    actions.into_iter().filter_map(tell).collect()
}

/// Both channels subscribed, each on its master's connection.
fn subscribed(now: Instant) -> (Feed, ConnectionId, ConnectionId) {
    let mut feed = Feed::new([0, 1], now);
    let (a, b) = (ConnectionId(1), ConnectionId(2));
    assert_eq!(
        feed.route(&topology(["a", "b"]), now),
        [
            Action::Open(a, "a:1".to_owned()),
            Action::Open(b, "b:1".to_owned())
        ]
    );
    assert_eq!(
        feed.apply(Input::Opened(a), now),
        [Action::Subscribe(a, vec![S0])]
    );
    assert_eq!(
        feed.apply(Input::Opened(b), now),
        [Action::Subscribe(b, vec![S1])]
    );
    assert_eq!(
        tells(feed.apply(Input::Confirmed(a, S0), now)),
        [Tell::Subscribed(S0)]
    );
    assert_eq!(
        tells(feed.apply(Input::Confirmed(b, S1), now)),
        [Tell::Subscribed(S1)]
    );
    (feed, a, b)
}

#[test]
fn what_is_not_confirmed_is_asked_for_again() {
    let now = Instant::now();
    let mut feed = Feed::new([0, 1], now);
    feed.route(&topology(["a", "a"]), now);
    let a = ConnectionId(1);
    assert_eq!(
        feed.apply(Input::Opened(a), now),
        [Action::Subscribe(a, vec![S0, S1])]
    );
    feed.apply(Input::Confirmed(a, S1), now);
    assert_eq!(feed.apply(Input::Tick, now), []);
    let later = now + UNCONFIRMED_AGAIN_AFTER;
    assert_eq!(
        feed.apply(Input::Tick, later),
        [Action::Subscribe(a, vec![S0])]
    );
    assert_eq!(feed.apply(Input::Refused(a, S0), later), []);
    let later = later + REFUSED_AGAIN_AFTER;
    assert_eq!(
        feed.apply(Input::Tick, later),
        [Action::Subscribe(a, vec![S0])]
    );
    // A second confirmation is no second subscription.
    assert_eq!(
        tells(feed.apply(Input::Confirmed(a, S0), later)),
        [Tell::Subscribed(S0)]
    );
    assert_eq!(feed.apply(Input::Confirmed(a, S0), later), []);
}

#[test]
fn a_broken_connection_loses_its_channels_and_is_opened_anew() {
    let now = Instant::now();
    let (mut feed, a, _) = subscribed(now);
    let anew = ConnectionId(3);
    assert_eq!(
        feed.apply(Input::Broken(a), now),
        [
            Action::Tell(Tell::Lost(S0)),
            Action::Close(a),
            Action::Open(anew, "a:1".to_owned())
        ]
    );
    assert_eq!(feed.apply(Input::Broken(a), now), [], "told twice");
    assert_eq!(
        feed.apply(Input::Message(a, S0, Bytes::new()), now),
        [],
        "it is gone"
    );
    assert_eq!(feed.apply(Input::Confirmed(a, S0), now), []);
    // One that cannot be opened is tried again, each time later.
    assert_eq!(feed.apply(Input::Broken(anew), now), [Action::Close(anew)]);
    assert_eq!(feed.apply(Input::Tick, now), []);
    let later = now + REDIAL_AFTER_MIN;
    let again = ConnectionId(4);
    assert_eq!(
        feed.apply(Input::Tick, later),
        [Action::Open(again, "a:1".to_owned())]
    );
    feed.apply(Input::Broken(again), later);
    assert_eq!(feed.apply(Input::Tick, later + REDIAL_AFTER_MIN), []);
    assert_eq!(
        feed.apply(Input::Tick, later + 2 * REDIAL_AFTER_MIN).len(),
        1
    );
}

#[test]
fn one_that_breaks_before_it_is_told_as_open_stays_broken() {
    let now = Instant::now();
    let mut feed = Feed::new([0, 1], now);
    feed.route(&topology(["a", "a"]), now);
    let a = ConnectionId(1);
    assert_eq!(feed.apply(Input::Broken(a), now), [Action::Close(a)]);
    assert_eq!(feed.apply(Input::Opened(a), now), [Action::Close(a)]);
}

#[test]
fn a_slot_that_moves_is_subscribed_at_its_new_master() {
    let now = Instant::now();
    let (mut feed, a, b) = subscribed(now);
    // The source ends it first, and refuses it until the topology says who has it.
    assert_eq!(
        feed.apply(Input::Ended(a, S0), now),
        [Action::Tell(Tell::Lost(S0)), Action::Subscribe(a, vec![S0])]
    );
    feed.apply(Input::Refused(a, S0), now);
    let moved = feed.route(&topology(["b", "b"]), now);
    assert_eq!(moved, [Action::Close(a), Action::Subscribe(b, vec![S0])]);
    assert_eq!(
        tells(feed.apply(Input::Confirmed(b, S0), now)),
        [Tell::Subscribed(S0)]
    );

    // Or the topology says so first: the old subscription is no loss once the new one stands.
    let (mut feed, a, b) = subscribed(now);
    let mut both = topology(["b", "b"]);
    both.masters.push(Master {
        id: "a".to_owned(),
        address: "a:1".to_owned(),
        ..Master::default()
    });
    assert_eq!(feed.route(&both, now), [Action::Subscribe(b, vec![S0])]);
    assert_eq!(
        tells(feed.apply(Input::Confirmed(b, S0), now)),
        [Tell::Subscribed(S0)]
    );
    assert_eq!(feed.apply(Input::Ended(a, S0), now), []);
}

#[test]
fn a_master_that_vanishes_takes_its_channels_along() {
    let now = Instant::now();
    let (mut feed, a, _) = subscribed(now);
    let new = ConnectionId(3);
    assert_eq!(
        feed.route(&topology(["c", "b"]), now),
        [
            Action::Tell(Tell::Lost(S0)),
            Action::Close(a),
            Action::Open(new, "c:1".to_owned())
        ]
    );
    assert_eq!(
        feed.apply(Input::Opened(new), now),
        [Action::Subscribe(new, vec![S0])]
    );
}

#[test]
fn while_a_slot_has_no_master_the_old_subscription_stands() {
    let now = Instant::now();
    let (mut feed, a, _) = subscribed(now);
    let mut nobody = topology(["a", "b"]);
    nobody.slots[0] = u16::MAX;
    assert_eq!(feed.route(&nobody, now), []);
    let heard = feed.apply(Input::Message(a, S0, Bytes::from_static(b"x")), now);
    assert_eq!(tells(heard), [Tell::Message(S0, Bytes::from_static(b"x"))]);
}

#[test]
fn of_many_wishes_to_subscribe_anew_one_is_done() {
    let now = Instant::now();
    let mut feed = Feed::new([0, 1], now);
    feed.route(&topology(["a", "a"]), now);
    let (a, anew) = (ConnectionId(1), ConnectionId(2));
    feed.apply(Input::Opened(a), now);
    feed.apply(Input::Confirmed(a, S0), now);
    feed.apply(Input::Confirmed(a, S1), now);
    let done = feed.apply(Input::Resubscribe(S0), now);
    assert!(
        done.contains(&Action::Open(anew, "a:1".to_owned())),
        "{done:?}"
    );
    assert_eq!(tells(done), [Tell::Lost(S0), Tell::Lost(S1)]);
    assert_eq!(
        feed.apply(Input::Resubscribe(S1), now),
        [],
        "it is being seen to"
    );
    assert_eq!(feed.apply(Input::Resubscribe(ShardId(999)), now), []);
}
