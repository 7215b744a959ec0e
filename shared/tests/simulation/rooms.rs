//! The rooms, their palettes in all versions, and the host who changes them.

use crate::executor::{Filled, Shared, Value};
use crate::gateway::ToGateway;
use crate::redis::{Command, Reply};
use crate::world::{Event, ProcessId, Role, World};
use shared::counting::codec::{CHANGE_VERSION, encode_change};
use shared::counting::entry::{RoomChange, RoomChangeKind};
use shared::room::{Palette, PaletteEntry, ReactionKey, Room, RoomCode, RoomState};

const KEYS: [(&str, &str); 5] = [
    ("clap", "👏"),
    ("heart", "❤️"),
    ("laugh", "😂"),
    ("fire", "🔥"),
    ("party", "🎉"),
];

/// What a host set: which of the keys a room has, and whether it takes taps.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) keys: Vec<usize>,
    pub(crate) is_open: bool,
}

#[derive(Debug)]
pub(crate) struct ModelRoom {
    pub(crate) code: RoomCode,
    /// Its shard.
    pub(crate) group: usize,
    pub(crate) versions: Vec<Version>,
}

#[derive(Debug)]
pub(crate) struct Rooms {
    pub(crate) rooms: Vec<ModelRoom>,
    pub(crate) keys: Vec<ReactionKey>,
}

impl Default for Rooms {
    fn default() -> Self {
        let keys = KEYS
            .iter()
            .map(|(key, _)| key.parse().expect("well formed"))
            .collect();
        Rooms {
            rooms: Vec::new(),
            keys,
        }
    }
}

impl Rooms {
    pub(crate) fn add(&mut self, group: usize) {
        let code = format!("ROOM{}", self.rooms.len())
            .parse()
            .expect("well formed");
        let first = Version {
            keys: vec![0, 1, 2],
            is_open: true,
        };
        self.rooms.push(ModelRoom {
            code,
            group,
            versions: vec![first],
        });
    }

    pub(crate) fn index(&self, code: &RoomCode) -> usize {
        self.rooms
            .iter()
            .position(|room| room.code == *code)
            .expect("one of the model's rooms")
    }

    pub(crate) fn key_index(&self, key: &ReactionKey) -> usize {
        self.keys
            .iter()
            .position(|known| known == key)
            .expect("one of the model's keys")
    }

    fn change(&self, room: usize) -> Vec<u8> {
        let model = &self.rooms[room];
        let version = model.versions.last().expect("there is always one");
        let entry = |key: &usize| PaletteEntry {
            key: self.keys[*key].clone(),
            emoji: KEYS[*key].1.to_owned(),
            label: KEYS[*key].0.to_owned(),
        };
        encode_change(&RoomChange {
            v: CHANGE_VERSION,
            kind: RoomChangeKind::Updated,
            room: Room {
                code: model.code.clone(),
                title: "A room".to_owned(),
                palette: Palette::new(version.keys.iter().map(entry).collect())
                    .expect("the model's palettes are right"),
                cooldown_ms: 250,
                state: if version.is_open {
                    RoomState::Open
                } else {
                    RoomState::Paused
                },
                version: model.versions.len() as u64,
                created_at_ms: 0,
            },
        })
    }
}

/// Changes a palette or pauses a room now and then, each change until it is known to be done.
pub(crate) async fn host(world: Shared, process: ProcessId) {
    loop {
        let wait_ms = world.borrow_mut().random.range(6_000, 30_000);
        sleep(&world, wait_ms).await;
        if world.borrow().is_healed {
            return;
        }
        let (room, group) = world.borrow_mut().decide_on_a_change();
        loop {
            let value = world.borrow().rooms.change(room);
            let reply = Filled::new(&world, |world, slot| {
                world.request(process, group, Command::Change(value), slot);
            });
            if let Value::Redis(Reply::Done) = reply.await {
                break;
            }
            sleep(&world, 200).await;
        }
        world.borrow_mut().tell_gateways(room);
    }
}

pub(crate) async fn sleep(world: &Shared, for_ms: u64) {
    Filled::new(world, |world, slot| {
        world.after(for_ms, Event::Fill(slot, Value::Elapsed));
    })
    .await;
}

impl World {
    fn decide_on_a_change(&mut self) -> (usize, usize) {
        let room = self.random.index(self.rooms.rooms.len());
        let keys: Vec<usize> = (0..KEYS.len())
            .filter(|_| self.random.per_mille(600))
            .collect();
        let keys = if keys.is_empty() { vec![0] } else { keys };
        let is_open = self.random.per_mille(850);
        self.trace(|| format!("host sets room {room} to {keys:?}, open: {is_open}"));
        let model = &mut self.rooms.rooms[room];
        model.versions.push(Version { keys, is_open });
        (room, model.group)
    }

    fn tell_gateways(&mut self, room: usize) {
        let version = self.rooms.rooms[room].versions.len() - 1;
        for gateway in self.living(Role::Gateway) {
            let delay_ms = self.random.range(20, 1_500);
            let told = ToGateway::RoomChanged { room, version };
            self.after(delay_ms, Event::ToGateway(gateway, told));
        }
    }

    /// All rooms open at the end, so that every tap can be settled.
    pub(crate) fn reopen_rooms(&mut self) {
        for room in 0..self.rooms.rooms.len() {
            let keys = (0..KEYS.len()).collect();
            self.rooms.rooms[room].versions.push(Version {
                keys,
                is_open: true,
            });
            self.tell_gateways(room);
        }
    }
}
