//! A simulated phone: a real WebSocket client that follows the protocol.

pub mod state;
pub mod backoff;
pub mod socket;

use crate::crowd::{Board, Phase, Seen};
use crate::ledger::Sheet;
use anyhow::bail;
use backoff::Backoff;
use rand::RngExt;
use rand::seq::IndexedRandom;
use shared::protocol::{Bye, Join, Role, ServerFrame};
use shared::room::{ReactionKey, RoomCode};
use socket::{Event, Socket};
use state::Phone;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout};

/// A phone that waits for an answer and hears nothing for so long sends a ping,
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// and reconnects when nothing comes within this time.
const PONG_WITHIN: Duration = Duration::from_secs(2);
/// How long the answer to a join may take.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// What a phone is to do.
#[derive(Debug)]
pub struct Plan {
    /// Where it connects.
    pub gateway: SocketAddr,
    /// Its room.
    pub room: RoomCode,
    /// It taps one of these at random; none: it only watches.
    pub keys: Vec<ReactionKey>,
    /// How often it taps.
    pub interval: Duration,
    /// Whether to tap, to wait for answers or to end.
    pub phase: watch::Receiver<Phase>,
    /// Counts what all phones do.
    pub board: Arc<Board>,
    /// Notes what it sees, if it is an observer.
    pub seen: Option<Arc<Seen>>,
}

/// Why a connection ended.
enum Parting {
    /// The run is over.
    End,
    /// It broke, or the server closed it without saying when to come back.
    Broken,
    /// The server said when to come back.
    Later(Duration),
}

struct Run {
    plan: Plan,
    phone: Phone,
    /// When the next tap is due; none before the phones tap.
    next_due: Option<Instant>,
    /// What the phone told the board to be waiting for.
    waiting_told: usize,
}

/// Runs a phone until the phase is [`Phase::End`]; what it sent.
pub async fn run(plan: Plan) -> Sheet {
    let phone = Phone::new(plan.room.clone());
    let mut run = Run {
        plan,
        phone,
        next_due: None,
        waiting_told: 0,
    };
    let mut backoff = Backoff::default();
    loop {
        let parting = match run.connect().await {
            Ok(socket) => {
                backoff.reset();
                run.plan.board.connected.fetch_add(1, Relaxed);
                let parting = run.talk(socket).await;
                run.plan.board.connected.fetch_sub(1, Relaxed);
                parting
            }
            Err(_) => Parting::Broken,
        };
        let wait = match parting {
            Parting::End => break,
            Parting::Broken => backoff.wait(),
            Parting::Later(wait) => wait,
        };
        run.plan.board.reconnects.fetch_add(1, Relaxed);
        let end = run.plan.phase.wait_for(|phase| *phase == Phase::End);
        if timeout(wait, end).await.is_ok() {
            break;
        }
    }
    run.phone.sheet
}

impl Run {
    /// Opens a socket, joins, and sends again what was not answered.
    async fn connect(&mut self) -> anyhow::Result<Socket> {
        let mut socket = Socket::open(self.plan.gateway, &self.plan.room).await?;
        let sheet = &self.phone.sheet;
        let client = format!("{:032x}", u128::from_be_bytes(sheet.client));
        let page = format!("{:08x}", sheet.page);
        socket
            .join(&Join {
                client,
                page,
                role: Role::Phone,
                token: None,
            })
            .await?;
        let answer = async {
            loop {
                match socket.next().await {
                    Event::Frame(frame @ ServerFrame::Room(_)) => return Ok(frame),
                    Event::Closed(code) => bail!("closed: {code:?}"),
                    _ => {}
                }
            }
        };
        let frame = timeout(JOIN_TIMEOUT, answer).await??;
        self.take(&frame);
        for tap in self.phone.send_again(Instant::now()) {
            socket.tap(&tap).await?;
            self.plan.board.sent_again.fetch_add(1, Relaxed);
        }
        self.tell_waiting();
        Ok(socket)
    }

