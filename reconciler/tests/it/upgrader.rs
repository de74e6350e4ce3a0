//! Images of the node upgrader, from small archives of our own: what is in them, and what is refused.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use bundles::Digest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Run, stepgate};

pub const RELEASE: &str = "v1.36.4-eks-1-36-4";

const AMD64: u8 = 62;
const ARM64: u8 = 183;

/// As much of a program as its headers are, and something that tells it from others.
fn program(machine: u8, segment: u8, name: &str) -> Vec<u8> {
    let mut content = vec![0; 64 + 56];
    content[..6].copy_from_slice(b"\x7fELF\x02\x01");
    content[18] = machine;
    content[32] = 64;
    content[54] = 56;
    content[56] = 1;
    content[64] = segment;
    content.extend_from_slice(name.as_bytes());
    content
}

fn packed(names: &[&str], machine: u8) -> Vec<u8> {
    let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for name in names {
        let content = program(machine, 1, name);
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        archive.append_data(&mut header, name, content.as_slice()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// A mirror with a release, and a program of ours.
pub struct Scene {
    folder: TempDir,
    pub bundle: PathBuf,
    pub mirror: PathBuf,
    pub program: PathBuf,
}

/// What a release is made of.
pub struct Parts {
    kubelet: Vec<u8>,
    containerd: Vec<u8>,
    /// Whether the release says another digest of kubelet.
    is_changed_on_the_way: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            kubelet: program(AMD64, 1, "kubelet"),
            containerd: packed(
                &[
                    "usr/local/bin/containerd",
                    "usr/local/bin/containerd-shim-runc-v2",
                    "usr/local/bin/ctr",
                    "usr/local/sbin/runc",
                    "etc/crictl.yaml",
                ],
                AMD64,
            ),
            is_changed_on_the_way: false,
        }
    }
}

impl Scene {
    pub fn new(parts: &Parts) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mirror = folder.path().join("mirror");
        fs::create_dir_all(mirror.join("distro.example")).unwrap();
        let write = |name: &str, content: &[u8]| {
            fs::write(mirror.join("distro.example").join(name), content).unwrap();
            Digest::of(content).to_string().trim_start_matches("sha256:").to_owned()
        };
        let asset = |name: &str, file: &str, content: &[u8]| {
            let mut digest = write(file, content);
            if parts.is_changed_on_the_way && file == "kubelet" {
                digest = "0".repeat(64);
            }
            json!({"name": name, "type": "Archive", "os": "linux", "arch": ["amd64"],
                "archive": {"uri": format!("https://distro.example/{file}"), "sha256": digest}})
        };
        let kubernetes = [
            asset("bin/linux/amd64/kubelet", "kubelet", &parts.kubelet),
            asset("bin/linux/amd64/kubeadm", "kubeadm", &program(AMD64, 1, "kubeadm")),
            asset("bin/linux/amd64/kubectl", "kubectl", &program(AMD64, 1, "kubectl")),
        ];
        let plugins = packed(&["./bridge", "./loopback", "./host-local", "./LICENSE"], AMD64);
        let plugins = asset("cni-plugins-linux-amd64.tar.gz", "plugins.tar.gz", &plugins);
        let digest = write("containerd-linux-amd64.tar.gz", &parts.containerd);
        let release = json!({
            "apiVersion": "distro.eks.amazonaws.com/v1alpha1", "kind": "Release",
            "metadata": {"name": "kubernetes-1-36-eks-4"}, "spec": {"channel": "1-36", "number": 4},
            "status": {"components": [
                {"name": "kubernetes", "gitTag": "v1.36.4", "assets": kubernetes},
                {"name": "cni-plugins", "gitTag": "v1.7.1", "assets": [plugins]},
            ]},
        });
        write("release.yaml", release.to_string().as_bytes());
        let bundle = json!({
            "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Bundles", "metadata": {"name": "bundles-1"},
            "spec": {"number": 1, "versionsBundles": [{"kubeVersion": "1.36", "eksD": {
                "name": "kubernetes-1-36-eks-4", "channel": "1-36", "kubeVersion": "v1.36.4",
                "manifestUrl": "https://distro.example/release.yaml",
                "containerd": {"uri": "https://distro.example/containerd-linux-amd64.tar.gz", "sha256": digest},
            }}]},
        });
        let place = folder.path().join("bundles.yaml");
        fs::write(&place, bundle.to_string()).unwrap();
        let own = folder.path().join("stepgate-node");
        fs::write(&own, program(AMD64, 1, "stepgate-node")).unwrap();
        Self { bundle: place, program: own, mirror, folder }
    }

    fn layout(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn build(&self, name: &str, more: &[&str]) -> Run {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let (bundle, mirror, program) = (path(&self.bundle), path(&self.mirror), path(&self.program));
        let to = path(&self.layout(name));
        let mut arguments =
            vec!["upgrader", "build", "-o", "json", "--bundle", &bundle, "--mirror", &mirror, "--to", &to];
        if !more.contains(&"--release") {
            arguments.extend(["--release", RELEASE]);
        }
        if !more.contains(&"--program") {
            arguments.extend(["--program", &program]);
        }
        arguments.extend(more);
        stepgate(&arguments)
    }
}

fn refused(parts: &Parts, more: &[&str], why: &str) {
    let scene = Scene::new(parts);
    let run = scene.build("layout", more);
    assert!(run.code == 2 && run.text().contains(why), "{why} in {}", run.text());
    assert!(!scene.layout("layout").join("index.json").exists());
}

fn blob(layout: &Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap();
    let content = fs::read(layout.join("blobs").join(digest.replace(':', "/"))).unwrap();
    assert_eq!(Digest::of(&content).to_string(), digest);
    assert_eq!(content.len() as u64, descriptor["size"].as_u64().unwrap());
    content
}

/// All files of the one image of a layout, by path.
fn files(layout: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).unwrap()).unwrap();
    let images: Value = serde_json::from_slice(&blob(layout, &index["manifests"][0])).unwrap();
    let manifest: Value = serde_json::from_slice(&blob(layout, &images["manifests"][0])).unwrap();
    let mut files = BTreeMap::new();
    for layer in manifest["layers"].as_array().unwrap() {
        let packed = blob(layout, layer);
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            assert_eq!((entry.header().uid().unwrap(), entry.header().mtime().unwrap()), (0, 0));
            if entry.header().entry_type().is_file() {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                let path = entry.path().unwrap().to_string_lossy().into_owned();
                files.insert(path, (entry.header().mode().unwrap(), content));
            }
        }
    }
    files
}

