//! What has to happen every second or so, for all viewers and rooms at once: a timer per connection would cost more
//! memory than the connection.

use crate::app::App;
use crate::connection::Farewell;
use crate::peer::{Overdue, Patience, Peer};
use crate::rooms::RoomCopy;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// How long a closed connection may take to close on its side: a round trip on a bad line, and what it still sends.
const CLOSING: Duration = Duration::from_secs(3);
/// Head counts are told again after this long, since they are forgotten after three times as long.
const PEOPLE_TOLD_EVERY_MS: u64 = 10_000;
/// The longest time between two sweeps over all viewers, by which a timeout may be late: each is a look at memory that
/// nobody has touched for long.
const SWEEP_INTERVAL_MAX: Duration = Duration::from_millis(2500);
/// The shortest time between two head counts of a room.
const PEOPLE_INTERVAL: Duration = Duration::from_secs(1);
/// How often rooms and clients that have left are looked for.
const ROOMS_INTERVAL: Duration = Duration::from_secs(10);

/// Sweeps until `stopping`.
pub(crate) async fn run(app: Arc<App>) {
    let settings = &app.settings;
    let patience = Patience {
        join: settings.join_timeout,
        ping_after: settings.ping_after,
        silence: settings.silence_close,
        stalled: settings.stalled_close,
        closing: CLOSING,
    };
    let shortest = [
        patience.join,
        patience.ping_after,
        patience.silence,
        patience.stalled,
    ]
    .into_iter()
    .min();
    let sweep_interval = shortest.unwrap_or(SWEEP_INTERVAL_MAX * 4) / 4;
    let sweep_interval = sweep_interval.clamp(Duration::from_millis(100), SWEEP_INTERVAL_MAX);
    let mut looks = tokio::time::interval(sweep_interval.min(PEOPLE_INTERVAL));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let start = Instant::now();
    let (mut swept_at, mut people_at, mut rooms_at) = (start, start, start);
    loop {
        // Both are cancel-safe.
        tokio::select! {
            _ = looks.tick() => {}
            () = app.stopping.cancelled() => return,
        }
        if swept_at.elapsed() >= sweep_interval {
            swept_at = Instant::now();
            sweep_peers(&app, &patience).await;
        }
        if people_at.elapsed() >= PEOPLE_INTERVAL {
            people_at = Instant::now();
            tell_people(&app);
            note_state(&app);
        }
        if rooms_at.elapsed() >= ROOMS_INTERVAL {
            rooms_at = Instant::now();
            for copy in app.rooms.all() {
                copy.lock_clients().sweep(app.clock.now_ms());
            }
            app.rooms.sweep();
        }
    }
}

async fn sweep_peers(app: &App, patience: &Patience) {
    for run in (0..).map_while(|index| app.peers.run(index)) {
        for peer in run.peers() {
            if let Some(overdue) = peer.sweep(patience, app.clock) {
                end(app, peer, overdue);
            }
        }
        drop(run);
        tokio::task::yield_now().await;
    }
}

fn end(app: &App, peer: &Peer, overdue: Overdue) {
    match overdue {
        Overdue::Join => {
            app.metrics.unjoined.inc();
            app.close(peer, Farewell::Rule("no join came in time".to_owned()));
        }
        Overdue::Silent => {
            app.metrics.silent.inc();
            app.close(peer, Farewell::Silent);
        }
        Overdue::Stalled => {
            app.metrics.stalled.inc();
            peer.kill();
        }
        Overdue::Closing => peer.kill(),
    }
}

/// Has the logs told how many people each room has here, where that changed or was told long ago.
pub(crate) fn tell_people(app: &App) {
    for copy in app.rooms.all() {
        if let Some(people) = people_to_tell(&copy, app.clock.now_ms()) {
            app.outboxes.set_people(copy.shard(), copy.code(), people);
        }
    }
}

fn people_to_tell(copy: &RoomCopy, now_ms: u64) -> Option<u32> {
    let people = copy.lock_clients().people();
    let mut told = copy
        .people_told
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let outdated = people > 0 && now_ms.saturating_sub(told.at_ms) >= PEOPLE_TOLD_EVERY_MS;
    if people == told.people && !outdated {
        return None;
    }
    told.people = people;
    told.at_ms = now_ms;
    Some(people)
}

/// Gauges, and the readiness conditions that are not events.
fn note_state(app: &App) {
    app.metrics.rooms.set(gauge(app.rooms.all().len()));
    app.metrics.open_taps.set(gauge(app.outboxes.taps()));
    let full = app.connections.is_full();
    let max = app.settings.connections_max;
    app.readiness.set(
        "connections",
        if full {
            Err(format!("all {max} connections are in use"))
        } else {
            Ok(())
        },
    );
    let memory = resident_bytes();
    app.metrics.memory_bytes.set(gauge(memory));
    let max = app.settings.memory_max;
    let over = max > 0 && memory > max;
    app.readiness.set(
        "memory",
        if over {
            Err(format!("{memory} bytes are in use, over {max}"))
        } else {
            Ok(())
        },
    );
}

fn gauge(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Resident memory by `/proc`; zero where there is none.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|statm| statm.split(' ').nth(1)?.parse::<usize>().ok());
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten();
    pages.unwrap_or(0)
        * page_bytes
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(4096)
}
