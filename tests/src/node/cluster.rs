//! A cluster of kubeadm: one control-plane node, and workers where asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use stepgate_node::step::Step;

use super::by_hand::ByHand;
use super::machine::Machine;
use super::network;
use super::programs::{NEW, OLD, Version, images, kubernetes};
use super::upgrader::UpgraderImage;
use crate::servers::Programs;
use crate::waiting;

const CONTROL_PLANE: (&str, u8) = ("cp1", 1);
const WORKER: (&str, u8) = ("w1", 2);

/// Where kubeadm's static Pods and what kubelet starts come from.
const FILES: [(&str, &str); 4] = [
    ("/etc/containerd/config.toml", include_str!("configuration/containerd.toml")),
    ("/etc/systemd/system/containerd.service", include_str!("configuration/containerd.service")),
    ("/etc/systemd/system/kubelet.service", include_str!("configuration/kubelet.service")),
    ("/sbin/first-process", include_str!("configuration/first-process")),
];

/// Nodes at the old version, with the images of both.
pub struct Cluster {
    /// The control plane.
    pub control_plane: Machine,
    /// The worker.
    pub worker: Machine,
    folder: PathBuf,
}

impl Cluster {
    /// Starts a copy of the nodes that were made once, for the test of this name.
    ///
    /// # Errors
    /// When the nodes do not get ready.
    pub async fn start(programs: &Programs, test: &str) -> anyhow::Result<Self> {
        network::start()?;
        let made = made(programs).await?;
        Self::copy_of(&made, &programs.path("nodes").join(test), OLD).await
    }

    /// As [`Cluster::start`], the control plane at the new version: its worker is the next.
    ///
    /// # Errors
    /// When the nodes do not get ready.
    pub async fn start_with_new_control_plane(
        programs: &Programs,
        image: &UpgraderImage,
        test: &str,
    ) -> anyhow::Result<Self> {
        network::start()?;
        let half = programs.path("nodes/half");
        if !half.join("whole").is_file() {
            let cluster = Self::copy_of(&made(programs).await?, &half, OLD).await?;
            ByHand::install(&cluster, image, &cluster.control_plane)?.upgrade_from(Step::Copy).await?;
            cluster.wait_for_workload(2).await?;
            cluster.switch_off().await?;
            fs::write(half.join("whole"), "")?;
        }
        Self::copy_of(&half, &programs.path("nodes").join(test), NEW).await
    }

    async fn copy_of(made: &Path, folder: &Path, control_plane: Version) -> anyhow::Result<Self> {
        let cluster = Self::at(folder);
        remove(folder)?;
        fs::create_dir_all(folder)?;
        for machine in cluster.machines() {
            copy(&made.join(machine.name()), machine.root())?;
        }
        for machine in cluster.machines() {
            machine.boot().await?;
        }
        for (machine, version) in cluster.machines().into_iter().zip([control_plane, OLD]) {
            cluster.wait_until_ready(machine.name(), version.kubernetes).await?;
        }
        cluster.wait_for_workload(2).await?;
        Ok(cluster)
    }

    async fn switch_off(&self) -> anyhow::Result<()> {
        for machine in [&self.worker, &self.control_plane] {
            machine.power_off().await?;
        }
        Ok(())
    }

    fn at(folder: &Path) -> Self {
        let machine = |(name, number): (&str, u8)| Machine::new(name, number, folder.join(name));
        Self { control_plane: machine(CONTROL_PLANE), worker: machine(WORKER), folder: folder.to_owned() }
    }

    /// Both nodes.
    #[must_use]
    pub fn machines(&self) -> [&Machine; 2] {
        [&self.control_plane, &self.worker]
    }

