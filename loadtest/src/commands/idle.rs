//! `uproar-loadtest idle`: what an idle phone costs the gateway.

use crate::api;
use crate::crowd::Crowd;
use crate::process::memory;
use crate::smoke::wait_for;
use crate::stack::{Stack, StackOptions};
use serde_json::json;
use shared::room::RoomCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::sleep;

/// What an idle phone may cost at most.
const BYTES_PER_PHONE_MAX: u64 = 2048;

/// Phones that join before the first measurement, so that what a gateway needs once is not counted.
const WARM_UP: usize = 100;

/// Phones that connect at the same time: a hall, but not one that overruns the listen backlog of a small machine.
const STEP: usize = 250;

/// Joins phones that do nothing and prints the gateway's memory per phone, as one JSON object.
///
/// The exit code is 0 only if it is at most 2 KB.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Phones; each takes a file in this process and one in the gateway, which the system limits
    #[arg(long, default_value_t = 5000)]
    phones: usize,
}

/// Runs the command; whether it is little enough.
///
/// # Errors
/// Something did not start, or not all phones could join.
pub async fn run(arguments: Arguments) -> anyhow::Result<bool> {
    super::unless_interrupted(measure(arguments.phones)).await
}

async fn measure(phones: usize) -> anyhow::Result<bool> {
    let options = StackOptions {
        gateways: 1,
        ..StackOptions::default()
    };
    let stack = Stack::start(options, |step| eprintln!("{step}")).await?;
    let (gateway, process) = {
        let services = stack.services();
        let gateway = &services.gateways[0];
        (gateway.listen(), gateway.pid())
    };
    let room = json!({ "title": "Idle" });
    let room = api::make_room(gateway, stack.rig.admin_key(), &room)
        .await?
        .code;
    // Straight to the gateway: the front would take two more files for each phone.
    let mut crowd = Crowd::new(gateway);
    join(&mut crowd, &room, WARM_UP).await?;
    let before = resident_bytes(process).await?;
    for joined in (0..phones).step_by(STEP) {
        join(&mut crowd, &room, STEP.min(phones - joined)).await?;
    }
    let after = resident_bytes(process).await?;
    let bytes_per_phone = after.saturating_sub(before) / u64::try_from(phones.max(1))?;
    let report = json!({
        "phones": phones,
        "bytes_before": before,
        "bytes_after": after,
        "bytes_per_phone": bytes_per_phone,
    });
    println!("{report}");
    Ok(bytes_per_phone <= BYTES_PER_PHONE_MAX)
}

async fn join(crowd: &mut Crowd, room: &RoomCode, phones: usize) -> anyhow::Result<()> {
    for _ in 0..phones {
        crowd.add_phone(room, Vec::new(), Duration::from_secs(3600));
    }
    let what = format!("{} phones have joined", crowd.len());
    wait_for(Duration::from_secs(60), &what, async || {
        Ok(crowd.board.connected.load(Relaxed) == crowd.len())
    })
    .await?;
    eprintln!("{what}");
    Ok(())
}

/// What a process holds in memory, once head counts and first ticks have been and gone.
async fn resident_bytes(process: u32) -> anyhow::Result<u64> {
    sleep(Duration::from_secs(3)).await;
    memory::resident_bytes(process)
}
