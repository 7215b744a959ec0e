//! What the ticks of a measured window say: how regularly they came, how many were missed, how far they were behind.

use super::watch::Seen;
use std::time::{Duration, Instant};

/// When how many taps had been acknowledged; in order.
pub(crate) type Acknowledged = Vec<(Instant, u64)>;

/// See the top of this file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rhythm {
    pub(crate) ticks: u64,
    /// Serials that never came, and loads of the state, which may hide some.
    pub(crate) gaps: u64,
    pub(crate) interval_p50_ms: f64,
    pub(crate) interval_p99_ms: f64,
    pub(crate) interval_max_ms: f64,
    /// From the acknowledgement of a tap to the tick that has it and all before it.
    pub(crate) behind_p50_ms: f64,
    pub(crate) behind_p99_ms: f64,
}

impl Rhythm {
    /// Of ticks in order, the first of which only begins the first interval.
    pub(crate) fn of(ticks: &[Seen], acknowledged: &Acknowledged) -> Rhythm {
        let pairs = || ticks.windows(2);
        let mut intervals: Vec<Duration> = pairs().map(|pair| pair[1].at - pair[0].at).collect();
        let gap = |pair: &[Seen]| {
            if pair[0].epoch == pair[1].epoch {
                pair[1].serial.saturating_sub(pair[0].serial + 1)
            } else {
                1
            }
        };
        let mut behind: Vec<Duration> = pairs()
            .filter_map(|pair| behind(pair[1], acknowledged))
            .collect();
        intervals.sort_unstable();
        behind.sort_unstable();
        Rhythm {
            ticks: intervals.len() as u64,
            gaps: pairs().map(gap).sum(),
            interval_p50_ms: quantile_ms(&intervals, 0.5),
            interval_p99_ms: quantile_ms(&intervals, 0.99),
            interval_max_ms: quantile_ms(&intervals, 1.0),
            behind_p50_ms: quantile_ms(&behind, 0.5),
            behind_p99_ms: quantile_ms(&behind, 0.99),
        }
    }
}

/// How old the oldest acknowledged tap is that a tick does not have yet: just before the next one comes it is an interval
/// older. None where the tick has all.
fn behind(tick: Seen, acknowledged: &Acknowledged) -> Option<Duration> {
    let next = acknowledged.partition_point(|(_, taps)| *taps <= tick.total);
    let (at, _) = acknowledged.get(next)?;
    Some(tick.at.saturating_duration_since(*at))
}

fn quantile_ms(sorted: &[Duration], quantile: f64) -> f64 {
    let rank = (sorted.len() as f64 * quantile).ceil();
    // A rank is at most the length.
    let index = Duration::from_secs_f64(rank.max(1.0)).as_secs() - 1;
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    sorted
        .get(index)
        .map_or(0.0, |span| span.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_gaps_and_how_far_behind() {
        let zero = Instant::now();
        let ms = |ms| zero + Duration::from_millis(ms);
        let tick = |at, epoch, serial, total| Seen {
            at: ms(at),
            epoch,
            serial,
            total,
        };
        let ticks = [
            tick(0, 1, 1, 0),
            tick(250, 1, 2, 10),
            tick(500, 1, 4, 15),
            tick(900, 2, 1, 40),
        ];
        let acknowledged = vec![(ms(100), 10), (ms(200), 20), (ms(300), 30), (ms(880), 40)];
        let rhythm = Rhythm::of(&ticks, &acknowledged);
        assert_eq!((rhythm.ticks, rhythm.gaps), (3, 2));
        assert_eq!(
            (rhythm.interval_p50_ms, rhythm.interval_p99_ms),
            (250.0, 400.0)
        );
        // The first has 10 of the 20 of 200 ms, the second 15 of them, the third has all.
        assert_eq!((rhythm.behind_p50_ms, rhythm.behind_p99_ms), (50.0, 300.0));
        assert_eq!(Rhythm::of(&[], &Vec::new()), Rhythm::default());
    }
}
