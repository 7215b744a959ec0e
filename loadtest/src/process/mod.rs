//! What the kernel says of processes and of the machine: CPU time, memory, cores.
//!
//! All that measures a process asks here, so that two reports mean the same by "CPU time".

pub mod cpu;
pub mod memory;
pub mod cores;

use anyhow::Context;
use std::fs;

/// The threads that a process has now, by their ids.
///
/// # Errors
/// It has ended.
pub fn threads(pid: u32) -> anyhow::Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .with_context(|| format!("process {pid} does not run"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

/// A process and all that descend from it and still run.
pub fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let mut index = 0;
    while let Some(parent) = family.get(index).copied() {
        for thread in threads(parent).unwrap_or_default() {
            let path = format!("/proc/{parent}/task/{thread}/children");
            let children = fs::read_to_string(path).unwrap_or_default();
            let children = children.split_whitespace();
            family.extend(children.filter_map(|child| child.parse::<u32>().ok()));
        }
        index += 1;
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_leads_its_family_and_has_threads() {
        let pid = std::process::id();
        assert_eq!(family(pid)[0], pid);
        assert!(threads(pid).unwrap().contains(&i32::try_from(pid).unwrap()));
    }

    #[test]
    fn a_process_that_does_not_run_is_named() {
        let error = threads(u32::MAX).unwrap_err().to_string();
        assert!(error.contains("4294967295 does not run"), "{error}");
    }
}
