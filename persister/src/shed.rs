//! Under pressure rows of `taps` are shed, counts never: what would otherwise fill Redis is stored as numbers only.

use std::time::Duration;

/// When rows are shed, and how many stay.
#[derive(Debug, Clone, Copy)]
pub struct ShedSettings {
    /// The oldest entry that is not stored yet may be this old.
    pub behind_max: Duration,
    /// Of a master's memory, in percent, while we are behind.
    pub memory_percent: u8,
    /// The clients whose rows are kept all the same, in percent.
    pub keep_percent: u8,
}

/// Being behind by less than this is no reason to shed, however full Redis is: it would free nothing.
const BEHIND_AT_ALL: Duration = Duration::from_secs(30);

/// Which rows of a step are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shedding {
    /// All.
    Off,
    /// Those of this share of the clients, always the same ones: whole histories of a few instead of shreds of all.
    Keep {
        /// 0 to 100.
        percent: u8,
    },
}

impl ShedSettings {
    /// What to do when we are `behind`, with a master whose memory is used to this ratio.
    pub(crate) fn decide(&self, behind: Duration, memory_used_ratio: f64) -> Shedding {
        let full = memory_used_ratio * 100.0 >= f64::from(self.memory_percent);
        if behind > self.behind_max || (full && behind > BEHIND_AT_ALL) {
            Shedding::Keep {
                percent: self.keep_percent,
            }
        } else {
            Shedding::Off
        }
    }
}

impl Shedding {
    /// Whether a client's rows are stored. The client is a keyed hash, so its low digits spread evenly.
    pub fn keeps(self, client: i64) -> bool {
        match self {
            Shedding::Off => true,
            Shedding::Keep { percent } => client.cast_unsigned() % 100 < u64::from(percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: ShedSettings = ShedSettings {
        behind_max: Duration::from_secs(3_600),
        memory_percent: 70,
        keep_percent: 10,
    };

    #[test]
    fn sheds_when_far_behind_or_when_behind_and_redis_fills() {
        let minute = Duration::from_secs(60);
        let keep = Shedding::Keep { percent: 10 };
        assert_eq!(SETTINGS.decide(minute, 0.2), Shedding::Off);
        assert_eq!(SETTINGS.decide(61 * minute, 0.0), keep);
        assert_eq!(SETTINGS.decide(minute, 0.7), keep);
        assert_eq!(SETTINGS.decide(Duration::ZERO, 0.99), Shedding::Off);
    }

    #[test]
    fn keeps_the_same_share_of_clients() {
        let shedding = Shedding::Keep { percent: 10 };
        let kept = (-5_000..5_000)
            .filter(|client| shedding.keeps(*client))
            .count();
        assert!((990..=1_010).contains(&kept), "{kept}");
        assert!(!Shedding::Keep { percent: 0 }.keeps(0));
    }
}
