//! Whether a Redis is fit for us, and how to say so.

use super::probe::{Electable, Findings};
use super::settings::RedisSettings;
use std::time::Duration;

/// Masters' clocks may be apart by this much. Log time jumps by the difference at a failover, and a batch is void after
/// twenty seconds.
const CLOCKS_APART_MAX_MS: i64 = 5_000;

/// A batch is given up after this long, with the connections of those who tapped; a replica's failure should not last
/// longer. (The same as `counting::outbox::VOID_AFTER_MS`.)
const ELECTABLE_COMFORTABLE: Duration =
    Duration::from_millis(crate::counting::outbox::VOID_AFTER_MS);

/// Electable time where the masters do not tell their configuration.
pub(super) const ELECTABLE_UNREADABLE: Duration = Duration::from_secs(15);

/// What is wrong with one master.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// We must not start on it.
    pub(super) unfit: Option<String>,
    /// We can, but the operator should know.
    pub(super) warnings: Vec<String>,
}

/// Judges one master.
pub(super) fn judge(address: &str, findings: &Findings, settings: &RedisSettings) -> Verdict {
    let mut verdict = Verdict::default();
    match findings.eviction.as_deref() {
        Some("noeviction") | None => {}
        Some(policy) => {
            verdict.unfit = Some(format!(
                "Redis at {address} has maxmemory-policy {policy} and would throw away \
                 acknowledged taps; set it to noeviction"
            ));
        }
    }
    if findings.aof == Some(false) {
        verdict.warnings.push(format!(
            "Redis at {address} has no append-only file: when it restarts it comes back empty; set appendonly yes"
        ));
    }
    if settings.replica_electable.is_zero() {
        match findings.electable {
            Electable::Unreadable => verdict.warnings.push(format!(
                "Redis at {address} does not permit CONFIG GET: taking {ELECTABLE_UNREADABLE:?} as \
                 the time after which a failed replica cannot be elected; set redis.replica_electable_ms if it is longer"
            )),
            Electable::For(None) => verdict.warnings.push(format!(
                "Redis at {address} has cluster-replica-validity-factor 0: a replica counts as \
                 electable for ever, so taps wait for as long as one is down"
            )),
            Electable::For(Some(time)) if time > ELECTABLE_COMFORTABLE => {
                verdict.warnings.push(format!(
                    "Redis at {address} lets a failed replica be elected for {time:?} \
                     (cluster-node-timeout, cluster-replica-validity-factor): taps wait that long for it; below 20 s is better"
                ));
            }
            Electable::Unasked | Electable::For(Some(_)) => {}
        }
    }
    verdict
}

/// Says which clocks are too far apart, by offsets from ours.
pub(super) fn judge_clocks(offsets: &[(String, i64)]) -> Option<String> {
    let (first, least) = offsets.iter().min_by_key(|(_, offset)| offset)?;
    let (last, most) = offsets.iter().max_by_key(|(_, offset)| offset)?;
    let apart = most.saturating_sub(*least);
    (apart > CLOCKS_APART_MAX_MS).then(|| {
        format!(
            "the clocks of the Redis masters {first} and {last} are {apart} ms apart; they must agree within \
             {CLOCKS_APART_MAX_MS} ms: run NTP on them"
        )
    })
}

/// What an error that will not go away says to the operator.
pub(super) fn explain(
    address: &str,
    code: &str,
    details: &str,
    settings: &RedisSettings,
) -> Option<String> {
    let has_password = settings.password.is_some();
    let text = match code {
        "NOAUTH" if !has_password => {
            format!("Redis at {address} asks for a password; set redis.password")
        }
        "NOAUTH" | "WRONGPASS" => format!(
            "Redis at {address} refuses the user name or the password, or has none; correct redis.username and redis.password"
        ),
        "NOPERM" => {
            format!("Redis at {address} does not let this user do what is needed: {details}")
        }
        "DENIED" => format!("Redis at {address} refuses connections: {details}"),
        "ERR" if details.contains("cluster support disabled") => format!(
            "Redis at {address} is no cluster; start it with cluster-enabled yes and make a cluster of it"
        ),
        "ERR" if details.to_lowercase().contains("unknown") => {
            format!("Redis at {address} is too old: {details}; version 7 or newer is needed")
        }
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> RedisSettings {
        RedisSettings::new(vec![])
    }

    #[test]
    fn an_evicting_master_is_unfit() {
        let findings = Findings {
            eviction: Some("allkeys-lru".to_owned()),
            ..Findings::default()
        };
        let unfit = judge("a:1", &findings, &settings()).unfit.unwrap();
        assert!(
            unfit.contains("a:1") && unfit.contains("allkeys-lru") && unfit.contains("noeviction")
        );
        let findings = Findings {
            eviction: Some("noeviction".to_owned()),
            ..Findings::default()
        };
        assert_eq!(judge("a:1", &findings, &settings()), Verdict::default());
    }

    #[test]
    fn the_electable_time_is_warned_about_where_it_is_derived() {
        let warnings = |electable, settings: &RedisSettings| {
            judge(
                "a:1",
                &Findings {
                    electable,
                    ..Findings::default()
                },
                settings,
            )
            .warnings
            .len()
        };
        let long = Electable::For(Some(Duration::from_secs(176)));
        for electable in [Electable::Unreadable, Electable::For(None), long] {
            assert_eq!(warnings(electable, &settings()), 1, "{electable:?}");
            let set = RedisSettings {
                replica_electable: Duration::from_secs(9),
                ..settings()
            };
            assert_eq!(warnings(electable, &set), 0, "{electable:?}");
        }
        assert_eq!(
            warnings(Electable::For(Some(Duration::from_secs(5))), &settings()),
            0
        );
    }

    #[test]
    fn clocks_may_be_five_seconds_apart() {
        let offsets = |a, b| {
            [
                ("a:1".to_owned(), a),
                ("b:1".to_owned(), b),
                ("c:1".to_owned(), 0),
            ]
        };
        assert_eq!(judge_clocks(&offsets(-2_000, 3_000)), None);
        let text = judge_clocks(&offsets(-2_000, 3_001)).unwrap();
        assert!(
            text.contains("a:1") && text.contains("b:1") && text.contains("5001"),
            "{text}"
        );
        assert_eq!(judge_clocks(&[]), None);
    }

    #[test]
    fn what_will_not_go_away_is_explained() {
        let wrong = RedisSettings {
            password: Some("x".to_owned()),
            ..settings()
        };
        let explain = |code, details, settings: &RedisSettings| {
            explain("a:1", code, details, settings).unwrap_or_default()
        };
        assert!(explain("NOAUTH", "", &settings()).contains("asks for a password"));
        assert!(explain("WRONGPASS", "", &wrong).contains("refuses"));
        let single = "This instance has cluster support disabled";
        assert!(explain("ERR", single, &settings()).contains("no cluster"));
        assert!(explain("CLUSTERDOWN", "", &settings()).is_empty());
    }
}
