//! Whether every acknowledged tap was counted exactly once: what the phones sent against what was found. Pure.

use crate::ledger::{Fate, Sheet};
use serde::Serialize;
use shared::counting::ids::ClientHash;
use shared::room::{ReactionKey, RoomCode};
use std::collections::{BTreeMap, BTreeSet};

/// A reaction of a room.
pub type Cell = (RoomCode, ReactionKey);

/// What was sent of one cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Must be found.
    pub acked: u64,
    /// May be found.
    pub unsettled: u64,
}

/// What all phones sent, per cell and client: one client's missing row does not make up for another's doubled one.
pub type Claims = BTreeMap<Cell, BTreeMap<ClientHash, Sent>>;

/// What was found, per cell.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// In Redis.
    pub totals: BTreeMap<Cell, u64>,
    /// By a phone that watched.
    pub seen: BTreeMap<Cell, u64>,
    /// Rows in `taps`, per client.
    pub taps: BTreeMap<Cell, BTreeMap<ClientHash, u64>>,
    /// Sums in `tap_counts`.
    pub tap_counts: BTreeMap<Cell, u64>,
}

/// The sums, and all that does not fit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Taps acknowledged, distinct by client, page and seq.
    pub acked: u64,
    /// Sent, and neither acknowledged nor finally refused.
    pub unsettled: u64,
    /// Totals in Redis.
    pub totals: u64,
    /// Totals seen by a phone.
    pub seen: u64,
    /// Rows in `taps`.
    pub taps: u64,
    /// Sums in `tap_counts`.
    pub tap_counts: u64,
    /// Acknowledged and not found, where most are missing.
    pub lost: u64,
    /// Found and not sent, where most are too many.
    pub doubled: u64,
    /// What does not fit, a line each.
    #[serde(skip)]
    pub mistakes: Vec<String>,
}

impl Verdict {
    /// Whether all fits and nothing is left open.
    pub fn holds(&self) -> bool {
        self.mistakes.is_empty() && self.unsettled == 0
    }
}

/// What the sheets claim. `hash` gives the hash under which a client's taps are stored.
pub fn claims(sheets: &[Sheet], hash: impl Fn(&[u8; 16]) -> ClientHash) -> Claims {
    let mut claims = Claims::new();
    for sheet in sheets {
        let client = hash(&sheet.client);
        for tap in &sheet.taps {
            let clients = claims
                .entry((sheet.room.clone(), tap.key.clone()))
                .or_default();
            let sent = clients.entry(client).or_default();
            match tap.fate {
                Fate::Acknowledged(_) => sent.acked += 1,
                Fate::Waiting | Fate::Unknown => sent.unsettled += 1,
                Fate::Refused(_) => {}
            }
        }
    }
    claims
}

/// Compares per room and reaction, rows also per client.
pub fn compare(claims: &Claims, found: &Found) -> Verdict {
    let mut verdict = Verdict::default();
    let mut tallies: [Tally; 4] = Default::default();
    let cells: BTreeSet<&Cell> = (claims.keys())
        .chain(found.totals.keys())
        .chain(found.seen.keys())
        .chain(found.taps.keys())
        .chain(found.tap_counts.keys())
        .collect();
    let (no_clients, no_rows) = (BTreeMap::new(), BTreeMap::new());
    for cell in cells {
        let clients = claims.get(cell).unwrap_or(&no_clients);
        let rows = found.taps.get(cell).unwrap_or(&no_rows);
        let all = Sent {
            acked: clients.values().map(|sent| sent.acked).sum(),
            unsettled: clients.values().map(|sent| sent.unsettled).sum(),
        };
        verdict.acked += all.acked;
        verdict.unsettled += all.unsettled;
        let [in_totals, in_seen, in_counts] = [&found.totals, &found.seen, &found.tap_counts]
            .map(|counts| counts.get(cell).copied().unwrap_or(0));
        let in_taps = rows.values().sum();
        tallies[0].add(all, in_totals);
        tallies[1].add(all, in_seen);
        tallies[2].add(all, in_counts);
        tallies[3].found += in_taps;
        for client in clients.keys().chain(rows.keys()).collect::<BTreeSet<_>>() {
            let sent = clients.get(client).copied().unwrap_or_default();
            tallies[3].check(sent, rows.get(client).copied().unwrap_or(0));
        }
        let wrong = [in_totals, in_seen, in_taps, in_counts]
            .into_iter()
            .any(|count| count != in_totals || !all.allows(count));
        if wrong {
            let (room, key) = cell;
            let Sent { acked, unsettled } = all;
            verdict.mistakes.push(format!(
                "{room} {key}: {acked} acknowledged, {unsettled} unsettled, but {in_totals} in totals, \
                 {in_seen} seen, {in_taps} in taps, {in_counts} in tap_counts"
            ));
        }
    }
    let [totals, seen, tap_counts, taps] = &tallies;
    (verdict.totals, verdict.seen) = (totals.found, seen.found);
    (verdict.taps, verdict.tap_counts) = (taps.found, tap_counts.found);
    verdict.lost = tallies.iter().map(|tally| tally.lost).max().unwrap_or(0);
    verdict.doubled = tallies.iter().map(|tally| tally.doubled).max().unwrap_or(0);
    if taps.lost > 0 || taps.doubled > 0 {
        let (lost, doubled) = (taps.lost, taps.doubled);
        verdict.mistakes.push(format!(
            "by client, {lost} rows are missing and {doubled} too many"
        ));
    }
    verdict
}

impl Sent {
    fn allows(self, found: u64) -> bool {
        (self.acked..=self.acked + self.unsettled).contains(&found)
    }
}

