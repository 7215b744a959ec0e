//! One thread of the generator: an epoll loop over its phones' sockets, and a heap of their next wake-ups.

use super::assignment::Assignment;
use super::clock::{Busy, Clock, NEVER};
use super::harvest::{FrameLog, PhoneHarvest};
use super::line::Line;
use super::phase::{Phase, Quiet, SharedPhase};
use super::phone::{Ending, Phone, Stage, Wish};
use super::scene::Scene;
use super::script::Script;
use super::tally::Board;
use super::wire::{self, opcode};
use crate::scenario::Parting;
use mio::event::Event;
use mio::{Events, Poll, Token};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How often counters are published: the least that a thread wakes up.
const PUBLISH_EVERY: Duration = Duration::from_millis(50);
/// Events taken at a time: a few milliseconds of work, so that timers are not late by more.
const EVENTS: usize = 512;
/// With fewer events than these the thread waits a little before it looks again: woken for each frame alone, it and
/// the gateway that wakes it would pay for a change of threads per frame.
const FEW_EVENTS: usize = 64;
/// So long: little beside the milliseconds that are measured, and the first of several frames is seen at once anyway.
const GATHER: Duration = Duration::from_micros(500);
/// Wake-ups at a time: connecting takes some 30 us, so a few milliseconds, too.
const WAKES_MAX: usize = 128;
/// What is read at once,
const BUFFER_BYTES: usize = 64 * 1024;
/// and how often, before the others have their turn: a phone that has not read for a minute needs no more.
const READS_MAX: usize = 4;

/// What a thread brings back.
#[derive(Debug)]
pub(super) struct ThreadHarvest {
    pub(super) phones: Vec<PhoneHarvest>,
    pub(super) logs: Vec<FrameLog>,
    pub(super) cpu_us: u64,
    pub(super) frames: u64,
    pub(super) busy: Vec<(u32, f64)>,
    pub(super) errors: HashMap<String, u64>,
}

/// A thread of the generator.
#[derive(Debug)]
pub(super) struct Worker {
    poll: Poll,
    clock: Clock,
    phase: Arc<SharedPhase>,
    board: Arc<Board>,
    targets: Vec<SocketAddr>,
    sources: Vec<Ipv4Addr>,
    scene: Scene,
    phones: Vec<Phone>,
    lines: Vec<Option<Line>>,
    /// When which phone is to be woken. An entry that the phone does not know of any more is stale.
    wakes: BinaryHeap<Reverse<(u64, usize)>>,
    /// Who has more to read than one turn takes: epoll tells it only once.
    unread: Vec<usize>,
    buffer: Box<[u8]>,
}

