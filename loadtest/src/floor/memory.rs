//! What a phone costs in memory: idle, after many taps, and when it reads nothing while its room is busy.

use super::beat::Beat;
use super::bench::{Bench, Gateway};
use super::frames::TAPPERS;
use super::phones::Phones;
use std::time::Duration;

/// Phones that join before the first look, so that what a gateway needs once is not counted.
const WARM_UP: usize = 100;
/// Taps of each phone.
const TAPS_EACH: u32 = 100;
/// Phones that read nothing.
const STALLED: usize = 1000;
/// For how long.
const STALLED_FOR: Duration = Duration::from_secs(60);
/// What the system holds for them, so that they stall at once and not when its 128 KB are full.
const STALLED_BUFFER_BYTES: usize = 2048;
/// Head counts, first ticks and frees that come a little later.
const SETTLING: Duration = Duration::from_secs(3);

/// Measures a gateway with phones that are idle and then tap, and another with phones that stall.
pub(super) fn measure(bench: &Bench) -> anyhow::Result<()> {
    idle_and_tapping(bench)?;
    stalled(bench)
}

fn idle_and_tapping(bench: &Bench) -> anyhow::Result<()> {
    let count = bench.plan.memory_phones;
    eprintln!("memory: {count} phones join");
    let (gateway, mut phones, before) = warm(bench)?;
    let all = phones.connect(&gateway.room(), count, None)?;
    let idle = growth(&gateway, &mut phones, before, count)?;
    eprintln!("memory: {idle} bytes for each idle phone; each taps {TAPS_EACH} times");
    bench.note(|report| {
        report.memory_phones = Some(count);
        report.bytes_per_phone = Some(idle);
    });
    let already = phones.counts.acks;
    for round in 1..=TAPS_EACH {
        phones.tap(all.clone())?;
        let acks = already + u64::from(round) * count as u64;
        phones.until("taps to be acknowledged", None, |counts| {
            counts.acks + counts.refused >= acks
        })?;
    }
    let refused = phones.counts.refused;
    let after = growth(&gateway, &mut phones, before, count)?;
    eprintln!("memory: {after} bytes for each phone after {TAPS_EACH} taps ({refused} refused)");
    bench.note(|report| {
        report.taps_per_phone = Some(TAPS_EACH);
        report.bytes_per_phone_after_taps = Some(after);
        if refused > 0 {
            report.remarks.push(format!("{refused} taps were refused"));
        }
    });
    Ok(())
}

fn stalled(bench: &Bench) -> anyhow::Result<()> {
    eprintln!(
        "memory: {STALLED} phones read nothing for {} s",
        STALLED_FOR.as_secs()
    );
    let (gateway, mut phones, before) = warm(bench)?;
    let stalled = phones.connect(&gateway.room(), STALLED, Some(STALLED_BUFFER_BYTES))?;
    phones.stall(stalled)?;
    phones.beat = Some(Beat::new(0..TAPPERS));
    phones.linger(STALLED_FOR)?;
    let [behind] = gateway.metrics(["frames_behind_total"])?;
    let bytes = growth(&gateway, &mut phones, before, STALLED)?;
    eprintln!("memory: {bytes} bytes for each of them; {behind} frames were left out");
    bench.note(|report| {
        report.stalled_phones = Some(STALLED);
        report.bytes_per_stalled_phone = Some(bytes);
        if behind < 100.0 * 1000.0 {
            report.remarks.push(format!(
                "the stalled phones missed {behind} frames only: they were not stalled for long"
            ));
        }
    });
    Ok(())
}

/// A gateway that has done once what it will do, and its memory then.
fn warm(bench: &Bench) -> anyhow::Result<(Gateway, Phones, u64)> {
    let gateway = bench.gateway(&[])?;
    let mut phones = bench.phones()?;
    let first = phones.connect(&gateway.room(), WARM_UP, None)?;
    phones.tap(first)?;
    phones.until("the first taps to be acknowledged", None, |counts| {
        counts.acks >= WARM_UP as u64
    })?;
    phones.linger(SETTLING)?;
    let before = gateway.process.resident_bytes()?;
    Ok((gateway, phones, before))
}

fn growth(
    gateway: &Gateway,
    phones: &mut Phones,
    before: u64,
    count: usize,
) -> anyhow::Result<u64> {
    phones.linger(SETTLING)?;
    let after = gateway.process.resident_bytes()?;
    Ok(after.saturating_sub(before) / count.max(1) as u64)
}
