//! What a room's members have not been sent yet.

use shared::room::ReactionKey;
use shared::ticks::Audience;
use std::collections::BTreeSet;

/// The news of one room, and whether somebody is at work to send them.
#[derive(Debug, Default)]
pub(crate) struct NewsDesk {
    news: News,
    /// A fan-out is at work, and looks here again before it ends.
    in_work: bool,
}

/// What changed since the last fan-out; one that is slower than the ticks finds several of them merged here.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Reactions with a new total.
    pub(crate) changed: BTreeSet<ReactionKey>,
    /// The host changed the room.
    pub(crate) room: bool,
    /// For hosts.
    pub(crate) audience: Option<Audience>,
}

impl News {
    fn is_some(&self) -> bool {
        self.room || self.audience.is_some() || !self.changed.is_empty()
    }
}

impl NewsDesk {
    /// Adds what a tick brought. True if there is anything to send.
    pub(crate) fn add(
        &mut self,
        changed: Vec<ReactionKey>,
        room: bool,
        audience: Option<Audience>,
    ) -> bool {
        self.news.changed.extend(changed);
        self.news.room |= room;
        self.news.audience = audience.or(self.news.audience);
        self.news.is_some()
    }

    /// Whether the caller is to begin to send: there is something, and nobody is at work.
    pub(crate) fn begin(&mut self) -> bool {
        let begins = !self.in_work && self.news.is_some();
        self.in_work |= begins;
        begins
    }

    /// What is to be sent next; none ends the work.
    pub(crate) fn take(&mut self) -> Option<News> {
        self.in_work = self.news.is_some();
        self.in_work.then(|| std::mem::take(&mut self.news))
    }
}
