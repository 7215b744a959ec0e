//! On which cores processes run.

use super::threads;
use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The cores that this process may use.
///
/// # Errors
/// The system does not say.
pub fn allowed() -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let cores = 0..CpuSet::count();
    Ok(cores
        .filter(|core| allowed.is_set(*core).unwrap_or(false))
        .collect())
}

/// Confines all threads of a process, and those that they will start, to these cores.
///
/// # Errors
/// There is no such process or core.
pub fn pin(pid: u32, cores: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core)
            .with_context(|| format!("core {core} is out of range"))?;
    }
    for thread in threads(pid)? {
        sched_setaffinity(Pid::from_raw(thread), &set).with_context(|| {
            format!("thread {thread} of process {pid} cannot be kept on cores {cores:?}")
        })?;
    }
    Ok(())
}
