//! All generators of a run, as one: this process, processes of this machine, or agents elsewhere.

use crate::agent::{LOCAL, Remote};
use crate::scenario::Scenario;
use crate::swarm::Swarm;
use crate::swarm::assignment::{Assignment, RoomPlan};
use crate::swarm::harvest::{Harvest, Snapshot};
use anyhow::{Context, bail};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Between the order to start and the run's zero: agents get it one after another.
const LEAD_TIME: Duration = Duration::from_millis(500);

/// Phones per source address: Linux gives 28,232 ports (net.ipv4.ip_local_port_range), some of which others use.
const PHONES_PER_SOURCE: u32 = 20_000;

/// Who plays the phones.
#[derive(Debug, Clone)]
pub enum Placement {
    /// Threads of this process.
    Here,
    /// So many processes of this machine.
    Processes(usize),
    /// Agents: `host:port` each, and the key that they ask for.
    Agents(Vec<String>, String),
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Here => f.write_str("one process"),
            Placement::Processes(count) => write!(f, "{count} processes"),
            Placement::Agents(agents, _) => write!(f, "{} agents", agents.len()),
        }
    }
}

/// What to play.
#[derive(Debug, Clone)]
pub struct Play {
    /// The scenario.
    pub scenario: Scenario,
    /// Makes the timelines.
    pub seed: u64,
    /// Gateways or what stands before them.
    pub targets: Vec<SocketAddr>,
    /// The `Host` header.
    pub host: String,
    /// The rooms.
    pub rooms: Vec<RoomPlan>,
    /// Threads per generator.
    pub threads: usize,
}

/// Generators before a run.
#[derive(Debug)]
pub struct Generators {
    members: Vec<Member>,
    /// Ended when they are dropped.
    children: Vec<Child>,
    epoch: Instant,
}

#[derive(Debug)]
enum Member {
    Here(Option<Swarm>),
    Remote { remote: Remote, clock_us: i64 },
}

impl Generators {
    /// Finds them and compares clocks; nobody plays yet.
    ///
    /// # Errors
    /// An agent cannot be reached or refuses.
    pub async fn gather(placement: &Placement) -> anyhow::Result<Generators> {
        let mut generators = Generators {
            members: Vec::new(),
            children: Vec::new(),
            epoch: Instant::now(),
        };
        match placement {
            Placement::Here => generators.members.push(Member::Here(None)),
            Placement::Processes(count) => {
                for _ in 0..*count {
                    let (child, address) = spawn_agent().await?;
                    generators.children.push(child);
                    generators.add(&address, LOCAL).await?;
                }
            }
            Placement::Agents(addresses, key) => {
                for address in addresses {
                    generators.add(address, key).await?;
                }
            }
        }
        Ok(generators)
    }

    async fn add(&mut self, address: &str, key: &str) -> anyhow::Result<()> {
        let mut remote = Remote::connect(address, key).await?;
        let clock_us = remote.clock(self.epoch).await?.offset_us;
        self.members.push(Member::Remote { remote, clock_us });
        Ok(())
    }

    /// The processes of this machine that play: name and process id. Agents elsewhere are not seen.
    pub fn processes(&self) -> Vec<(String, u32)> {
        let here = std::process::id();
        let children = (1..)
            .zip(&self.children)
            .filter_map(|(number, child)| Some((format!("generator {number}"), child.id()?)));
        if self.children.is_empty() {
            vec![("generator".to_owned(), here)]
        } else {
            children.collect()
        }
    }

    /// Has all play from one moment on, which lies a little ahead: the run's zero.
    ///
    /// # Errors
    /// One of them cannot.
    pub async fn start(&mut self, play: &Play) -> anyhow::Result<Instant> {
        let zero = Instant::now() + LEAD_TIME;
        let zero_us = i64::try_from(zero.duration_since(self.epoch).as_micros())?;
        let count = u32::try_from(self.members.len())?;
        let all_loopback = play.targets.iter().all(|target| target.ip().is_loopback());
        for (index, member) in (0..).zip(&mut self.members) {
            let phones = play.scenario.phones;
            let share = |index: u32| {
                u32::try_from(u64::from(phones) * u64::from(index) / u64::from(count))
                    .unwrap_or(phones)
            };
            let phones = share(index)..share(index + 1);
            let sources = if all_loopback {
                sources(index, phones.end - phones.start)
            } else {
                Vec::new()
            };
            let assignment = Assignment {
                scenario: play.scenario.clone(),
                seed: play.seed,
                phones,
                targets: play.targets.clone(),
                host: play.host.clone(),
                rooms: play.rooms.clone(),
                threads: play.threads,
                sources,
            };
            match member {
                Member::Here(swarm) => *swarm = Some(Swarm::start(assignment, zero)?),
                Member::Remote { remote, clock_us } => {
                    let theirs = u64::try_from(zero_us + *clock_us)
                        .context("an agent's clock began after this run")?;
                    remote.start(assignment, theirs).await?;
                }
            }
        }
        if zero < Instant::now() {
            bail!(
                "the agents took longer than {LEAD_TIME:?} to get their orders: the network is too slow for a run"
            );
        }
        Ok(zero)
    }

