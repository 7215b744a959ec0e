//! What one shard's channel has brought, and what that says of it. No I/O and no clock.

use std::time::Duration;

/// How long a channel may be silent: an idle shard ticks every second.
pub(super) const SILENT: Duration = Duration::from_secs(5);
/// How long a gateway's own probe may take to come back.
pub(super) const PROBE_ANSWER: Duration = Duration::from_secs(2);

/// One shard's channel. Moments are durations from any fixed start.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// Epoch and serial of the last tick.
    last: Option<(u64, u64)>,
    pub(super) was_subscribed: bool,
    heard_at: Duration,
    probe: Option<Probe>,
    pub(super) health: Health,
}

/// A probe of ours that has not come back.
#[derive(Debug)]
struct Probe {
    id: String,
    /// None until Redis has taken it: it can come back before the answer to that.
    published_at: Option<Duration>,
}

/// How a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Health {
    /// Ticks come, or have not been missed for long.
    #[default]
    Sound,
    /// Our own probe came, but no tick: the aggregator is late.
    Late,
    /// Not even our own probe came.
    Deaf,
}

/// How a tick stands to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The next one, the first since the channel was subscribed, or one that came twice.
    Sound,
    /// Ticks were missed, or the aggregator began anew: read the shard's rooms again.
    Gap,
}

/// What to do about a channel now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// Publish a probe: [`Channel::publish`], then [`Channel::published`].
    Probe,
    /// Subscribe again.
    Resubscribe,
}

impl Channel {
    /// The channel is subscribed, for the first time or again; the shard's rooms are read after it, so that the first
    /// tick needs none before it.
    pub(super) fn subscribed(&mut self, now: Duration) {
        self.was_subscribed = true;
        self.last = None;
        self.heard_at = now;
        self.probe = None;
    }

    /// A tick came.
    pub(super) fn tick(&mut self, epoch: u64, serial: u64, now: Duration) -> Order {
        self.heard(now);
        self.health = Health::Sound;
        let order = match self.last {
            None => Order::Sound,
            Some((last_epoch, last)) if epoch == last_epoch && serial <= last + 1 => Order::Sound,
            Some(_) => Order::Gap,
        };
        self.last = match self.last {
            // One that comes twice around a change of master does not set the count back.
            Some((last_epoch, last)) if last_epoch == epoch => Some((epoch, last.max(serial))),
            Some(_) | None => Some((epoch, serial)),
        };
        order
    }

    /// A probe came, ours or another gateway's.
    pub(super) fn probe(&mut self, id: &str, now: Duration) {
        if self.probe.as_ref().is_some_and(|probe| probe.id == id) {
            self.heard(now);
            self.health = Health::Late;
        }
    }

    /// This probe is about to be published.
    pub(super) fn publish(&mut self, id: String) {
        self.probe = Some(Probe {
            id,
            published_at: None,
        });
    }

    /// Redis has taken our probe; or it has not, which says nothing about the channel.
    pub(super) fn published(&mut self, taken: bool, now: Duration) {
        match &mut self.probe {
            Some(probe) if taken => probe.published_at = Some(now),
            _ => self.probe = None,
        }
    }

    /// Looks at the clock.
    pub(super) fn due(&mut self, now: Duration) -> Due {
        if let Some(probe) = &self.probe {
            if probe
                .published_at
                .is_none_or(|since| now.saturating_sub(since) < PROBE_ANSWER)
            {
                return Due::Nothing;
            }
            self.probe = None;
            self.health = Health::Deaf;
            self.heard_at = now;
            return Due::Resubscribe;
        }
        if !self.was_subscribed || now.saturating_sub(self.heard_at) < SILENT {
            return Due::Nothing;
        }
        // The next one only after another while, whatever becomes of this one.
        self.heard_at = now;
        Due::Probe
    }

    fn heard(&mut self, now: Duration) {
        self.heard_at = now;
        self.probe = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn subscribed() -> Channel {
        let mut channel = Channel::default();
        channel.subscribed(seconds(0));
        channel
    }

    #[test]
    fn gaps_and_new_epochs_are_seen_and_repetitions_are_not() {
        let mut channel = subscribed();
        assert_eq!(
            channel.tick(1, 7, seconds(1)),
            Order::Sound,
            "the first one needs none before it"
        );
        assert_eq!(channel.tick(1, 8, seconds(1)), Order::Sound);
        assert_eq!(channel.tick(1, 8, seconds(1)), Order::Sound, "twice");
        assert_eq!(channel.tick(1, 7, seconds(1)), Order::Sound, "an old one");
        assert_eq!(channel.tick(1, 9, seconds(1)), Order::Sound);
        assert_eq!(channel.tick(1, 11, seconds(1)), Order::Gap);
        assert_eq!(channel.tick(1, 12, seconds(1)), Order::Sound);
        assert_eq!(channel.tick(2, 1, seconds(1)), Order::Gap, "a new epoch");
        assert_eq!(channel.tick(2, 2, seconds(1)), Order::Sound);
        channel.subscribed(seconds(2));
        assert_eq!(
            channel.tick(2, 9, seconds(2)),
            Order::Sound,
            "rooms are read after the subscription"
        );
    }

    #[test]
    fn a_silent_channel_that_brings_the_probe_has_a_late_aggregator() {
        let mut channel = subscribed();
        assert_eq!(channel.due(seconds(4)), Due::Nothing);
        assert_eq!(channel.due(seconds(5)), Due::Probe);
        channel.publish("ours".into());
        channel.published(true, seconds(5));
        channel.probe("another's", seconds(5));
        assert_eq!(channel.health, Health::Sound);
        channel.probe("ours", seconds(6));
        assert_eq!(channel.health, Health::Late);
        assert_eq!(channel.due(seconds(7)), Due::Nothing);
        assert_eq!(
            channel.due(seconds(11)),
            Due::Probe,
            "and so on every five seconds"
        );
        channel.tick(1, 1, seconds(12));
        assert_eq!(channel.health, Health::Sound);
    }

    #[test]
    fn a_channel_that_does_not_bring_the_probe_is_subscribed_again() {
        let mut channel = subscribed();
        assert_eq!(channel.due(seconds(5)), Due::Probe);
        channel.publish("ours".into());
        channel.published(true, seconds(5));
        assert_eq!(channel.due(seconds(6)), Due::Nothing);
        assert_eq!(channel.due(seconds(7)), Due::Resubscribe);
        assert_eq!(channel.health, Health::Deaf);
        channel.subscribed(seconds(8));
        assert_eq!(channel.health, Health::Deaf, "until something is heard");
        assert_eq!(channel.due(seconds(13)), Due::Probe);
        channel.publish("ours".into());
        channel.probe("ours", seconds(13));
        assert_eq!(
            channel.health,
            Health::Late,
            "it may come before the answer that it was taken"
        );
        channel.published(true, seconds(13));
        assert_eq!(channel.due(seconds(16)), Due::Nothing);
    }

    #[test]
    fn a_probe_that_could_not_be_published_says_nothing() {
        let mut channel = subscribed();
        assert_eq!(channel.due(seconds(5)), Due::Probe);
        channel.publish("ours".into());
        channel.published(false, seconds(7));
        assert_eq!(channel.due(seconds(9)), Due::Nothing);
        assert_eq!(
            channel.health,
            Health::Sound,
            "Redis is down, for all gateways alike"
        );
    }
}