#[derive(Debug, Default)]
struct Tally {
    found: u64,
    lost: u64,
    doubled: u64,
}

impl Tally {
    fn add(&mut self, sent: Sent, found: u64) {
        self.found += found;
        self.check(sent, found);
    }

    fn check(&mut self, sent: Sent, found: u64) {
        self.lost += sent.acked.saturating_sub(found);
        self.doubled += found.saturating_sub(sent.acked + sent.unsettled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::TapRecord;
    use shared::protocol::Why;
    use std::time::{Duration, Instant};

    const ACKED: Fate = Fate::Acknowledged(Duration::ZERO);

    fn cell(key: &str) -> Cell {
        ("PARTY7".parse().unwrap(), key.parse().unwrap())
    }

    fn client(number: u8) -> ClientHash {
        ClientHash(u64::from(number))
    }

    /// Two phones: one with two acknowledged claps and a refused one, one with a heart.
    fn sheets() -> Vec<Sheet> {
        let sheet = |number: u8, taps: &[(&str, Fate)]| Sheet {
            room: "PARTY7".parse().unwrap(),
            client: [number; 16],
            page: 7,
            taps: (1..)
                .zip(taps)
                .map(|(seq, (key, fate))| TapRecord {
                    seq,
                    key: key.parse().unwrap(),
                    due: Instant::now(),
                    first_sent: Instant::now(),
                    attempts: 1,
                    fate: *fate,
                })
                .collect(),
        };
        let first = [
            ("clap", ACKED),
            ("clap", ACKED),
            ("clap", Fate::Refused(Why::Cooldown)),
        ];
        vec![sheet(1, &first), sheet(2, &[("heart", ACKED)])]
    }

    fn sent(sheets: &[Sheet]) -> Claims {
        claims(sheets, |client| ClientHash(u64::from(client[0])))
    }

    fn found() -> Found {
        let counts = BTreeMap::from([(cell("clap"), 2), (cell("heart"), 1)]);
        let taps = BTreeMap::from([
            (cell("clap"), BTreeMap::from([(client(1), 2)])),
            (cell("heart"), BTreeMap::from([(client(2), 1)])),
        ]);
        Found {
            totals: counts.clone(),
            seen: counts.clone(),
            taps,
            tap_counts: counts,
        }
    }

    #[test]
    fn what_fits_holds() {
        let verdict = compare(&sent(&sheets()), &found());
        assert!(verdict.holds(), "{verdict:?}");
        let sums = [
            verdict.acked,
            verdict.totals,
            verdict.seen,
            verdict.taps,
            verdict.tap_counts,
        ];
        assert_eq!(sums, [3; 5]);
        assert_eq!(
            (verdict.lost, verdict.doubled, verdict.unsettled),
            (0, 0, 0)
        );
    }

    #[test]
    fn a_missing_row_is_lost() {
        let mut found = found();
        found
            .taps
            .get_mut(&cell("clap"))
            .unwrap()
            .insert(client(1), 1);
        let verdict = compare(&sent(&sheets()), &found);
        assert!(!verdict.holds());
        assert_eq!((verdict.lost, verdict.doubled), (1, 0));
    }

    #[test]
    fn a_row_twice_is_doubled() {
        let mut found = found();
        found
            .taps
            .get_mut(&cell("heart"))
            .unwrap()
            .insert(client(2), 2);
        let verdict = compare(&sent(&sheets()), &found);
        assert!(!verdict.holds());
        assert_eq!((verdict.lost, verdict.doubled), (0, 1));
    }

    #[test]
    fn a_row_of_another_reaction_is_both() {
        let mut found = found();
        found
            .taps
            .get_mut(&cell("clap"))
            .unwrap()
            .insert(client(1), 1);
        found
            .taps
            .get_mut(&cell("heart"))
            .unwrap()
            .insert(client(1), 1);
        let verdict = compare(&sent(&sheets()), &found);
        assert!(!verdict.holds());
        assert_eq!((verdict.lost, verdict.doubled, verdict.taps), (1, 1, 3));
    }

    #[test]
    fn a_row_of_another_client_is_both() {
        let mut found = found();
        found.taps.insert(
            cell("clap"),
            BTreeMap::from([(client(1), 1), (client(2), 1)]),
        );
        let verdict = compare(&sent(&sheets()), &found);
        assert!(!verdict.holds());
        assert_eq!((verdict.lost, verdict.doubled), (1, 1));
    }

    #[test]
    fn each_source_must_agree() {
        for change in [1, 3] {
            for source in 0..3 {
                let mut found = found();
                let counts = [&mut found.totals, &mut found.seen, &mut found.tap_counts];
                *counts
                    .into_iter()
                    .nth(source)
                    .unwrap()
                    .get_mut(&cell("clap"))
                    .unwrap() = change;
                assert!(
                    !compare(&sent(&sheets()), &found).holds(),
                    "{source} {change}"
                );
            }
        }
    }

    #[test]
    fn a_refused_tap_must_not_count_and_an_unsettled_one_may() {
        let mut found = found();
        found.totals.insert(cell("clap"), 3);
        assert_eq!(compare(&sent(&sheets()), &found).doubled, 1);
        let mut sheets = sheets();
        sheets[0].taps[2].fate = Fate::Unknown;
        let verdict = compare(&sent(&sheets), &found);
        assert_eq!((verdict.doubled, verdict.unsettled), (0, 1));
        assert!(!verdict.holds());
    }

    #[test]
    fn a_room_that_nobody_tapped_in_must_be_empty() {
        let mut found = found();
        found.tap_counts.insert(cell("wow"), 1);
        let verdict = compare(&sent(&sheets()), &found);
        assert_eq!(verdict.doubled, 1);
        assert!(!verdict.holds());
    }
}
