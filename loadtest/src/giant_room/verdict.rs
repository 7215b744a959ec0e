//! Whether a stage held, whether its figures can be believed, and what gave out when it did not.

use super::report::Stage;

/// A tick every 250 ms, and a little.
const TICK_INTERVAL_P99_MS_MAX: f64 = 300.0;
/// A backlog that grows does not show in how often ticks come, but in how old they are.
const BEHIND_P99_MS_MAX: f64 = 1_000.0;
/// Of what was planned, what must be reached.
const REACHED_MIN: f64 = 0.95;
/// Beyond these the generator is the bottleneck.
const GENERATOR_BUSY_MAX: f64 = 0.8;
const GENERATOR_LATE_P99_MS_MAX: f64 = 50.0;
/// A thread that uses more of a core than this has nothing left to give.
const CORE_FULL: f64 = 0.93;
/// The same for all cores of the machine together.
const MACHINE_FULL: f64 = 0.97;

/// See the top of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Counted wrongly: so whatever the generator did.
    pub(crate) wrong: Vec<String>,
    /// Too slow.
    pub(crate) slow: Vec<String>,
    /// Why the figures are not to be believed.
    pub(crate) vetoes: Vec<String>,
}

impl Verdict {
    /// Of a stage that was to have so many appends per second.
    pub(crate) fn of(stage: &Stage, appends_per_second: u64) -> Verdict {
        let mut verdict = Verdict::default();
        let Verdict {
            wrong,
            slow,
            vetoes,
        } = &mut verdict;
        if stage.missed > 0 {
            wrong.push(format!(
                "{} acknowledged taps are not in the totals",
                stage.missed
            ));
        }
        if stage.doubled > 0 {
            wrong.push(format!("{} taps too many are in the totals", stage.doubled));
        }
        if !stage.last_tick_has_all {
            wrong.push("the last tick lacks taps that are in the totals".to_owned());
        }
        if stage.ticks == 0 {
            slow.push("no two ticks came in the measured window".to_owned());
        }
        let mut at_most = |what: &str, found: f64, bound: f64| {
            if found > bound {
                slow.push(format!("{what} is {found:.0} ms, more than {bound:.0} ms"));
            }
        };
        at_most(
            "tick_interval_p99_ms",
            stage.tick_interval_p99_ms,
            TICK_INTERVAL_P99_MS_MAX,
        );
        at_most("behind_p99_ms", stage.behind_p99_ms, BEHIND_P99_MS_MAX);
        if stage.tick_gaps > 0 {
            slow.push(format!("{} ticks did not come", stage.tick_gaps));
        }
        let mut reached = |what: &str, found: f64, planned: u64| {
            let planned = planned as f64;
            if found < planned * REACHED_MIN {
                slow.push(format!("{found:.0} {what}/s were reached of {planned:.0}"));
            }
        };
        reached("taps", stage.taps_per_second, stage.planned_taps_per_second);
        reached("appends", stage.appends_per_second, appends_per_second);
        if stage.generator_busy > GENERATOR_BUSY_MAX {
            vetoes.push(format!(
                "a thread of the generator used {:.0} % of a core; give it more --threads, or fewer taps",
                stage.generator_busy * 100.0
            ));
        }
        if stage.generator_late_p99_ms > GENERATOR_LATE_P99_MS_MAX {
            vetoes.push(format!(
                "the generator was {:.0} ms late with its batches at p99",
                stage.generator_late_p99_ms
            ));
        }
        verdict
    }

    /// All that was crossed.
    pub(crate) fn crossed(&self) -> Vec<String> {
        self.wrong.iter().chain(&self.slow).cloned().collect()
    }

    /// Nothing was crossed and nothing vetoed.
    pub(crate) fn held(&self) -> bool {
        self.wrong.is_empty() && self.slow.is_empty() && self.vetoes.is_empty()
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        if !self.wrong.is_empty() {
            99
        } else if !self.vetoes.is_empty() {
            98
        } else if !self.slow.is_empty() {
            99
        } else {
            0
        }
    }
}

