//! One history: a world made from a seed, run until it has come to rest.

use crate::checks::Summary;
use crate::common::commit_model::CommitCommand;
use crate::common::random::Random;
use crate::executor::Executor;
use crate::phone::{Phone, ToPhone, Way};
use crate::plants::Plant;
use crate::postgres::Ledger;
use crate::redis::Group;
use crate::rooms;
use crate::world::{Event, Role, World};
use shared::counting::ids::{ClientHash, PageId};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// How long a history may take to come to rest once all is mended: a batch given up, a phone's patience, and what
/// was late are minutes at most.
const REST_MS: u64 = 900_000;

/// Runs one seed.
pub(crate) fn run(seed: u64, plant: Plant, is_traced: bool) -> Result<Summary, String> {
    let mut random = Random::new(seed);
    let start_ms = 1_800_000_000_000 + random.range(0, 1_000_000);
    let mut world = World::empty(random, start_ms, plant, is_traced);
    populate(&mut world);
    let healed_ms = world.plan_faults();
    world.at(healed_ms, Event::EndOfTapping);
    let world = Rc::new(RefCell::new(world));
    let mut executor = Executor::new(Rc::clone(&world));
    executor.run(healed_ms + REST_MS, World::is_at_rest);
    drop(executor);
    world.borrow().verdict()
}

fn populate(world: &mut World) {
    let shards = 1 + world.random.index(2);
    for shard in 0..shards {
        let replicas = 1 + world.random.index(2);
        let group = Group::new(world, shard, replicas);
        world.groups.push(group);
        world.postgres.ledgers.push(Ledger::default());
        world.rooms.add(shard);
    }
    world.rooms.add(0);
    world.postgres.is_up = true;
    for role in [Role::Gateway, Role::Aggregator, Role::Persister] {
        let count = if role == Role::Gateway { 3 } else { 2 };
        for _ in 0..count {
            world.start(role);
        }
    }
    let host = world.new_process(Role::Host);
    world.spawn(host, move |world| Box::pin(rooms::host(world, host)));
    for phone in 0..world.random.range(4, 12) {
        add_phone(world, phone);
    }
}

fn add_phone(world: &mut World, number: u64) {
    let way = match world.random.range(0, 10) {
        0..7 => Way::Socket,
        7..9 => Way::Post,
        _ => Way::Dishonest,
    };
    let phone = Phone {
        // Some are two tabs of one browser.
        client: ClientHash(number / 2 * 2 + world.random.range(0, 2)),
        page: PageId(u32::try_from(world.random.range(0, 1 << 32)).expect("32 bits")),
        room: world.random.index(world.rooms.rooms.len()),
        way,
        interval_ms: *world.random.pick(&[300, 1_000, 3_000]),
        taps_left: 400,
        last_seq: 0,
        unsettled: Vec::new(),
        connection: None,
        is_open: false,
        connecting_since_ms: 0,
        offline_until_ms: 0,
        tunnel_ms: None,
        is_stranded: false,
        acknowledged: BTreeSet::new(),
    };
    let phones = world.phones.len();
    world.phones.push(phone);
    let delay_ms = world.random.range(10, 2_000);
    world.after(delay_ms, Event::ToPhone(phones, ToPhone::Check));
    world.after(delay_ms + 500, Event::ToPhone(phones, ToPhone::Tap));
}

impl World {
    /// A commit's tick reaches the gateways, or some of them.
    pub(crate) fn publish(&mut self, group: usize, command: &CommitCommand) {
        debug_assert!(group < self.groups.len());
        for process in self.living(Role::Gateway) {
            if self.random.per_mille(100) {
                continue;
            }
            let delay_ms = self.random.delay(1, 2_000);
            let totals = command
                .rooms
                .iter()
                .flat_map(|room| room.totals.iter().map(|of| (&room.code, of)));
            for (code, (key, total)) in totals {
                let room = self.rooms.index(code);
                let key = self.rooms.key_index(key);
                self.after(
                    delay_ms,
                    Event::Published {
                        process,
                        room,
                        key,
                        total: *total,
                    },
                );
            }
        }
    }
}
