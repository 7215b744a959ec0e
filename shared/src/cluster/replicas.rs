//! Which replicas could still be elected, judged by our own monotonic clock.
//!
//! A replica that lost its master can be elected for as long as its data is young enough (`cluster-replica-
//! validity-factor`). So one that is seen down counts until that time has passed since *we* first saw it down,
//! which is never before its own clock began: late, and so on the safe side. One that we never saw healthy counts from
//! when we first saw it.
//!
//! A master that becomes a replica, or a node that is new, cannot be elected before it has synchronised once, and
//! that can take minutes. It is waited for only for a moment: long enough that an ordered failover leaves nothing
//! without a copy, not so long that a restarted node holds up everybody while it loads.

use super::view::ReplicaView;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// A replica that acknowledged nothing for this long is down, though its connection stands: they acknowledge each
/// second, so this is five in a row missed.
const LAG_SECONDS_MAX: u64 = 5;

/// How long a replica is waited for that is new to its master and has not synchronised yet.
const FRESH_COUNTS_FOR: Duration = Duration::from_secs(5);

/// For so long after our start a replica that appears is not taken for new: the first view may not have shown it.
const UNACQUAINTED_FOR: Duration = Duration::from_secs(10);

/// One line `slaveN:` of a master's INFO replication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// `ip:port` as the replica told the master.
    pub(super) address: String,
    /// It has all of the data, follows, and acknowledges.
    pub(super) sound: bool,
}

/// The links of an INFO replication text.
pub(super) fn parse_links(info: &str) -> Vec<Link> {
    let parse = |line: &str| {
        let (number, values) = line.trim_end().strip_prefix("slave")?.split_once(':')?;
        number.parse::<u32>().ok()?;
        let value = |name: &str| {
            values
                .split(',')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        };
        let lag: u64 = value("lag")?.parse().unwrap_or(u64::MAX);
        Some(Link {
            address: format!("{}:{}", value("ip")?, value("port")?),
            sound: value("state")? == "online" && lag <= LAG_SECONDS_MAX,
        })
    };
    info.lines().filter_map(parse).collect()
}

/// The time after which a replica without its master cannot be elected any more, from INFO or CONFIG values
/// (`replica-validity-factor` 0: never).
pub(super) fn electable_for(
    node_timeout_ms: u64,
    validity_factor: u64,
    ping_period_s: u64,
) -> Option<Duration> {
    // Redis measures the age of a replica's data in whole seconds: one more, so that we are never early.
    let rounding = Duration::from_secs(1);
    (validity_factor > 0).then(|| {
        Duration::from_millis(node_timeout_ms.saturating_mul(validity_factor.saturating_add(1)))
            + Duration::from_secs(ping_period_s)
            + rounding
    })
}

/// A replica under one master.
#[derive(Debug)]
struct Standing {
    /// None while it is healthy.
    down_since: Option<Instant>,
    /// It has not synchronised with this master since it became its replica.
    fresh: bool,
}

/// How every replica stands.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    /// By the ids of the master and the replica.
    standings: HashMap<(String, String), Standing>,
    /// Nodes that were masters when they were last seen.
    were_masters: HashSet<String>,
    /// Nodes that were replicas when they were last seen.
    were_replicas: HashSet<String>,
    started: Option<Instant>,
    /// How many replicas a node has, or its master has or had: a group that loses its master keeps its number.
    most: HashMap<String, usize>,
}

