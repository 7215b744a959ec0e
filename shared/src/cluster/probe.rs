//! Asks one master again and again what only it knows: its clock, its memory, its links to replicas.

use super::clock::{ClockEstimate, local_now_ms};
use super::dial::Dialer;
use super::errors::answered;
use super::replicas::{Link, electable_for, parse_links};
use super::view::{field, text};
use redis::Value;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a master may take to answer a probe. A stalled one must not hold up the news of the others, and each has a
/// task of its own, so this only bounds how old what we know of it can be.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// INFO memory and persistence are asked for with every n-th probe: they change slowly and cost Redis more.
const SLOW_EVERY: u32 = 5;

/// CONFIG is asked for with every n-th probe: operators change it by hand.
const CONFIG_EVERY: u32 = 150;

/// What is known of a master from itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Findings {
    pub(super) clock: ClockEstimate,
    /// None until it was asked.
    pub(super) links: Option<Vec<Link>>,
    /// When the links were asked for.
    pub(super) links_since: Option<Instant>,
    pub(super) memory_used_ratio: f64,
    /// `maxmemory-policy`.
    pub(super) eviction: Option<String>,
    pub(super) aof: Option<bool>,
    /// How long its replicas stay electable.
    pub(super) electable: Electable,
}

/// What CONFIG said of the time for which replicas stay electable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Electable {
    /// Not asked yet.
    #[default]
    Unasked,
    /// CONFIG is not permitted (managed Redis).
    Unreadable,
    /// Read; none is for ever.
    For(Option<Duration>),
}

impl Findings {
    /// Everything was asked for once.
    pub(super) fn is_complete(&self) -> bool {
        self.links.is_some()
            && self.eviction.is_some()
            && self.clock.offset_ms().is_some()
            && self.electable != Electable::Unasked
    }
}

/// The task that asks, and what it found.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) address: String,
    findings: Arc<Mutex<Findings>>,
    stop: CancellationToken,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Probe {
    /// Starts asking, until it is dropped.
    pub(super) fn start(
        dialer: Dialer,
        address: String,
        interval: Duration,
        tasks: &mut tokio::task::JoinSet<()>,
    ) -> Self {
        let findings = Arc::new(Mutex::new(Findings::default()));
        let stop = CancellationToken::new();
        let task = ProbeTask {
            dialer,
            address: address.clone(),
            findings: findings.clone(),
            connection: None,
            asked: 0,
        };
        let stopped = stop.clone();
        tasks.spawn(async move {
            // Dropping a probe in the middle loses nothing: its connection goes with it.
            stopped.run_until_cancelled(task.run(interval)).await;
        });
        Probe {
            address,
            findings,
            stop,
        }
    }

    /// What is known by now.
    pub(super) fn findings(&self) -> Findings {
        self.findings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

struct ProbeTask {
    dialer: Dialer,
    address: String,
    findings: Arc<Mutex<Findings>>,
    connection: Option<MultiplexedConnection>,
    asked: u32,
}

impl ProbeTask {
    async fn run(mut self, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.ask().await {
                tracing::debug!(address = self.address, %error, "a probe failed");
                self.connection = None;
                // A new connection may reach another process at the same address.
                self.asked = 0;
            }
        }
    }

    async fn ask(&mut self) -> redis::RedisResult<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.dialer.open(&self.address, PROBE_TIMEOUT).await?),
        };
        let slow = self.asked.is_multiple_of(SLOW_EVERY);
        let config = self.asked.is_multiple_of(CONFIG_EVERY);
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME").cmd("INFO").arg("replication");
        if slow {
            pipeline
                .cmd("INFO")
                .arg("memory")
                .cmd("INFO")
                .arg("persistence");
        }
        let count = pipeline.len();
        let (sent, sent_ms) = (Instant::now(), local_now_ms());
        let answers = connection.req_packed_commands(&pipeline, 0, count).await?;
        let round_trip = sent.elapsed();
        let electable = if config {
            Some(ask_electable(connection).await?)
        } else {
            None
        };
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answers = answers.into_iter().map(answered);
        if let Some(Ok(Value::Array(time))) = answers.next()
            && let Some(server_ms) = parse_time(&time)
        {
            findings.clock.observe(sent_ms, round_trip, server_ms);
        }
        if let Some(Ok(info)) = answers.next() {
            findings.links = Some(parse_links(&text(&info)));
            findings.links_since = Some(sent);
        }
        if let Some(Ok(info)) = answers.next() {
            note_memory(&mut findings, &text(&info));
        }
        if let Some(Ok(info)) = answers.next() {
            findings.aof = field(&text(&info), "aof_enabled").map(|value| value == "1");
        }
        if let Some(electable) = electable {
            findings.electable = electable;
        }
        self.asked = self.asked.wrapping_add(1);
        Ok(())
    }
}

/// Seconds and microseconds of TIME as milliseconds.
fn parse_time(time: &[Value]) -> Option<i64> {
    let number = |index: usize| text(time.get(index)?).parse::<i64>().ok();
    number(0)?
        .checked_mul(1_000)?
        .checked_add(number(1)? / 1_000)
}

fn note_memory(findings: &mut Findings, info: &str) {
    let number = |name| {
        field(info, name)
            .and_then(|value| value.parse::<u64>().ok())
            .unwrap_or(0)
    };
    // Buffers of replicas do not count against the limit.
    let used = number("used_memory").saturating_sub(number("mem_not_counted_for_evict"));
    let max = number("maxmemory");
    findings.memory_used_ratio = if max == 0 {
        0.0
    } else {
        used as f64 / max as f64
    };
    findings.eviction = field(info, "maxmemory_policy").map(str::to_owned);
}

/// How long replicas of this node stay electable, by its configuration.
async fn ask_electable(connection: &mut MultiplexedConnection) -> redis::RedisResult<Electable> {
    const NAMES: [&str; 3] = [
        "cluster-node-timeout",
        "cluster-replica-validity-factor",
        "repl-ping-replica-period",
    ];
    let mut pipeline = redis::pipe();
    for name in NAMES {
        pipeline.cmd("CONFIG").arg("GET").arg(name);
    }
    let answers = connection
        .req_packed_commands(&pipeline, 0, NAMES.len())
        .await?;
    let number = |answer: &Value| match answer {
        Value::Array(pair) => text(pair.get(1)?).parse::<u64>().ok(),
        Value::Map(pairs) => text(&pairs.first()?.1).parse::<u64>().ok(),
        _ => None,
    };
    let values: Vec<u64> = answers.iter().filter_map(number).collect();
    Ok(match values[..] {
        [timeout, factor, ping] => Electable::For(electable_for(timeout, factor, ping)),
        _ => Electable::Unreadable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_measured_without_replica_buffers() {
        let mut findings = Findings::default();
        note_memory(
            &mut findings,
            "used_memory:900\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\n\
             mem_not_counted_for_evict:400\r\n",
        );
        assert!((findings.memory_used_ratio - 0.5).abs() < 1e-9);
        assert_eq!(findings.eviction.as_deref(), Some("noeviction"));
        note_memory(&mut findings, "used_memory:900\r\nmaxmemory:0\r\n");
        assert!(findings.memory_used_ratio.abs() < 1e-9);
    }

    #[test]
    fn time_is_read_as_milliseconds() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        assert_eq!(
            parse_time(&[bulk("1700000000"), bulk("123999")]),
            Some(1_700_000_000_123)
        );
        assert_eq!(parse_time(&[bulk("x")]), None);
    }
}
