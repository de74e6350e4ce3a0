//! A service of the node that is replaced: it runs the new program steadily, or the old one again.

use std::time::{Duration, Instant};

use crate::files::digest::Digest;
use crate::files::manifest::Component;
use crate::host::services::{owe_restart, settle};
use crate::journal::FileRecord;
use crate::work::Work;

/// What the way back may take when the time of the attempt is over.
const WAY_BACK: Duration = Duration::from_secs(60);

/// Replaces the files of a component, and restarts its service.
///
/// # Errors
/// When a file cannot be replaced, or the service does not come up. The one before then runs again: without kubelet or
/// containerd nothing starts on this node that could call for another attempt, or for the way back.
pub fn replace(work: &mut Work<'_>, component: Component, unit: &str) -> anyhow::Result<String> {
    if !work.is_installed(component)? {
        owe_restart(work, unit)?;
    }
    let changed = work.install(component)?;
    let program = program(work, component, unit, |file| Some(file.after.sha256));
    match settle(work, unit, program) {
        Ok(service) => {
            let digests = work.told_of_program(component, unit);
            Ok(format!("{changed} files replaced, {service}{digests}"))
        }
        Err(error) => match put_back(work, component, unit) {
            Ok(()) => Err(error.context(format!("the {unit} before the upgrade runs again"))),
            Err(second) => {
                Err(error.context(format!("the {unit} before the upgrade does not come up either: {second:#}")))
            }
        },
    }
}

fn put_back(work: &mut Work<'_>, component: Component, unit: &str) -> anyhow::Result<()> {
    // The time of the attempt may be over, and this is not left undone.
    work.host.deadline = work.deadline.max(Instant::now() + WAY_BACK);
    owe_restart(work, unit)?;
    work.put_back(component)?;
    let program = program(work, component, unit, |file| file.before.map(|found| found.sha256));
    settle(work, unit, program).map(drop)
}

/// The program that a service runs.
pub(super) fn program(
    work: &Work<'_>,
    component: Component,
    unit: &str,
    version: impl Fn(&FileRecord) -> Option<Digest>,
) -> Option<Digest> {
    let files = work.component(component);
    files.iter().find(|file| file.path.name() == unit && file.after.mode & 0o111 != 0).and_then(version)
}
