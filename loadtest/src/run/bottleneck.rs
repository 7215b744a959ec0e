//! What gave out when a threshold was crossed: from what each process used and who was late.

use crate::report::RunReport;

/// A part that used more than this share of what it can use was at its end.
const SPENT: f64 = 0.85;

/// Names what gave out, in a sentence; the surest sign first.
pub fn name(report: &RunReport, machine_cores: f64) -> String {
    if let Some(veto) = report.vetoes.first() {
        return format!("the generator: {veto}");
    }
    let busiest = |kind: &str| {
        let of_kind = report
            .processes
            .iter()
            .filter(|process| process.kind == kind);
        of_kind.max_by(|one, other| one.cores.total_cmp(&other.cores))
    };
    // Redis runs commands on one thread; the readers' loops and a gateway with one worker are one thread, too.
    let gateway_cores = setting(report, "gateway.worker_threads").filter(|threads| *threads > 0.0);
    for (kind, limit, what) in [
        (
            "gateway",
            gateway_cores.unwrap_or(machine_cores),
            "gateway CPU",
        ),
        ("redis", 1.0, "Redis"),
        (
            "aggregator",
            1.0_f64.min(machine_cores),
            "the aggregator's tick",
        ),
        ("persister", machine_cores, "the persister"),
    ] {
        if let Some(process) = busiest(kind)
            && process.cores > SPENT * limit
        {
            let (name, used) = (&process.name, process.cores);
            return format!("{what}: {name} used {used:.2} of {limit:.0} cores");
        }
    }
    let all: f64 = report.processes.iter().map(|process| process.cores).sum();
    let most = report
        .processes
        .iter()
        .max_by(|one, other| one.cores.total_cmp(&other.cores));
    match most {
        Some(most) if all > SPENT * machine_cores => format!(
            "the machine: all processes together used {all:.2} of its {machine_cores:.0} cores, most of it {} with {:.2}",
            most.name, most.cores
        ),
        Some(most) => format!(
            "none of the processes was at its end (the busiest was {} with {:.2} cores of {machine_cores:.0}): look at \
             the waits, the network and the servers' logs",
            most.name, most.cores
        ),
        None => "unknown: the servers' processes are not on this machine; look at their metrics"
            .to_owned(),
    }
}

fn setting(report: &RunReport, name: &str) -> Option<f64> {
    let settings = &report.circumstances.settings;
    let found = settings.iter().find(|(known, _)| known == name);
    found.and_then(|(_, value)| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ProcessReport;

    fn report(processes: &[(&str, f64)]) -> RunReport {
        let processes = processes.iter().map(|(kind, cores)| ProcessReport {
            name: format!("{kind} 1"),
            kind: (*kind).to_owned(),
            cores: *cores,
            ..ProcessReport::default()
        });
        RunReport {
            processes: processes.collect(),
            ..RunReport::default()
        }
    }

    #[test]
    fn what_is_at_its_end_is_named() {
        let mut one = report(&[("gateway", 0.95), ("redis", 0.3)]);
        assert!(
            name(&one, 8.0).contains("none of the processes"),
            "{}",
            name(&one, 8.0)
        );
        one.circumstances.settings = vec![("gateway.worker_threads".to_owned(), "1".to_owned())];
        assert!(
            name(&one, 8.0).starts_with("gateway CPU"),
            "{}",
            name(&one, 8.0)
        );
        let redis = report(&[("gateway", 0.95), ("redis", 0.97)]);
        assert!(name(&redis, 8.0).starts_with("Redis"));
        let aggregator = report(&[("gateway", 0.5), ("aggregator", 0.99)]);
        assert!(name(&aggregator, 8.0).starts_with("the aggregator's tick"));
        let machine = report(&[("gateway", 0.8), ("redis", 0.5), ("generator", 0.6)]);
        assert!(name(&machine, 2.0).starts_with("the machine"));
    }

    #[test]
    fn a_generator_that_was_the_bottleneck_is_named_first() {
        let mut one = report(&[("gateway", 2.0)]);
        one.vetoes.push("it was 91 % busy".to_owned());
        assert_eq!(name(&one, 2.0), "the generator: it was 91 % busy");
    }
}
