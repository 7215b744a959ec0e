//! What follows once the fate of taps is known: acks, refusals, or a farewell.

use super::{From, Ticket, busy_retry_ms};
use crate::app::App;
use crate::connection::Farewell;
use crate::encoded::append_text;
use crate::metrics::WhyLabel;
use bytes::Bytes;
use shared::protocol::{Refused, ServerFrame, Why, write_ack, write_refused};
use std::sync::Arc;
use std::time::Duration;

/// Tickets settled before others get a turn on this thread: each is a write of some 2 us.
const SETTLED_PER_TURN: usize = 256;

/// Tickets whose fate is known.
#[derive(Debug)]
pub(super) enum Settled {
    Safe(Vec<Ticket>),
    TooOld(Vec<Ticket>),
}

/// Tells those whose taps these were.
pub(super) async fn settle(app: &App, settled: Vec<Settled>) {
    for settled in settled {
        match settled {
            Settled::Safe(tickets) => {
                let now_ms = app.clock.now_ms();
                for ticket in &tickets {
                    let waited_ms = now_ms.saturating_sub(ticket.taken_at_ms);
                    app.metrics
                        .ack_seconds
                        .observe(Duration::from_millis(waited_ms).as_secs_f64());
                }
                app.metrics.acks.inc_by(tickets.len() as u64);
                answer(app, tickets, ServerFrame::Ack, write_ack).await;
            }
            Settled::TooOld(tickets) => {
                app.metrics
                    .refused
                    .get_or_create(&WhyLabel {
                        why: Why::TooOld.as_str(),
                    })
                    .inc_by(tickets.len() as u64);
                let refused = |seq| {
                    ServerFrame::Refused(Refused {
                        seq,
                        why: Why::TooOld,
                        retry_ms: None,
                    })
                };
                answer(app, tickets, refused, |json, seq| {
                    write_refused(json, seq, Why::TooOld, None);
                })
                .await;
            }
        }
    }
}

/// Answers each tap; all those of one socket in one write.
async fn answer(
    app: &App,
    tickets: Vec<Ticket>,
    frame: impl Fn(u32) -> ServerFrame,
    write: impl Fn(&mut Vec<u8>, u32),
) {
    let mut sockets = Vec::with_capacity(tickets.len());
    for Ticket { seq, from, .. } in tickets {
        match from {
            From::Socket(peer) => sockets.push((peer, seq)),
            // Whoever posted may have gone.
            From::Post(answer) => drop(answer.send(frame(seq))),
        }
    }
    // Stable: the acks of one socket stay in the order of its taps.
    sockets.sort_by_key(|(peer, _)| Arc::as_ptr(peer).addr());
    for (turn, taps) in sockets
        .chunk_by(|one, other| Arc::ptr_eq(&one.0, &other.0))
        .enumerate()
    {
        let peer = &taps[0].0;
        let mut wire = Vec::with_capacity(taps.len() * 16);
        for (_, seq) in taps {
            append_text(&mut wire, |json| write(json, *seq));
        }
        let sent = peer.send_wire(Bytes::from(wire), app.clock.tenths());
        peer.taps_settled(u32::try_from(taps.len()).unwrap_or(u32::MAX));
        if !sent {
            app.overflow(peer);
        }
        if turn % SETTLED_PER_TURN == SETTLED_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
}

/// The fate of these is not known and never will be here: their phones come back and send them again. Posts end
/// without an answer, which says the same. Called while the shard is locked, so that none of these sockets can
/// add a tap to its outbox any more; locks are taken in the order shard, then peer, everywhere.
pub(super) fn give_up(app: &App, tickets: Vec<Ticket>) {
    app.metrics.given_up_taps.inc_by(tickets.len() as u64);
    tracing::warn!(
        taps = tickets.len(),
        "a batch did not reach the log in time and is given up"
    );
    for Ticket { from, .. } in tickets {
        if let From::Socket(peer) = from {
            peer.taps_settled(1);
            app.close(
                &peer,
                Farewell::Overload(
                    "taps could not be stored in time: send them again",
                    busy_retry_ms(),
                ),
            );
        }
    }
}
