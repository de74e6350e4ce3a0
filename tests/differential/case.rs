//! One case: a tree of files and how to build it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kustomize_rs::MemoryFileSystem;
use serde_json::{Value, json};

/// Files by path, and the directory to build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Contents by path, `/` between the parts.
    pub files: BTreeMap<String, String>,
    /// Those that are not text.
    pub binaries: BTreeMap<String, Vec<u8>>,
    /// The directory that is built.
    pub directory: String,
    /// Keep the order of the input (`--reorder none`).
    pub unsorted: bool,
    /// Render charts (`--enable-helm`).
    pub charts: bool,
}

impl Case {
    /// The line of JSON that the peer reads.
    pub fn to_json(&self) -> Value {
        let order = if self.unsorted { "none" } else { "legacy" };
        let binaries = self.binaries.iter().map(|(path, content)| (path.clone(), STANDARD.encode(content).into()));
        let binaries: serde_json::Map<String, Value> = binaries.collect();
        json!({"files": self.files, "binaries": binaries, "directory": self.directory, "order": order, "anywhere": false})
    }

    /// The same tree for our side.
    pub fn tree(&self) -> MemoryFileSystem {
        let mut tree = MemoryFileSystem::new();
        for (path, content) in &self.files {
            tree.insert(path, content.as_bytes().to_vec());
        }
        for (path, content) in &self.binaries {
            tree.insert(path, content.clone());
        }
        tree
    }

    /// Adds a file, whatever is in it.
    pub fn insert(&mut self, path: String, content: Vec<u8>) {
        match String::from_utf8(content) {
            Ok(text) => drop(self.files.insert(path, text)),
            Err(error) => drop(self.binaries.insert(path, error.into_bytes())),
        }
    }

    /// Writes the files below `folder`.
    pub fn save(&self, folder: &Path) -> anyhow::Result<()> {
        let texts = self.files.iter().map(|(path, text)| (path, text.as_bytes()));
        let binaries = self.binaries.iter().map(|(path, content)| (path, content.as_slice()));
        for (path, content) in texts.chain(binaries) {
            let path = folder.join(path);
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
            std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }

    /// Reads the files below `folder`.
    pub fn load(folder: &Path, directory: &str, unsorted: bool) -> anyhow::Result<Self> {
        let mut case = Self { directory: directory.to_owned(), unsorted, ..Self::default() };
        case.add(folder, "")?;
        case.charts = case.files.values().any(|text| text.contains("helmChart"));
        Ok(case)
    }

    fn add(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        for entry in std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
            let entry = entry?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                self.add(&entry.path(), &format!("{path}/"))?;
            } else {
                self.insert(path, std::fs::read(entry.path())?);
            }
        }
        Ok(())
    }
}