#[test]
fn image_holds_program_and_release_and_is_made_alike_twice() {
    let scene = Scene::new(&Parts::default());
    let first = scene.build("first", &[]);
    assert_eq!(first.code, 0, "{}", first.text());
    let found = files(&scene.layout("first"));
    let paths: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            "release/files/opt/cni/bin/bridge",
            "release/files/opt/cni/bin/host-local",
            "release/files/opt/cni/bin/loopback",
            "release/files/usr/bin/kubeadm",
            "release/files/usr/bin/kubectl",
            "release/files/usr/bin/kubelet",
            "release/files/usr/local/bin/containerd",
            "release/files/usr/local/bin/containerd-shim-runc-v2",
            "release/files/usr/local/bin/ctr",
            "release/files/usr/local/sbin/runc",
            "release/manifest.json",
            "stepgate-node",
        ]
    );
    assert_eq!(found["stepgate-node"].0, 0o755);
    let manifest: Value = serde_json::from_slice(&found["release/manifest.json"].1).unwrap();
    assert_eq!(manifest["kubernetesVersion"], RELEASE);
    for file in manifest["files"].as_array().unwrap() {
        let content = &found[&format!("release/{}", file["source"].as_str().unwrap())].1;
        assert_eq!(file["sha256"], Digest::of(content).to_string());
    }
    let second = scene.build("second", &[]);
    assert_eq!(first.json(), second.json());
    assert_eq!(
        fs::read(scene.layout("first/index.json")).unwrap(),
        fs::read(scene.layout("second/index.json")).unwrap()
    );
    assert!(scene.build("first", &[]).text().contains("is not empty"));
}

