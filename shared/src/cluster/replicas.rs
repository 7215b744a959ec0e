//! Which replicas could still be elected, judged by our own monotonic clock.
//!
//! A replica that lost its master can be elected for as long as its data is young enough (`cluster-replica-
//! validity-factor`). So one that is seen down counts until that time has passed since *we* first saw it down,
//! which is never before its own clock began: late, and so on the safe side. One that we never saw healthy counts from
//! when we first saw it.

use super::view::ReplicaView;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A replica that acknowledged nothing for this long is down, though its connection stands: they acknowledge each
/// second, so this is five in a row missed.
const LAG_SECONDS_MAX: u64 = 5;

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

/// Since when which replica is down.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    down_since: HashMap<(String, String), Instant>,
    healthy: HashMap<(String, String), bool>,
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
        self.forget_unlisted(master, replicas);
        let linked = linked(replicas, links);
        let mut electable = 0;
        for (replica, linked) in replicas.iter().zip(linked) {
            let key = (master.to_owned(), replica.id.clone());
            let healthy = replica.online && linked;
            if healthy {
                self.down_since.remove(&key);
                electable += 1;
            } else {
                let since = *self.down_since.entry(key.clone()).or_insert(now);
                let expired =
                    electable_for.is_some_and(|time| now.saturating_duration_since(since) >= time);
                electable += usize::from(!expired);
            }
            if self.healthy.insert(key, healthy) != Some(healthy) {
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
        }
        electable
    }

    /// Forgets the replicas of masters that are not there any more.
    pub(super) fn retain_masters(&mut self, is_master: impl Fn(&str) -> bool) {
        self.down_since.retain(|(master, _), _| is_master(master));
        self.healthy.retain(|(master, _), _| is_master(master));
    }

    fn forget_unlisted(&mut self, master: &str, replicas: &[ReplicaView]) {
        let listed = |(of, id): &(String, String)| {
            of != master || replicas.iter().any(|replica| &replica.id == id)
        };
        self.down_since.retain(|key, _| listed(key));
        self.healthy.retain(|key, _| listed(key));
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