impl Worker {
    /// One that plays these phones of an assignment.
    ///
    /// # Errors
    /// There is no epoll to be had.
    pub(super) fn new(
        assignment: &Assignment,
        numbers: impl Iterator<Item = u32>,
        clock: Clock,
        phase: Arc<SharedPhase>,
        board: Arc<Board>,
    ) -> io::Result<Worker> {
        let mut scene = Scene::new(assignment);
        let phones: Vec<Phone> = numbers
            .map(|number| {
                let (script, room) = Script::new(&assignment.scenario, assignment.seed, number);
                Phone::new(number, script, room, &mut scene)
            })
            .collect();
        let mut worker = Worker {
            poll: Poll::new()?,
            clock,
            phase,
            board,
            targets: assignment.targets.clone(),
            sources: assignment.sources.clone(),
            scene,
            lines: phones.iter().map(|_| None).collect(),
            phones,
            wakes: BinaryHeap::new(),
            unread: Vec::new(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
        };
        for index in 0..worker.phones.len() {
            worker.note_wake(index);
        }
        Ok(worker)
    }

    /// Plays to the end.
    ///
    /// # Errors
    /// epoll fails.
    pub(super) fn run(mut self) -> io::Result<ThreadHarvest> {
        let mut busy = Busy::new();
        let mut events = Events::with_capacity(EVENTS);
        let mut publish_us = 0;
        let mut ending = None;
        loop {
            self.scene.now_us = self.clock.now_us();
            if self.scene.now_us >= publish_us {
                busy.look(self.scene.now_us);
                self.board.publish(&mut self.scene.tally, &busy);
                publish_us =
                    self.scene.now_us + u64::try_from(PUBLISH_EVERY.as_micros()).unwrap_or(0);
            }
            match self.phase.get() {
                Phase::Play => {}
                Phase::Settle => self.scene.is_tapping = false,
                Phase::Finish if self.is_over(&mut ending) => break,
                Phase::Finish => {}
                Phase::Abort => break,
            }
            match self.poll.poll(&mut events, Some(self.until_next())) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            let mut came = self.read_on();
            for event in &events {
                self.ready(event);
                came += 1;
            }
            self.wake_all();
            if (1..FEW_EVENTS).contains(&came) {
                std::thread::sleep(self.until_next().min(GATHER));
            }
        }
        busy.look(self.clock.now_us());
        Ok(self.harvest(busy))
    }

    /// Until there is something to be done, whatever comes.
    fn until_next(&self) -> Duration {
        if !self.unread.is_empty() {
            return Duration::ZERO;
        }
        let next = self.wakes.peek();
        let next_us = next.map_or(NEVER, |Reverse((due_us, _))| *due_us);
        self.clock.until(next_us).min(PUBLISH_EVERY)
    }

    /// Whether the last frames have been and gone. The first time it has all phones read.
    fn is_over(&mut self, ending: &mut Option<Quiet>) -> bool {
        let now_us = self.scene.now_us;
        if ending.is_none() {
            self.scene.is_tapping = false;
            for index in 0..self.phones.len() {
                if self.phones[index].settle(now_us) {
                    self.read(index, true);
                }
                self.note_wake(index);
            }
        }
        let frames = self.scene.tally.counts.frames;
        let quiet = ending.get_or_insert_with(|| Quiet::new(now_us, frames));
        quiet.is_over(now_us, frames)
    }

    fn ready(&mut self, event: &Event) {
        let index = event.token().0;
        let Some(line) = &mut self.lines[index] else {
            return;
        };
        if self.phones[index].stage == Stage::Connecting {
            self.scene.now_us = self.clock.now_us();
            match line.is_connected() {
                Ok(true) => {
                    self.phones[index].connected(&mut self.scene);
                    self.send(index);
                }
                Ok(false) => {}
                Err(error) => self.ended(index, &Ending::Lost(error)),
            }
        } else {
            if event.is_writable()
                && let Err(error) = line.flush()
            {
                self.ended(index, &Ending::Lost(error));
            }
            // Who is stalled reads it all when that is over.
            if event.is_readable() && !self.phones[index].is_stalled() {
                self.scene.is_only_news = true;
                self.read(index, event.is_read_closed() || event.is_error());
                if self.scene.is_only_news {
                    return;
                }
            }
        }
        self.note_wake(index);
    }

    /// Reads what is there; `to_the_end`: there is perhaps more than a short read shows.
    fn read(&mut self, index: usize, to_the_end: bool) {
        self.scene.now_us = self.clock.now_us();
        for turn in 0.. {
            if turn == READS_MAX {
                self.unread.push(index);
                break;
            }
            let Some(line) = &mut self.lines[index] else {
                return;
            };
            let filled = match line.read(&mut self.buffer) {
                Ok(Some(filled)) => filled,
                Ok(None) => break,
                Err(error) => return self.ended(index, &Ending::Lost(error)),
            };
            self.scene.tally.counts.bytes += u64::try_from(filled.read).unwrap_or(0);
            let bytes = &self.buffer[..filled.until];
            match self.phones[index].take(bytes, &mut self.scene) {
                Ok(taken) => line.keep(&bytes[taken..]),
                Err(ending) => return self.ended(index, &ending),
            }
            if filled.is_drained && !to_the_end {
                break;
            }
        }
        self.send(index);
    }

    /// Goes on with those who had too much to read; how many they are.
    fn read_on(&mut self) -> usize {
        let mut unread = std::mem::take(&mut self.unread);
        // It may have had its turn and yet been told of once more.
        unread.sort_unstable();
        unread.dedup();
        for index in &unread {
            // To the end, whatever was known of it: a look too many does no harm.
            if !self.phones[*index].is_stalled() {
                self.read(*index, true);
            }
            self.note_wake(*index);
        }
        unread.len()
    }

    /// Sends what the phone has left to be sent.
    fn send(&mut self, index: usize) {
        if self.scene.out.is_empty() {
            return;
        }
        let sent = match &mut self.lines[index] {
            Some(line) => line.write(&self.scene.out),
            None => Ok(()),
        };
        self.scene.out.clear();
        if let Err(error) = sent {
            self.ended(index, &Ending::Lost(error));
        }
    }

    fn ended(&mut self, index: usize, ending: &Ending) {
        self.scene.is_only_news = false;
        self.scene.out.clear();
        self.lines[index] = None;
        self.phones[index].ended(ending, &mut self.scene);
    }

    fn wake_all(&mut self) {
        for _ in 0..WAKES_MAX {
            self.scene.now_us = self.clock.now_us();
            let Some(Reverse((due_us, index))) = self.wakes.peek().copied() else {
                return;
            };
            if due_us > self.scene.now_us {
                return;
            }
            self.wakes.pop();
            if self.phones[index].noted_us == due_us {
                self.phones[index].noted_us = NEVER;
                self.wake(index);
                self.note_wake(index);
            }
        }
    }

    fn wake(&mut self, index: usize) {
        loop {
            let wish = self.phones[index].wake(&mut self.scene);
            self.send(index);
            match wish {
                Wish::Nothing => return,
                Wish::Connect => self.connect(index),
                Wish::Read => self.read(index, true),
                Wish::Part(parting) => self.part(index, parting),
                Wish::GiveUp(ending) => self.ended(index, &ending),
            }
        }
    }

    /// Sees to it that the phone is woken in time.
    #[inline]
    fn note_wake(&mut self, index: usize) {
        let phone = &mut self.phones[index];
        let due_us = phone.wake_us();
        if due_us < phone.noted_us {
            phone.noted_us = due_us;
            self.wakes.push(Reverse((due_us, index)));
        }
    }

    fn connect(&mut self, index: usize) {
        let phone = &self.phones[index];
        let turn = phone.turn();
        let target = self.targets[turn % self.targets.len()];
        let source = self.sources.get(turn % self.sources.len().max(1)).copied();
        let opened = Line::open(target, source, self.poll.registry(), Token(index));
        match opened {
            Ok(line) => self.lines[index] = Some(line),
            Err(ending) => self.ended(index, &ending),
        }
    }

    fn part(&mut self, index: usize, parting: Parting) {
        if let Some(mut line) = self.lines[index].take() {
            match parting {
                Parting::Cut => line.reset(),
                Parting::Leave => self.say_goodbye(&mut line),
            }
        }
        self.phones[index].parted(&mut self.scene);
    }

    /// What the server does with it the phone does not see any more.
    fn say_goodbye(&mut self, line: &mut Line) {
        self.scene.frame(opcode::CLOSE, &wire::NORMAL_END);
        let _ = line.write(&self.scene.out);
        self.scene.out.clear();
    }

    fn harvest(mut self, busy: Busy) -> ThreadHarvest {
        for index in 0..self.lines.len() {
            if let Some(mut line) = self.lines[index].take() {
                self.say_goodbye(&mut line);
            }
        }
        let now_us = self.clock.now_us();
        let phones = self.phones.into_iter();
        ThreadHarvest {
            phones: phones.map(|phone| phone.harvest(now_us)).collect(),
            logs: self.scene.tables.into_logs(),
            cpu_us: busy.cpu_us(),
            frames: self.scene.tally.counts.frames,
            busy: busy.seconds,
            errors: self.scene.tally.errors,
        }
    }
}