    /// Taps and listens until the connection ends.
    async fn talk(&mut self, mut socket: Socket) -> Parting {
        let mut heard = Instant::now();
        let mut pinged: Option<Instant> = None;
        let mut come_back = None;
        loop {
            let phase = *self.plan.phase.borrow_and_update();
            if phase == Phase::End {
                socket.close().await;
                return Parting::End;
            }
            let taps = phase == Phase::Tap && !self.plan.keys.is_empty();
            if taps && self.next_due.is_none() {
                // Phones do not tap in step. What lies before they tap is not due, or its wait would count as ours.
                let wait = self.plan.interval.mul_f64(rand::rng().random());
                self.next_due = Some(Instant::now() + wait);
            }
            let next_due = self.next_due.unwrap_or_else(Instant::now);
            tokio::select! {
                event = socket.next() => {
                    (heard, pinged) = (Instant::now(), None);
                    match event {
                        Event::Frame(ServerFrame::Bye(Bye { retry_ms, .. })) => {
                            come_back = retry_ms.map(Duration::from_millis);
                        }
                        Event::Frame(frame) => self.take(&frame),
                        Event::Ping(payload) => {
                            if socket.pong(payload).await.is_err() {
                                return Parting::Broken;
                            }
                        }
                        Event::Closed(_) => {
                            return come_back.map_or(Parting::Broken, Parting::Later);
                        }
                    }
                }
                () = sleep_until(next_due.into()), if taps => {
                    // It may have changed just now.
                    let taps = *self.plan.phase.borrow() == Phase::Tap;
                    if taps && self.tap(&mut socket, next_due).await.is_err() {
                        return Parting::Broken;
                    }
                }
                _ = self.plan.phase.changed() => {}
                () = sleep(Duration::from_secs(1)) => {}
            }
            match pinged {
                Some(at) if at.elapsed() > PONG_WITHIN => return Parting::Broken,
                None if self.phone.waiting() > 0 && heard.elapsed() > SILENCE_MAX => {
                    pinged = Some(Instant::now());
                    if socket.ping().await.is_err() {
                        return Parting::Broken;
                    }
                }
                _ => {}
            }
        }
    }

    async fn tap(
        &mut self,
        socket: &mut Socket,
        due: Instant,
    ) -> Result<(), fastwebsockets::WebSocketError> {
        let now = Instant::now();
        if now.duration_since(due) > self.plan.interval {
            // It was offline meanwhile: nobody taps all at once what he could not tap then.
            self.next_due = Some(now + self.plan.interval);
            return Ok(());
        }
        self.next_due = Some(due + self.plan.interval);
        let key = self.plan.keys.choose(&mut rand::rng()).cloned();
        if let Some(key) = key.filter(|_| self.phone.may_tap()) {
            let tap = self.phone.tap(key, due, now);
            self.plan.board.sent.fetch_add(1, Relaxed);
            self.tell_waiting();
            socket.tap(&tap).await?;
        }
        Ok(())
    }

    fn take(&mut self, frame: &ServerFrame) {
        let now = Instant::now();
        let board = &self.plan.board;
        match frame {
            ServerFrame::Ack(_) => _ = board.acknowledged.fetch_add(1, Relaxed),
            ServerFrame::Refused(_) => _ = board.refused.fetch_add(1, Relaxed),
            _ => {}
        }
        if self.phone.take(frame, now)
            && let Some(seen) = &self.plan.seen
        {
            seen.note(&self.phone.totals, now);
        }
        self.tell_waiting();
    }

    fn tell_waiting(&mut self) {
        let (told, waiting) = (self.waiting_told, self.phone.waiting());
        self.waiting_told = waiting;
        // Wraps when it sinks, which the unsigned counter undoes.
        self.plan
            .board
            .waiting
            .fetch_add(waiting.wrapping_sub(told), Relaxed);
    }
}