impl Replicas {
    /// Takes what is known of one master's replicas now; how many of them could be elected. `links` are what the
    /// master says, where it could be asked. `electable_for`: none stands for ever.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        master: &str,
        replicas: &[ReplicaView],
        links: Option<&[Link]>,
        electable_for: Option<Duration>,
    ) -> usize {
        let started = *self.started.get_or_insert(now);
        let acquainted = now.saturating_duration_since(started) > UNACQUAINTED_FOR;
        self.standings
            .retain(|(of, id), _| of != master || replicas.iter().any(|replica| &replica.id == id));
        self.were_replicas.remove(master);
        self.were_masters.insert(master.to_owned());
        let linked = linked(replicas, links);
        let mut electable = 0;
        for (replica, linked) in replicas.iter().zip(linked) {
            let was_master = self.were_masters.remove(&replica.id);
            let is_unknown = self.were_replicas.insert(replica.id.clone());
            let fresh = was_master || (is_unknown && acquainted);
            let key = (master.to_owned(), replica.id.clone());
            let known = self.standings.contains_key(&key);
            let standing = self.standings.entry(key).or_insert(Standing {
                down_since: Some(now),
                fresh,
            });
            let before = standing.down_since.is_none();
            let healthy = replica.online && linked;
            if !known || healthy != before {
                let state = if healthy {
                    "follows"
                } else {
                    "does not follow"
                };
                tracing::info!(
                    master,
                    replica = replica.address,
                    "replica {state} its master"
                );
            }
            electable += usize::from(standing.counts(now, healthy, electable_for));
        }
        electable
    }

    /// How many replicas a master lists, or its group has had since we started. A group from which one is taken for good
    /// keeps the larger number: that costs time, the other way round would cost taps.
    pub(super) fn listed(&mut self, master: &str, replicas: &[ReplicaView]) -> usize {
        let most = self.most.entry(master.to_owned()).or_default();
        *most = replicas.len().max(*most);
        let most = *most;
        for replica in replicas {
            self.most.insert(replica.id.clone(), most);
        }
        most
    }

    /// Forgets the replicas of masters that are not there any more.
    pub(super) fn retain_masters(&mut self, is_master: impl Fn(&str) -> bool) {
        self.standings.retain(|(master, _), _| is_master(master));
    }
}

impl Standing {
    /// Takes whether it is healthy now; whether it could be elected.
    fn counts(&mut self, now: Instant, healthy: bool, electable_for: Option<Duration>) -> bool {
        if healthy {
            *self = Standing {
                down_since: None,
                fresh: false,
            };
            return true;
        }
        let since = *self.down_since.get_or_insert(now);
        let limit = if self.fresh {
            Some(electable_for.map_or(FRESH_COUNTS_FOR, |time| time.min(FRESH_COUNTS_FOR)))
        } else {
            electable_for
        };
        limit.is_none_or(|limit| now.saturating_duration_since(since) < limit)
    }
}

