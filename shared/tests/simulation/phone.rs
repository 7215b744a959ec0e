//! Phones: they tap, send again what is not settled, in order and with its age, and never give up.
//!
//! Most hold a socket. Some are where sockets are blocked and POST each tap to any gateway, several at a time. Some of
//! those are dishonest and use a seq more than once.

use crate::faults::Fault;
use crate::gateway::{Frame, Outcome, ToGateway};
use crate::plants::Plant;
use crate::world::{Event, ProcessId, Role, World};
use shared::counting::ids::{ClientHash, PageId, TapId};
use std::collections::BTreeSet;

/// A phone never has more seqs than this from its oldest unsettled tap to its newest: well within the 64 that readers
/// remember one by one.
const SPAN_MAX: u32 = 32;
/// Unsent taps kept while offline.
const UNSENT_MAX: usize = 3;
/// A socket that has left a tap unanswered for this long is taken for dead.
const PATIENCE_MS: u64 = 8_000;

pub(crate) type ConnectionId = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Socket,
    Post,
    /// By POST, and with seqs used more than once.
    Dishonest,
}

#[derive(Debug)]
pub(crate) struct Phone {
    pub(crate) client: ClientHash,
    pub(crate) page: PageId,
    pub(crate) room: usize,
    pub(crate) way: Way,
    pub(crate) interval_ms: u64,
    pub(crate) taps_left: u32,
    pub(crate) last_seq: u32,
    pub(crate) unsettled: Vec<Unsettled>,
    /// The socket in use; it may be opening.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) is_open: bool,
    pub(crate) connecting_since_ms: u64,
    pub(crate) offline_until_ms: u64,
    /// Its next tap is its last for so long.
    pub(crate) tunnel_ms: Option<u64>,
    /// It comes out of a tunnel: something will happen where it connects.
    pub(crate) is_stranded: bool,
    pub(crate) acknowledged: BTreeSet<u32>,
}

/// A tap that is neither acknowledged nor refused.
#[derive(Debug, Clone)]
pub(crate) struct Unsettled {
    pub(crate) seq: u32,
    pub(crate) key: usize,
    pub(crate) first_sent_ms: Option<u64>,
    /// Since when an answer is awaited.
    pub(crate) sent_ms: Option<u64>,
    /// The POST under way.
    pub(crate) post: u64,
}

/// A socket between a phone and a gateway: each direction keeps its order.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) phone: usize,
    pub(crate) gateway: ProcessId,
    up_at_ms: u64,
    down_at_ms: u64,
    /// Nothing gets through, either way, until then.
    pub(crate) stalled_until_ms: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ToPhone {
    Tap,
    Check,
    Tunnel(u64),
    Opened(ConnectionId),
    Settled {
        connection: ConnectionId,
        seq: u32,
        outcome: Outcome,
    },
    Ping {
        connection: ConnectionId,
        sent_ms: u64,
    },
    Closed(ConnectionId),
    Answered {
        post: u64,
        seq: u32,
        outcome: Outcome,
    },
}

impl World {
    pub(crate) fn phone_event(&mut self, phone: usize, what: ToPhone) {
        let current = self.phones[phone].connection;
        match what {
            ToPhone::Tap => self.tap(phone),
            ToPhone::Check => self.check(phone),
            ToPhone::Tunnel(for_ms) => {
                self.phones[phone].offline_until_ms = self.now_ms + for_ms;
                self.phones[phone].is_stranded = true;
                self.lose(phone);
            }
            ToPhone::Opened(connection) if current == Some(connection) => {
                self.phones[phone].is_open = true;
                if std::mem::take(&mut self.phones[phone].is_stranded) {
                    let delay_ms = self.random.range(0, 150);
                    self.after(delay_ms, Event::Fault(Fault::Strand(connection)));
                }
                self.send_all_again(phone);
            }
            ToPhone::Settled {
                connection,
                seq,
                outcome,
            } if current == Some(connection) => {
                self.settle_tap(phone, seq, outcome);
            }
            ToPhone::Ping {
                connection,
                sent_ms,
            } if current == Some(connection) => {
                self.send_up(connection, Frame::Pong { sent_ms });
            }
            ToPhone::Closed(connection) if current == Some(connection) => self.lose(phone),
            ToPhone::Answered { post, seq, outcome } => {
                let is_awaited = |tap: &Unsettled| tap.seq == seq && tap.post == post;
                if self.phones[phone].unsettled.iter().any(is_awaited) {
                    self.settle_tap(phone, seq, outcome);
                }
            }
            // From a connection that the phone has left.
            _ => {}
        }
    }

