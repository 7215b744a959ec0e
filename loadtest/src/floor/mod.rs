//! The gateway against the bare system calls, in one run: CPU time for each frame that a phone gets and for each tap
//! that is taken in, and memory for each phone.
//!
//! What is measured has a core for itself, a gateway with one worker thread in turn with a server that does only what
//! cannot be left out (`server`); everything else, the receiver (`phones`) included, shares the other cores. CPU time is
//! what the scheduler says of all threads of the process, so a busy machine disturbs it little. The gateway's whole
//! cost counts: pings, appends, ticks, and its look at the topology of Redis.

mod process;
mod wire;
mod server;
mod bare;
mod connection;
mod beat;
mod phones;
mod bench;
mod frames;
mod memory;
mod taps;
mod intake;
mod report;

pub use bare::COMMAND as SERVER_COMMAND;
pub use report::FloorReport;
pub use server::run as serve;

use bench::Bench;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// The fewest phones that frames can be measured with: those that tap in turn, and some that do not.
pub const PHONES_MIN: usize = 100;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Phones of frames and taps.
    pub phones: usize,
    /// Whether taps are measured, too.
    pub taps: bool,
    /// How often gateway and floor are measured in turn.
    pub pairs: usize,
    /// How long frames are sent each time.
    pub seconds: u32,
    /// Phones of the memory's figures; none: memory is not measured.
    pub memory_phones: usize,
}

/// Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Measures; the report fills meanwhile. Must be called on a runtime with several threads, one of which it keeps.
///
/// # Errors
/// Something did not start or broke; [`Interrupted`].
pub async fn measure(
    plan: Plan,
    interrupted: CancellationToken,
    report: Arc<Mutex<FloorReport>>,
) -> anyhow::Result<()> {
    let bench = Bench::start(plan, interrupted, report).await?;
    tokio::task::block_in_place(|| {
        let (gateway, mut phones) = frames::measure(&bench)?;
        if plan.taps {
            intake::measure(&bench, &gateway, &mut phones)?;
            drop((gateway, phones));
            taps::measure(&bench)?;
        } else {
            drop((gateway, phones));
        }
        if plan.memory_phones > 0 {
            memory::measure(&bench)?;
        }
        Ok(())
    })
}
