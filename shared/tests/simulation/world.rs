//! The model's clock, its queue of events, and the processes that they reach.

use crate::checks::Checks;
use crate::common::random::Random;
use crate::executor::{Shared, SlotId, SlotState, Task, TaskId, Value};
use crate::faults::Fault;
use crate::gateway::{Gateway, ToGateway};
use crate::phone::{Phone, ToPhone};
use crate::plants::Plant;
use crate::postgres::{self, Postgres};
use crate::redis::{Group, Request};
use crate::rooms::Rooms;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// A gateway, an aggregator, a persister or the host's console; never used twice for two lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProcessId(pub(crate) usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Gateway,
    Aggregator,
    Persister,
    Host,
}

/// One life of a process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) role: Role,
    pub(crate) is_alive: bool,
    /// SIGSTOP: since when.
    pub(crate) paused_at_ms: Option<u64>,
    /// What waits for it to run again.
    inbox: Vec<Event>,
    /// Until then it knows the topology only as it was before a pause.
    pub(crate) stale: Option<(u64, u64)>,
    /// Requests and answers of this process are often lost until then.
    pub(crate) lossy_until_ms: u64,
    /// They are often late until then.
    pub(crate) late_until_ms: u64,
    /// All are lost until then.
    pub(crate) cut_until_ms: u64,
}

#[derive(Debug)]
pub(crate) enum Event {
    Fill(SlotId, Value),
    /// A request leaves its process, arrives at its node.
    Depart(Request),
    Arrive(Request),
    Replicate {
        group: usize,
        node: usize,
        link: u64,
    },
    Acked {
        group: usize,
        node: usize,
        link: u64,
        upto: usize,
    },
    WaitDue {
        group: usize,
        id: u64,
    },
    FailoverDue {
        group: usize,
        term: u64,
    },
    NodeBack {
        group: usize,
        node: usize,
    },
    Informed {
        group: usize,
        node: usize,
    },
    Attach {
        group: usize,
        node: usize,
    },
    ArriveAtPostgres(postgres::Request),
    PostgresBack,
    ToGateway(ProcessId, ToGateway),
    ToPhone(usize, ToPhone),
    Published {
        process: ProcessId,
        room: usize,
        key: usize,
        total: u64,
    },
    Fault(Fault),
    Start(Role),
    Resume(ProcessId),
    EndOfTapping,
}

type Spawn = (ProcessId, Box<dyn FnOnce(Shared) -> Task>);

/// Everything there is.
pub(crate) struct World {
    pub(crate) now_ms: u64,
    pub(crate) random: Random,
    pub(crate) plant: Plant,
    pub(crate) is_traced: bool,
    pub(crate) groups: Vec<Group>,
    pub(crate) postgres: Postgres,
    pub(crate) rooms: Rooms,
    pub(crate) processes: Vec<Process>,
    pub(crate) gateways: BTreeMap<ProcessId, Gateway>,
    pub(crate) phones: Vec<Phone>,
    pub(crate) checks: Checks,
    /// No more faults, no more new taps: all must come to rest.
    pub(crate) is_healed: bool,
    pub(crate) slots: HashMap<SlotId, SlotState>,
    /// The task being run: new slots are its.
    pub(crate) running: TaskId,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: HashMap<u64, Event>,
    last_id: u64,
    tasks: Vec<ProcessId>,
    spawned: Vec<Spawn>,
    killed: Vec<ProcessId>,
    ready: Vec<TaskId>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("now_ms", &self.now_ms)
            .finish_non_exhaustive()
    }
}

impl World {
    pub(crate) fn empty(random: Random, start_ms: u64, plant: Plant, is_traced: bool) -> Self {
        World {
            now_ms: start_ms,
            random,
            plant,
            is_traced,
            groups: Vec::new(),
            postgres: Postgres::default(),
            rooms: Rooms::default(),
            processes: Vec::new(),
            gateways: BTreeMap::new(),
            phones: Vec::new(),
            checks: Checks::default(),
            is_healed: false,
            slots: HashMap::new(),
            running: 0,
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            last_id: 0,
            tasks: Vec::new(),
            spawned: Vec::new(),
            killed: Vec::new(),
            ready: Vec::new(),
        }
    }

    pub(crate) fn trace(&self, line: impl FnOnce() -> String) {
        if self.is_traced {
            println!("{:>10} {}", self.now_ms % 10_000_000, line());
        }
    }

    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn new_slot(&mut self) -> SlotId {
        let slot = self.new_id();
        self.slots.insert(
            slot,
            SlotState {
                task: self.running,
                value: None,
            },
        );
        slot
    }

    pub(crate) fn after(&mut self, delay_ms: u64, event: Event) {
        self.at(self.now_ms + delay_ms, event);
    }

    pub(crate) fn at(&mut self, at_ms: u64, event: Event) {
        let id = self.new_id();
        self.queue.push(Reverse((at_ms.max(self.now_ms), id)));
        self.events.insert(id, event);
    }

    pub(crate) fn next_event(&mut self, end_ms: u64) -> Option<Event> {
        let Reverse((at_ms, id)) = self.queue.pop()?;
        if at_ms > end_ms {
            return None;
        }
        self.now_ms = at_ms;
        self.events.remove(&id)
    }