    fn tap(&mut self, phone: usize) {
        let interval_ms = self.phones[phone].interval_ms;
        if self.phones[phone].taps_left == 0 || self.is_healed {
            return;
        }
        let delay_ms = interval_ms + self.random.delay(0, 3 * interval_ms);
        self.after(delay_ms, Event::ToPhone(phone, ToPhone::Tap));
        let versions = &self.rooms.rooms[self.phones[phone].room].versions;
        let known = versions.len() - 1 - self.random.index(versions.len().min(2));
        let key = *self.random.pick(&versions[known].keys);
        let model = &mut self.phones[phone];
        let unsent = model
            .unsettled
            .iter()
            .filter(|tap| tap.first_sent_ms.is_none())
            .count();
        let oldest = model
            .unsettled
            .first()
            .map_or(model.last_seq + 1, |tap| tap.seq);
        let runs_ahead = model.last_seq + 1 - oldest >= SPAN_MAX;
        if unsent >= UNSENT_MAX || (runs_ahead && self.plant != Plant::PhonesRunAhead) {
            return;
        }
        model.taps_left -= 1;
        let mut seq = model.last_seq + 1;
        if model.way == Way::Dishonest && model.last_seq > 3 && self.random.per_mille(300) {
            seq = u32::try_from(self.random.range(1, u64::from(seq))).expect("small");
        }
        let model = &mut self.phones[phone];
        model.last_seq = model.last_seq.max(seq);
        if model.unsettled.iter().all(|tap| tap.seq != seq) {
            let tap = Unsettled {
                seq,
                key,
                first_sent_ms: None,
                sent_ms: None,
                post: 0,
            };
            model.unsettled.push(tap);
            self.send(phone, seq);
        }
    }

    /// Sends what has not been sent, or has waited for an answer for too long.
    fn check(&mut self, phone: usize) {
        self.after(1_000, Event::ToPhone(phone, ToPhone::Check));
        let now_ms = self.now_ms;
        if self.phones[phone].offline_until_ms > now_ms {
            return;
        }
        let is_late = |tap: &Unsettled| tap.sent_ms.is_some_and(|sent| now_ms - sent > PATIENCE_MS);
        if self.phones[phone].way == Way::Socket {
            match self.phones[phone].connection {
                None => self.connect(phone),
                Some(connection) => {
                    let model = &self.phones[phone];
                    let is_refused =
                        !model.is_open && now_ms - model.connecting_since_ms > PATIENCE_MS;
                    if is_refused || model.unsettled.iter().any(is_late) {
                        self.send_up(connection, Frame::Close);
                        self.lose(phone);
                        self.connect(phone);
                    }
                }
            }
            return;
        }
        let due: Vec<u32> = self.phones[phone]
            .unsettled
            .iter()
            .filter(|tap| tap.sent_ms.is_none() || is_late(tap))
            .map(|tap| tap.seq)
            .collect();
        for seq in due {
            self.send(phone, seq);
        }
    }

    fn connect(&mut self, phone: usize) {
        let gateways = self.living(Role::Gateway);
        if gateways.is_empty() {
            return;
        }
        let gateway = *self.random.pick(&gateways);
        let connection = self.checks.connections.len();
        self.checks.connections.push(Connection {
            phone,
            gateway,
            up_at_ms: 0,
            down_at_ms: 0,
            stalled_until_ms: 0,
        });
        self.phones[phone].connection = Some(connection);
        self.phones[phone].is_open = false;
        self.phones[phone].connecting_since_ms = self.now_ms;
        let delay_ms = self.random.delay(20, 400);
        self.after(
            delay_ms,
            Event::ToGateway(gateway, ToGateway::Open(connection)),
        );
    }

