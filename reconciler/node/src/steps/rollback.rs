//! The way back of one node, in reverse order, with proof. Data of etcd is never put back by this program.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::api::node_object;
use crate::files::manifest::Component;
use crate::host::services::{owe_restart, settle};
use crate::host::static_pods::{self, CONTROL_PLANE, FOLDER};
use crate::host::virtual_address;
use crate::journal::Saved;
use crate::proof::{Wanted, WantedImage, prove};
use crate::work::Work;

/// The API server may be what is broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Undoes what was done to this node.
///
/// # Errors
/// When something cannot be put back, or the node is not healthy afterwards: it stays cordoned.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    if !work.journal.has_changed_the_node() {
        return Ok("nothing was changed on the node".to_owned());
    }
    check_etcd(work)?;
    let version = work.journal.target.kubernetes_version.to_string();
    let cordoned = node_object::cordon(work.api()?, &work.journal.node, &version, Instant::now() + PATIENCE);
    let mut changed = 0;

    let (pods, kubelet): (Vec<Saved>, Vec<Saved>) =
        work.journal.saved.iter().cloned().partition(|saved| saved.path.as_str().starts_with(FOLDER));
    if differs(work, Component::Kubelet)? || differ(work, &kubelet)? {
        owe_restart(work, "kubelet")?;
    }
    changed += work.put_back(Component::Kubelet)? + put_back(work, &kubelet)?;
    let program = before(work, Component::Kubelet, "kubelet");
    settle(work, "kubelet", program)?;
    if work.journal.virtual_address.is_none() {
        changed += work.put_back(Component::VirtualAddress)?;
    }
    changed += put_back(work, &pods)? + work.put_back(Component::Kubeadm)? + work.put_back(Component::CniPlugins)?;
    if differs(work, Component::Containerd)? {
        owe_restart(work, "containerd")?;
    }
    changed += work.put_back(Component::Containerd)? + work.put_back(Component::Registries)?;
    if !work.component(Component::Containerd).is_empty() {
        let program = before(work, Component::Containerd, "containerd");
        settle(work, "containerd", program)?;
    }

    let wanted =
        Wanted { version: work.journal.version_before.clone(), kubelet: program, images: images(work, &pods)? };
    prove(work, &wanted)?;
    if cordoned.is_err() {
        node_object::cordon(work.api()?, &work.journal.node, &version, work.deadline)?;
    }
    virtual_address::come_back(work)?;
    node_object::uncordon(work.api()?, &work.journal.node, work.deadline)?;
    Ok(format!("{changed} files put back, the node is healthy at {}", work.journal.version_before))
}

/// An older minor version of etcd does not read what a newer one wrote.
fn check_etcd(work: &Work<'_>) -> anyhow::Result<()> {
    let path = static_pods::path("etcd");
    let Some(saved) = work.journal.saved.iter().find(|saved| saved.path.as_str() == path) else { return Ok(()) };
    let Some(current) = static_pods::read(work.root, "etcd")? else { return Ok(()) };
    let kept = work.files().kept(saved.before.sha256)?;
    let before = static_pods::parse(&std::fs::read(kept)?, "etcd")?;
    let minor = |image: &str| static_pods::tag(image).split('.').take(2).collect::<Vec<_>>().join(".");
    if minor(&before.image) != minor(&current.image) {
        let snapshot = work.journal.etcd_snapshot.as_ref().map(|saved| format!("; its data before is {}", saved.path));
        bail!(
            "etcd was upgraded from {} to {}, and does not go back{}: go forward, or restore by hand",
            before.image,
            current.image,
            snapshot.unwrap_or_default()
        );
    }
    Ok(())
}

fn differs(work: &Work<'_>, component: Component) -> anyhow::Result<bool> {
    for file in work.component(component) {
        if work.files().found(file.path.as_str())? != file.before {
            return Ok(true);
        }
    }
    Ok(false)
}

fn differ(work: &Work<'_>, saved: &[Saved]) -> anyhow::Result<bool> {
    for saved in saved {
        if work.files().found(saved.path.as_str())? != Some(saved.before) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// kube-vip's manifest comes back when all is proven.
fn put_back(work: &Work<'_>, saved: &[Saved]) -> anyhow::Result<usize> {
    let away = work.journal.virtual_address.as_ref().map(|saved| saved.path.clone());
    let mut changed = 0;
    for saved in saved.iter().filter(|saved| Some(&saved.path) != away.as_ref()) {
        if work.files().found(saved.path.as_str())? != Some(saved.before) {
            let content = work.files().kept(saved.before.sha256).with_context(|| format!("{} is lost", saved.path))?;
            changed += usize::from(work.files().put(saved.path.as_str(), &content, saved.before)?);
        }
    }
    Ok(changed)
}

fn before(work: &Work<'_>, component: Component, name: &str) -> Option<crate::files::digest::Digest> {
    let files = work.component(component);
    files.iter().find(|file| file.path.name() == name).and_then(|file| file.before).map(|found| found.sha256)
}

fn images(work: &Work<'_>, pods: &[Saved]) -> anyhow::Result<Vec<(String, WantedImage)>> {
    let mut images = Vec::new();
    for saved in pods {
        let Some(name) = CONTROL_PLANE.iter().find(|name| static_pods::path(name) == saved.path.as_str()) else {
            continue;
        };
        let kept = work.files().kept(saved.before.sha256)?;
        let image = static_pods::parse(&std::fs::read(kept)?, name)?.image;
        images.push(((*name).to_owned(), WantedImage::Exactly(image)));
    }
    Ok(images)
}
