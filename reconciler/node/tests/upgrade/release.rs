//! A release as an image brings it: files and manifest.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stepgate_node::files::digest::Digest;
use tempfile::TempDir;

use super::machine::write;

/// What the node runs before.
pub const OLD: &str = "v1.35.4";
/// What it runs afterwards.
pub const NEW: &str = "v1.36.4";

/// Paths, contents and modes of a version; long enough to be written in more than one piece.
pub fn contents(version: &str) -> Vec<(String, String, u32)> {
    let script = |said: &str| format!("#!/bin/sh\necho {said}\nexit 0\n{}", "# padding\n".repeat(2000));
    vec![
        ("/usr/bin/containerd".to_owned(), script(&format!("containerd for {version}")), 0o755),
        ("/etc/containerd/config.toml".to_owned(), format!("# of {version}\nversion = 3\n"), 0o644),
        ("/opt/cni/bin/bridge".to_owned(), script(&format!("bridge for {version}")), 0o755),
        ("/usr/bin/kubeadm".to_owned(), script(version), 0o755),
        ("/usr/bin/kubelet".to_owned(), script(&format!("Kubernetes {version}")), 0o755),
        ("/usr/bin/kubectl".to_owned(), script(version), 0o755),
    ]
}

/// What containerd reads of a registry: of the machine, not of the release.
pub const MIRROR: &str = "/etc/containerd/certs.d/registry.test/hosts.toml";

/// What stands in [`MIRROR`] with a version.
pub fn mirror(version: &str) -> String {
    format!("# of {version}\nserver = \"https://registry.test\"\n")
}

fn component(path: &str) -> &'static str {
    match path {
        "/usr/bin/kubeadm" => "kubeadm",
        "/usr/bin/kubelet" | "/usr/bin/kubectl" => "kubelet",
        "/opt/cni/bin/bridge" => "cni-plugins",
        _ => "containerd",
    }
}

/// A folder with a manifest.
pub struct Release {
    folder: TempDir,
    manifest: Value,
}

impl Release {
    /// Of the contents of `version`.
    pub fn new(version: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for (path, content, mode) in contents(version) {
            let source = format!("files{path}");
            write(&folder.path().join(&source), &content, 0o644);
            files.push(json!({
                "component": component(&path),
                "source": source,
                "path": path,
                "sha256": Digest::of(content.as_bytes()).to_string(),
                "mode": format!("{mode:04o}"),
            }));
        }
        let architecture = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
        let manifest = json!({"kubernetesVersion": version, "architecture": architecture, "files": files});
        let mut release = Self { folder, manifest };
        release.change(|_| {});
        release.write_files(&[(MIRROR, &mirror(version), "0644")]);
        release
    }

    /// Where the files of the machine are.
    pub fn files(&self) -> PathBuf {
        self.folder().join("machine")
    }

    /// Wants these files of the machine, and no others.
    pub fn write_files(&self, files: &[(&str, &str, &str)]) {
        let listed = files.iter().enumerate().map(|(number, (path, content, mode))| {
            write(&self.files().join(number.to_string()), content, 0o600);
            let sha256 = Digest::of(content.as_bytes()).to_string();
            json!({"path": path, "source": number.to_string(), "sha256": sha256, "mode": mode})
        });
        let list = json!({"files": listed.collect::<Vec<_>>()});
        write(&self.files().join("files.json"), &list.to_string(), 0o600);
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where a file of it lies.
    pub fn place(&self, path: &str) -> PathBuf {
        self.folder().join(format!("files{path}"))
    }

    /// Changes its manifest.
    pub fn change(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.manifest);
        fs::write(self.folder().join("manifest.json"), self.manifest.to_string()).unwrap();
    }

    /// Puts other content in the place of a file, and its digest into the manifest.
    pub fn replace(&mut self, path: &str, content: &[u8]) {
        fs::write(self.place(path), content).unwrap();
        self.change(|manifest| {
            let files = manifest["files"].as_array_mut().unwrap();
            let file = files.iter_mut().find(|file| file["path"] == path).unwrap();
            file["sha256"] = json!(Digest::of(content).to_string());
        });
    }
}