/// For each replica whether its master has a sound link to it. A replica can tell its master another address than it
/// tells the cluster (NAT): links that fit no replica stand for the replicas that no link fits, as many as they are.
fn linked(replicas: &[ReplicaView], links: Option<&[Link]>) -> Vec<bool> {
    let Some(links) = links else {
        return vec![true; replicas.len()];
    };
    let fits = |replica: &ReplicaView| links.iter().find(|link| link.address == replica.address);
    let is_ours = |link: &Link| {
        replicas
            .iter()
            .any(|replica| replica.address == link.address)
    };
    let mut strangers = links
        .iter()
        .filter(|link| link.sound && !is_ours(link))
        .count();
    replicas
        .iter()
        .map(|replica| match fits(replica) {
            Some(link) => link.sound,
            None if strangers > 0 => {
                strangers -= 1;
                true
            }
            None => false,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Option<Duration> = Some(Duration::from_secs(5));

    fn replica(id: &str, online: bool) -> ReplicaView {
        ReplicaView {
            id: id.to_owned(),
            address: format!("{id}:7000"),
            online,
        }
    }

    fn link(address: &str, sound: bool) -> Link {
        Link {
            address: address.to_owned(),
            sound,
        }
    }

    #[test]
    fn a_replica_counts_until_its_time_has_passed() {
        let mut replicas = Replicas::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut count = |now, online, sound| {
            let links = [link("a:7000", sound)];
            replicas.observe(now, "m", &[replica("a", online)], Some(&links), TIME)
        };
        assert_eq!(count(at(0), true, true), 1);
        assert_eq!(count(at(100), true, false), 1, "just lost its link");
        assert_eq!(count(at(104), false, false), 1);
        assert_eq!(count(at(105), false, false), 0, "its time has passed");
        assert_eq!(count(at(106), true, true), 1, "it is back");
        assert_eq!(count(at(107), false, true), 1);
        assert_eq!(count(at(113), false, true), 0);
    }

    #[test]
    fn one_never_seen_healthy_counts_until_the_time_has_passed() {
        let mut replicas = Replicas::default();
        let start = Instant::now();
        let down = [replica("a", false)];
        assert_eq!(replicas.observe(start, "m", &down, Some(&[]), TIME), 1);
        let later = start + Duration::from_secs(5);
        assert_eq!(replicas.observe(later, "m", &down, Some(&[]), TIME), 0);
        assert_eq!(
            replicas.observe(later, "n", &down, Some(&[]), TIME),
            1,
            "of another master"
        );
    }

    #[test]
    fn a_master_that_became_a_replica_is_waited_for_only_for_a_moment() {
        let long = Some(Duration::from_secs(176));
        let mut replicas = Replicas::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(
            replicas.observe(at(0), "old", &[replica("new", true)], None, long),
            1
        );
        assert_eq!(
            replicas.observe(at(1), "new", &[], None, long),
            0,
            "nobody follows it yet"
        );
        let syncing = [replica("old", false)];
        assert_eq!(replicas.observe(at(2), "new", &syncing, None, long), 1);
        assert_eq!(replicas.observe(at(6), "new", &syncing, None, long), 1);
        assert_eq!(
            replicas.observe(at(7), "new", &syncing, None, long),
            0,
            "it takes too long"
        );
        assert_eq!(
            replicas.observe(at(60), "new", &[replica("old", true)], None, long),
            1
        );
        assert_eq!(replicas.observe(at(61), "new", &syncing, None, long), 1);
        assert_eq!(
            replicas.observe(at(200), "new", &syncing, None, long),
            1,
            "it had been synchronised"
        );
        assert_eq!(replicas.observe(at(237), "new", &syncing, None, long), 0);
    }

    #[test]
    fn a_new_node_is_waited_for_only_for_a_moment_and_a_moved_one_for_long() {
        let long = Some(Duration::from_secs(176));
        let mut replicas = Replicas::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        replicas.observe(at(0), "m", &[replica("moves", true)], None, long);
        replicas.observe(at(0), "n", &[], None, long);
        replicas.observe(at(100), "m", &[], None, long);
        let appeared = [replica("moves", false), replica("new", false)];
        assert_eq!(replicas.observe(at(100), "n", &appeared, None, long), 2);
        assert_eq!(
            replicas.observe(at(106), "n", &appeared, None, long),
            1,
            "the one that moved"
        );
        assert_eq!(replicas.observe(at(276), "n", &appeared, None, long), 0);
    }

    #[test]
    fn without_a_validity_limit_a_replica_counts_for_ever() {
        let mut replicas = Replicas::default();
        let start = Instant::now();
        let down = [replica("a", false)];
        assert_eq!(replicas.observe(start, "m", &down, None, None), 1);
        let later = start + Duration::from_secs(1_000_000);
        assert_eq!(replicas.observe(later, "m", &down, None, None), 1);
        assert_eq!(electable_for(1_000, 0, 1), None);
    }

    #[test]
    fn the_electable_time_is_what_redis_allows_and_a_second() {
        assert_eq!(electable_for(1_000, 2, 1), Some(Duration::from_secs(5)));
        assert_eq!(
            electable_for(15_000, 10, 10),
            Some(Duration::from_secs(176))
        );
    }

    #[test]
    fn a_master_that_took_over_still_misses_the_old_one() {
        let mut replicas = Replicas::default();
        assert_eq!(replicas.listed("lone", &[]), 0);
        assert_eq!(replicas.listed("old", &[replica("new", true)]), 1);
        assert_eq!(replicas.listed("new", &[]), 1, "the old one may come back");
        assert_eq!(replicas.listed("new", &[replica("old", true)]), 1);
        let two = [replica("old", true), replica("more", true)];
        assert_eq!(replicas.listed("new", &two), 2);
    }

    #[test]
    fn links_are_read_and_matched() {
        let info = "# Replication\r\nrole:master\r\nconnected_slaves:3\r\n\
            slave0:ip=10.0.0.1,port=7000,state=online,offset=42,lag=1\r\n\
            slave1:ip=10.0.0.2,port=7000,state=wait_bgsave,offset=0,lag=0\r\n\
            slave2:ip=10.0.0.3,port=7000,state=online,offset=42,lag=9\r\nslave_x:y\r\n";
        let links = parse_links(info);
        let sound: Vec<_> = links.iter().map(|link| link.sound).collect();
        assert_eq!(sound, [true, false, false]);

        let two = [replica("a", true), replica("b", true)];
        assert_eq!(linked(&two, None), [true, true]);
        assert_eq!(linked(&two, Some(&[])), [false, false]);
        assert_eq!(linked(&two, Some(&[link("b:7000", true)])), [false, true]);
        assert_eq!(
            linked(&two, Some(&[link("nat:1", true)])),
            [true, false],
            "by number"
        );
        assert_eq!(linked(&two, Some(&[link("nat:1", false)])), [false, false]);
    }
}
