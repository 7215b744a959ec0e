//! A gateway's task per shard: appends what the outbox has, and tells what became of it.

use crate::executor::{Filled, Shared, Value};
use crate::gateway::Outcome;
use crate::plants::{Plant, is_append_stable};
use crate::redis::{Command, Reply};
use crate::rooms::sleep;
use crate::world::ProcessId;
use bytes::Bytes;
use shared::counting::ids::ProducerId;
use shared::counting::outbox::{AppendOutcome, Resolution, Step};

/// Appends what one shard's outbox has, one batch at a time.
pub(crate) async fn appender(world: Shared, process: ProcessId, shard: usize) {
    let mut is_in_flight = false;
    loop {
        let step = {
            let mut world = world.borrow_mut();
            let log_now_ms = world.log_now_ms(process, shard);
            let producer = ProducerId(world.random.next());
            // The planted mistake: what is in flight never gets late.
            let is_late_never = is_in_flight && world.plant == Plant::NoVoidAfter;
            let log_now_ms = if is_late_never { 0 } else { log_now_ms };
            world.gateway(process).outboxes[shard].step(log_now_ms, || producer)
        };
        match step {
            Step::Idle => {
                Filled::new(&world, |world, slot| {
                    world.gateway(process).idle[shard] = Some(slot);
                })
                .await;
            }
            Step::GaveUp(tickets) => {
                is_in_flight = false;
                world.borrow_mut().give_up(process, tickets);
            }
            Step::Append { value, too_old, .. } => {
                for ticket in too_old {
                    world.borrow_mut().tell(ticket, Outcome::Refused);
                }
                is_in_flight = !append(&world, process, shard, value).await;
            }
        }
    }
}

/// One attempt; whether the batch is settled.
async fn append(world: &Shared, process: ProcessId, shard: usize, value: Bytes) -> bool {
    let reply = Filled::new(world, |world, slot| {
        world.request(process, shard, Command::Append(value), slot);
    });
    let outcome = match reply.await {
        Value::Redis(Reply::Appended { id, waited }) => {
            if is_append_stable(world, waited).await {
                AppendOutcome::Stable(world.borrow().plant.id(id))
            } else {
                AppendOutcome::Unknown
            }
        }
        _ => AppendOutcome::Unknown,
    };
    let resolution = {
        let mut world = world.borrow_mut();
        let producer = ProducerId(world.random.next());
        world.gateway(process).outboxes[shard].resolve(outcome, || producer)
    };
    match resolution {
        Resolution::Acknowledge(tickets) => {
            for ticket in tickets {
                world.borrow_mut().tell(ticket, Outcome::Acknowledged);
            }
        }
        Resolution::GaveUp(tickets) => world.borrow_mut().give_up(process, tickets),
        Resolution::Retry => {
            let wait_ms = world.borrow_mut().random.range(20, 200);
            sleep(world, wait_ms).await;
            return false;
        }
    }
    true
}