    /// What kubectl prints on the control plane.
    ///
    /// # Errors
    /// When it fails.
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.control_plane.run("kubectl", &[&["--request-timeout=20s"], arguments].concat()).await
    }

    /// An object, or a list of them; none while the API server does not tell.
    pub async fn get(&self, arguments: &[&str]) -> Option<Value> {
        let told = self.kubectl(&[&["get", "-o", "json"], arguments].concat()).await.ok()?;
        serde_json::from_str(&told).ok()
    }

    /// Applies manifests, as often as it takes.
    ///
    /// # Errors
    /// When the API server does not take them.
    pub async fn apply(&self, name: &str, manifests: &str) -> anyhow::Result<()> {
        let path = format!("/root/{name}.yaml");
        fs::write(self.control_plane.place(&path), manifests)?;
        let mut told = String::new();
        let applied = waiting::until_within("manifests are applied", Duration::from_secs(180), async || {
            let result = self.kubectl(&["apply", "-f", &path]).await;
            Ok(result.map_err(|error| told = format!("{error:#}")).ok())
        });
        applied.await.map(drop).with_context(|| told.clone())
    }

    /// Waits until a Node is Ready at a version.
    ///
    /// # Errors
    /// When it does not get there.
    pub async fn wait_until_ready(&self, node: &str, version: &str) -> anyhow::Result<()> {
        waiting::until(&format!("{node} is Ready at {version}"), async || {
            let Some(found) = self.get(&["node", node]).await else { return Ok(None) };
            let is = |one: &Value, key: &str, value: &str| one.get(key).is_some_and(|found| found == value);
            let is_at = found.pointer("/status/nodeInfo/kubeletVersion").is_some_and(|found| found == version);
            let conditions = found.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_ready = conditions.iter().any(|one| is(one, "type", "Ready") && is(one, "status", "True"));
            Ok((is_at && is_ready && self.is_of_this_boot(node, &found)?).then_some(()))
        })
        .await
    }

    fn is_of_this_boot(&self, node: &str, found: &Value) -> anyhow::Result<bool> {
        let machine = self.machines().into_iter().find(|machine| machine.name() == node).context("an unknown node")?;
        let output = machine.command("cat", &["/proc/sys/kernel/random/boot_id"])?.output()?;
        let boot = String::from_utf8_lossy(&output.stdout);
        Ok(found.pointer("/status/nodeInfo/bootID").is_some_and(|found| found == boot.trim()))
    }

    /// Waits until as many Pods of the workload are available.
    ///
    /// # Errors
    /// When they are not.
    pub async fn wait_for_workload(&self, replicas: u64) -> anyhow::Result<()> {
        waiting::until("the workload is available", async || {
            let found = self.get(&["deployment", "hello"]).await;
            Ok(found
                .filter(|found| found.pointer("/status/availableReplicas").and_then(Value::as_u64) == Some(replicas))
                .map(drop))
        })
        .await
    }

    /// Imports an archive on one node, under the references that it names.
    ///
    /// # Errors
    /// When containerd does not take it.
    pub async fn import_archive(&self, machine: &Machine, archive: &Path) -> anyhow::Result<()> {
        import(machine, archive, &[]).await
    }

    /// Imports the upgrader's image on all nodes.
    ///
    /// # Errors
    /// When containerd does not take it.
    pub async fn import(&self, image: &UpgraderImage) -> anyhow::Result<()> {
        for machine in self.machines() {
            // The archive of a layout names the tag alone.
            import(machine, &image.archive, &["--base-name", image.reference.repository()]).await?;
        }
        Ok(())
    }

    /// Ends it, and takes its files away.
    ///
    /// # Errors
    /// When files stay.
    pub fn done(self) -> anyhow::Result<()> {
        let folder = self.folder.clone();
        drop(self);
        remove(&folder)
    }
}

async fn import(machine: &Machine, archive: &Path, more: &[&str]) -> anyhow::Result<()> {
    let place = machine.place("/root/image.tar");
    fs::copy(archive, &place).with_context(|| format!("could not copy {}", archive.display()))?;
    let arguments =
        [&["--namespace", "k8s.io", "images", "import", "--no-unpack"][..], more, &["/root/image.tar"]].concat();
    machine.run("ctr", &arguments).await?;
    fs::remove_file(place)?;
    Ok(())
}

/// The nodes at the old version, made where they are not there.
async fn made(programs: &Programs) -> anyhow::Result<PathBuf> {
    let made = programs.path("nodes/made");
    if !made.join("whole").is_file() {
        make(programs, &made).await?;
    }
    Ok(made)
}

