//! What a viewer may do, and when: join first, tap by the rules. No I/O and no clock; sockets and POST drive it alike.

use crate::rooms::clients::{Admission, Charge, Clients, Cooldown};
use shared::counting::freshness::Freshness;
use shared::counting::ids::{ClientHash, PageId, TapId};
use shared::counting::memory::WINDOW;
use shared::protocol::{ClientFrame, Join, Refused, Role, ServerFrame, TapFrame, Why};
use shared::room::{ReactionKey, Room, RoomState};
use std::sync::{Arc, Mutex, PoisonError};

/// The oldest tap that may still be sent again. Readers know taps of two minutes; sealing ends at 90 s.
pub(crate) const TAP_AGE_MAX_MS: u64 = 80_000;
/// How far a seq may be ahead of the last one. The readers' window is 64 seqs, the newest among them: after a jump of 63
/// the last one is still in it, after one of 64 it would be taken as seen whether it was or not.
pub(crate) const SEQ_JUMP_MAX: u32 = WINDOW - 1;
/// Frames a second that a connection may send in the long run; a person with two thumbs needs five.
const FRAMES_PER_SECOND_MAX: u64 = 50;
/// How many it may send at once: everything that waited during an outage, twice.
const FRAMES_BURST_MAX: u64 = 150;

/// What the session is told of its surroundings at each frame.
pub(crate) struct Surroundings<'a> {
    /// The room as it is now.
    pub(crate) room: Arc<Room>,
    /// Its clients at this gateway.
    pub(crate) clients: &'a Mutex<Clients>,
    /// The gateway's clock.
    pub(crate) now_ms: u64,
    /// Log time of the room's shard.
    pub(crate) log_now_ms: u64,
    /// How much earlier than the cooldown allows a tap may come.
    pub(crate) tolerance_ms: u64,
    /// Redis is so full that no tap is taken for so many milliseconds.
    pub(crate) busy: Option<u64>,
}

/// What follows from a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    Nothing,
    /// Check ids and token; then call [`Session::joined`], or close with 1008.
    Join(Join),
    /// Take this tap, then acknowledge it once it is safe. If it cannot be taken: refund, and refuse it as busy.
    Take(Taken),
    /// Send this.
    Reply(ServerFrame),
    /// The tap may have been under way for long, and have been sent again and counted elsewhere: it is not taken. Close;
    /// the phone comes back and sends it with its age.
    Stale,
    /// A rule was broken: close with 1008 and this reason.
    Close(String),
}

/// A tap that passed all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) id: TapId,
    pub(crate) key: ReactionKey,
    /// Log time less its age.
    pub(crate) tapped_at_ms: u64,
    /// By the gateway's clock.
    pub(crate) taken_at_ms: u64,
    /// None for one that was accepted before.
    pub(crate) charge: Option<Charge>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    member: Option<Member>,
    pace: Pace,
    freshness: Freshness,
}

/// Who joined, or who posts taps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    pub(crate) client: ClientHash,
    pub(crate) page: PageId,
    pub(crate) role: Role,
    /// None before the first tap.
    last_seq: Option<u32>,
}

impl Session {
    /// A connection whose handshake was answered at `now_ms` or later.
    pub(crate) fn new(now_ms: u64) -> Self {
        Session {
            member: None,
            pace: Pace::default(),
            freshness: Freshness::new(now_ms),
        }
    }

    /// A ping sent at `sent_ms` was answered.
    pub(crate) fn answered(&mut self, sent_ms: u64, now_ms: u64) {
        self.freshness.answered(sent_ms, now_ms);
    }

    /// The join was found good.
    pub(crate) fn joined(&mut self, member: Member) {
        self.member = Some(member);
    }

    /// Counts a frame of any kind against the connection's pace; false if there are too many.
    pub(crate) fn keeps_pace(&mut self, now_ms: u64) -> bool {
        self.pace.keeps(now_ms)
    }

