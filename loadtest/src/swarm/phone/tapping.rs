//! When a phone taps, and how it finds out that nobody answers.

use super::{Ending, Phone, Stage, Wish};
use crate::swarm::clock::NEVER;
use crate::swarm::scene::Scene;
use crate::swarm::sheet::WAITING_MAX;

/// A phone that waits for an answer and hears nothing for so long sends a ping,
const SILENCE_MAX_US: u64 = 5_000_000;
/// and reconnects when nothing comes within this time.
const PONG_WITHIN_US: u64 = 2_000_000;
impl Phone {
    /// Makes the taps that are due.
    pub(super) fn tap(&mut self, scene: &mut Scene) {
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
    pub(super) fn listen(&mut self, scene: &mut Scene) -> Wish {
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

    pub(super) fn silence_due_us(&self) -> u64 {
        match self.pinged_us {
            _ if self.sheet.waiting() == 0 => NEVER,
            Some(pinged_us) => pinged_us + PONG_WITHIN_US,
            None => self.heard_us + SILENCE_MAX_US,
        }
    }

    /// After each change in what waits, and in whether it could tap.
    pub(super) fn tell(&mut self, scene: &mut Scene) {
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
}

fn count(waiting: usize) -> u64 {
    u64::try_from(waiting).unwrap_or(u64::MAX)
}
