//! How long taps take: to their acknowledgement, and to be shown to somebody else.

use crate::crowd::Seen;
use crate::ledger::{Fate, Sheet};
use hdrhistogram::Histogram;
use serde::Serialize;
use shared::room::{ReactionKey, RoomCode};
use std::sync::Arc;
use std::time::Duration;

/// Reactions that one phone of a room taps and nobody else: of these another phone can tell when exactly the n-th
/// tap is counted, since the total says n.
pub(crate) const PROBES: [(&str, &str); 4] = [
    ("turtle", "🐢"),
    ("rabbit", "🐇"),
    ("bee", "🐝"),
    ("owl", "🦉"),
];

/// Both latencies, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Latencies {
    /// From due to acknowledged; 99 of 100 taps take no longer.
    pub ack_p99_ms: u64,
    /// From due to the first frame in which another phone of the room sees the tap counted.
    pub tick_p99_ms: u64,
}

impl Latencies {
    pub(crate) fn of(
        sheets: &[Sheet],
        rooms: &[RoomCode],
        seen: &[Arc<Seen>],
    ) -> anyhow::Result<Latencies> {
        let mut acks = Histogram::<u64>::new(3)?;
        let mut ticks = Histogram::<u64>::new(3)?;
        for sheet in sheets {
            for wait in sheet.ack_waits() {
                acks.record(milliseconds(wait))?;
            }
            let room = rooms.iter().position(|room| *room == sheet.room);
            let probe = sheet
                .taps
                .first()
                .map(|tap| &tap.key)
                .filter(|key| is_probe(key));
            if let (Some(room), Some(_)) = (room, probe) {
                for wait in tick_waits(sheet, &seen[room]) {
                    ticks.record(milliseconds(wait))?;
                }
            }
        }
        Ok(Latencies {
            ack_p99_ms: acks.value_at_quantile(0.99),
            tick_p99_ms: ticks.value_at_quantile(0.99),
        })
    }
}

fn is_probe(key: &ReactionKey) -> bool {
    PROBES.iter().any(|(probe, _)| *probe == key.as_str())
}

/// The n-th counted tap of a probe is shown when the total is first n. Refused taps count nowhere; with unsettled
/// ones nobody could tell, but then the run has failed anyway.
fn tick_waits(sheet: &Sheet, seen: &Seen) -> Vec<Duration> {
    let counted = sheet
        .taps
        .iter()
        .filter(|tap| matches!(tap.fate, Fate::Acknowledged(_)));
    let waits = (1..).zip(counted).filter_map(|(total, tap)| {
        Some(
            seen.first_seen(&tap.key, total)?
                .saturating_duration_since(tap.due),
        )
    });
    waits.collect()
}

/// Rounded up: nothing takes no time.
fn milliseconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::TapRecord;
    use std::collections::BTreeMap;
    use std::time::Instant;

    #[test]
    fn a_tap_is_shown_when_the_total_has_come_to_it() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let key: ReactionKey = "owl".parse().unwrap();
        let mut sheet = Sheet::new("PARTY7".parse().unwrap());
        for (seq, due) in [(1, 0), (2, 1000), (3, 2000)] {
            let fate = Fate::Acknowledged(Duration::from_millis(seq * 10));
            let seq = u32::try_from(seq).unwrap();
            let (key, due) = (key.clone(), at(due));
            sheet.taps.push(TapRecord {
                seq,
                key,
                due,
                first_sent: due,
                attempts: 1,
                fate,
            });
        }
        let seen = Arc::new(Seen::default());
        // The second tap comes late, in one frame with the third.
        for (total, when) in [(1, 200), (3, 2300)] {
            seen.note(&BTreeMap::from([(key.clone(), total)]), at(when));
        }
        let waits = tick_waits(&sheet, &seen);
        assert_eq!(waits, [200, 1300, 300].map(Duration::from_millis));
        let room = sheet.room.clone();
        let latencies = Latencies::of(&[sheet], &[room], &[seen]).unwrap();
        assert_eq!(
            latencies,
            Latencies {
                ack_p99_ms: 30,
                tick_p99_ms: 1300
            }
        );
    }
}
