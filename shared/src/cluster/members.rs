//! How many instances of a service share the shards.
//!
//! Each adds to a counter of its own every second; the others see it move. Nobody's wall clock matters.

use super::client::Cluster;
use super::errors::RequestError;
use super::leases::{hex, parse_hex};
use super::scripts::MEMBERS;
use crate::counting::ids::Nonce;
use crate::shards::ShardId;
use redis::Value;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// An instance whose counter stood still for this long is not counted: three beats missed.
const LIVE_WITHIN: Duration = Duration::from_secs(3);

/// An instance whose counter stood still for this long is forgotten. It comes back by itself if it lives after all.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// One instance's membership. Call [`Members::beat`] every second.
#[derive(Debug)]
pub struct Members {
    cluster: Cluster,
    key: String,
    own: Nonce,
    seen: Seen,
}

impl Members {
    /// Of the instances of `kind`; `own` is this instance's nonce.
    pub fn new(cluster: Cluster, kind: &str, own: Nonce) -> Self {
        let key = cluster.shards().members(kind);
        Members {
            cluster,
            key,
            own,
            seen: Seen::default(),
        }
    }

    /// Shows that this instance lives; how many do, this one included.
    ///
    /// # Errors
    /// See [`RequestError`]; beats that fail are made up for by the next.
    pub async fn beat(&mut self) -> Result<usize, RequestError> {
        let now = Instant::now();
        let mut arguments = vec![hex(self.own)];
        arguments.extend(self.seen.forgettable(now).into_iter().map(hex));
        let counters = self.run(&arguments).await?;
        self.seen.observe(now, &counters);
        Ok(self.live())
    }

    /// How many lived at the last beat, this one included.
    pub fn live(&self) -> usize {
        self.seen.live(Instant::now(), self.own)
    }

    /// How many lived at the last beat, without those that are known to be dead before their counters show it.
    pub fn live_without(&self, dead: &HashSet<Nonce>) -> usize {
        self.seen.live_without(Instant::now(), self.own, dead)
    }

    /// Takes this instance off, so that the others need not wait to see its counter stand still.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn leave(&mut self) -> Result<(), RequestError> {
        self.run(&[String::new(), hex(self.own)]).await.map(drop)
    }

    async fn run(&self, arguments: &[String]) -> Result<HashMap<Nonce, u64>, RequestError> {
        let arguments: Vec<Vec<u8>> = arguments
            .iter()
            .map(|text| text.clone().into_bytes())
            .collect();
        let keys = [self.key.clone()];
        // The members' key lies in the slot of shard 0.
        let answer = self
            .cluster
            .script(ShardId(0), &MEMBERS, &keys, &arguments)
            .await?;
        Ok(parse(&answer))
    }
}

fn parse(answer: &Value) -> HashMap<Nonce, u64> {
    let pairs: Vec<(String, String)> = redis::from_redis_value(answer.clone()).unwrap_or_default();
    pairs
        .iter()
        .filter_map(|(nonce, counter)| Some((parse_hex(nonce)?, counter.parse().ok()?)))
        .collect()
}

/// Counters as last seen.
#[derive(Debug, Default)]
struct Seen {
    by_nonce: HashMap<Nonce, Counter>,
}

#[derive(Debug)]
struct Counter {
    value: u64,
    /// When it was first seen, or last moved.
    since: Instant,
    /// It moved while we watched: one that never did may have died long ago.
    moved: bool,
}

impl Seen {
    fn observe(&mut self, now: Instant, counters: &HashMap<Nonce, u64>) {
        self.by_nonce
            .retain(|nonce, _| counters.contains_key(nonce));
        for (nonce, value) in counters {
            let counter = self.by_nonce.entry(*nonce).or_insert(Counter {
                value: *value,
                since: now,
                moved: false,
            });
            if counter.value != *value {
                *counter = Counter {
                    value: *value,
                    since: now,
                    moved: true,
                };
            }
        }
    }

    fn live(&self, now: Instant, own: Nonce) -> usize {
        self.live_without(now, own, &HashSet::new())
    }

    fn live_without(&self, now: Instant, own: Nonce, dead: &HashSet<Nonce>) -> usize {
        let lives = |counter: &Counter| {
            counter.moved && now.saturating_duration_since(counter.since) < LIVE_WITHIN
        };
        let others = self
            .by_nonce
            .iter()
            .filter(|(nonce, _)| **nonce != own && !dead.contains(nonce));
        1 + others.filter(|(_, counter)| lives(counter)).count()
    }

    fn forgettable(&self, now: Instant) -> Vec<Nonce> {
        let dead =
            |counter: &Counter| now.saturating_duration_since(counter.since) > FORGOTTEN_AFTER;
        self.by_nonce
            .iter()
            .filter(|(_, counter)| dead(counter))
            .map(|(nonce, _)| *nonce)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_whose_counters_move_are_live() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (own, other, dead) = (Nonce(1), Nonce(2), Nonce(3));
        let mut seen = Seen::default();
        let counters = |own_count, other_count| {
            HashMap::from([(own, own_count), (other, other_count), (dead, 9)])
        };
        assert_eq!(seen.live(at(0), own), 1);
        seen.observe(at(0), &counters(1, 5));
        assert_eq!(seen.live(at(0), own), 1, "nobody else was seen to move");
        seen.observe(at(1), &counters(2, 6));
        assert_eq!(seen.live(at(1), own), 2);
        assert_eq!(
            seen.live_without(at(1), own, &HashSet::from([other])),
            1,
            "known to be dead before its counter shows it"
        );
        seen.observe(at(4), &counters(5, 6));
        assert_eq!(
            seen.live(at(4), own),
            1,
            "the other stood still for three seconds"
        );
        assert_eq!(seen.forgettable(at(4)), []);
        let mut forgotten = seen.forgettable(at(62));
        forgotten.sort_by_key(|nonce| nonce.0);
        assert_eq!(forgotten, [other, dead]);
    }
}