    /// The counters of all, added up.
    ///
    /// # Errors
    /// One of them is gone: the run is worth nothing.
    pub async fn snapshot(&mut self) -> anyhow::Result<Snapshot> {
        let mut all = Snapshot::default();
        for member in &mut self.members {
            let one = match member {
                Member::Here(Some(swarm)) => swarm.snapshot(),
                Member::Here(None) => continue,
                Member::Remote { remote, .. } => remote.snapshot().await?,
            };
            add(&mut all, one);
        }
        Ok(all)
    }

    /// Nobody taps any more.
    ///
    /// # Errors
    /// One of them is gone.
    pub async fn stop_tapping(&mut self) -> anyhow::Result<()> {
        for member in &mut self.members {
            match member {
                Member::Here(Some(swarm)) => swarm.stop_tapping(),
                Member::Here(None) => {}
                Member::Remote { remote, .. } => remote.stop_tapping().await?,
            }
        }
        Ok(())
    }

    /// Everybody leaves; what they saw, and by how many microseconds the agents' clocks have drifted apart meanwhile.
    ///
    /// # Errors
    /// One of them is gone.
    pub async fn finish(mut self) -> anyhow::Result<(Vec<Harvest>, u64)> {
        let mut harvests = Vec::new();
        let mut drift_us = 0;
        for member in &mut self.members {
            match member {
                Member::Here(swarm) => {
                    if let Some(swarm) = swarm.take() {
                        let ended = tokio::task::spawn_blocking(move || swarm.finish()).await;
                        harvests.push(ended.context("the generator panicked")?);
                    }
                }
                Member::Remote { remote, clock_us } => {
                    let now_us = remote.clock(self.epoch).await?.offset_us;
                    drift_us = drift_us.max(now_us.abs_diff(*clock_us));
                    harvests.push(remote.finish().await?);
                }
            }
        }
        Ok((harvests, drift_us))
    }
}

/// Loopback addresses to connect from: none is shared by two generators, and none runs out of ports.
fn sources(generator: u32, phones: u32) -> Vec<Ipv4Addr> {
    let needed = phones.div_ceil(PHONES_PER_SOURCE).max(1);
    let octet = |number: u32| u8::try_from(number % 250).unwrap_or(0) + 1;
    (0..needed)
        .map(|source| Ipv4Addr::new(127, 0, octet(generator + 1), octet(source)))
        .collect()
}

fn add(all: &mut Snapshot, one: Snapshot) {
    let Snapshot {
        phones,
        joined,
        taps,
        acked,
        refused,
        waiting,
        frames,
        bytes,
        errors,
        cpu_us,
        busy,
        ack_ms,
        late_ms,
    } = one;
    all.phones += phones;
    all.joined += joined;
    all.taps += taps;
    all.acked += acked;
    all.refused += refused;
    all.waiting += waiting;
    all.frames += frames;
    all.bytes += bytes;
    all.errors += errors;
    all.cpu_us += cpu_us;
    all.busy = all.busy.max(busy);
    all.ack_ms.extend(ack_ms);
    all.late_ms.extend(late_ms);
}

/// A process of this machine that is an agent; it ends with its standard input, and so with us.
async fn spawn_agent() -> anyhow::Result<(Child, String)> {
    let program = rig::binary("loadtest")?;
    let mut child = Command::new(program)
        .args(["agent", "--listen", "127.0.0.1:0", "--until-input-ends"])
        .env_remove("UPROAR_AGENT_KEY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .context("a generator process cannot be started")?;
    let output = child.stdout.take().context("it has no standard output")?;
    let mut line = String::new();
    let reading = BufReader::new(output).read_line(&mut line).await;
    reading.context("a generator process ended before it was ready")?;
    let said: serde_json::Value =
        serde_json::from_str(&line).context("a generator process did not say where it listens")?;
    let address = said["listen"]
        .as_str()
        .context("it did not say where it listens")?;
    Ok((child, address.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_generators_share_a_source_and_none_runs_out_of_ports() {
        let one = sources(0, 45_000);
        assert_eq!(one.len(), 3);
        let other = sources(1, 45_000);
        assert!(one.iter().all(|source| !other.contains(source)));
        assert!(one.iter().all(Ipv4Addr::is_loopback));
    }
}
