//! What goes wrong, when and for how long: all drawn from the seed before the history begins.

use crate::common::random::Random;
use crate::phone::ConnectionId;
use crate::redis::Kind;
use crate::world::{Event, ProcessId, Role, World};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Kill(Role),
    Pause(Role, u64),
    Drain,
    KillMaster(u64),
    StallMaster(u64),
    KillReplica(u64),
    StallReplica(u64),
    CutReplica(u64),
    SlowReplication(u64),
    /// Requests and answers of one process are lost for a while, or come late.
    Lossy(Role, u64),
    Late(Role, u64),
    PostgresDown(u64),
    StallSocket(u64),
    CutSocket,
    PhoneOffline(u64),
    /// A phone's next tap is sent, then it is offline for so long; where it comes back, something happens at once.
    Tunnel(u64),
    /// A process cannot reach anything for a while.
    Cut(Role, u64),
    Strand(ConnectionId),
}

/// From this number on, faults are tunnels.
const TUNNEL: u64 = 17;
const READERS: [Role; 2] = [Role::Aggregator, Role::Persister];
const ALL: [Role; 3] = [Role::Gateway, Role::Aggregator, Role::Persister];

impl Fault {
    /// Seeds differ in what they are made of: `flavour` makes some kinds more likely.
    fn draw(random: &mut Random, flavour: u64) -> Fault {
        let kind = if random.per_mille(500) {
            random.range(0, 18)
        } else {
            flavour
        };
        match kind {
            0 => Fault::Kill(*random.pick(&ALL)),
            1 => Fault::Pause(Role::Gateway, random.range(100, 150_000)),
            2 => Fault::Pause(*random.pick(&READERS), random.range(100, 20_000)),
            3 => Fault::Drain,
            4 => Fault::KillMaster(random.range(200, 30_000)),
            5 => Fault::StallMaster(random.range(500, 9_000)),
            6 => Fault::KillReplica(random.range(200, 25_000)),
            7 => Fault::StallReplica(random.range(200, 20_000)),
            8 => Fault::CutReplica(random.range(200, 20_000)),
            9 => Fault::SlowReplication(random.range(1_000, 15_000)),
            10 => Fault::Lossy(*random.pick(&ALL), random.range(500, 15_000)),
            11 => Fault::Late(*random.pick(&ALL), random.range(500, 15_000)),
            12 => Fault::PostgresDown(random.range(100, 40_000)),
            13 => Fault::StallSocket(random.range(2_000, 80_000)),
            14 => Fault::CutSocket,
            15 => Fault::PhoneOffline(random.range(1_000, 100_000)),
            16 => Fault::Cut(*random.pick(&ALL), random.range(1_000, 120_000)),
            _ => Fault::Tunnel(random.range(30_000, 80_000)),
        }
    }
}

impl World {
    /// Draws a history's faults; how long it is to go on.
    pub(crate) fn plan_faults(&mut self) -> u64 {
        let flavour = self.random.range(0, 22);
        // A tunnel, and what happens behind it, take minutes.
        let for_ms = if flavour >= TUNNEL {
            500_000
        } else {
            self.random.range(60_000, 300_000)
        };
        let until_ms = self.now_ms + for_ms;
        let count = self.random.range(5, 40);
        for _ in 0..count {
            let at_ms = self.random.range(self.now_ms + 2_000, until_ms);
            let fault = Fault::draw(&mut self.random, flavour);
            // Half of the masters' deaths come just after something has gone wrong with replication.
            if let Fault::SlowReplication(_) | Fault::StallReplica(_) | Fault::CutReplica(_) = fault
                && self.random.per_mille(500)
            {
                let later_ms = self.random.range(50, 6_000);
                let for_ms = self.random.range(3_000, 20_000);
                self.at(at_ms + later_ms, Event::Fault(Fault::KillMaster(for_ms)));
            }
            self.at(at_ms, Event::Fault(fault));
        }
        until_ms
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        if self.is_healed {
            return;
        }
        self.trace(|| format!("fault {fault:?}"));
        let group = self.random.index(self.groups.len());
        let now_ms = self.now_ms;
        match fault {
            Fault::Kill(role) => {
                if let Some(process) = self.any(role) {
                    self.kill(process);
                    if role != Role::Gateway {
                        let delay_ms = self.random.range(200, 10_000);
                        self.after(delay_ms, Event::Start(role));
                    }
                }
            }
            Fault::Pause(role, for_ms) => {
                if let Some(process) = self.any(role) {
                    self.pause(process, for_ms);
                }
            }
            Fault::Drain => {
                if let Some(process) = self.any(Role::Gateway) {
                    let drain = crate::gateway::ToGateway::Drain;
                    self.after(0, Event::ToGateway(process, drain));
                }
            }
            Fault::KillMaster(for_ms) => self.kill_node(group, self.groups[group].master, for_ms),
            Fault::StallMaster(for_ms) => self.stall_node(group, self.groups[group].master, for_ms),
            Fault::KillReplica(for_ms) => {
                let node = self.any_replica(group);
                self.kill_node(group, node, for_ms);
            }
            Fault::StallReplica(for_ms) => {
                let node = self.any_replica(group);
                self.stall_node(group, node, for_ms);
            }
            Fault::CutReplica(for_ms) => {
                let node = self.any_replica(group);
                self.cut_link(group, node, for_ms);
            }
            Fault::SlowReplication(for_ms) => self.groups[group].slow_until_ms = now_ms + for_ms,
            Fault::Lossy(role, for_ms) => {
                if let Some(process) = self.any(role) {
                    self.processes[process.0].lossy_until_ms = now_ms + for_ms;
                }
            }
            Fault::Late(role, for_ms) => {
                if let Some(process) = self.any(role) {
                    self.processes[process.0].late_until_ms = now_ms + for_ms;
                }
            }
            Fault::Cut(role, for_ms) => {
                if let Some(process) = self.any(role) {
                    self.processes[process.0].cut_until_ms = now_ms + for_ms;
                }
            }
            Fault::PostgresDown(for_ms) => {
                self.postgres.is_up = false;
                self.after(for_ms, Event::PostgresBack);
            }
            Fault::Strand(connection) => self.strand(connection),
            Fault::StallSocket(_)
            | Fault::CutSocket
            | Fault::PhoneOffline(_)
            | Fault::Tunnel(_) => {
                self.phone_fault(fault);
            }
        }
    }

