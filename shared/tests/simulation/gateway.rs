//! Gateways: sessions that check, the real outboxes, and a task per shard that appends.

use crate::appender::appender;
use crate::executor::{SlotId, Value};
use crate::phone::{ConnectionId, ToPhone};
use crate::plants::Plant;
use crate::rooms::sleep;
use crate::world::{Event, ProcessId, Role, World};
use shared::counting::freshness::{Freshness, PING_INTERVAL_MS};
use shared::counting::ids::{ClientHash, ProducerId, TapId};
use shared::counting::outbox::{Outbox, OutboxLimits};
use std::collections::BTreeMap;

/// Re-sends older than this are refused.
const RESEND_AGE_MAX_MS: u64 = 80_000;
const COOLDOWN_MS: u64 = 250;
const OPEN_TAPS_MAX: usize = 60;

#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) outboxes: Vec<Outbox<Ticket>>,
    /// Per shard, the appender that waits for something to append.
    pub(crate) idle: Vec<Option<SlotId>>,
    sessions: BTreeMap<ConnectionId, Session>,
    /// Per room, the version that it knows.
    versions: Vec<usize>,
    /// Per client, when its next tap is due.
    cooldowns: BTreeMap<ClientHash, u64>,
    is_draining: bool,
}

#[derive(Debug)]
struct Session {
    freshness: Freshness,
    last_seq: Option<u32>,
}

