//! Everything on the node, and looked at, before anything is changed; what is there now is written down.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;

use crate::api::Api;
use crate::api::{node_object, pods};
use crate::files::digest::Digest;
use crate::files::executable::Architecture;
use crate::files::machine::MachineFile;
use crate::files::manifest::{Component, ReleaseFile, ReleaseImage, Source};
use crate::files::root::NodePath;
use crate::files::{Found, STATE};
use crate::host::{etcd, images, static_pods};
use crate::journal::{FileRecord, Journal, Role, Saved, Target};
use crate::version::KubernetesVersion;
use crate::work::{Host, Work};

/// What has to stay free, for containerd, kubelet and logs.
const RESERVE: u64 = 256 << 20;

/// What kubeadm and kubelet change besides static Pods.
const KUBELET_FILES: [&str; 3] =
    ["/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env", "/var/lib/kubelet/instance-config.yaml"];

/// What an upgrade is called with.
#[derive(Debug)]
pub struct Begin<'a> {
    /// The release.
    pub source: &'a Source,
    /// What the machine has to have besides.
    pub files: &'a [MachineFile],
    /// The Node object.
    pub node: String,
    /// What kubeadm has to do here.
    pub role: Role,
}

/// Looks at release and node, and writes down what is there. Nothing is changed.
///
/// # Errors
/// Whatever forbids the upgrade.
pub fn survey(host: &Host<'_>, begin: Begin<'_>) -> anyhow::Result<Journal> {
    let manifest = &begin.source.manifest;
    let machine = Architecture::of_this_machine().map_err(|error| anyhow!(error))?;
    if manifest.architecture != machine {
        bail!("the release is for {}, and the node is {}", manifest.architecture.as_str(), machine.as_str());
    }
    begin.source.check_files().map_err(|problems| anyhow!(problems.join("; ")))?;
    let version_before = version_on_node(host, manifest.program(Component::Kubelet, "kubelet"))?;
    if let Some(why) = version_before.why_not_to(&manifest.kubernetes_version) {
        bail!(why);
    }
    let mut files = Vec::new();
    for file in &manifest.files {
        files.push(FileRecord {
            path: file.path.clone(),
            component: file.component,
            before: host.files().found(file.path.as_str())?,
            after: Found { sha256: file.sha256, mode: file.mode },
        });
    }
    check_space(host, begin.source, &files)?;
    let mut paths = if begin.role.is_control_plane() { static_pods::paths(host.root)? } else { Vec::new() };
    for path in KUBELET_FILES {
        paths.push(NodePath::try_from(path.to_owned()).map_err(|error| anyhow!(error))?);
    }
    let mut saved = Vec::new();
    for path in paths {
        if let Some(before) = host.files().found(path.as_str())? {
            saved.push(Saved { path, before });
        }
    }
    let mut journal = Journal {
        target: Target { kubernetes_version: manifest.kubernetes_version.clone(), manifest: begin.source.sha256 },
        node: begin.node,
        role: begin.role,
        version_before,
        files,
        saved,
        images: manifest.images.clone(),
        steps: BTreeMap::new(),
        restarts: Vec::new(),
        virtual_address: None,
        daemon_sets: Vec::new(),
        etcd_snapshot: None,
        drained: Vec::new(),
        rollback: None,
    };
    take_up(host, &mut journal, begin.files)?;
    Ok(journal)
}

/// Has the journal lead to these files too, also where an upgrade is under way that was begun with others.
///
/// # Errors
/// When one is a file of the release, or what is there cannot be read.
pub fn take_up(host: &Host<'_>, journal: &mut Journal, files: &[MachineFile]) -> anyhow::Result<()> {
    for file in files {
        match journal.files.iter_mut().find(|known| known.path == file.path) {
            Some(known) if known.component == file.component => known.after = file.wanted,
            Some(_) => bail!("{} is a file of the release, and of the machine too", file.path),
            None => journal.files.push(FileRecord {
                path: file.path.clone(),
                component: file.component,
                before: host.files().found(file.path.as_str())?,
                after: file.wanted,
            }),
        }
    }
    Ok(())
}

fn version_on_node(host: &Host<'_>, kubelet: Option<&ReleaseFile>) -> anyhow::Result<KubernetesVersion> {
    let kubelet = kubelet.context("the release has no kubelet")?;
    if host.files().found(kubelet.path.as_str())?.is_none() {
        bail!("{} is missing on the node: is kubelet elsewhere here?", kubelet.path);
    }
    host.version_of(kubelet.path.as_str(), &["--version"])
}

/// Each file lies on the node twice meanwhile, and an old one is kept.
fn check_space(host: &Host<'_>, source: &Source, files: &[FileRecord]) -> anyhow::Result<()> {
    let mut wanted: BTreeMap<u64, (PathBuf, u64)> = BTreeMap::new();
    let mut add = |place: &Path, size: u64| -> anyhow::Result<()> {
        let existing = place.ancestors().find(|ancestor| ancestor.is_dir()).context("no folder exists")?;
        let device = fs::metadata(existing)?.dev();
        wanted.entry(device).or_insert_with(|| (existing.to_owned(), RESERVE)).1 += size;
        Ok(())
    };
    let kept = host.root.place(&format!("{STATE}/kept"))?;
    for (file, release) in files.iter().zip(&source.manifest.files) {
        let size = fs::metadata(source.place(release).map_err(|error| anyhow!(error))?)?.len();
        if host.files().kept(file.after.sha256).is_err() {
            add(&kept, size)?;
        }
        if file.before != Some(file.after) {
            let place = host.root.place(file.path.as_str())?;
            add(&place, size)?;
            add(&kept, fs::metadata(&place).map_or(0, |old| old.len()))?;
        }
    }
    for (folder, size) in wanted.values() {
        let free = host.disk.free(folder).with_context(|| format!("could not look at {}", folder.display()))?;
        if free < *size {
            bail!("{} has {} MiB free, and the upgrade needs {} MiB there", folder.display(), free >> 20, size >> 20);
        }
    }
    Ok(())
}