    fn phone_fault(&mut self, fault: Fault) {
        let now_ms = self.now_ms;
        let phone = self.random.index(self.phones.len());
        let connection = self.phones[phone].connection;
        match fault {
            Fault::StallSocket(for_ms) => {
                if let Some(connection) = connection {
                    self.checks.connections[connection].stalled_until_ms = now_ms + for_ms;
                }
            }
            Fault::PhoneOffline(for_ms) => {
                self.phones[phone].offline_until_ms = now_ms + for_ms;
                self.lose(phone);
            }
            Fault::Tunnel(for_ms) => self.phones[phone].tunnel_ms = Some(for_ms),
            _ => self.lose(phone),
        }
    }

    /// Where a phone has just come back with old taps, the gateway pauses, is cut off, or the socket stalls.
    fn strand(&mut self, connection: ConnectionId) {
        let for_ms = self.random.range(20_000, 150_000);
        let until_ms = self.now_ms + for_ms;
        let gateway = self.checks.connections[connection].gateway;
        match self.random.range(0, 3) {
            0 => self.pause(gateway, for_ms),
            1 => self.processes[gateway.0].cut_until_ms = until_ms,
            _ => self.checks.connections[connection].stalled_until_ms = until_ms,
        }
    }

    fn any(&mut self, role: Role) -> Option<ProcessId> {
        let living = self.living(role);
        (!living.is_empty()).then(|| *self.random.pick(&living))
    }

    fn any_replica(&mut self, group: usize) -> usize {
        let master = self.groups[group].master;
        let replicas: Vec<usize> = (0..self.groups[group].nodes.len())
            .filter(|node| *node != master)
            .collect();
        *self.random.pick(&replicas)
    }

    /// Whether a reader lets go of its lease now.
    pub(crate) fn lets_go(&mut self) -> bool {
        !self.is_healed && self.random.per_mille(4)
    }

    /// A process of this role begins.
    pub(crate) fn start(&mut self, role: Role) {
        let kind = match role {
            Role::Gateway => return self.start_gateway(),
            Role::Host => return,
            Role::Aggregator => Kind::Aggregator,
            Role::Persister => Kind::Persister,
        };
        let process = self.new_process(role);
        for shard in 0..self.groups.len() {
            self.spawn(process, move |world| {
                Box::pin(crate::follower::follow(world, process, kind, shard))
            });
        }
        self.trace(|| format!("{process:?} is a new {role:?}"));
    }

    /// All that is broken is mended; what was begun must come to rest.
    pub(crate) fn heal(&mut self) {
        self.trace(|| "healed".to_owned());
        self.is_healed = true;
        self.postgres.is_up = true;
        for group in 0..self.groups.len() {
            self.heal_group(group);
        }
        for process in 0..self.processes.len() {
            self.processes[process].lossy_until_ms = 0;
            self.processes[process].late_until_ms = 0;
            self.processes[process].cut_until_ms = 0;
            self.resume(ProcessId(process));
        }
        for phone in &mut self.phones {
            phone.offline_until_ms = 0;
        }
        self.reopen_rooms();
    }
}
