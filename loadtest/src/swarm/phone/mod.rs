//! One phone: what it does when time goes by or bytes come in, by the rules of [`crate::phone`]. No socket in here; what
//! is to be sent is left in [`Scene::out`].

mod ending;
mod receive;

pub(super) use ending::Ending;

use super::clock::{NEVER, microseconds};
use super::harvest::{PhoneHarvest, Stay};
use super::scene::Scene;
use super::script::{Change, Script};
use super::sheet::{Sheet, WAITING_MAX};
use crate::phone::backoff::Backoff;
use crate::scenario::Parting;

/// A phone that waits for an answer and hears nothing for so long sends a ping,
const SILENCE_MAX_US: u64 = 5_000_000;
/// and reconnects when nothing comes within this time.
const PONG_WITHIN_US: u64 = 2_000_000;
/// How long connecting, the handshake and the answer to a join may take together.
const JOIN_WITHIN_US: u64 = 10_000_000;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none.
    Out,
    /// TCP is not there yet.
    Connecting,
    /// The handshake is not answered yet.
    Shaking,
    /// The join is not answered yet.
    Joining,
    /// In the room.
    In,
}

/// What a phone wants of whoever holds its connection.
#[derive(Debug)]
pub(super) enum Wish {
    /// Nothing now.
    Nothing,
    /// To connect.
    Connect,
    /// To read what has come while it did not.
    Read,
    /// To go.
    Part(Parting),
    /// To give the connection up.
    GiveUp(Ending),
}

/// A phone.
#[derive(Debug)]
pub(super) struct Phone {
    pub(super) stage: Stage,
    is_stalled: bool,
    is_open: bool,
    is_able: bool,
    room: u32,
    number: u32,
    /// Its room's table at the gateway that it is connected to.
    table: usize,
    stay: Stay,
    heard_us: u64,
    /// When it sent a ping that nothing has come after.
    pinged_us: Option<u64>,
    /// When it was due to connect, however often it has tried since.
    due_us: u64,
    connect_at_us: u64,
    deadline_us: u64,
    /// Since when it could tap.
    able_since_us: u64,
    /// Until then it does not tap, after a tap that it could not make in time.
    free_from_us: u64,
    /// The wake-up that is noted for it.
    pub(super) noted_us: u64,
    /// How many attempts and connections went wrong: each next one goes elsewhere.
    failures: usize,
    come_back_us: Option<u64>,
    told_waiting: usize,
    backoff: Backoff,
    script: Script,
    sheet: Sheet,
    client: [u8; 16],
    page: u32,
    stays: Vec<Stay>,
    joins_refused: u32,
}

impl Phone {
    /// One that has not arrived.
    pub(super) fn new(number: u32, script: Script, room: u32, scene: &mut Scene) -> Phone {
        let (client, page) = scene.ids();
        Phone {
            stage: Stage::Out,
            is_stalled: false,
            is_open: false,
            is_able: false,
            room,
            number,
            table: 0,
            stay: Stay::default(),
            heard_us: 0,
            pinged_us: None,
            due_us: 0,
            connect_at_us: NEVER,
            deadline_us: NEVER,
            able_since_us: 0,
            free_from_us: 0,
            noted_us: NEVER,
            failures: 0,
            come_back_us: None,
            told_waiting: 0,
            backoff: Backoff::default(),
            script,
            sheet: Sheet::default(),
            client,
            page,
            stays: Vec::new(),
            joins_refused: 0,
        }
    }

    /// Whether it reads nothing at the moment.
    pub(super) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Which target and source are its: another one after each failure.
    pub(super) fn turn(&self) -> usize {
        usize::try_from(self.number).unwrap_or(0) + self.failures
    }

    /// When it has to be woken, if nothing comes before.
    #[inline]
    pub(super) fn wake_us(&self) -> u64 {
        let change_us = self.script.change_due_us();
        if self.is_stalled {
            return change_us;
        }
        let own_us = match self.stage {
            Stage::Out => self.connect_at_us,
            Stage::Connecting | Stage::Shaking | Stage::Joining => self.deadline_us,
            Stage::In => {
                let tap_us = if self.is_able {
                    self.script.tap_due_us()
                } else {
                    NEVER
                };
                tap_us.min(self.silence_due_us())
            }
        };
        change_us.min(own_us)
    }

    fn silence_due_us(&self) -> u64 {
        match self.pinged_us {
            _ if self.sheet.waiting() == 0 => NEVER,
            Some(pinged_us) => pinged_us + PONG_WITHIN_US,
            None => self.heard_us + SILENCE_MAX_US,
        }
    }

    /// Time has gone by. To be asked again until it wants nothing.
    pub(super) fn wake(&mut self, scene: &mut Scene) -> Wish {
        let now_us = scene.now_us;
        while let Some((due_us, change)) = self.script.take_change(now_us) {
            match self.change(due_us, change, scene) {
                Wish::Nothing => {}
                wish => return wish,
            }
        }
        if self.is_stalled || self.wake_us() > now_us {
            return Wish::Nothing;
        }
        match self.stage {
            Stage::Out => {
                self.connect_at_us = NEVER;
                self.deadline_us = now_us + JOIN_WITHIN_US;
                self.stage = Stage::Connecting;
                Wish::Connect
            }
            Stage::Connecting | Stage::Shaking | Stage::Joining => Wish::GiveUp(Ending::Silent),
            Stage::In => {
                self.tap(scene);
                self.listen(scene)
            }
        }
    }

