//! Memory of processes and of the machine.

use anyhow::Context;
use std::fs;

/// What a process holds in memory.
///
/// # Errors
/// It has ended.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    kilobytes(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// What the system could give to programs without swapping.
///
/// # Errors
/// /proc cannot be read.
pub fn available_bytes() -> anyhow::Result<u64> {
    kilobytes("/proc/meminfo", "MemAvailable:")
}

/// What the file system of temporary files could take.
///
/// # Errors
/// It cannot be asked.
pub fn temporary_space_bytes() -> anyhow::Result<u64> {
    let space = nix::sys::statvfs::statvfs(&std::env::temp_dir())?;
    Ok(space.blocks_available() * space.fragment_size())
}

/// A line of one of the kernel's files, in bytes.
fn kilobytes(path: &str, name: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("{path} cannot be read"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let number = number.with_context(|| format!("no {name} in {path}"))?;
    Ok(number.trim().parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_a_program_on_a_machine() {
        let resident = resident_bytes(std::process::id()).unwrap();
        assert!(resident > 500_000, "{resident}");
        assert!(available_bytes().unwrap() > resident);
        assert!(temporary_space_bytes().unwrap() > 0);
    }
}
