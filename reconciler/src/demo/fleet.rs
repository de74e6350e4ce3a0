//! The demo's fleet repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use include_dir::{Dir, include_dir};
use jiff::Timestamp;

use super::{DemoKind, DemoSettings};
use crate::reconcile::clusters::directory::path;
use domain::BranchName;
use git::{CommitDraft, CommitMessage, CommitOutcome, Identity, PushOutcome, Repository, Signing};

static FIXTURES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../fixtures/demo");

/// The text in the cluster files that stands for the Kubernetes version.
const KUBERNETES_VERSION: &str = "KUBERNETES_VERSION";

/// The source branch before and after the bump, and where its manifests are.
pub struct FleetFiles {
    /// The files to begin with.
    pub before: BTreeMap<String, Vec<u8>>,
    /// The files that the bump changes.
    pub bump: BTreeMap<String, Vec<u8>>,
    /// What the bump is, in one line.
    pub subject: String,
    /// Folders of manifests.
    pub mirrors: Vec<PathBuf>,
}

impl FleetFiles {
    /// The built-in fleet, or one around published bundles. The built-in fleet's manifests are written below the settings' folder.
    ///
    /// # Errors
    /// When the manifests cannot be written, or the bundles cannot be read or used.
    pub fn of(settings: &DemoSettings) -> Result<Self, anyhow::Error> {
        match &settings.bundles {
            None => match settings.kind {
                DemoKind::EksAnywhere => built_in(settings),
                DemoKind::Tanzu => tanzu(),
            },
            Some((from, to)) => published(settings, from, to),
        }
    }
}

fn built_in(settings: &DemoSettings) -> Result<FleetFiles, anyhow::Error> {
    let mirror = settings.folder.join("mirror");
    let source = FIXTURES.get_dir("mirror").context("the demo's manifests are part of the program")?;
    for file in files(source) {
        let target = mirror.join(file.path().strip_prefix("mirror")?);
        std::fs::create_dir_all(target.parent().unwrap_or(&mirror))?;
        std::fs::write(&target, file.contents()).with_context(|| format!("writing {}", target.display()))?;
    }
    let mut before = clusters("clusters", "1.33")?;
    for name in ["stepgate.yaml", "bundles/bundles-80.yaml", "overlays/cert-manager/kustomization.yaml"] {
        before.insert(name.to_owned(), fixture(name)?);
    }
    let mut bump = clusters("clusters", "1.34")?;
    bump.insert("bundles/bundles-81.yaml".to_owned(), fixture("bundles/bundles-81.yaml")?);
    Ok(FleetFiles { before, bump, subject: "Take bundle 81 and Kubernetes 1.34".to_owned(), mirrors: vec![mirror] })
}

/// A cluster that goes to the release of another image.
fn tanzu() -> Result<FleetFiles, anyhow::Error> {
    let cluster = |release: &str| -> Result<BTreeMap<String, Vec<u8>>, anyhow::Error> {
        let text = String::from_utf8(fixture("tanzu/depot.yaml")?)?.replace("RELEASE", release);
        Ok(BTreeMap::from([("clusters/depot/depot.yaml".to_owned(), text.into_bytes())]))
    };
    let mut before = cluster("v1.33.1---vmware.1-tkg.1")?;
    before.insert("stepgate.yaml".to_owned(), fixture("tanzu/stepgate.yaml")?);
    before.insert("supervisor/images.yaml".to_owned(), fixture("tanzu/images.yaml")?);
    let bump = cluster("v1.34.2---vmware.1-tkg.2")?;
    Ok(FleetFiles { before, bump, subject: "Take release v1.34.2+vmware.1-tkg.2".to_owned(), mirrors: Vec::new() })
}

