//! change_room.lua by itself: what it answers, and that it writes everything or nothing.

use crate::support::rig;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, cmd};
use shared::cluster::scripts::CHANGE_ROOM;

/// Keys of one slot, and a connection to its master.
struct Place {
    connection: MultiplexedConnection,
    room: String,
    log: String,
}

type Answer = Result<(String, u64, String), RedisError>;

impl Place {
    async fn new(name: &str) -> Self {
        let slot = 0;
        // `{06S}` has slot 0; the name keeps tests apart.
        let master = rig().await.cluster.master_of(slot).await.unwrap();
        let client = redis::Client::open(format!("redis://{master}")).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        let key = |what: &str| format!("{{06S}}:{what}:{name}");
        Place {
            connection,
            room: key("room"),
            log: key("log"),
        }
    }

    async fn change(&mut self, expected: u64, next: u64, room: &str, id: &str) -> Answer {
        let code = include_str!("../../../shared/src/cluster/scripts/change_room.lua");
        let mut call = cmd("EVAL");
        call.arg(code).arg(2).arg(&self.room).arg(&self.log);
        call.arg(expected)
            .arg(next)
            .arg(room)
            .arg(id)
            .arg("c")
            .arg(format!("entry of {id}"));
        call.query_async(&mut self.connection).await
    }

    async fn entries(&mut self) -> usize {
        Cmd::xlen(&self.log)
            .query_async(&mut self.connection)
            .await
            .unwrap()
    }

    async fn run(&mut self, command: &mut Cmd) {
        command
            .query_async::<()>(&mut self.connection)
            .await
            .unwrap();
    }
}

fn answer(outcome: &str, version: u64, room: &str) -> (String, u64, String) {
    (outcome.to_owned(), version, room.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_made_once_however_often_it_is_tried() {
    let mut place = Place::new("once").await;
    assert_eq!(
        place.change(3, 4, "x", "id0").await.unwrap(),
        answer("none", 0, "")
    );
    assert_eq!(
        place.change(0, 1, "one", "id1").await.unwrap(),
        answer("done", 1, "one")
    );
    assert_eq!(
        place.change(0, 1, "one", "id1").await.unwrap(),
        answer("kept", 1, "one")
    );
    assert_eq!(
        place.change(0, 1, "other", "id2").await.unwrap(),
        answer("conflict", 1, "one")
    );
    assert_eq!(
        place.change(1, 2, "two", "id3").await.unwrap(),
        answer("done", 2, "two")
    );
    assert_eq!(
        place.change(1, 2, "two", "id3").await.unwrap(),
        answer("kept", 2, "two")
    );
    assert_eq!(
        place.change(1, 2, "late", "id4").await.unwrap(),
        answer("conflict", 2, "two")
    );
    assert_eq!(
        place.change(2, 2, "ignored", "id5").await.unwrap(),
        answer("kept", 2, "two")
    );
    assert_eq!(
        place.entries().await,
        2,
        "one entry per change that was made"
    );
    assert!(!CHANGE_ROOM.sha().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_another_kind_are_left_alone() {
    let mut place = Place::new("kinds").await;
    let (room, log) = (place.room.clone(), place.log.clone());
    place.run(&mut Cmd::set(&room, "text")).await;
    let error = place
        .change(0, 1, "one", "id1")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("string") && error.contains("hash"),
        "{error}"
    );
    assert_eq!(place.entries().await, 0);
    place.run(&mut Cmd::del(&room)).await;
    place.run(&mut Cmd::lpush(&log, "x")).await;
    let error = place
        .change(0, 1, "one", "id1")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("list") && error.contains("stream"),
        "{error}"
    );
    let exists: bool = Cmd::exists(&room)
        .query_async(&mut place.connection)
        .await
        .unwrap();
    assert!(!exists, "nothing of it was written");
}
