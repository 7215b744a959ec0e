//! One phone: what it does when time goes by or bytes come in, by the rules of [`crate::phone`]. No socket in here; what
//! is to be sent is left in [`Scene::out`].

mod ending;
mod receive;
mod tapping;

pub(super) use ending::Ending;

use super::clock::{NEVER, microseconds};
use super::harvest::{PhoneHarvest, Stay};
use super::scene::Scene;
use super::script::{Change, Script};
use super::sheet::Sheet;
use crate::phone::backoff::Backoff;
use crate::scenario::Parting;

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

/// A phone. What a tick needs comes first, in the one line of the processor's cache that there is to be waited for.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Phone {
    pub(super) stage: Stage,
    is_stalled: bool,
    is_open: bool,
    is_able: bool,
    number: u32,
    /// Its room's table at the gateway that it is connected to.
    table: usize,
    /// The sum with the last frame of its stay,
    until_sum: u64,
    /// and how many ticks with news it had.
    ticks: u64,
    heard_us: u64,
    /// When it sent a ping that nothing has come after.
    pinged_us: Option<u64>,
    /// The wake-up that is noted for it.
    pub(super) noted_us: u64,
    /// The stay under way, but for what stands above.
    stay: Stay,
    room: u32,
    /// When it was due to connect, however often it has tried since.
    due_us: u64,
    connect_at_us: u64,
    deadline_us: u64,
    /// Since when it could tap.
    able_since_us: u64,
    /// Until then it does not tap, after a tap that it could not make in time.
    free_from_us: u64,
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
            until_sum: 0,
            ticks: 0,
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

    /// TCP is there.
    pub(super) fn connected(&mut self, scene: &mut Scene) {
        self.stage = Stage::Shaking;
        scene.request(self.room);
    }

    /// The connection is over as it was meant to be.
    pub(super) fn parted(&mut self, scene: &mut Scene) {
        if self.stage == Stage::In {
            scene.tally.counts.joined -= 1;
            let stay = self.end_stay();
            self.stays.push(stay);
        }
        self.stage = Stage::Out;
        self.come_back_us = None;
        self.tell(scene);
    }

    fn end_stay(&mut self) -> Stay {
        Stay {
            until_sum: self.until_sum,
            ticks: self.ticks,
            ..std::mem::take(&mut self.stay)
        }
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
            let stay = Stay {
                to_the_end: true,
                ..self.end_stay()
            };
            self.stays.push(stay);
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

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
