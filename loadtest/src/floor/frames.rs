//! One frame to each phone every 250 ms: the gateway in turn with the bare server.

use super::bare::Bare;
use super::beat::Beat;
use super::bench::{Bench, FRAME_BYTES, Gateway, KEYS};
use super::phones::Phones;
use super::process::Measured;
use super::report::rounded;
use anyhow::{Context, ensure};
use std::ops::Range;
use std::time::Duration;

/// Phones that tap in turn, so that each tick has news. They are among the phones.
pub(super) const TAPPERS: usize = 32;
/// Taps of each of them on each reaction before the measurement: 1,024 in all, so that totals have four digits.
const TAPS_BEFORE: usize = 32;
/// A pause in the frames that says that a tick's are all there: far below a tick, far above a hiccup.
const QUIET: Duration = Duration::from_millis(60);
/// How long the gateway is watched while nothing happens: one ping to each phone.
const BACKGROUND: Duration = Duration::from_secs(10);

/// Measures; gives gateway and phones back for what is measured next.
pub(super) fn measure(bench: &Bench) -> anyhow::Result<(Gateway, Phones)> {
    let count = bench.plan.phones;
    eprintln!("frames: {count} phones join a gateway, and as many sockets a bare server");
    let gateway = bench.gateway(&[])?;
    let mut phones = bench.phones()?;
    let all = phones.connect(&gateway.room(), count, None)?;
    let tappers = all.start..all.start + TAPPERS;
    tap_before(&mut phones, tappers.clone())?;
    let mut bare = Bare::start()?;
    bare.process().pin(&[bench.cores.measured])?;
    let sockets = bare.connect(&mut phones, count)?;
    note_background(bench, &gateway, &mut phones)?;

    phones.beat = Some(Beat::new(tappers.clone()));
    phones.until_quiet(QUIET)?;
    window(&mut phones, gateway.process, 4 * count as u64)?;
    phones.beat = None;
    let text = tick_text(&phones.tick.wire)?;
    bench.note(|report| report.frame_bytes = Some(FRAME_BYTES));
    let frames = u64::from(bench.plan.seconds) * 4 * count as u64;
    for pair in 0..bench.plan.pairs {
        let of_gateway = |phones: &mut Phones| {
            phones.beat = Some(Beat::new(tappers.clone()));
            let used = window(phones, gateway.process, frames);
            phones.beat = None;
            phones.until_quiet(QUIET * 5)?;
            used
        };
        let mut of_floor = |phones: &mut Phones| {
            bare.send(&text)?;
            let used = window(phones, bare.process(), frames);
            bare.rest()?;
            phones.until_quiet(QUIET)?;
            used
        };
        // In turn, and in turn first: what changes slowly on the machine falls on both alike.
        let (gateway_us, floor_us) = if pair % 2 == 0 {
            (of_gateway(&mut phones)?, of_floor(&mut phones)?)
        } else {
            let floor_us = of_floor(&mut phones)?;
            (of_gateway(&mut phones)?, floor_us)
        };
        eprintln!(
            "frames, {} of {}: {gateway_us:.3} us a frame, the floor {floor_us:.3} us",
            pair + 1,
            bench.plan.pairs
        );
        bench.note(|report| report.frame_pairs.push((gateway_us, floor_us)));
    }
    // Before the bare server goes: otherwise it would be that which closes them.
    phones.close(sockets);
    Ok((gateway, phones))
}

/// CPU time for each frame, over this many or a few more: from a pause between two ticks to another.
fn window(phones: &mut Phones, process: Measured, frames: u64) -> anyhow::Result<f64> {
    let waiting_from = phones.counts.ticks;
    phones.until("the first frame", None, |counts| {
        counts.ticks > waiting_from
    })?;
    phones.until_quiet(QUIET)?;
    let (before, cpu_before) = (phones.counts.ticks, process.cpu_time()?);
    let patience = Duration::from_secs(60) + Duration::from_millis(frames / 10);
    phones.until("frames", Some(patience), |counts| {
        counts.ticks >= before + frames
    })?;
    phones.until_quiet(QUIET)?;
    let (after, cpu_after) = (phones.counts.ticks, process.cpu_time()?);
    #[expect(
        clippy::cast_precision_loss,
        reason = "frames of one run are far below 2^53"
    )]
    let received = (after - before) as f64;
    Ok(cpu_after.since_us(&cpu_before) / received)
}

/// Brings the totals to four digits each, so that all ticks are of one length.
fn tap_before(phones: &mut Phones, tappers: Range<usize>) -> anyhow::Result<()> {
    for _ in 0..TAPS_BEFORE {
        for key in KEYS {
            phones.tap_key(tappers.clone(), key)?;
        }
    }
    let taps = (TAPS_BEFORE * KEYS.len() * tappers.len()) as u64;
    phones.until("the first taps to be acknowledged", None, |counts| {
        counts.acks >= taps
    })
}

/// The text of a tick's frame.
fn tick_text(wire: &[u8]) -> anyhow::Result<String> {
    let text = std::str::from_utf8(wire.get(2..).context("no tick came")?)?;
    ensure!(
        wire.len() == FRAME_BYTES,
        "a tick is {} bytes long instead of {FRAME_BYTES}: {text}",
        wire.len()
    );
    Ok(text.to_owned())
}

fn note_background(bench: &Bench, gateway: &Gateway, phones: &mut Phones) -> anyhow::Result<()> {
    phones.linger(Duration::from_secs(1))?;
    let before = gateway.process.cpu_time()?;
    phones.linger(BACKGROUND)?;
    let used_us = gateway.process.cpu_time()?.since_us(&before) / BACKGROUND.as_secs_f64();
    eprintln!("frames: {used_us:.0} us a second while nothing happens");
    bench.note(|report| report.background_us_per_second = Some(rounded(used_us)));
    Ok(())
}