fn published(settings: &DemoSettings, from: &Path, to: &Path) -> Result<FleetFiles, anyhow::Error> {
    let read =
        |file: &Path| std::fs::read(file).with_context(|| format!("reading the bundles manifest {}", file.display()));
    let (old, new) = (read(from)?, read(to)?);
    let minors = |file: &Path, text: &[u8]| -> Result<Vec<String>, anyhow::Error> {
        let bundles = bundles::parse_bundles(&file.display().to_string(), text)?;
        Ok(bundles.versions_bundles.iter().map(|section| section.kubernetes_version.to_string()).collect())
    };
    let (deployed, target) = step(&minors(from, &old)?, &minors(to, &new)?)
        .with_context(|| format!("{} and {} have no Kubernetes version in common", from.display(), to.display()))?;
    let mut before = clusters("published/clusters", &deployed)?;
    before.insert("stepgate.yaml".to_owned(), fixture("published/stepgate.yaml")?);
    before.insert("bundles/bundles.yaml".to_owned(), old);
    let mut bump = clusters("published/clusters", &target)?;
    bump.insert("bundles/bundles.yaml".to_owned(), new);
    let name = |file: &Path| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let subject = format!("Take {} and Kubernetes {target}", name(to));
    Ok(FleetFiles { before, bump, subject, mirrors: settings.mirrors.clone() })
}

/// The highest Kubernetes version of both bundles, and the minor before it where both have that one too.
fn step(old: &[String], new: &[String]) -> Option<(String, String)> {
    let number = |minor: &str| minor.split_once('.').and_then(|(_, minor)| minor.parse::<u32>().ok());
    let mut common: Vec<&String> = old.iter().filter(|minor| new.contains(minor)).collect();
    common.sort_by_key(|minor| number(minor));
    let target = common.pop()?.clone();
    let deployed = common.pop().cloned().unwrap_or_else(|| target.clone());
    Some((deployed, target))
}

fn clusters(folder: &str, kubernetes: &str) -> Result<BTreeMap<String, Vec<u8>>, anyhow::Error> {
    let source = FIXTURES.get_dir(folder).with_context(|| format!("{folder} is part of the program"))?;
    let base = Path::new(folder).parent().unwrap_or(Path::new(""));
    let mut found = BTreeMap::new();
    for file in files(source) {
        let text = String::from_utf8(file.contents().to_vec())?.replace(KUBERNETES_VERSION, kubernetes);
        found.insert(file.path().strip_prefix(base)?.to_string_lossy().into_owned(), text.into_bytes());
    }
    Ok(found)
}

fn files<'a>(folder: &'a Dir<'a>) -> Vec<&'a include_dir::File<'a>> {
    folder.files().chain(folder.dirs().flat_map(files)).collect()
}

fn fixture(name: &str) -> Result<Vec<u8>, anyhow::Error> {
    let file = FIXTURES.get_file(name).with_context(|| format!("{name} is part of the program"))?;
    Ok(file.contents().to_vec())
}

/// Commits files to a branch, as a person of the platform team.
pub fn push(
    repository: &Repository,
    branch: &BranchName,
    files: &BTreeMap<String, Vec<u8>>,
    subject: &str,
    now: Timestamp,
) -> Result<(), anyhow::Error> {
    let head = repository.head(branch)?;
    let mut edits = BTreeMap::new();
    for (name, bytes) in files {
        edits.insert(path(name)?, Some(Arc::from(bytes.as_slice())));
    }
    let author: Identity = "Platform Team <platform@example.com>".parse()?;
    let message = CommitMessage { subject: subject.to_owned(), body: String::new(), trailers: Vec::new() };
    let draft = CommitDraft {
        parent: head.clone(),
        prefix: None,
        edits,
        message,
        author,
        time: now,
        merges: None,
        allow_empty: false,
    };
    match repository.commit(&draft, &Signing::None)? {
        CommitOutcome::Unchanged => Ok(()),
        CommitOutcome::Created(commit) => match repository.push(branch, &commit, head.as_ref())? {
            PushOutcome::Pushed => Ok(()),
            other => anyhow::bail!("could not push to {branch}: {other:?}"),
        },
    }
}
