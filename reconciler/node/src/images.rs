//! Images on the node, before anything that needs them is started.

use std::path::Path;

use crate::work::Work;

/// Pulls what is missing. Returns how many that were.
///
/// # Errors
/// When one cannot be pulled.
pub fn pull(work: &Work<'_>) -> anyhow::Result<usize> {
    if work.journal.images.is_empty() {
        return Ok(0);
    }
    let present = work.run("ctr", &["--namespace", "k8s.io", "images", "list", "--quiet"])?;
    let mut pulled = 0;
    for image in &work.journal.images {
        if present.lines().any(|line| line.trim() == image.reference) {
            continue;
        }
        // By the way kubelet pulls, mirrors and secrets of containerd's configuration included, where that is there.
        if has_crictl(work) {
            let socket = "unix:///run/containerd/containerd.sock";
            work.run("crictl", &["--runtime-endpoint", socket, "pull", &image.reference])?;
        } else {
            let hosts = "/etc/containerd/certs.d";
            work.run("ctr", &["--namespace", "k8s.io", "images", "pull", "--hosts-dir", hosts, &image.reference])?;
        }
        pulled += 1;
    }
    Ok(pulled)
}

fn has_crictl(work: &Work<'_>) -> bool {
    let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];
    folders.iter().any(|folder| work.root.place(&format!("{folder}/crictl")).is_ok_and(|place| Path::is_file(&place)))
}
