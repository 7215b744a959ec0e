//! Taps as they come in a running room, appended and acknowledged: over WebSockets at two rates, and by POST.

use super::bench::{Bench, Gateway};
use super::phones::Phones;
use super::report::{Intake, rounded};
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long taps are counted at each rate: within what the cooldown's tolerance allows at 40 taps/s.
const WINDOW: Duration = Duration::from_secs(4);
/// Until all are in step with the flushes.
const WARM_UP: Duration = Duration::from_secs(1);
/// Connections that post, a tap in each request: as many as wait for a flush at some 20,000 taps/s.
const POSTING: usize = 500;

/// Measures on the gateway and with the phones that frames were measured with.
pub(super) fn measure(bench: &Bench, gateway: &Gateway, phones: &mut Phones) -> anyhow::Result<()> {
    // Not those that tapped before: they have used up some of their allowance.
    let few = bench.plan.phones / 10;
    for tapping in [few..2 * few, 2 * few..bench.plan.phones] {
        let intake = taken_in(gateway, phones, tapping)?;
        eprintln!(
            "intake: {:.0} taps/s with {:.2} cores, {:.1} us a tap; {:.1} appends/s, one for {:.0} taps",
            intake.taps_per_second,
            intake.gateway_cores,
            intake.gateway_us_per_tap,
            intake.appends_per_second,
            1.0 / intake.appends_per_tap
        );
        bench.note(|report| {
            report.intake.push(intake);
            report.taps_per_core_second = Some(rounded(1e6 / intake.gateway_us_per_tap));
        });
    }
    phones.close(0..bench.plan.phones);
    let posting = phones.connect(&gateway.posts(), POSTING, None)?;
    // Whoever left is noticed by now.
    phones.linger(WARM_UP)?;
    let posts = taken_in(gateway, phones, posting)?;
    eprintln!(
        "intake: {:.0} posts/s with {:.2} cores, {:.1} us a tap",
        posts.taps_per_second, posts.gateway_cores, posts.gateway_us_per_tap
    );
    bench.note(|report| {
        report.post_us_per_tap = Some(posts.gateway_us_per_tap);
        report.posts_per_core_second = Some(rounded(1e6 / posts.gateway_us_per_tap));
    });
    Ok(())
}

fn taken_in(
    gateway: &Gateway,
    phones: &mut Phones,
    tapping: Range<usize>,
) -> anyhow::Result<Intake> {
    let acks_at_first = phones.counts.acks;
    phones.set_eager(tapping.clone(), true);
    phones.tap(tapping.clone())?;
    phones.linger(WARM_UP)?;
    let [appends_before] = gateway.metrics(["appends_total"])?;
    let (acks_before, cpu_before) = (phones.counts.acks, gateway.process.cpu_time()?);
    let started = Instant::now();
    phones.linger(WINDOW)?;
    let seconds = started.elapsed().as_secs_f64();
    let acks = phones.counts.acks - acks_before;
    let used_us = gateway.process.cpu_time()?.since_us(&cpu_before);
    let [appends] = gateway.metrics(["appends_total"])?;
    phones.set_eager(tapping.clone(), false);
    phones.until("the last taps to be acknowledged", None, |counts| {
        counts.acks >= acks_at_first + tapping.len() as u64
    })?;
    phones.linger(WARM_UP)?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "taps of a few seconds are far below 2^53"
    )]
    let acks = acks.max(1) as f64;
    Ok(Intake {
        tapping_phones: tapping.len(),
        taps_per_second: rounded(acks / seconds),
        gateway_cores: rounded(used_us / 1e6 / seconds),
        gateway_us_per_tap: rounded(used_us / acks),
        appends_per_second: rounded((appends - appends_before) / seconds),
        appends_per_tap: (appends - appends_before) / acks,
    })
}