#[test]
fn archives_that_are_not_what_a_node_needs_are_refused() {
    let without_runc = packed(&["bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr"], AMD64);
    refused(&Parts { containerd: without_runc, ..Parts::default() }, &[], "has no program runc");
    let kubelet = program(ARM64, 1, "kubelet");
    refused(
        &Parts { kubelet, ..Parts::default() },
        &[],
        "/usr/bin/kubelet of v1.36.4-eks-1-36-4 is for arm64, and amd64 is wanted",
    );
    refused(&Parts { kubelet: b"<html>".to_vec(), ..Parts::default() }, &[], "is neither a program nor a script");
    refused(&Parts { containerd: b"<html>".to_vec(), ..Parts::default() }, &[], "is not a whole archive");
    let changed = Parts { is_changed_on_the_way: true, ..Parts::default() };
    refused(&changed, &[], "and its manifest names sha256:0000");
    refused(
        &Parts::default(),
        &["--release", "v1.36.4-eks-1-36-5"],
        "does not name the EKS-D release v1.36.4-eks-1-36-5",
    );
    refused(&Parts::default(), &["--release", "1.36"], "v1.30.14-eks-1-30-58");
}

#[test]
fn programs_that_an_empty_image_cannot_start_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let place = folder.path().join(name);
        fs::File::create(&place).unwrap().write_all(content).unwrap();
        place.to_str().unwrap().to_owned()
    };
    let dynamic = write("dynamic", &program(AMD64, 3, "stepgate-node"));
    refused(&Parts::default(), &["--program", &dynamic], "needs libraries that the image does not have");
    let script = write("script", b"#!/bin/sh\n");
    refused(&Parts::default(), &["--program", &script], "is not a program for amd64 or arm64");
    let arm = write("arm", &program(ARM64, 1, "stepgate-node"));
    refused(&Parts::default(), &["--program", &arm], "has no kubeadm for linux/arm64");
}

#[test]
fn upgrader_image_of_eks_anywhere_is_a_source_too() {
    let scene = Scene::new(&Parts::default());
    let root = "eksa-upgrades/binaries";
    let layer = packed(
        &[
            &format!("{root}/kubernetes/usr/bin/kubelet"),
            &format!("{root}/kubernetes/usr/bin/kubeadm"),
            &format!("{root}/kubernetes/usr/bin/kubectl"),
            &format!("{root}/containerd/usr/local/bin/containerd"),
            &format!("{root}/containerd/usr/local/bin/containerd-shim-runc-v2"),
            &format!("{root}/containerd/usr/local/bin/ctr"),
            &format!("{root}/containerd/usr/local/sbin/runc"),
            &format!("{root}/cni-plugins/opt/cni/bin/loopback"),
            &format!("{root}/cni-plugins/opt/cni/bin/host-local"),
            "eksa-upgrades/tools/upgrader",
            "usr/bin/bash",
        ],
        AMD64,
    );
    let source = scene.layout("eksa");
    fs::create_dir_all(source.join("blobs/sha256")).unwrap();
    let add = |content: &[u8]| {
        let digest = Digest::of(content).to_string();
        fs::write(source.join("blobs").join(digest.replace(':', "/")), content).unwrap();
        json!({"digest": digest, "size": content.len()})
    };
    let manifest = json!({"schemaVersion": 2, "layers": [add(&layer)]});
    let mut entry = add(manifest.to_string().as_bytes());
    entry["platform"] = json!({"architecture": "amd64", "os": "linux"});
    fs::write(source.join("index.json"), json!({"manifests": [entry]}).to_string()).unwrap();
    let run = scene.build("layout", &["--from", source.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.text());
    let found = files(&scene.layout("layout"));
    assert!(found["release/files/usr/local/sbin/runc"].1.ends_with(b"containerd/usr/local/sbin/runc"));
    assert!(!found.keys().any(|path| path.contains("bash") || path.contains("upgrader")));
}
