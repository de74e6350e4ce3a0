//! The network of the nodes: a bridge where the test is, and a namespace for each node.

use std::process::Command;

use anyhow::{Context as _, bail};

/// How many nodes know the way to each other's Pods.
const NODES: u8 = 3;

/// The address of a node.
#[must_use]
pub fn address(number: u8) -> String {
    format!("10.90.0.1{number}")
}

/// The Pods of a node.
#[must_use]
pub fn pods(number: u8) -> String {
    format!("10.91.{number}.0/24")
}

/// The bridge. Names of namespaces are in a folder of this test's own.
///
/// # Errors
/// When the kernel does not let us.
pub fn start() -> anyhow::Result<()> {
    std::fs::create_dir_all("/run/netns")?;
    run("mount", &["-t", "tmpfs", "none", "/run/netns"])?;
    ip(&["link", "add", "nodes", "type", "bridge"])?;
    ip(&["addr", "add", "10.90.0.1/24", "dev", "nodes"])?;
    ip(&["link", "set", "nodes", "up"])
}

/// An empty network for one node, as after a reboot.
///
/// # Errors
/// When the kernel does not let us.
pub fn attach(name: &str, number: u8) -> anyhow::Result<()> {
    detach(name);
    let outside = format!("node-{name}");
    ip(&["netns", "add", name])?;
    ip(&["-n", name, "link", "set", "lo", "up"])?;
    ip(&["link", "add", &outside, "type", "veth", "peer", "name", "eth0", "netns", name])?;
    ip(&["link", "set", &outside, "master", "nodes", "up"])?;
    ip(&["-n", name, "addr", "add", &format!("{}/24", address(number)), "dev", "eth0"])?;
    ip(&["-n", name, "link", "set", "eth0", "up"])?;
    ip(&["-n", name, "route", "add", "default", "via", "10.90.0.1"])?;
    for other in (1..=NODES).filter(|other| *other != number) {
        ip(&["-n", name, "route", "add", &pods(other), "via", &address(other)])?;
    }
    ip(&["netns", "exec", name, "sysctl", "-qw", "net.ipv4.ip_forward=1"])
}

/// Takes the network of a node away, where it has one.
pub fn detach(name: &str) {
    for arguments in [&["netns", "del", name][..], &["link", "del", &format!("node-{name}")]] {
        let _there_is_none = Command::new("ip").args(arguments).output();
    }
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program).args(arguments).output().with_context(|| format!("could not run {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr))
}
