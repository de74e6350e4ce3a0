//! Archives of images as `ctr images import` takes them, of one layer that is made of programs.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bundles::Digest;
use serde_json::json;
use tar::{Builder, EntryType, Header};

/// An image of the tests.
pub struct Archive<'a> {
    /// What it is called: `registry.test/pause:3.10.2`.
    pub references: &'a [&'a str],
    /// What it starts.
    pub entrypoint: &'a str,
    /// Files and folders and where they lie in it.
    pub content: Vec<(PathBuf, String)>,
}

impl Archive<'_> {
    /// Writes it to `place`, unless it is there.
    ///
    /// # Errors
    /// When something cannot be read or written.
    pub fn write(&self, place: &Path) -> anyhow::Result<()> {
        if place.is_file() {
            return Ok(());
        }
        let layer = self.layer()?;
        let layer_digest = hexadecimal(&layer);
        let config = json!({
            "architecture": architecture(), "os": "linux",
            "config": {"Entrypoint": [self.entrypoint], "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
        })
        .to_string();
        let config_name = format!("{}.json", hexadecimal(config.as_bytes()));
        let layer_name = format!("{layer_digest}/layer.tar");
        let manifest =
            json!([{"Config": config_name, "RepoTags": self.references, "Layers": [layer_name]}]).to_string();
        let part = place.with_extension("part");
        fs::create_dir_all(place.parent().context("an archive lies in a folder")?)?;
        let mut archive = Builder::new(File::create(&part)?);
        for (name, bytes) in [
            (layer_name.as_str(), layer.as_slice()),
            (config_name.as_str(), config.as_bytes()),
            ("manifest.json", manifest.as_bytes()),
        ] {
            let mut header = header(EntryType::Regular, 0o644);
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, name, bytes)?;
        }
        archive.into_inner()?.flush()?;
        fs::rename(&part, place)?;
        Ok(())
    }

    fn layer(&self) -> anyhow::Result<Vec<u8>> {
        let mut layer = Builder::new(Vec::new());
        layer.mode(tar::HeaderMode::Deterministic);
        layer.follow_symlinks(false);
        for folder in ["tmp", "usr", "usr/local", "usr/local/bin", "etc", "run", "var", "var/lib"] {
            let mut header = header(EntryType::Directory, if folder == "tmp" { 0o1777 } else { 0o755 });
            header.set_size(0);
            layer.append_data(&mut header, folder, &[][..])?;
        }
        for (source, place) in &self.content {
            let told = || format!("could not pack {}", source.display());
            if source.is_dir() {
                layer.append_dir_all(place, source).with_context(told)?;
            } else {
                layer.append_path_with_name(source, place).with_context(told)?;
            }
        }
        Ok(layer.into_inner()?)
    }
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header
}

fn hexadecimal(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string().trim_start_matches("sha256:").to_owned()
}

/// Of this machine, in the words of images.
#[must_use]
pub fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}