/// Makes the nodes, once: kubeadm's init and join at the old version, then power off.
async fn make(programs: &Programs, made: &Path) -> anyhow::Result<()> {
    remove(made)?;
    fs::create_dir_all(made)?;
    let cluster = Cluster::at(made);
    for machine in cluster.machines() {
        provision(programs, machine)?;
        machine.boot().await?;
        let is_control_plane = machine.name() == CONTROL_PLANE.0;
        for version in [OLD, NEW] {
            for archive in images(programs, version, is_control_plane)? {
                import(machine, &archive, &[]).await?;
            }
        }
    }
    let control_plane = &cluster.control_plane;
    let text = include_str!("configuration/kubeadm.yaml").replace("@VERSION@", OLD.kubernetes);
    fs::write(control_plane.place("/root/kubeadm.yaml"), text)?;
    control_plane.run("kubeadm", &["init", "--config", "/root/kubeadm.yaml", "--skip-phases=addon/coredns"]).await?;
    let join = control_plane.run("kubeadm", &["token", "create", "--print-join-command"]).await?;
    let words: Vec<&str> = join.split_whitespace().skip(1).collect();
    cluster.worker.run("kubeadm", &[&words[..], &["--ignore-preflight-errors=SystemVerification"]].concat()).await?;
    for machine in cluster.machines() {
        cluster.wait_until_ready(machine.name(), OLD.kubernetes).await?;
    }
    cluster.apply("workload", include_str!("configuration/workload.yaml")).await?;
    cluster.wait_for_workload(2).await?;
    cluster.switch_off().await?;
    fs::write(made.join("whole"), "")?;
    Ok(())
}

/// What every node has besides Debian's packages.
fn provision(programs: &Programs, machine: &Machine) -> anyhow::Result<()> {
    copy(&programs.path("rootfs"), machine.root())?;
    let write = |path: &str, text: &str| -> anyhow::Result<()> {
        let place = machine.place(path);
        fs::create_dir_all(place.parent().context("a file lies in a folder")?)?;
        fs::write(&place, text).with_context(|| format!("could not write {}", place.display()))
    };
    for (path, text) in FILES {
        write(path, text)?;
    }
    let number = if machine.name() == CONTROL_PLANE.0 { CONTROL_PLANE.1 } else { WORKER.1 };
    let conflist = include_str!("configuration/network.conflist").replace("@SUBNET@", &network::pods(number));
    write("/etc/cni/net.d/10-pods.conflist", &conflist)?;
    write("/etc/hostname", machine.name())?;
    let hosts = [CONTROL_PLANE, WORKER].map(|(name, number)| format!("{} {name}\n", network::address(number)));
    write("/etc/hosts", &format!("127.0.0.1 localhost\n{}", hosts.concat()))?;
    write("/etc/resolv.conf", "nameserver 10.90.0.1\n")?;
    let unique = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    write("/etc/machine-id", &unique.replace('-', ""))?;
    // kube-apiserver takes a minute to stop once its etcd is gone.
    write("/etc/systemd/system.conf.d/stop.conf", "[Manager]\nDefaultTimeoutStopSec=10s\n")?;
    make_executable(&machine.place("/sbin/first-process"))?;
    for name in ["containerd", "containerd-shim-runc-v2", "ctr"] {
        copy(&programs.path(name).canonicalize()?, &machine.place(&format!("/usr/local/bin/{name}")))?;
    }
    fs::create_dir_all(machine.place("/opt/cni"))?;
    fs::rename(machine.place("/usr/lib/cni"), machine.place("/opt/cni/bin"))?;
    for name in ["kubelet", "kubeadm", "kubectl"] {
        copy(&kubernetes(programs, name, OLD.kubernetes), &machine.place(&format!("/usr/bin/{name}")))?;
    }
    let units = machine.place("/etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&units)?;
    for unit in ["containerd.service", "kubelet.service"] {
        std::os::unix::fs::symlink(format!("/etc/systemd/system/{unit}"), units.join(unit))?;
    }
    Ok(())
}

fn make_executable(place: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::set_permissions(place, fs::Permissions::from_mode(0o755))?)
}

/// Owners, links, attributes and devices included.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let output =
        Command::new("cp").args(["--archive", "--reflink=auto", "--no-target-directory"]).arg(from).arg(to).output()?;
    if output.status.success() {
        return Ok(());
    }
    bail!("could not copy {}: {}", from.display(), String::from_utf8_lossy(&output.stderr))
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    Ok(())
}
