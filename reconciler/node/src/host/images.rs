//! Images on the node, before anything that needs them is started.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::credentials::document;
use crate::files::digest::Digest;
use crate::files::manifest::ReleaseImage;
use crate::work::{Work, own_path};

/// Where kubeadm keeps what the cluster was made with.
const CLUSTER_CONFIGURATION: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";

/// Adds what this kubeadm starts on a control-plane node, from the repositories that the cluster names.
///
/// It pulls them itself, but only once the node is drained. An image of the release with the same name and tag says
/// the digest, from whatever registry it comes.
///
/// # Errors
/// When the cluster has no configuration of kubeadm, or kubeadm does not tell its images.
pub fn ask_kubeadm(work: &mut Work<'_>, api: &Api, kubeadm: &str) -> anyhow::Result<()> {
    let object = api.get(CLUSTER_CONFIGURATION, work.deadline)?;
    let text = object.as_ref().and_then(|object| object.pointer("/data/ClusterConfiguration")).and_then(Value::as_str);
    let text = text.context("ConfigMap kube-system/kubeadm-config has no ClusterConfiguration: kubeadm needs it")?;
    let mut configuration = document(text.as_bytes()).context("ConfigMap kube-system/kubeadm-config")?;
    let Some(fields) = configuration.as_object_mut() else {
        bail!("the ClusterConfiguration of ConfigMap kube-system/kubeadm-config is not an object");
    };
    fields.insert("kubernetesVersion".to_owned(), json!(work.journal.target.kubernetes_version.to_string()));
    let path = own_path("cluster-configuration.yaml")?;
    // JSON is YAML too.
    work.files().write_text(&path, &serde_json::to_string_pretty(&configuration)?)?;
    let said = work.run(kubeadm, &["config", "images", "list", "--config", path.as_str()])?;
    let references: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    work.journal.images = merged(&work.journal.images, &references);
    Ok(())
}

/// Those of kubeadm, and those of the release that kubeadm does not name.
fn merged(of_release: &[ReleaseImage], of_kubeadm: &[&str]) -> Vec<ReleaseImage> {
    let digest = |reference: &str| {
        of_release.iter().filter(|image| last(&image.reference) == last(reference)).find_map(|image| image.digest)
    };
    let others =
        of_release.iter().filter(|image| !of_kubeadm.iter().any(|other| last(other) == last(&image.reference)));
    let of_kubeadm = of_kubeadm.iter();
    let of_kubeadm = of_kubeadm.map(|name| ReleaseImage { reference: (*name).to_owned(), digest: digest(name) });
    of_kubeadm.chain(others.cloned()).collect()
}

/// Name and tag, whatever the registry: `kube-apiserver:v1.36.4`.
fn last(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or_default()
}

/// Pulls what is missing, or is another image than the release says. Returns how many that were.
///
/// # Errors
/// When one cannot be pulled, or is of another digest.
pub fn bring(work: &Work<'_>) -> anyhow::Result<usize> {
    if work.journal.images.is_empty() {
        return Ok(0);
    }
    let present = present(work)?;
    let mut pulled = 0;
    for image in &work.journal.images {
        let found = present.get(&image.reference);
        if found.is_some_and(|found| image.digest.is_none() || *found == image.digest) {
            continue;
        }
        pull(work, &image.reference)
            .with_context(|| format!("image {} is not on the node and was not pulled", image.reference))?;
        pulled += 1;
    }
    if pulled > 0 {
        check_digests(work)?;
    }
    Ok(pulled)
}

fn check_digests(work: &Work<'_>) -> anyhow::Result<()> {
    let present = present(work)?;
    for image in work.journal.images.iter().filter(|image| image.digest.is_some()) {
        let found = present.get(&image.reference).copied().flatten();
        if found != image.digest {
            let text = |digest: Option<Digest>| digest.map_or("unknown".to_owned(), |digest| digest.to_string());
            let (found, wanted) = (text(found), text(image.digest));
            return Err(anyhow!("image {} is {found}, and {wanted} is wanted", image.reference));
        }
    }
    Ok(())
}

/// References that containerd knows, and what they lead to.
fn present(work: &Work<'_>) -> anyhow::Result<BTreeMap<String, Option<Digest>>> {
    let table = work.run("ctr", &["--namespace", "k8s.io", "images", "list"])?;
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let reference = words.next()?.to_owned();
        Some((reference, words.nth(1).and_then(|digest| digest.parse().ok())))
    };
    Ok(table.lines().filter_map(row).collect())
}

/// By the way kubelet pulls, mirrors and secrets of containerd's configuration included, where that is there.
fn pull(work: &Work<'_>, reference: &str) -> anyhow::Result<()> {
    if has_crictl(work) {
        let socket = "unix:///run/containerd/containerd.sock";
        work.run("crictl", &["--runtime-endpoint", socket, "pull", reference])?;
    } else {
        let hosts = "/etc/containerd/certs.d";
        work.run("ctr", &["--namespace", "k8s.io", "images", "pull", "--hosts-dir", hosts, reference])?;
    }
    Ok(())
}

fn has_crictl(work: &Work<'_>) -> bool {
    let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];
    folders.iter().any(|folder| work.root.place(&format!("{folder}/crictl")).is_ok_and(|place| Path::is_file(&place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_the_release_hold_for_every_registry() {
        let digest = Digest::of(b"image");
        let image = |reference: &str, digest| ReleaseImage { reference: reference.to_owned(), digest };
        let of_release = [image("public.example/eks/etcd:3.6.8", Some(digest)), image("public.example/agent:1", None)];
        let merged = merged(&of_release, &["mirror.test:5000/eks/etcd:3.6.8", "mirror.test:5000/pause:3.10"]);
        assert_eq!(
            merged,
            [
                image("mirror.test:5000/eks/etcd:3.6.8", Some(digest)),
                image("mirror.test:5000/pause:3.10", None),
                image("public.example/agent:1", None),
            ]
        );
    }
}