    fn change(&mut self, due_us: u64, change: Change, scene: &mut Scene) -> Wish {
        match change {
            Change::Come => {
                scene.tally.counts.phones += 1;
                // Who was away has not tapped.
                self.script.skip_taps(due_us);
                self.due_us = due_us;
                self.connect_at_us = due_us;
            }
            Change::Go(parting) => {
                scene.tally.counts.phones -= 1;
                self.connect_at_us = NEVER;
                if self.stage != Stage::Out {
                    return Wish::Part(parting);
                }
            }
            Change::Stall => self.is_stalled = true,
            Change::Resume => {
                self.resume(scene.now_us);
                if self.stage != Stage::Out {
                    return Wish::Read;
                }
            }
        }
        Wish::Nothing
    }

    fn resume(&mut self, now_us: u64) {
        self.is_stalled = false;
        self.heard_us = now_us;
        self.pinged_us = None;
        self.script.skip_taps(now_us);
    }

    /// The run ends: it does nothing new any more. Whether there is something to be read.
    pub(super) fn settle(&mut self, now_us: u64) -> bool {
        self.script.end_changes();
        let was_stalled = self.is_stalled;
        self.resume(now_us);
        self.script.end_taps();
        was_stalled && self.stage != Stage::Out
    }

    /// Makes the taps that are due.
    fn tap(&mut self, scene: &mut Scene) {
        if !scene.is_tapping {
            self.script.end_taps();
        }
        let now_us = scene.now_us;
        while self.is_able
            && let Some((due_us, key)) = self.script.take_tap(now_us)
        {
            // Nobody taps all at once what he could not tap before: the last one at most.
            let held_us = self.able_since_us.saturating_sub(due_us);
            let is_last = self.script.tap_due_us() > self.able_since_us;
            if due_us < self.free_from_us
                || held_us > scene.patience_us
                || !(held_us == 0 || is_last)
            {
                continue;
            }
            if self.sheet.waiting() == 0 {
                // From now on it waits to hear something.
                self.heard_us = now_us;
            }
            if held_us > 0 {
                self.free_from_us = now_us + scene.gap_us;
            }
            // What is late beyond that is the generator's fault; it is sent late and waits from when it was due.
            let late_us = now_us - due_us.max(self.able_since_us);
            scene.tally.tapped(late_us);
            let tap = self.sheet.tap(key, due_us, late_us, now_us);
            scene.tap(self.room, tap);
            self.tell(scene);
        }
    }

    /// Finds out whether the connection is still there, while an answer is waited for.
    fn listen(&mut self, scene: &mut Scene) -> Wish {
        if self.silence_due_us() > scene.now_us {
            return Wish::Nothing;
        }
        if self.pinged_us.is_some() {
            return Wish::GiveUp(Ending::Silent);
        }
        self.pinged_us = Some(scene.now_us);
        scene.ping();
        Wish::Nothing
    }

    /// TCP is there.
    pub(super) fn connected(&mut self, scene: &mut Scene) {
        self.stage = Stage::Shaking;
        scene.request(self.room);
    }

    /// After each change in what waits, and in whether it could tap.
    fn tell(&mut self, scene: &mut Scene) {
        let waiting = self.sheet.waiting();
        let counts = &mut scene.tally.counts;
        counts.waiting += count(waiting);
        counts.waiting -= count(self.told_waiting);
        self.told_waiting = waiting;
        let is_able = self.stage == Stage::In && self.is_open && waiting < WAITING_MAX;
        if is_able && !self.is_able {
            self.able_since_us = scene.now_us;
        }
        self.is_able = is_able;
    }

    /// The connection is over as it was meant to be.
    pub(super) fn parted(&mut self, scene: &mut Scene) {
        if self.stage == Stage::In {
            scene.tally.counts.joined -= 1;
            self.stays.push(std::mem::take(&mut self.stay));
        }
        self.stage = Stage::Out;
        self.come_back_us = None;
        self.tell(scene);
    }

    /// The connection is over and was not meant to be: it comes back.
    pub(super) fn ended(&mut self, ending: &Ending, scene: &mut Scene) {
        let was_in = self.stage == Stage::In;
        if !was_in && !matches!(ending, Ending::NoSocket(_)) {
            self.joins_refused += 1;
        }
        scene.tally.error(ending.message(self.stage));
        self.failures += 1;
        let told_us = self.come_back_us;
        let wait_us = told_us.unwrap_or_else(|| microseconds(self.backoff.wait()));
        self.parted(scene);
        self.connect_at_us = scene.now_us + wait_us;
        if was_in {
            self.due_us = self.connect_at_us;
        }
    }

    /// What it saw. Whoever is in a room now was there to the end.
    pub(super) fn harvest(mut self, now_us: u64) -> PhoneHarvest {
        if self.stage == Stage::In {
            self.stay.to_the_end = true;
            self.stays.push(self.stay);
        }
        self.sheet.give_up(now_us);
        PhoneHarvest {
            phone: self.number,
            room: self.room,
            client: self.client,
            page: self.page,
            taps: self.sheet.taps,
            stays: self.stays,
            joins_refused: self.joins_refused,
        }
    }
}

fn count(waiting: usize) -> u64 {
    u64::try_from(waiting).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
