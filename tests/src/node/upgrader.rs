//! The upgrader's image as a cluster gets it: made by our program from a release's archives, which a mirror folder has.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use bundles::{Digest, ImageReference};
use serde_json::{Value, json};
use tar::{Archive, Builder, HeaderMode};

use super::archive::architecture;
use super::programs::{NEW, kubernetes};
use crate::servers::Programs;

/// Where the images of the tests are.
const REPOSITORY: &str = "registry.test/stepgate/node-upgrader";

/// An archive of an OCI layout, and what it is called on a node.
pub struct UpgraderImage {
    /// For `ctr images import`.
    pub archive: PathBuf,
    /// Of [`NEW`].
    pub reference: ImageReference,
}

impl UpgraderImage {
    /// Makes it by `program` (our own), unless it is there. `change` may replace a program of the release, by name.
    ///
    /// # Errors
    /// When the image cannot be made.
    pub fn make(
        programs: &Programs,
        program: &Path,
        name: &str,
        change: impl Fn(&str, Vec<u8>) -> Vec<u8>,
    ) -> anyhow::Result<Self> {
        let reference = format!("{REPOSITORY}-{name}:{}", NEW.release).parse()?;
        let node = fs::read(programs.path("stepgate-node"))?;
        let digest = Digest::of(&node).to_string();
        let unique = digest.trim_start_matches("sha256:").get(..12).unwrap_or_default();
        let archive = programs.path(&format!("images/upgrader-{name}-{unique}.tar"));
        if !archive.is_file() {
            let mirror = programs.path(&format!("images/mirror-{name}"));
            let layout = programs.path(&format!("images/layout-{name}"));
            for folder in [&mirror, &layout] {
                if folder.exists() {
                    fs::remove_dir_all(folder)?;
                }
            }
            let bundle = write_mirror(programs, &mirror, &change)?;
            build(program, &bundle, &mirror, &programs.path("stepgate-node"), &layout)?;
            let part = archive.with_extension("part");
            let mut packed = Builder::new(File::create(&part)?);
            packed.append_dir_all(".", &layout)?;
            packed.into_inner()?.flush()?;
            fs::rename(part, &archive)?;
            fs::remove_dir_all(mirror)?;
            fs::remove_dir_all(layout)?;
        }
        Ok(Self { archive, reference })
    }

    /// Lays all its layers over each other in `folder`.
    ///
    /// # Errors
    /// When the archive is not that of an image.
    pub fn unpack(&self, folder: &Path) -> anyhow::Result<()> {
        let layout = tempfile::tempdir()?;
        Archive::new(File::open(&self.archive)?).unpack(layout.path())?;
        let document = |place: PathBuf| -> anyhow::Result<Value> { Ok(serde_json::from_slice(&fs::read(place)?)?) };
        let blob = |descriptor: &Value| -> anyhow::Result<PathBuf> {
            let digest = descriptor.pointer("/digest").and_then(Value::as_str).context("a blob has a digest")?;
            Ok(layout.path().join("blobs").join(digest.replace(':', "/")))
        };
        let first = |document: &Value| document.pointer("/manifests/0").cloned().context("an index names a manifest");
        let index = document(blob(&first(&document(layout.path().join("index.json"))?)?)?)?;
        let manifest = document(blob(&first(&index)?)?)?;
        fs::create_dir_all(folder)?;
        for layer in manifest.pointer("/layers").and_then(Value::as_array).context("an image has layers")? {
            Archive::new(flate2::read::GzDecoder::new(File::open(blob(layer)?)?)).unpack(folder)?;
        }
        Ok(())
    }
}

fn build(program: &Path, bundle: &Path, mirror: &Path, node: &Path, layout: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.args(["upgrader", "build", "--release", NEW.release, "--bundle"]).arg(bundle);
    command.arg("--mirror").arg(mirror).arg("--program").arg(node).arg("--to").arg(layout);
    let output = command.output().context("could not run stepgate")?;
    if output.status.success() {
        return Ok(());
    }
    bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))
}