    /// The socket is gone: answers that it owes will not come.
    pub(crate) fn lose(&mut self, phone: usize) {
        let phone = &mut self.phones[phone];
        phone.connection = None;
        phone.is_open = false;
        for tap in &mut phone.unsettled {
            tap.sent_ms = None;
        }
    }

    fn send_all_again(&mut self, phone: usize) {
        let seqs: Vec<u32> = self.phones[phone]
            .unsettled
            .iter()
            .map(|tap| tap.seq)
            .collect();
        for seq in seqs {
            self.send(phone, seq);
        }
    }

    fn send(&mut self, phone: usize, seq: u32) {
        let (now_ms, post) = (self.now_ms, self.new_id());
        let model = &mut self.phones[phone];
        let is_offline = model.offline_until_ms > now_ms;
        if is_offline || (model.way == Way::Socket && !model.is_open) {
            return;
        }
        let Some(tap) = model.unsettled.iter_mut().find(|tap| tap.seq == seq) else {
            return;
        };
        let age_ms = now_ms - *tap.first_sent_ms.get_or_insert(now_ms);
        tap.sent_ms = Some(now_ms);
        tap.post = post;
        let id = TapId {
            client: model.client,
            page: model.page,
            seq,
        };
        let frame = Frame::Tap {
            id,
            key: tap.key,
            age_ms,
        };
        match model.way {
            Way::Socket => {
                let connection = model.connection.expect("a socket that is open is there");
                self.send_up(connection, frame);
                if let Some(for_ms) = self.phones[phone].tunnel_ms.take() {
                    let delay_ms = self.random.range(5, 100);
                    self.after(delay_ms, Event::ToPhone(phone, ToPhone::Tunnel(for_ms)));
                }
            }
            Way::Post | Way::Dishonest => self.post(phone, post, frame),
        }
    }

    /// POST to any gateway; the last event that the phone heard from one says when it was sent.
    fn post(&mut self, phone: usize, post: u64, frame: Frame) {
        let gateways = self.living(Role::Gateway);
        if gateways.is_empty() {
            return;
        }
        let gateway = *self.random.pick(&gateways);
        let heard_ms = self.now_ms - self.random.range(50, 11_000);
        let room = self.phones[phone].room;
        let delay_ms = if self.random.per_mille(15) {
            self.random.range(500, 60_000)
        } else {
            self.random.delay(5, 300)
        };
        let what = ToGateway::Post {
            phone,
            post,
            room,
            frame,
            heard_ms,
        };
        self.after(delay_ms, Event::ToGateway(gateway, what));
    }

    pub(crate) fn send_up(&mut self, connection: ConnectionId, frame: Frame) {
        let delay_ms = self.random.delay(5, 150);
        let socket = &mut self.checks.connections[connection];
        let at_ms = (self.now_ms + delay_ms)
            .max(socket.up_at_ms)
            .max(socket.stalled_until_ms);
        socket.up_at_ms = at_ms;
        let gateway = socket.gateway;
        self.at(
            at_ms,
            Event::ToGateway(gateway, ToGateway::Frame { connection, frame }),
        );
    }

    pub(crate) fn send_down(&mut self, connection: ConnectionId, what: ToPhone) {
        let delay_ms = self.random.delay(5, 150);
        let socket = &mut self.checks.connections[connection];
        let at_ms = (self.now_ms + delay_ms)
            .max(socket.down_at_ms)
            .max(socket.stalled_until_ms);
        socket.down_at_ms = at_ms;
        let phone = socket.phone;
        self.at(at_ms, Event::ToPhone(phone, what));
    }

    fn settle_tap(&mut self, phone: usize, seq: u32, outcome: Outcome) {
        let model = &mut self.phones[phone];
        match outcome {
            Outcome::Acknowledged => {
                model.acknowledged.insert(seq);
                model.unsettled.retain(|tap| tap.seq != seq);
            }
            // Final for the phone; an earlier attempt may have counted all the same.
            Outcome::Refused => model.unsettled.retain(|tap| tap.seq != seq),
            Outcome::TryAgain => {
                for tap in model.unsettled.iter_mut().filter(|tap| tap.seq == seq) {
                    tap.sent_ms = None;
                }
            }
        }
        self.trace(|| format!("phone {phone} seq {seq}: {outcome:?}"));
    }
}