    /// What follows from a text frame.
    pub(crate) fn receive(&mut self, text: &[u8], surroundings: &Surroundings<'_>) -> Action {
        if !self.keeps_pace(surroundings.now_ms) {
            return too_many_frames();
        }
        let frame = match ClientFrame::parse(text) {
            Ok(frame) => frame,
            Err(error) => return Action::Close(error.to_string()),
        };
        match (frame, &mut self.member) {
            (ClientFrame::Join(join), None) => Action::Join(join),
            (ClientFrame::Join(_), Some(_)) => broken("a connection joins once"),
            (_, None) => broken("the first frame must be a join"),
            (ClientFrame::Tap(_), Some(_)) if !self.freshness.is_fresh(surroundings.now_ms) => {
                Action::Stale
            }
            (ClientFrame::Tap(tap), Some(member)) if member.role == Role::Phone => {
                match member.tap(&tap, surroundings) {
                    Ok(taken) => Action::Take(taken),
                    Err(refused) => Action::Reply(ServerFrame::Refused(refused)),
                }
            }
            (ClientFrame::Tap(_), Some(_)) => broken("only phones tap"),
            (ClientFrame::Ping, Some(_)) => Action::Reply(ServerFrame::Pong(1)),
            (ClientFrame::Unknown, Some(_)) => Action::Nothing,
        }
    }
}

fn broken(rule: &str) -> Action {
    Action::Close(rule.to_owned())
}

/// The connection sends more than it may.
pub(crate) fn too_many_frames() -> Action {
    broken("too many frames")
}

impl Member {
    /// Somebody who has not tapped yet.
    pub(crate) fn new(client: ClientHash, page: PageId, role: Role) -> Self {
        Member {
            client,
            page,
            role,
            last_seq: None,
        }
    }

    /// Whether this attempt to tap may count.
    pub(crate) fn tap(
        &mut self,
        tap: &TapFrame,
        surroundings: &Surroundings<'_>,
    ) -> Result<Taken, Refused> {
        let refuse = |why, retry_ms| {
            Err(Refused {
                seq: tap.seq,
                why,
                retry_ms,
            })
        };
        if !self.accepts_seq(tap.seq) {
            return refuse(Why::Seq, None);
        }
        // Used up, whatever comes of it: a seq is never used twice on one connection.
        self.last_seq = Some(tap.seq);
        match surroundings.room.state {
            RoomState::Open => {}
            RoomState::Paused => return refuse(Why::Paused, None),
            RoomState::Closed => return refuse(Why::Closed, None),
        }
        if surroundings
            .room
            .palette
            .position(tap.key.as_str())
            .is_none()
        {
            return refuse(Why::UnknownReaction, None);
        }
        if tap.age_ms > TAP_AGE_MAX_MS {
            return refuse(Why::TooOld, None);
        }
        if surroundings.busy.is_some() {
            return refuse(Why::Busy, surroundings.busy);
        }
        let cooldown = Cooldown {
            cooldown_ms: u64::from(surroundings.room.cooldown_ms),
            tolerance_ms: surroundings.tolerance_ms,
        };
        let tapped_at_ms = surroundings.now_ms.saturating_sub(tap.age_ms);
        let mut clients = surroundings
            .clients
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let charge = match clients.admit(self.client, self.page, tap.seq, tapped_at_ms, cooldown) {
            Admission::Admitted(charge) => Some(charge),
            Admission::Again => None,
            Admission::Cooldown(early_ms) => return refuse(Why::Cooldown, Some(early_ms)),
        };
        let id = TapId {
            client: self.client,
            page: self.page,
            seq: tap.seq,
        };
        Ok(Taken {
            id,
            key: tap.key.clone(),
            tapped_at_ms: surroundings.log_now_ms.saturating_sub(tap.age_ms),
            taken_at_ms: surroundings.now_ms,
            charge,
        })
    }

    fn accepts_seq(&self, seq: u32) -> bool {
        match self.last_seq {
            None => seq >= 1,
            Some(last) => seq > last && seq - last <= SEQ_JUMP_MAX,
        }
    }
}

/// A bound on frames, as a GCRA over the gateway's clock.
#[derive(Debug, Default)]
struct Pace {
    next_ms: u64,
}

impl Pace {
    fn keeps(&mut self, now_ms: u64) -> bool {
        const INTERVAL_MS: u64 = 1000 / FRAMES_PER_SECOND_MAX;
        self.next_ms = self.next_ms.max(now_ms) + INTERVAL_MS;
        self.next_ms - now_ms <= INTERVAL_MS * FRAMES_BURST_MAX
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