/// What gave out in a stage that did not hold.
pub(crate) fn gave_out(stage: &Stage, verdict: &Verdict) -> String {
    let [aggregator, redis, machine] = [
        stage.aggregator_cores,
        stage.redis_main_thread_cores,
        stage.machine_busy,
    ];
    if let Some(wrong) = verdict.wrong.first() {
        wrong.clone()
    } else if aggregator > CORE_FULL {
        format!("the aggregator: it used {aggregator:.2} of its one core")
    } else if redis > CORE_FULL {
        format!("Redis: the shard's master used {redis:.2} cores for commands, of which it has one")
    } else if machine > MACHINE_FULL {
        format!(
            "this machine: its cores were busy to {:.0} %, the aggregator's share was {aggregator:.2} cores, \
             the master's {:.2}, its replica's {:.2}, the generator's {:.2}",
            machine * 100.0,
            stage.redis_cores,
            stage.replica_cores,
            stage.generator_cores
        )
    } else if let Some(veto) = verdict.vetoes.first() {
        format!("the generator: {veto}")
    } else {
        "none of the processes was at its limit: they waited for each other".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Stage {
        Stage {
            planned_taps_per_second: 1_000,
            taps_per_second: 998.0,
            appends_per_second: 100.0,
            ticks: 40,
            tick_interval_p99_ms: 262.0,
            last_tick_has_all: true,
            ..Stage::default()
        }
    }

    #[test]
    fn each_threshold_and_each_veto_fires() {
        assert_eq!(Verdict::of(&good(), 100).exit_code(), 0);
        let with = |alter: fn(&mut Stage)| {
            let mut stage = good();
            alter(&mut stage);
            Verdict::of(&stage, 100).exit_code()
        };
        assert_eq!(with(|stage| stage.missed = 1), 99);
        assert_eq!(with(|stage| stage.doubled = 1), 99);
        assert_eq!(with(|stage| stage.last_tick_has_all = false), 99);
        assert_eq!(with(|stage| stage.tick_interval_p99_ms = 301.0), 99);
        assert_eq!(with(|stage| stage.behind_p99_ms = 1_001.0), 99);
        assert_eq!(with(|stage| stage.tick_gaps = 1), 99);
        assert_eq!(with(|stage| stage.ticks = 0), 99);
        assert_eq!(with(|stage| stage.taps_per_second = 900.0), 99);
        assert_eq!(with(|stage| stage.appends_per_second = 90.0), 99);
        assert_eq!(with(|stage| stage.generator_busy = 0.81), 98);
        assert_eq!(with(|stage| stage.generator_late_p99_ms = 51.0), 98);
    }

    #[test]
    fn a_wrong_count_is_one_whatever_the_generator_did_and_a_slow_tick_is_not() {
        let slow = Stage {
            generator_busy: 0.9,
            tick_interval_p99_ms: 900.0,
            ..good()
        };
        assert_eq!(Verdict::of(&slow, 100).exit_code(), 98);
        let wrong = Stage { missed: 1, ..slow };
        assert_eq!(Verdict::of(&wrong, 100).exit_code(), 99);
    }

    #[test]
    fn what_gave_out_is_named() {
        let named = |alter: fn(&mut Stage)| {
            let mut stage = good();
            stage.tick_interval_p99_ms = 400.0;
            alter(&mut stage);
            gave_out(&stage, &Verdict::of(&stage, 100))
        };
        assert!(named(|stage| stage.aggregator_cores = 0.98).starts_with("the aggregator"));
        assert!(named(|stage| stage.redis_main_thread_cores = 0.98).starts_with("Redis"));
        assert!(named(|stage| stage.machine_busy = 0.99).starts_with("this machine"));
        assert!(named(|stage| stage.generator_busy = 0.9).starts_with("the generator"));
        assert!(named(|stage| stage.missed = 3).starts_with("3 acknowledged"));
        assert!(named(|_| ()).starts_with("none"));
    }
}
