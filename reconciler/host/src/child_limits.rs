//! Limits for the programs that are started.

use std::process::Child;

use rustix::process::Resource;

/// Limits what a program, and whatever it starts from now on, may take. What it maps of files is no memory that it allocates.
#[cfg(target_os = "linux")]
pub fn confine(child: &Child, limits: &[(Resource, u64)]) {
    use rustix::process::{Pid, Rlimit, prlimit};
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    for (resource, maximum) in limits {
        let limit = Rlimit { current: Some(*maximum), maximum: Some(*maximum) };
        // It may have ended already.
        let _ = prlimit(pid, *resource, limit);
    }
}

/// Elsewhere nobody but a program itself can limit it.
#[cfg(not(target_os = "linux"))]
pub fn confine(_: &Child, _: &[(Resource, u64)]) {}
