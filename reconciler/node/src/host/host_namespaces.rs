//! Programs of the node for a container: in the mount, host name, IPC and network namespaces of the node's first process.
//!
//! It does what `nsenter --target 1 --mount --uts --ipc --net` does, so that the image of this program needs nothing else. It is a
//! process of its own: a namespace of mounts can be entered by a process of one thread only.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// As a verb of this program.
pub const VERB: &str = "enter";

const NAMESPACES: [(&str, LinkNameSpaceType); 4] = [
    ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
    ("ipc", LinkNameSpaceType::InterProcessCommunication),
    ("net", LinkNameSpaceType::Network),
    // After that, `/proc` is that of the node.
    ("mnt", LinkNameSpaceType::Mount),
];

/// Where a node has its programs, whatever the container is told.
const NODE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin";

/// Becomes a program of the node. Comes back only when that fails.
#[must_use]
pub fn enter(program: &OsString, arguments: &[OsString]) -> io::Error {
    let told = |what: String, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
    let mut opened = Vec::new();
    for (name, kind) in NAMESPACES {
        let path = format!("/proc/1/ns/{name}");
        match File::open(&path) {
            Ok(namespace) => opened.push((path, namespace, kind)),
            Err(error) => return told(format!("could not open {path}"), error),
        }
    }
    for (path, namespace, kind) in opened {
        if let Err(error) = move_into_link_name_space(namespace.as_fd(), Some(kind)) {
            return told(format!("could not enter {path}; is the container privileged"), error.into());
        }
    }
    // A name without a folder is looked for in the path of the node.
    let error = Command::new(program).args(arguments).env("PATH", NODE_PATH).exec();
    told(format!("could not start {} on the node", program.display()), error)
}