/// Who waits for a tap's fate.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ticket {
    Socket { connection: ConnectionId, seq: u32 },
    Post { phone: usize, post: u64, seq: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acknowledged,
    Refused,
    TryAgain,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Frame {
    Tap { id: TapId, key: usize, age_ms: u64 },
    Pong { sent_ms: u64 },
    Close,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ToGateway {
    Open(ConnectionId),
    Frame {
        connection: ConnectionId,
        frame: Frame,
    },
    Post {
        phone: usize,
        post: u64,
        room: usize,
        frame: Frame,
        heard_ms: u64,
    },
    RoomChanged {
        room: usize,
        version: usize,
    },
    PingAll,
    Drain,
}

impl World {
    pub(crate) fn start_gateway(&mut self) {
        let process = self.new_process(Role::Gateway);
        let limits = OutboxLimits {
            open_taps_max: OPEN_TAPS_MAX,
        };
        let shards = self.groups.len();
        let outboxes = (0..shards)
            .map(|_| Outbox::new(ProducerId(self.random.next()), limits))
            .collect();
        let versions = self
            .rooms
            .rooms
            .iter()
            .map(|room| room.versions.len() - 1)
            .collect();
        self.gateways.insert(
            process,
            Gateway {
                outboxes,
                idle: vec![None; shards],
                sessions: BTreeMap::new(),
                versions,
                cooldowns: BTreeMap::new(),
                is_draining: false,
            },
        );
        for shard in 0..shards {
            self.spawn(process, move |world| {
                Box::pin(appender(world, process, shard))
            });
        }
        self.after(
            PING_INTERVAL_MS,
            Event::ToGateway(process, ToGateway::PingAll),
        );
        self.trace(|| format!("{process:?} is a new gateway"));
    }

    /// Its sockets die with it: most phones are told by the network, some have to notice.
    pub(crate) fn gateway_died(&mut self, process: ProcessId) {
        let gateway = self
            .gateways
            .remove(&process)
            .expect("a living gateway is there");
        for connection in gateway.sessions.into_keys() {
            if self.random.per_mille(800) {
                self.send_down(connection, ToPhone::Closed(connection));
            }
        }
        let delay_ms = self.random.range(500, 8_000);
        self.after(delay_ms, Event::Start(Role::Gateway));
    }

    pub(crate) fn gateway_event(&mut self, process: ProcessId, what: ToGateway) {
        match what {
            ToGateway::Open(connection) => self.open(process, connection),
            ToGateway::Frame { connection, frame } => self.frame(process, connection, frame),
            ToGateway::Post {
                phone,
                post,
                room,
                frame,
                heard_ms,
            } => {
                let Frame::Tap { id, key, age_ms } = frame else {
                    return;
                };
                let ticket = Ticket::Post {
                    phone,
                    post,
                    seq: id.seq,
                };
                let freshness = Freshness::new(heard_ms);
                let is_fresh = self.is_fresh(freshness) && !self.gateway(process).is_draining;
                if is_fresh {
                    self.take_tap(process, room, id, key, age_ms, ticket);
                } else {
                    self.tell(ticket, Outcome::TryAgain);
                }
            }
            ToGateway::RoomChanged { room, version } => {
                let known = &mut self.gateway(process).versions[room];
                *known = version.max(*known);
            }
            ToGateway::PingAll => self.ping_all(process),
            ToGateway::Drain => self.drain(process),
        }
    }

    pub(crate) fn gateway(&mut self, process: ProcessId) -> &mut Gateway {
        self.gateways
            .get_mut(&process)
            .expect("only living gateways are reached")
    }

    fn is_fresh(&self, freshness: Freshness) -> bool {
        self.plant == Plant::FramesOfAnyAge || freshness.is_fresh(self.now_ms)
    }

    fn open(&mut self, process: ProcessId, connection: ConnectionId) {
        let freshness = Freshness::new(self.now_ms);
        let gateway = self.gateway(process);
        if gateway.is_draining {
            return self.send_down(connection, ToPhone::Closed(connection));
        }
        gateway.sessions.insert(
            connection,
            Session {
                freshness,
                last_seq: None,
            },
        );
        self.send_down(connection, ToPhone::Opened(connection));
    }

    fn close(&mut self, process: ProcessId, connection: ConnectionId) {
        if self.gateway(process).sessions.remove(&connection).is_some() {
            self.send_down(connection, ToPhone::Closed(connection));
        }
    }

    fn frame(&mut self, process: ProcessId, connection: ConnectionId, frame: Frame) {
        let now_ms = self.now_ms;
        let Some(session) = self.gateway(process).sessions.get_mut(&connection) else {
            return;
        };
        match frame {
            Frame::Pong { sent_ms } => session.freshness.answered(sent_ms, now_ms),
            Frame::Close => {
                self.gateway(process).sessions.remove(&connection);
            }
            Frame::Tap { id, key, age_ms } => {
                let is_next = session.last_seq.is_none_or(|last| id.seq > last);
                session.last_seq = Some(id.seq);
                let freshness = session.freshness;
                let ticket = Ticket::Socket {
                    connection,
                    seq: id.seq,
                };
                let room = self.phones[self.checks.connections[connection].phone].room;
                if !self.is_fresh(freshness) {
                    self.close(process, connection);
                } else if is_next {
                    self.take_tap(process, room, id, key, age_ms, ticket);
                } else {
                    self.tell(ticket, Outcome::Refused);
                }
            }
        }
    }

    fn take_tap(
        &mut self,
        process: ProcessId,
        room: usize,
        id: TapId,
        key: usize,
        age_ms: u64,
        ticket: Ticket,
    ) {
        let shard = self.rooms.rooms[room].group;
        let tapped_at_ms = self.log_now_ms(process, shard).saturating_sub(age_ms);
        let code = self.rooms.rooms[room].code.clone();
        let reaction = self.rooms.keys[key].clone();
        let known = self.gateway(process).versions[room];
        let version = self.rooms.rooms[room].versions[known].clone();
        let gateway = self.gateway(process);
        let due_ms = gateway.cooldowns.get(&id.client).copied().unwrap_or(0);
        let is_allowed = age_ms <= RESEND_AGE_MAX_MS
            && version.is_open
            && version.keys.contains(&key)
            && (age_ms > 0 || tapped_at_ms + 1_000 >= due_ms);
        if !is_allowed {
            return self.tell(ticket, Outcome::Refused);
        }
        gateway
            .cooldowns
            .insert(id.client, due_ms.max(tapped_at_ms) + COOLDOWN_MS);
        match gateway.outboxes[shard].push(&code, id, &reaction, tapped_at_ms, ticket) {
            Ok(()) => self.wake_appender(process, shard),
            Err((_, ticket)) => self.tell(ticket, Outcome::Refused),
        }
    }

    fn wake_appender(&mut self, process: ProcessId, shard: usize) {
        if let Some(slot) = self.gateway(process).idle[shard].take() {
            self.after(25, Event::Fill(slot, Value::Elapsed));
        }
    }

    /// Sends an answer to whoever waits for it.
    pub(crate) fn tell(&mut self, ticket: Ticket, outcome: Outcome) {
        match ticket {
            Ticket::Socket { connection, seq } => {
                self.send_down(
                    connection,
                    ToPhone::Settled {
                        connection,
                        seq,
                        outcome,
                    },
                );
            }
            Ticket::Post { phone, post, seq } => {
                let delay_ms = self.random.delay(5, 200);
                let answered = ToPhone::Answered { post, seq, outcome };
                self.after(delay_ms, Event::ToPhone(phone, answered));
            }
        }
    }

    pub(crate) fn give_up(&mut self, process: ProcessId, tickets: Vec<Ticket>) {
        self.trace(|| format!("{process:?} gives up {} taps", tickets.len()));
        for ticket in tickets {
            match ticket {
                Ticket::Socket { connection, .. } => self.close(process, connection),
                Ticket::Post { .. } => self.tell(ticket, Outcome::TryAgain),
            }
        }
    }

    fn ping_all(&mut self, process: ProcessId) {
        self.after(
            PING_INTERVAL_MS,
            Event::ToGateway(process, ToGateway::PingAll),
        );
        let connections: Vec<ConnectionId> =
            self.gateway(process).sessions.keys().copied().collect();
        for connection in connections {
            let sent_ms = self.now_ms;
            self.send_down(
                connection,
                ToPhone::Ping {
                    connection,
                    sent_ms,
                },
            );
        }
    }

    /// No new connections, each phone sent off at its own moment, the rest flushed.
    fn drain(&mut self, process: ProcessId) {
        self.trace(|| format!("{process:?} drains"));
        let gateway = self.gateway(process);
        if std::mem::replace(&mut gateway.is_draining, true) {
            return;
        }
        let connections: Vec<ConnectionId> = gateway.sessions.keys().copied().collect();
        self.spawn(process, move |world| {
            Box::pin(async move {
                for connection in connections {
                    let wait_ms = world.borrow_mut().random.range(0, 2_000);
                    sleep(&world, wait_ms).await;
                    world.borrow_mut().close(process, connection);
                }
                for _ in 0..30 {
                    sleep(&world, 1_000).await;
                    if world
                        .borrow_mut()
                        .gateway(process)
                        .outboxes
                        .iter()
                        .all(Outbox::is_empty)
                    {
                        break;
                    }
                }
                world.borrow_mut().kill(process);
            })
        });
    }
}
