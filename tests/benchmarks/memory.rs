//! Memory of this process, as the kernel counts it.

use std::fs;

use anyhow::Context as _;

/// Which memory.
#[derive(Clone, Copy)]
pub enum Resident {
    Now,
    Peak,
}

/// Resident memory of this process, in KiB.
pub fn memory(resident: Resident) -> anyhow::Result<u64> {
    let key = match resident {
        Resident::Now => "VmRSS",
        Resident::Peak => "VmHWM",
    };
    let text = fs::read_to_string("/proc/self/status").context("read /proc/self/status")?;
    let line = text.lines().find(|line| line.starts_with(key)).context(key)?;
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).context(key)
}

/// The peak is from now on.
pub fn forget_peak() -> anyhow::Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("write /proc/self/clear_refs")
}