/// Copies, pulls and saves.
///
/// # Errors
/// When something does not come to the node whole.
pub fn perform(work: &mut Work<'_>, source: &Source, files: &[MachineFile]) -> anyhow::Result<String> {
    // Of earlier upgrades.
    work.files().forget_all_but(&digests(&work.journal))?;
    for file in &source.manifest.files {
        let content = source.place(file).map_err(|error| anyhow!(error))?;
        work.files().store(&content, Found { sha256: file.sha256, mode: file.mode })?;
    }
    for file in files {
        work.files().store(&file.source, file.wanted)?;
    }
    for saved in &work.journal.saved {
        let place = work.root.place(saved.path.as_str())?;
        work.files().store(&place, saved.before).with_context(|| format!("could not save {}", saved.path))?;
    }
    try_programs(work, source)?;
    // In the middle of an upgrade, what was there before is known already.
    let is_first = !work.journal.has_changed_the_node();
    if let Some(api) = work.api.filter(|_| is_first && work.journal.role.is_control_plane()) {
        let kubeadm = source.manifest.program(Component::Kubeadm, "kubeadm").context("the release has no kubeadm")?;
        images::ask_kubeadm(work, api, &kept(kubeadm))?;
    }
    for image in files.iter().filter_map(image_of) {
        if work.journal.images.iter().all(|known| known.reference != image) {
            work.journal.images.push(ReleaseImage { reference: image, digest: None });
        }
    }
    let pulled = images::bring(work)?;
    let mut told = format!("{} files and {pulled} images copied", source.manifest.files.len() + files.len());
    if !is_first {
        return Ok(told);
    }
    if let Some(api) = work.api {
        let node = node_object::read(api, &work.journal.node, work.deadline)?;
        check_is_this_machine(work, &node)?;
        if work.journal.role == Role::Worker {
            check_skew(work, api)?;
        }
        let all = api.list(&pods::path_of_node(&work.journal.node), work.deadline)?;
        work.journal.daemon_sets = pods::ready_daemon_sets(&all);
    }
    if work.journal.role.is_control_plane() {
        told = format!("{told}, {}", etcd::snapshot(work)?);
        work.files().forget_all_but(&digests(&work.journal))?;
    }
    Ok(told)
}

/// What a static Pod of the machine starts.
fn image_of(file: &MachineFile) -> Option<String> {
    let content = (file.component == Component::VirtualAddress).then(|| fs::read(&file.source).ok())??;
    static_pods::parse(&content, file.path.name()).ok().map(|pod| pod.image)
}

/// The Node of another machine would be drained otherwise.
fn check_is_this_machine(work: &Work<'_>, node: &Value) -> anyhow::Result<()> {
    let told = node.pointer("/status/nodeInfo/bootID").and_then(Value::as_str).unwrap_or_default();
    let boot = crate::host::services::boot_id(work.root)?;
    if told == boot {
        Ok(())
    } else {
        bail!("Node {} tells of boot {told}, and this machine's is {boot}: it is another one", work.journal.node)
    }
}

/// A kubelet is never newer than the API server.
fn check_skew(work: &Work<'_>, api: &Api) -> anyhow::Result<()> {
    let told = api.get("/version", work.deadline)?;
    let version = told.as_ref().and_then(|told| told.get("gitVersion")).and_then(Value::as_str).unwrap_or_default();
    let server: KubernetesVersion = version.parse().map_err(|error: String| anyhow!("the API server: {error}"))?;
    let target = &work.journal.target.kubernetes_version;
    if server.has_minor_of_at_least(target) {
        Ok(())
    } else {
        bail!("the API server is at {server}: the control plane goes to {target} before its workers")
    }
}

fn digests(journal: &Journal) -> BTreeSet<Digest> {
    let files = journal.files.iter().flat_map(|file| [file.before.map(|found| found.sha256), Some(file.after.sha256)]);
    let saved = journal.saved.iter().chain(&journal.virtual_address).map(|saved| saved.before.sha256);
    files.flatten().chain(saved).collect()
}

/// Where a file of the release lies on the node before it is installed.
fn kept(file: &ReleaseFile) -> String {
    format!("{STATE}/kept/{}", file.sha256.hexadecimal())
}

/// What does not run here, or is of another version, is found while the old ones are still in place.
fn try_programs(work: &Work<'_>, source: &Source) -> anyhow::Result<()> {
    let wanted = &source.manifest.kubernetes_version;
    for (component, name, arguments) in [
        (Component::Kubelet, "kubelet", &["--version"][..]),
        (Component::Kubeadm, "kubeadm", &["version", "--output", "short"]),
    ] {
        let Some(file) = source.manifest.program(component, name) else { continue };
        let says =
            work.version_of(&kept(file), arguments).with_context(|| format!("{name} of the release does not run"))?;
        if !says.is_same_release(wanted) {
            bail!("{name} of the release says {says}, and its manifest {wanted}");
        }
    }
    Ok(())
}
