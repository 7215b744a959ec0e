//! Who guesses room codes: per address, the unknown codes of the last minute.
//!
//! A whole hall sits behind one address, so nobody is ever kept from a room that exists: only the answer to an unknown
//! code changes, from "no such room" to "too many guesses", which tells a guesser no more than before.

use hashbrown::HashMap;
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Unknown codes that are free per address and window: a hall full of typing errors stays below, and a guesser who
/// keeps to it finds one of 31^6 codes in 80 years.
pub const GUESSES_MAX: usize = 20;

/// How long a guess counts.
pub const WINDOW: Duration = Duration::from_secs(60);

/// Addresses remembered at a time, some 100 bytes each. A guesser with more addresses than this is not held back by
/// counting addresses in any case.
const ADDRESSES_MAX: usize = 16_384;

/// The least time between two sweeps of a full table, so that a flood of addresses does not buy a sweep per request.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// What to answer to an unknown code: HTTP 404 or 429, close 4404 or 1008.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// That there is no such room.
    Free,
    /// That there were too many of them; after this long one more is free.
    Limited(Duration),
}

/// The counters of all addresses.
#[derive(Debug)]
pub struct Guesses {
    started: Instant,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    /// Milliseconds since `started` of each address's guesses within the window, oldest first.
    addresses: HashMap<IpAddr, SmallVec<[u32; 4]>, foldhash::fast::RandomState>,
    swept: Instant,
}

impl Default for Guesses {
    fn default() -> Self {
        Guesses::new(Instant::now())
    }
}

impl Guesses {
    fn new(now: Instant) -> Self {
        let addresses = HashMap::with_hasher(foldhash::fast::RandomState::default());
        Guesses {
            started: now,
            table: Mutex::new(Table {
                addresses,
                swept: now,
            }),
        }
    }

    /// Somebody at `address` asked for a room that does not exist: counts it and says what to answer. Only ever called
    /// once the code is known to be none, see above.
    pub fn another(&self, address: IpAddr) -> Guess {
        self.another_at(address, Instant::now())
    }

    fn another_at(&self, address: IpAddr, now: Instant) -> Guess {
        let address = group(address);
        // A gateway that runs for 49 days wraps: saturation would make all later guesses one moment.
        let at = wrapping_ms(now.saturating_duration_since(self.started));
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if !table.addresses.contains_key(&address) && table.addresses.len() >= ADDRESSES_MAX {
            table.make_room(at, now);
        }
        let times = table.addresses.entry(address).or_default();
        times.retain(|time| is_recent(*time, at));
        if times.len() < GUESSES_MAX {
            times.push(at);
            return Guess::Free;
        }
        // The limited guess itself is not kept: who goes on at full speed is let in on time again.
        let oldest = Duration::from_millis(u64::from(at.wrapping_sub(times[0])));
        Guess::Limited(WINDOW.saturating_sub(oldest))
    }

    #[cfg(test)]
    fn addresses(&self) -> usize {
        self.table.lock().unwrap().addresses.len()
    }
}

impl Table {
    /// Forgets who has not guessed for a window; failing that, anyone.
    fn make_room(&mut self, at: u32, now: Instant) {
        if now.saturating_duration_since(self.swept) >= SWEEP_INTERVAL {
            self.swept = now;
            self.addresses
                .retain(|_, times| times.iter().any(|time| is_recent(*time, at)));
        }
        if self.addresses.len() >= ADDRESSES_MAX
            && let Some(any) = self.addresses.keys().next().copied()
        {
            self.addresses.remove(&any);
        }
    }
}

fn is_recent(time: u32, now: u32) -> bool {
    u128::from(now.wrapping_sub(time)) < WINDOW.as_millis()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "wraps on purpose, see its caller"
)]
fn wrapping_ms(since: Duration) -> u32 {
    since.as_millis() as u32
}

/// One household or phone has a whole /64 of IPv6: it counts as one.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    #[test]
    fn the_21st_within_a_minute_is_limited() {
        let start = Instant::now();
        let guesses = Guesses::new(start);
        for second in 0..20 {
            let now = start + Duration::from_secs(second);
            assert_eq!(guesses.another_at(ADDRESS, now), Guess::Free);
        }
        let now = start + Duration::from_secs(20);
        assert_eq!(
            guesses.another_at(ADDRESS, now),
            Guess::Limited(Duration::from_secs(40)),
            "the first guess stops counting a minute after it"
        );
        let now = start + Duration::from_secs(60);
        assert_eq!(guesses.another_at(ADDRESS, now), Guess::Free);
        assert!(matches!(
            guesses.another_at(ADDRESS, now),
            Guess::Limited(_)
        ));
    }

    #[test]
    fn addresses_do_not_share_a_counter_but_one_network_does() {
        let start = Instant::now();
        let guesses = Guesses::new(start);
        let phone = |host: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 0, 0, 0, host));
        for host in 0..20 {
            assert_eq!(guesses.another_at(phone(host), start), Guess::Free);
        }
        assert!(matches!(
            guesses.another_at(phone(99), start),
            Guess::Limited(_)
        ));
        assert_eq!(guesses.another_at(ADDRESS, start), Guess::Free);
        let mapped = IpAddr::V6("::ffff:192.0.2.7".parse().unwrap());
        for _ in 0..19 {
            assert_eq!(guesses.another_at(mapped, start), Guess::Free);
        }
        assert!(matches!(
            guesses.another_at(ADDRESS, start),
            Guess::Limited(_)
        ));
    }

    #[test]
    fn memory_is_bounded() {
        let start = Instant::now();
        let guesses = Guesses::new(start);
        for number in 0..3 * u32::try_from(ADDRESSES_MAX).unwrap() {
            let address = IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
            guesses.another_at(address, start);
        }
        assert_eq!(guesses.addresses(), ADDRESSES_MAX);
        let later = start + 2 * WINDOW;
        guesses.another_at(ADDRESS, later);
        assert_eq!(guesses.addresses(), 1, "all others were idle for a window");
    }

    #[test]
    fn a_gateway_that_runs_for_months_still_counts() {
        let start = Instant::now();
        let guesses = Guesses::new(start);
        let wrap = start + Duration::from_millis(u64::from(u32::MAX) - 1000);
        for _ in 0..20 {
            assert_eq!(guesses.another_at(ADDRESS, wrap), Guess::Free);
        }
        let after = wrap + Duration::from_secs(5);
        assert!(matches!(
            guesses.another_at(ADDRESS, after),
            Guess::Limited(_)
        ));
    }
}
