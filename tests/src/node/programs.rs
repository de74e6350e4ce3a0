//! What `tests/servers/node/build` makes: programs of two minor versions, and the root of a node.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::archive::Archive;
use crate::servers::Programs;

/// What a node runs at one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// What the programs say.
    pub kubernetes: &'static str,
    /// The release, which the images of static Pods are tagged with.
    pub release: &'static str,
    /// The tag of etcd's image that kubeadm of this version names.
    pub etcd: &'static str,
}

/// Where the nodes begin.
pub const OLD: Version = Version { kubernetes: "v1.35.4", release: "v1.35.4", etcd: "3.6.6-0" };

/// Where an upgrade leads to.
pub const NEW: Version = Version { kubernetes: "v1.36.4", release: "v1.36.4-eks-1-36-4", etcd: "3.6.8-0" };

/// The variable that asks for this suite.
const ASKED: &str = "STEPGATE_NODE";

/// All that has to be there, or a skipped test.
#[must_use]
pub fn are_there() -> bool {
    if std::env::var_os(ASKED).is_none() {
        skip::on_demand("real nodes run with ./tests/run --node");
        return false;
    }
    if !rustix::process::geteuid().is_root() {
        skip::missing("the tests of real nodes need root, for systemd-nspawn");
        return false;
    }
    skip::has_programs(&["systemd-nspawn", "ip", "nsenter"]) && Programs::find_or_skip(&needed()).is_some()
}

/// The names of all programs.
#[must_use]
pub fn needed() -> Vec<&'static str> {
    vec!["kubelet-v1.35.4", "kubelet-v1.36.4", "containerd", "ctr", "etcd-v3.6.6", "workload", "stepgate-node"]
}

/// A program of Kubernetes.
#[must_use]
pub fn kubernetes(programs: &Programs, name: &str, version: &str) -> PathBuf {
    programs.path(&format!("{name}-{version}"))
}

/// The archives of the images that a node needs at `version`.
///
/// # Errors
/// When one cannot be made.
pub fn images(programs: &Programs, version: Version, control_plane: bool) -> anyhow::Result<Vec<PathBuf>> {
    let folder = programs.path("images");
    let mut archives = Vec::new();
    let mut add = |name: String, archive: Archive<'_>| -> anyhow::Result<()> {
        let place = folder.join(name);
        archive.write(&place)?;
        archives.push(place);
        Ok(())
    };
    let Version { kubernetes: built, release: tag, etcd } = version;
    let names: &[&str] = if control_plane {
        &["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"]
    } else {
        &["kube-proxy"]
    };
    for name in names {
        let reference = format!("registry.test/{name}:{tag}");
        let mut content = vec![(kubernetes(programs, name, built), format!("usr/local/bin/{name}"))];
        if *name == "kube-proxy" {
            content.extend(iptables(&programs.path("rootfs"))?);
        }
        let entrypoint = format!("/usr/local/bin/{name}");
        add(format!("{name}-{tag}.tar"), Archive { references: &[&reference], entrypoint: &entrypoint, content })?;
    }
    if control_plane {
        let program = etcd.split('-').next().unwrap_or(etcd);
        let content = ["etcd", "etcdctl"]
            .map(|name| (programs.path(&format!("{name}-v{program}")), format!("usr/local/bin/{name}")))
            .to_vec();
        let reference = format!("registry.test/etcd:{etcd}");
        add(
            format!("etcd-{etcd}.tar"),
            Archive { references: &[&reference], entrypoint: "/usr/local/bin/etcd", content },
        )?;
    }
    let workload = programs.path("workload").canonicalize()?;
    for (name, references) in [
        ("pause", &["registry.test/pause:3.10.1", "registry.test/pause:3.10.2"][..]),
        ("hello", &["registry.test/hello:1"]),
    ] {
        let content = vec![(workload.clone(), name.to_owned())];
        add(format!("{name}.tar"), Archive { references, entrypoint: &format!("/{name}"), content })?;
    }
    Ok(archives)
}

/// What kube-proxy calls, with its libraries and those of its extensions, from the root of the nodes.
fn iptables(root: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let libraries = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let script = format!("ldd /usr/sbin/xtables-nft-multi /usr/sbin/conntrack /{libraries}/xtables/*.so");
    let output =
        Command::new("chroot").arg(root).args(["sh", "-c", &script]).output().context("could not run chroot")?;
    if !output.status.success() {
        bail!("{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    let mut content = vec![(inside("usr/sbin/xtables-nft-multi"), "usr/sbin/xtables-nft-multi".to_owned())];
    for name in
        ["iptables", "ip6tables"].iter().flat_map(|name| ["", "-save", "-restore"].map(|end| format!("{name}{end}")))
    {
        // The program looks at the name that it is called by.
        content.push((inside("usr/sbin/xtables-nft-multi"), format!("usr/sbin/{name}")));
    }
    content.push((inside("usr/sbin/conntrack"), "usr/sbin/conntrack".to_owned()));
    content.push((inside(&format!("{libraries}/xtables")), format!("{libraries}/xtables")));
    let mut paths: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/'))).collect();
    paths.retain(|path| !path.ends_with(':'));
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let place = inside(path).canonicalize().with_context(|| format!("{path} of the root of the nodes"))?;
        content.push((place, path.trim_start_matches('/').to_owned()));
    }
    Ok(content)
}
