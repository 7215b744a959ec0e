//! Processes as ordinary async functions on a clock of the model's own: an event fills a slot, which lets the task that
//! waits for it run on. A killed process's tasks are dropped where they stand; a paused one's do not run.

use crate::world::{ProcessId, World};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

pub(crate) type Shared = Rc<RefCell<World>>;
pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;
pub(crate) type SlotId = u64;
pub(crate) type TaskId = usize;

/// What fills a slot.
#[derive(Debug)]
pub(crate) enum Value {
    /// A time has come, or somebody woke the task.
    Elapsed,
    /// Redis answered.
    Redis(crate::redis::Reply),
    /// Postgres answered.
    Postgres(crate::postgres::Reply),
    /// No answer came: what was asked for may have been done.
    Lost,
}

/// Who waits for what.
#[derive(Debug)]
pub(crate) struct SlotState {
    pub(crate) task: TaskId,
    pub(crate) value: Option<Value>,
}

/// Waits until its slot is filled.
pub(crate) struct Filled {
    world: Shared,
    slot: SlotId,
}

impl Filled {
    /// `begin` is given the slot and starts what will fill it.
    pub(crate) fn new(world: &Shared, begin: impl FnOnce(&mut World, SlotId)) -> Self {
        let mut borrowed = world.borrow_mut();
        let slot = borrowed.new_slot();
        begin(&mut borrowed, slot);
        Filled {
            world: Rc::clone(world),
            slot,
        }
    }
}

impl Future for Filled {
    type Output = Value;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Value> {
        let mut world = self.world.borrow_mut();
        match world
            .slots
            .get_mut(&self.slot)
            .and_then(|state| state.value.take())
        {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        }
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.world.borrow_mut().slots.remove(&self.slot);
    }
}

/// Runs the events in the order of their time.
pub(crate) struct Executor {
    world: Shared,
    tasks: Vec<Option<(ProcessId, Task)>>,
}

impl Executor {
    pub(crate) fn new(world: Shared) -> Self {
        Executor {
            world,
            tasks: Vec::new(),
        }
    }

    /// Runs until nothing is left to happen before `end_ms`, or `done` says so (asked every model second).
    pub(crate) fn run(&mut self, end_ms: u64, mut done: impl FnMut(&World) -> bool) {
        let mut ask_at_ms = 0;
        loop {
            self.settle();
            let mut world = self.world.borrow_mut();
            if world.now_ms >= ask_at_ms {
                if done(&world) {
                    return;
                }
                ask_at_ms = world.now_ms + 1_000;
            }
            let Some(event) = world.next_event(end_ms) else {
                return;
            };
            world.handle(event);
        }
    }

    /// Drops what was killed, starts what was spawned and runs what can run, until nothing is left of it.
    fn settle(&mut self) {
        loop {
            let (killed, spawned, ready) = self.world.borrow_mut().take_work();
            if killed.is_empty() && spawned.is_empty() && ready.is_empty() {
                return;
            }
            for process in killed {
                for task in &mut self.tasks {
                    if task.as_ref().is_some_and(|(of, _)| *of == process) {
                        *task = None;
                    }
                }
            }
            for (process, make) in spawned {
                let id = self.tasks.len();
                self.tasks
                    .push(Some((process, make(Rc::clone(&self.world)))));
                self.poll(id);
            }
            for task in ready {
                self.poll(task);
            }
        }
    }

    fn poll(&mut self, id: TaskId) {
        let Some((_, task)) = &mut self.tasks[id] else {
            return;
        };
        self.world.borrow_mut().running = id;
        let mut context = Context::from_waker(Waker::noop());
        if task.as_mut().poll(&mut context).is_ready() {
            self.tasks[id] = None;
        }
    }
}

impl Drop for Executor {
    /// Tasks hold the world, and the world may hold tasks not yet begun: cut the circle.
    fn drop(&mut self) {
        self.tasks.clear();
        let _ = self.world.borrow_mut().take_work();
    }
}
