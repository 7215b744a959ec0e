//! How the live rooms fared: waits of their taps for an acknowledgement, by what was going on when they were due.

use crate::crowd::Seen;
use crate::ledger::{Fate, Sheet, client_hash};
use crate::waits::{histogram, microseconds, quantile_ms};
use crate::{compare, evidence};
use hdrhistogram::Histogram;
use rig::Rig;
use shared::room::RoomCode;
use shared::shards::Shards;
use std::sync::Arc;
use std::time::Instant;

/// Spans of time.
pub(crate) type Spans = Vec<(Instant, Instant)>;

/// Waits of the taps that were due in these spans, 99 of 100, in milliseconds, and how many taps that were.
pub(crate) fn ack_p99_ms(sheets: &[Sheet], spans: &Spans) -> (f64, u64) {
    let mut waits: Histogram<u64> = histogram();
    let taps = sheets.iter().flat_map(|sheet| &sheet.taps);
    for tap in taps {
        let is_within = |(from, until): &(Instant, Instant)| (*from..*until).contains(&tap.due);
        if let Fate::Acknowledged(after) = tap.fate
            && spans.iter().any(is_within)
        {
            waits.saturating_record(microseconds(after));
        }
    }
    (quantile_ms(&waits, 0.99), waits.len())
}

/// Compares what the phones know with what is stored, counted and shown.
pub(crate) async fn verdict(
    rig: &Rig,
    shards: &Shards,
    rooms: &[RoomCode],
    sheets: &[Sheet],
    seen: &[Arc<Seen>],
) -> anyhow::Result<compare::Verdict> {
    let (taps, tap_counts) = evidence::rows(&rig.postgres_url(), rooms).await?;
    let shown = rooms.iter().zip(seen).flat_map(|(room, seen)| {
        let totals = seen.totals().into_iter();
        totals.map(|(key, total)| ((room.clone(), key), total))
    });
    let found = compare::Found {
        totals: evidence::totals(rig, shards, rooms).await?,
        seen: shown.collect(),
        taps,
        tap_counts,
    };
    let key = rig.client_hash_key();
    let claims = compare::claims(sheets, |client| client_hash(key, client));
    Ok(compare::compare(&claims, &found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::TapRecord;
    use std::time::Duration;

    #[test]
    fn only_taps_due_within_the_spans_count() {
        let zero = Instant::now();
        let mut sheet = Sheet::new("PARTY7".parse().unwrap());
        for (seq, due_ms, wait_ms) in [(1, 0, 900), (2, 100, 20), (3, 200, 30), (4, 300, 800)] {
            let due = zero + Duration::from_millis(due_ms);
            sheet.taps.push(TapRecord {
                seq,
                key: "clap".parse().unwrap(),
                due,
                first_sent: due,
                attempts: 1,
                fate: Fate::Acknowledged(Duration::from_millis(wait_ms)),
            });
        }
        let span = (
            zero + Duration::from_millis(50),
            zero + Duration::from_millis(250),
        );
        let (p99, taps) = ack_p99_ms(&[sheet], &vec![span]);
        assert_eq!(taps, 2);
        assert!((29.9..30.1).contains(&p99), "{p99}");
    }
}
