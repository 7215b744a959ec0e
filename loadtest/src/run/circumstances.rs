//! When, on what and with what a run was made: without it no figure can be compared with another.

use super::target::Target;
use super::{RunOptions, browser};
use crate::report::Circumstances;
use std::path::Path;
use std::process::{Command, Stdio};

/// Settings of the services that decide what is measured.
const SETTINGS: [&str; 5] = [
    "gateway.flush_interval_ms",
    "gateway.worker_threads",
    "gateway.cooldown_tolerance_ms",
    "aggregator.tick_interval_ms",
    "redis.wait_timeout_ms",
];

/// Looks around.
pub async fn of(options: &RunOptions, target: &Target) -> Circumstances {
    let own = match target {
        Target::Rig(stack) => settings(stack.settings()),
        // What was said of it, or assumed.
        Target::Elsewhere(elsewhere, _) => [
            ("gateway.flush_interval_ms", elsewhere.windows.flush_ms),
            ("aggregator.tick_interval_ms", elsewhere.windows.tick_ms),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .to_vec(),
    };
    let scenario = &options.scenario;
    let mut settings = vec![
        ("scenario.phones".to_owned(), scenario.phones.to_string()),
        ("scenario.seconds".to_owned(), scenario.seconds.to_string()),
        (
            "scenario.rooms".to_owned(),
            scenario.rooms.count.to_string(),
        ),
        ("seed".to_owned(), options.seed.to_string()),
        ("generator.threads".to_owned(), options.threads.to_string()),
        (
            "generator.placement".to_owned(),
            options.placement.to_string(),
        ),
    ];
    settings.extend(own);
    Circumstances {
        at: jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string(),
        command: options.command.clone(),
        machine: machine(),
        versions: versions(matches!(target, Target::Rig(_)), options.browser),
        settings,
    }
}

/// Operating system, processor, cores, memory.
pub fn machine() -> Vec<(String, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once([':', '=']));
        value.map_or("unknown".to_owned(), |(_, value)| {
            value.trim().trim_matches('"').to_owned()
        })
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kilobytes: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    vec![
        (
            "system".to_owned(),
            field(&read("/etc/os-release"), "PRETTY_NAME"),
        ),
        (
            "kernel".to_owned(),
            read("/proc/sys/kernel/osrelease").trim().to_owned(),
        ),
        (
            "processor".to_owned(),
            field(&read("/proc/cpuinfo"), "model name"),
        ),
        ("cores".to_owned(), cores.to_string()),
        (
            "memory".to_owned(),
            format!("{} GiB", kilobytes.div_ceil(1 << 20)),
        ),
    ]
}

/// Ours and what the rig is made of.
fn versions(is_rig: bool, with_browser: bool) -> Vec<(String, String)> {
    let ours = format!("{} ({} build)", env!("CARGO_PKG_VERSION"), profile());
    let mut versions = vec![("uproar".to_owned(), ours)];
    if is_rig {
        versions.push(("redis".to_owned(), first_line(Path::new("redis-server"))));
        versions.push(("postgres".to_owned(), first_line(Path::new("psql"))));
    }
    if let Some(program) = browser::program().filter(|_| with_browser) {
        versions.push(("browser".to_owned(), first_line(&program)));
    }
    versions
}

/// By which Cargo profile this program was built: the folder that it lies in.
pub fn profile() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let folders = program
        .iter()
        .rev()
        .skip(1)
        .map(|folder| folder.to_string_lossy());
    let profile = folders.into_iter().find(|folder| folder != "deps");
    profile.map_or_else(|| "unknown".to_owned(), |profile| profile.into_owned())
}

fn first_line(program: &Path) -> String {
    let said = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let line = text
        .ok()
        .and_then(|text| text.lines().next().map(str::to_owned));
    line.unwrap_or_else(|| "unknown".to_owned())
}

/// What was set for the rig's services; all else has its default.
fn settings(set: &[(String, String)]) -> Vec<(String, String)> {
    let name = |variable: &str| {
        let name = variable.trim_start_matches("UPROAR_").to_lowercase();
        name.replace("__", ".")
    };
    let set: Vec<(String, String)> = set
        .iter()
        .map(|(variable, value)| (name(variable), value.clone()))
        .collect();
    let defaults = SETTINGS
        .iter()
        .filter(|known| !set.iter().any(|(name, _)| name == *known));
    let defaults: Vec<_> = defaults
        .map(|known| ((*known).to_owned(), "default".to_owned()))
        .collect();
    set.into_iter().chain(defaults).collect()
}
