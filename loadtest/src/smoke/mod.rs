//! The smoke test: phones tap in rooms on different masters, something may be killed in the middle, and in the end
//! all counts are compared with what the phones know.

pub mod rooms;
pub mod kill;
pub mod latency;

use crate::compare::{self, Found, Verdict};
use crate::crowd::{Crowd, Phase, Seen};
use crate::evidence;
use crate::ledger::{Sheet, client_hash};
use crate::stack::{Stack, StackOptions};
use anyhow::Context;
use kill::Kill;
use latency::Latencies;
use serde::Serialize;
use shared::room::RoomCode;
use shared::shards::Shards;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep};

/// How long the last answers and the readers may take after the last tap: a take-over, a failover and a replica that
/// comes back all fit in.
const SETTLE_WITHIN: Duration = Duration::from_secs(60);

/// The cooldown of the rooms, and how often each phone taps.
const COOLDOWN: Duration = Duration::from_secs(1);

/// How many shards there are: the default of the services.
const SHARDS: u16 = 64;

/// What to run.
#[derive(Debug, Clone)]
pub struct SmokeOptions {
    /// Phones in all rooms together.
    pub phones: usize,
    /// Rooms, each on a master of its own as far as masters go.
    pub rooms: usize,
    /// How long they tap.
    pub tapping: Duration,
    /// What to kill in the middle.
    pub kill: Option<Kill>,
}

impl Default for SmokeOptions {
    fn default() -> Self {
        let tapping = Duration::from_secs(15);
        SmokeOptions {
            phones: 300,
            rooms: 3,
            tapping,
            kill: None,
        }
    }
}

/// The last line of `smoke`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Counts, and whether they fit.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Waits from due to shown.
    #[serde(flatten)]
    pub latencies: Latencies,
}

/// A run that is over, its system still up: the counts can be looked at again.
#[derive(Debug)]
pub struct Smoked {
    /// The system.
    pub stack: Stack,
    /// The rooms.
    pub rooms: Vec<RoomCode>,
    /// What the phones sent.
    pub sheets: Vec<Sheet>,
    seen: Vec<Arc<Seen>>,
    shards: Shards,
}

/// Starts the system, lets the phones tap, kills what is to be killed, and waits until all is settled.
///
/// # Errors
/// Something did not start, or a server that should answer did not.
pub async fn run(options: &SmokeOptions, progress: impl Fn(&str)) -> anyhow::Result<Smoked> {
    let stack = StackOptions {
        aggregators: 2,
        persisters: 2,
        ..StackOptions::default()
    };
    let stack = Stack::start(stack, &progress).await?;
    let shards = Shards::new(SHARDS);
    let rooms = rooms::make(&stack, &shards, options.rooms, COOLDOWN).await?;
    let mut crowd = Crowd::new(stack.front.address());
    let mut seen = Vec::new();
    for (index, room) in rooms.iter().enumerate() {
        seen.push(crowd.add_observer(room));
        let phones = (index..options.phones).step_by(rooms.len()).len();
        for phone in 0..phones {
            crowd.add_phone(room, rooms::keys_of(phone), COOLDOWN);
        }
    }
    wait_for(
        Duration::from_secs(30),
        "all phones have joined",
        async || Ok(crowd.board.connected.load(Relaxed) == crowd.len()),
    )
    .await?;
    progress(&format!(
        "{} phones have joined {} rooms",
        crowd.len(),
        rooms.len()
    ));

    crowd.set_phase(Phase::Tap);
    tap(&stack, &shards, &rooms, &crowd, options, &progress).await?;
    crowd.set_phase(Phase::Settle);
    settle(&stack, &shards, &rooms, &crowd, &seen, &progress).await?;
    progress(&crowd.board.to_string());
    let sheets = crowd.end().await;
    Ok(Smoked {
        stack,
        rooms,
        sheets,
        seen,
        shards,
    })
}

