//! What a phone does with what comes in.

use super::{Ending, Phone, Stage};
use crate::phone::backoff::Backoff;
use crate::swarm::frames::Meaning;
use crate::swarm::handshake::{self, Answer};
use crate::swarm::harvest::Stay;
use crate::swarm::scene::Scene;
use crate::swarm::wire::{self, Next, opcode};
use shared::protocol::{Bye, Refused, ServerFrame};

impl Phone {
    /// Bytes came; how many of them make whole frames. The rest is to come again, with what follows.
    ///
    /// # Errors
    /// The connection is over.
    #[inline]
    pub(in crate::swarm) fn take(
        &mut self,
        bytes: &[u8],
        scene: &mut Scene,
    ) -> Result<usize, Ending> {
        self.heard_us = scene.now_us;
        self.pinged_us = None;
        let mut taken = 0;
        if self.stage == Stage::Shaking {
            scene.is_only_news = false;
            taken = self.shake(bytes, scene)?;
            if taken == 0 {
                return Ok(0);
            }
        }
        loop {
            match wire::next(&bytes[taken..]) {
                Next::Frame(opcode::TEXT, payload, length) => {
                    self.text(payload, scene);
                    taken += length;
                }
                Next::Frame(opcode::PING, payload, length) => {
                    scene.frame(opcode::PONG, payload);
                    taken += length;
                }
                Next::Frame(opcode::PONG, _, length) => taken += length,
                Next::Frame(opcode::CLOSE, payload, _) => {
                    return Err(Ending::Closed(wire::close_code(payload)));
                }
                Next::Frame(..) => {
                    return Err(Ending::Wrong("the server sent a frame of another type"));
                }
                Next::Unfinished => return Ok(taken),
                Next::Wrong(why) => return Err(Ending::Wrong(why)),
            }
        }
    }

    fn shake(&mut self, bytes: &[u8], scene: &mut Scene) -> Result<usize, Ending> {
        let (answer, length) = handshake::answer(bytes);
        match answer {
            Answer::Switched(gateway) => {
                self.table = scene.tables.number(self.room, gateway);
                self.stage = Stage::Joining;
                scene.join(self.client, self.page);
                Ok(length)
            }
            Answer::Refused(status) => Err(Ending::Status(status)),
            Answer::Unfinished => Ok(0),
            Answer::Wrong => Err(Ending::Wrong(
                "the handshake was answered with something else than HTTP",
            )),
        }
    }

    #[inline]
    fn text(&mut self, payload: &[u8], scene: &mut Scene) {
        if payload.starts_with(b"{\"tick\"") || payload.starts_with(b"{\"room\"") {
            let table = scene.tables.table(self.table);
            match table.meaning(payload, scene.now_us, self.number) {
                Some(Meaning::Tick(sum)) => {
                    scene.tally.counts.frames += 1;
                    // A phone that joined in between has its news already.
                    if sum > self.until_sum && self.stage == Stage::In {
                        self.until_sum = sum;
                        self.ticks += 1;
                    }
                }
                Some(Meaning::Room(sum, is_open)) => self.room(sum, is_open, scene),
                None => scene
                    .tally
                    .error("a tick or room frame could not be read".to_owned()),
            }
            return;
        }
        scene.is_only_news = false;
        if let Some(seq) = wire::ack(payload) {
            if let Some(wait_us) = self.sheet.acknowledge(seq, scene.now_us) {
                scene.tally.acknowledged(wait_us);
                self.tell(scene);
            }
        } else {
            self.other(payload, scene);
        }
    }

    fn other(&mut self, payload: &[u8], scene: &mut Scene) {
        match serde_json::from_slice(payload) {
            Ok(ServerFrame::Refused(Refused { seq, why, .. })) => {
                if self.sheet.refuse(seq, why) {
                    scene.tally.counts.refused += 1;
                }
                self.tell(scene);
            }
            Ok(ServerFrame::Bye(Bye { retry_ms, .. })) => {
                self.come_back_us = retry_ms.map(|retry_ms| retry_ms * 1000);
            }
            // What a phone does not know it ignores.
            Ok(_) | Err(_) => {}
        }
    }

    fn room(&mut self, sum: u64, is_open: bool, scene: &mut Scene) {
        scene.is_only_news = false;
        scene.tally.counts.frames += 1;
        self.is_open = is_open;
        if self.stage == Stage::In {
            if sum > self.until_sum {
                self.stay.skipped.push((self.until_sum, sum));
                self.until_sum = sum;
            }
        } else {
            self.stage = Stage::In;
            self.backoff = Backoff::default();
            scene.tally.counts.joined += 1;
            (self.until_sum, self.ticks) = (sum, 0);
            self.stay = Stay {
                due_us: self.due_us,
                joined_us: scene.now_us,
                gateway: scene.tables.table(self.table).gateway.clone(),
                from_sum: sum,
                ..Stay::default()
            };
            for tap in self.sheet.send_again(scene.now_us) {
                scene.tap(self.room, tap);
            }
        }
        self.tell(scene);
    }
}
