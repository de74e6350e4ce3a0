//! One call at a time on a node. Programs that a call started hold the lock too: when it was killed, the next one waits
//! until its kubeadm has ended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::files::STATE;
use crate::files::root::Root;

/// Held until it is dropped, and until every program has ended that was started meanwhile.
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the node.
    ///
    /// # Errors
    /// When another call, or a program of one that was killed, still has it after `limit`.
    pub fn take(root: &Root, limit: Duration) -> anyhow::Result<Self> {
        let folder = root.place(STATE)?;
        std::fs::create_dir_all(&folder).with_context(|| format!("could not make {STATE} on the node"))?;
        let path = folder.join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.with_context(|| format!("could not open {STATE}/lock of the node"))?;
        let start = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(error) if io::Error::from(error).kind() != io::ErrorKind::WouldBlock => {
                    return Err(error).with_context(|| format!("could not lock {STATE}/lock of the node"));
                }
                Err(_) if start.elapsed() > limit => {
                    bail!(
                        "another call works on this node, or a program that it started still runs (it holds {STATE}/lock)"
                    )
                }
                // The holder ends without telling anybody.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        fcntl_setfd(&file, FdFlags::empty()).context("could not hand the lock to programs")?;
        Ok(Self { _file: file })
    }
}