/// Lets time go by, and in the middle of it kills.
async fn tap(
    stack: &Stack,
    shards: &Shards,
    rooms: &[RoomCode],
    crowd: &Crowd,
    options: &SmokeOptions,
    progress: &impl Fn(&str),
) -> anyhow::Result<()> {
    let end = Instant::now() + options.tapping;
    let mut kill = options.kill;
    let mut restart = None;
    let mut second = interval(Duration::from_secs(1));
    while Instant::now() < end {
        second.tick().await;
        progress(&crowd.board.to_string());
        if Instant::now() + options.tapping / 2 > end
            && let Some(kill) = kill.take()
        {
            let killed = kill.strike(stack, shards, &rooms[0]).await?;
            progress(&format!("killed {killed}"));
            restart = killed.comes_back();
        }
        if let Some(node) = restart.take_if(|_| true) {
            restart = node.back_as_replica(stack).await?;
        }
    }
    while let Some(node) = restart {
        sleep(Duration::from_millis(200)).await;
        restart = node.back_as_replica(stack).await?;
    }
    Ok(())
}

/// Waits until nothing is open any more. When that does not come, the comparison will say what is missing.
async fn settle(
    stack: &Stack,
    shards: &Shards,
    rooms: &[RoomCode],
    crowd: &Crowd,
    seen: &[Arc<Seen>],
    progress: &impl Fn(&str),
) -> anyhow::Result<()> {
    // On a busy machine a phone may hear of it late, and tap once more.
    sleep(COOLDOWN).await;
    let settled = wait_for(SETTLE_WITHIN, "every tap is answered", async || {
        Ok(crowd.board.waiting.load(Relaxed) == 0)
    });
    if let Err(error) = settled.await {
        progress(&format!("{error:#}"));
    }
    let caught_up = wait_for(SETTLE_WITHIN, "the readers have caught up", async || {
        // While a master is being replaced nobody answers; that is no reason to give up.
        Ok(evidence::caught_up(&stack.rig, shards, rooms)
            .await
            .unwrap_or(false))
    });
    if let Err(error) = caught_up.await {
        progress(&format!("{error:#}"));
    }
    let shown = wait_for(
        Duration::from_secs(10),
        "the observers see the totals",
        async || {
            let totals = evidence::totals(&stack.rig, shards, rooms).await?;
            Ok(totals == seen_by(rooms, seen))
        },
    );
    if let Err(error) = shown.await {
        progress(&format!("{error:#}"));
    }
    Ok(())
}

impl Smoked {
    /// Compares what the phones sent with what is found now.
    ///
    /// # Errors
    /// Redis or Postgres does not answer.
    pub async fn report(&self) -> anyhow::Result<Report> {
        let rig = &self.stack.rig;
        let totals = evidence::totals(rig, &self.shards, &self.rooms).await?;
        let (taps, tap_counts) = evidence::rows(&rig.postgres_url(), &self.rooms).await?;
        let seen = seen_by(&self.rooms, &self.seen);
        let found = Found {
            totals,
            seen,
            taps,
            tap_counts,
        };
        let key = rig.client_hash_key();
        let claims = compare::claims(&self.sheets, |client| client_hash(key, client));
        let verdict = compare::compare(&claims, &found);
        let latencies = Latencies::of(&self.sheets, &self.rooms, &self.seen)?;
        Ok(Report { verdict, latencies })
    }

    /// The table of shards.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }
}

fn seen_by(
    rooms: &[RoomCode],
    seen: &[Arc<Seen>],
) -> std::collections::BTreeMap<compare::Cell, u64> {
    let totals = rooms.iter().zip(seen).flat_map(|(room, seen)| {
        seen.totals()
            .into_iter()
            .map(|(key, total)| ((room.clone(), key), total))
    });
    totals.collect()
}

/// Asks every 100 ms until `condition` holds.
///
/// # Errors
/// It did not within `at_most`, or could not be asked.
pub async fn wait_for(
    at_most: Duration,
    what: &str,
    condition: impl AsyncFn() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + at_most;
    loop {
        if condition()
            .await
            .with_context(|| format!("waiting until {what}"))?
        {
            return Ok(());
        }
        if Instant::now() > deadline {
            anyhow::bail!("waited {at_most:?} in vain until {what}");
        }
        sleep(Duration::from_millis(100)).await;
    }
}