/// The manifests of a release and its archives, as they are published. Returns the path of the Bundles manifest.
fn write_mirror(
    programs: &Programs,
    mirror: &Path,
    change: &impl Fn(&str, Vec<u8>) -> Vec<u8>,
) -> anyhow::Result<PathBuf> {
    let architecture = architecture();
    let write = |path: &str, bytes: &[u8]| -> anyhow::Result<String> {
        let place = mirror.join("distro.example").join(path);
        fs::create_dir_all(place.parent().context("a file lies in a folder")?)?;
        fs::write(place, bytes)?;
        Ok(Digest::of(bytes).to_string().trim_start_matches("sha256:").to_owned())
    };
    let asset = |name: &str, path: &str, digest: &str| {
        json!({"name": name, "type": "Archive", "os": "linux", "arch": [architecture],
            "archive": {"uri": format!("https://distro.example/{path}"), "sha256": digest}})
    };
    let mut assets = Vec::new();
    for name in ["kubeadm", "kubelet", "kubectl"] {
        let content = change(name, fs::read(kubernetes(programs, name, NEW.kubernetes))?);
        let path = format!("bin/linux/{architecture}/{name}");
        assets.push(asset(&path, &path, &write(&path, &content)?));
    }
    let root = programs.path("rootfs");
    // Of the same version as on the nodes, and other files all the same.
    let other = |name: &str, place: &Path| -> anyhow::Result<Vec<u8>> {
        let mut content = fs::read(place).with_context(|| place.display().to_string())?;
        content.push(0);
        Ok(change(name, content))
    };
    let mut plugins = Vec::new();
    for entry in fs::read_dir(root.join("usr/lib/cni"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let content = other(&name, &root.join("usr/lib/cni").join(&name))?;
        plugins.push((format!("./{name}"), content));
    }
    plugins.sort();
    let path = format!("cni-plugins-linux-{architecture}.tar.gz");
    let plugins = asset(&path, &path, &write(&path, &packed(&plugins)?)?);
    let mut runtime = vec![("usr/local/sbin/runc".to_owned(), other("runc", &root.join("usr/sbin/runc"))?)];
    for name in ["containerd", "containerd-shim-runc-v2", "ctr"] {
        runtime.push((format!("usr/local/bin/{name}"), other(name, &programs.path(name))?));
    }
    let containerd = format!("containerd-linux-{architecture}.tar.gz");
    let digest = write(&containerd, &packed(&runtime)?)?;
    let release = json!({
        "apiVersion": "distro.eks.amazonaws.com/v1alpha1", "kind": "Release",
        "metadata": {"name": "kubernetes-1-36-eks-4"}, "spec": {"channel": "1-36", "number": 4},
        "status": {"components": [
            {"name": "kubernetes", "gitTag": NEW.kubernetes, "assets": assets},
            {"name": "cni-plugins", "gitTag": "v1.1.1", "assets": [plugins]},
        ]},
    });
    write("kubernetes-1-36-eks-4.yaml", release.to_string().as_bytes())?;
    let bundle = json!({
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Bundles", "metadata": {"name": "bundles-1"},
        "spec": {"number": 1, "versionsBundles": [{"kubeVersion": "1.36", "eksD": {
            "name": "kubernetes-1-36-eks-4", "channel": "1-36", "kubeVersion": NEW.kubernetes,
            "manifestUrl": "https://distro.example/kubernetes-1-36-eks-4.yaml",
            "containerd": {"uri": format!("https://distro.example/{containerd}"), "sha256": digest},
        }}]},
    });
    let place = mirror.join("bundles.yaml");
    fs::write(&place, bundle.to_string())?;
    Ok(place)
}

fn packed(files: &[(String, Vec<u8>)]) -> anyhow::Result<Vec<u8>> {
    let mut archive = Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    archive.mode(HeaderMode::Deterministic);
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        archive.append_data(&mut header, name, content.as_slice())?;
    }
    Ok(archive.into_inner()?.finish()?)
}
