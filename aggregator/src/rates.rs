//! Taps per second, over the last five whole seconds of log time.
//!
//! Log time, not ours: while a backlog is worked off, old taps do not look like a storm.

use hashbrown::HashMap;
use shared::room::RoomCode;

/// Long enough to be steady, short enough to show an applause while it lasts.
const WINDOW_SECONDS: u64 = 5;
/// One place more than the window: the second that is not over yet.
const PLACES: usize = 6;

/// The rates of a shard's rooms.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    rooms: HashMap<RoomCode, Seconds, foldhash::fast::RandomState>,
}

/// Taps by second of log time; each place says which second it holds.
#[derive(Debug, Default)]
struct Seconds([(u64, u32); PLACES]);

impl Rates {
    /// Taps that stood in the log at this time.
    pub(crate) fn count(&mut self, room: &RoomCode, log_ms: u64, taps: usize) {
        let second = log_ms / 1_000;
        let place = &mut self.rooms.entry(room.clone()).or_default().0[place_of(second)];
        if place.0 != second {
            *place = (second, 0);
        }
        place.1 = place
            .1
            .saturating_add(u32::try_from(taps).unwrap_or(u32::MAX));
    }

    /// Taps per second of a room, rounded up: while anybody taps it is not 0.
    pub(crate) fn per_second(&self, room: &RoomCode, log_now_ms: u64) -> u32 {
        let taps = self
            .rooms
            .get(room)
            .map_or(0, |seconds| seconds.within(log_now_ms / 1_000));
        u32::try_from(taps.div_ceil(WINDOW_SECONDS)).unwrap_or(u32::MAX)
    }

    /// The rooms with taps in the window; forgets the others.
    pub(crate) fn busy(&mut self, log_now_ms: u64) -> impl Iterator<Item = &RoomCode> {
        let now = log_now_ms / 1_000;
        self.rooms.retain(|_, seconds| {
            seconds
                .0
                .iter()
                .any(|(second, _)| second + WINDOW_SECONDS >= now)
        });
        self.rooms.keys()
    }
}

impl Seconds {
    fn within(&self, now: u64) -> u64 {
        let window = now.saturating_sub(WINDOW_SECONDS)..now;
        self.0
            .iter()
            .filter(|(second, _)| window.contains(second))
            .map(|(_, taps)| u64::from(*taps))
            .sum()
    }
}

fn place_of(second: u64) -> usize {
    usize::try_from(second % PLACES as u64).expect("less than the number of places")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> RoomCode {
        "PARTY7".parse().unwrap()
    }

    #[test]
    fn the_last_five_whole_seconds_count() {
        let mut rates = Rates::default();
        for second in 100..110_u64 {
            rates.count(&room(), second * 1_000, 40);
            rates.count(&room(), second * 1_000 + 999, 10);
        }
        assert_eq!(rates.per_second(&room(), 110_000), 50);
        assert_eq!(rates.per_second(&room(), 112_000), 30);
        assert_eq!(rates.per_second(&room(), 115_000), 0);
        assert_eq!(rates.per_second(&"OTHER".parse().unwrap(), 110_000), 0);
    }

    #[test]
    fn a_single_tap_shows() {
        let mut rates = Rates::default();
        rates.count(&room(), 100_500, 1);
        assert_eq!(
            rates.per_second(&room(), 100_900),
            0,
            "its second is not over"
        );
        assert_eq!(rates.per_second(&room(), 101_000), 1);
        assert_eq!(rates.per_second(&room(), 105_999), 1);
        assert_eq!(rates.per_second(&room(), 106_000), 0);
    }

    #[test]
    fn quiet_rooms_are_forgotten() {
        let mut rates = Rates::default();
        rates.count(&room(), 100_000, 1);
        assert_eq!(rates.busy(105_000).count(), 1);
        assert_eq!(rates.busy(106_000).count(), 0);
        assert!(rates.rooms.is_empty());
    }
}
