//! A queued tap on each socket: the gateway takes them into the open batch, the bare server receives and unmasks.

use super::bare::Bare;
use super::bench::{Bench, Gateway};
use super::phones::Phones;
use anyhow::{bail, ensure};
use std::ops::Range;
use std::time::Duration;

/// The longest flush interval that can be set: the taps are drained between two flushes, so that nothing is appended or
/// acknowledged meanwhile.
const FLUSH_INTERVAL_MS: &str = "1000";
/// Rounds that may fail for each that is wanted: when a flush fell into the measurement all the same.
const ATTEMPTS: usize = 4;
/// No ping is due and all frames have come.
const QUIET: Duration = Duration::from_millis(40);

/// Measures.
pub(super) fn measure(bench: &Bench) -> anyhow::Result<()> {
    let count = bench.plan.phones;
    eprintln!("taps: {count} phones join a gateway, and as many sockets a bare server");
    let gateway = bench.gateway(&[("UPROAR_GATEWAY__FLUSH_INTERVAL_MS", FLUSH_INTERVAL_MS)])?;
    let mut phones = bench.phones()?;
    let all = phones.connect(&gateway.room(), count, None)?;
    let mut bare = Bare::start()?;
    bare.process().pin(&[bench.cores.measured])?;
    let sockets = bare.connect(&mut phones, count)?;
    // Not counted: buffers grow to their size.
    of_gateway(&gateway, &mut phones, all.clone())?;
    of_floor(&mut bare, &mut phones, sockets.clone())?;
    for pair in 0..bench.plan.pairs {
        let (gateway_us, floor_us) = if pair % 2 == 0 {
            let gateway_us = of_gateway(&gateway, &mut phones, all.clone())?;
            (
                gateway_us,
                of_floor(&mut bare, &mut phones, sockets.clone())?,
            )
        } else {
            let floor_us = of_floor(&mut bare, &mut phones, sockets.clone())?;
            (of_gateway(&gateway, &mut phones, all.clone())?, floor_us)
        };
        eprintln!(
            "taps, {} of {}: {gateway_us:.3} us a tap, the floor {floor_us:.3} us",
            pair + 1,
            bench.plan.pairs
        );
        bench.note(|report| report.tap_pairs.push((gateway_us, floor_us)));
    }
    Ok(())
}

/// CPU time of the gateway for each tap.
fn of_gateway(gateway: &Gateway, phones: &mut Phones, all: Range<usize>) -> anyhow::Result<f64> {
    for _ in 0..ATTEMPTS {
        if let Some(used) = drain(gateway, phones, all.clone())? {
            return Ok(used);
        }
    }
    bail!("{ATTEMPTS} times in a row taps were appended while they were still being taken in")
}

/// None: something was appended meanwhile.
fn drain(gateway: &Gateway, phones: &mut Phones, all: Range<usize>) -> anyhow::Result<Option<f64>> {
    let count = all.len() as u64;
    // A flush has just been when this is acknowledged; the next one comes a second later. In between comes the tick.
    let before = phones.counts;
    phones.tap(all.start..all.start + 1)?;
    phones.until("a tap's tick", None, |counts| {
        counts.acks > before.acks && counts.ticks >= before.ticks + count
    })?;
    phones.until_quiet(QUIET)?;
    let [taps_before, acks_before] = gateway.metrics(["taps_total", "acks_total"])?;
    gateway.process.stop()?;
    let queued = phones.tap(all);
    let cpu_before = gateway.process.cpu_time()?;
    gateway.process.go_on()?;
    queued?;
    gateway.process.wait_idle()?;
    let used_us = gateway.process.cpu_time()?.since_us(&cpu_before);
    let [taps, acks] = gateway.metrics(["taps_total", "acks_total"])?;
    phones.until("all taps to be acknowledged", None, |counts| {
        counts.acks > before.acks + count
    })?;
    phones.until("their tick", None, |counts| {
        counts.ticks >= before.ticks + 2 * count
    })?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "taps of one round are far below 2^53"
    )]
    let count = count as f64;
    let is_pure = acks == acks_before && taps == taps_before + count;
    Ok(is_pure.then_some(used_us / count))
}

/// CPU time of the bare server for each tap.
fn of_floor(bare: &mut Bare, phones: &mut Phones, sockets: Range<usize>) -> anyhow::Result<f64> {
    let count = sockets.len() as u64;
    let process = bare.process();
    bare.taps()?;
    process.stop()?;
    let queued = phones.tap(sockets);
    let cpu_before = process.cpu_time()?;
    process.go_on()?;
    queued?;
    process.wait_idle()?;
    let used_us = process.cpu_time()?.since_us(&cpu_before);
    let taps = bare.taps()?;
    ensure!(
        taps == count,
        "the bare server has received {taps} taps instead of {count}"
    );
    #[expect(
        clippy::cast_precision_loss,
        reason = "taps of one round are far below 2^53"
    )]
    let count = count as f64;
    Ok(used_us / count)
}