    pub(crate) fn handle(&mut self, event: Event) {
        let event = match self.receiver(&event) {
            Some(process) if !self.processes[process.0].is_alive => return,
            Some(process) if self.processes[process.0].paused_at_ms.is_some() => {
                return self.processes[process.0].inbox.push(event);
            }
            _ => event,
        };
        match event {
            Event::Fill(slot, value) => self.fill(slot, value),
            Event::Depart(request) => self.depart(request),
            Event::Arrive(request) => self.arrive(request),
            Event::Replicate { group, node, link } => self.replicate(group, node, link),
            Event::Acked {
                group,
                node,
                link,
                upto,
            } => self.replica_acked(group, node, link, upto),
            Event::WaitDue { group, id } => self.wait_due(group, id),
            Event::FailoverDue { group, term } => self.failover_due(group, term),
            Event::NodeBack { group, node } => self.node_back(group, node),
            Event::Informed { group, node } => self.informed(group, node),
            Event::Attach { group, node } => self.attach(group, node),
            Event::ArriveAtPostgres(request) => self.arrive_at_postgres(&request),
            Event::PostgresBack => self.postgres.is_up = true,
            Event::ToGateway(gateway, what) => self.gateway_event(gateway, what),
            Event::ToPhone(phone, what) => self.phone_event(phone, what),
            Event::Published {
                process,
                room,
                key,
                total,
            } => {
                self.checks.received(process, room, key, total);
            }
            Event::Fault(fault) => self.fault(fault),
            Event::Start(role) => self.start(role),
            Event::Resume(process) => self.resume(process),
            Event::EndOfTapping => self.heal(),
        }
    }

    /// Whose business an event is: it waits for a paused process and dies with a killed one.
    fn receiver(&self, event: &Event) -> Option<ProcessId> {
        match event {
            Event::Fill(slot, _) => self.slots.get(slot).map(|state| self.tasks[state.task]),
            Event::Depart(request) => Some(request.from),
            Event::ToGateway(process, _) | Event::Published { process, .. } => Some(*process),
            _ => None,
        }
    }

    /// The first to fill a slot wins.
    pub(crate) fn fill(&mut self, slot: SlotId, value: Value) {
        if let Some(state) = self
            .slots
            .get_mut(&slot)
            .filter(|state| state.value.is_none())
        {
            state.value = Some(value);
            self.ready.push(state.task);
        }
    }

    pub(crate) fn take_work(&mut self) -> (Vec<ProcessId>, Vec<Spawn>, Vec<TaskId>) {
        let work = (
            std::mem::take(&mut self.killed),
            std::mem::take(&mut self.spawned),
            std::mem::take(&mut self.ready),
        );
        self.tasks
            .extend(work.1.iter().map(|(process, _)| *process));
        work
    }

    /// Starts a task of a process.
    pub(crate) fn spawn(
        &mut self,
        process: ProcessId,
        make: impl FnOnce(Shared) -> Task + 'static,
    ) {
        self.spawned.push((process, Box::new(make)));
    }

    pub(crate) fn new_process(&mut self, role: Role) -> ProcessId {
        self.processes.push(Process {
            role,
            is_alive: true,
            paused_at_ms: None,
            inbox: Vec::new(),
            stale: None,
            lossy_until_ms: 0,
            late_until_ms: 0,
            cut_until_ms: 0,
        });
        ProcessId(self.processes.len() - 1)
    }

    /// Processes of a role that are alive.
    pub(crate) fn living(&self, role: Role) -> Vec<ProcessId> {
        let living = |process: &Process| process.is_alive && process.role == role;
        (0..self.processes.len())
            .filter(|i| living(&self.processes[*i]))
            .map(ProcessId)
            .collect()
    }

    /// kill -9, or the end of a process that is done.
    pub(crate) fn kill(&mut self, process: ProcessId) {
        let killed = &mut self.processes[process.0];
        killed.is_alive = false;
        killed.inbox.clear();
        self.killed.push(process);
        if killed.role == Role::Gateway {
            self.gateway_died(process);
        }
    }

    /// SIGSTOP.
    pub(crate) fn pause(&mut self, process: ProcessId, for_ms: u64) {
        let paused = &mut self.processes[process.0];
        if paused.is_alive && paused.paused_at_ms.is_none() {
            paused.paused_at_ms = Some(self.now_ms);
            self.trace(|| format!("{process:?} pauses for {for_ms} ms"));
            self.after(for_ms, Event::Resume(process));
        }
    }

    /// SIGCONT: all that came meanwhile is there at once, in its order.
    pub(crate) fn resume(&mut self, process: ProcessId) {
        let stale_until_ms = self.now_ms + self.random.range(1, 500);
        let resumed = &mut self.processes[process.0];
        let Some(paused_at_ms) = resumed.paused_at_ms.take() else {
            return;
        };
        if !resumed.is_alive {
            return;
        }
        resumed.stale = Some((paused_at_ms, stale_until_ms));
        self.trace(|| format!("{process:?} resumes"));
        let mut inbox = std::mem::take(&mut self.processes[process.0].inbox);
        // Timers may run before what waits in the sockets, or after it.
        if self.random.per_mille(500) {
            inbox.sort_by_key(|event| matches!(event, Event::ToGateway(..)));
        }
        for event in inbox {
            self.handle(event);
        }
    }
}
