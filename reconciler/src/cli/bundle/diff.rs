//! `stepgate bundle diff`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bundles::{ArtifactChange, Change, ChangeClass, Changes, KubernetesVersion, Lock, Locks, compare};
use clap::Args;
use serde::Serialize;

use super::{lock_beside, read_bundles, read_lock};
use crate::cli::common::output;
use crate::cli::{CommandError, Exit, Format, Report, Table};

/// Arguments of `stepgate bundle diff`.
#[derive(Debug, Args)]
pub struct DiffArguments {
    /// The Bundles manifest before.
    old: PathBuf,
    /// The Bundles manifest after.
    new: PathBuf,
    /// Compare this Kubernetes version alone: `1.31`.
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<KubernetesVersion>,
    /// Also list what did not change.
    #[arg(long)]
    all: bool,
    /// The lock that belongs to OLD. Without it: `bundles.lock` beside OLD, or above its folder `bundles`.
    #[arg(long, value_name = "FILE")]
    old_lock: Option<PathBuf>,
    /// The lock that belongs to NEW. Without it: `bundles.lock` beside NEW, or above its folder `bundles`.
    #[arg(long, value_name = "FILE")]
    new_lock: Option<PathBuf>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What changed between two Bundles: the contract for scripts.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct BundleDiffReport {
    /// By Kubernetes version, then by component. Unchanged ones are there with `--all` only. Components of a Kubernetes
    /// version that one side lacks are `added` or `removed`.
    changes: Vec<ChangeReport>,
    #[serde(skip)]
    notes: Vec<String>,
    /// Kubernetes versions that one side lacks: told in a note, not in a row for each component.
    #[serde(skip)]
    one_sided: Vec<String>,
}

/// What changed in one component.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChangeReport {
    /// Kubernetes version of the versionsBundle.
    kubernetes_version: String,
    /// The manifest's own key: `certManager`, `eksD`.
    component: String,
    /// `unchanged`, `retag`, `rebuild`, `patch`, `minor`, `major`, `skip-minor`, `downgrade`, `added`, `removed`,
    /// `opaque` or `digest-drift`.
    class: &'static str,
    /// The field `version` before; null where absent.
    old_version: Option<String>,
    /// The field `version` after; null where absent.
    new_version: Option<String>,
    /// Every artifact of either side.
    artifacts: Vec<ArtifactReport>,
    /// For people: `eksD` has no version, but a release.
    #[serde(skip)]
    releases: [Option<String>; 2],
}

/// What changed in one artifact.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ArtifactReport {
    /// Dotted path inside the component.
    name: String,
    /// `unchanged`, `retag`, `rebuild`, `digest-drift`, `added` or `removed`.
    class: &'static str,
    /// Address before; null where absent.
    old_uri: Option<String>,
    /// Address after; null where absent.
    new_uri: Option<String>,
    /// Digest before; null where absent.
    old_digest: Option<String>,
    /// Digest after; null where absent.
    new_digest: Option<String>,
}

impl From<Change> for ChangeReport {
    fn from(change: Change) -> Self {
        Self {
            kubernetes_version: change.kubernetes_version.to_string(),
            component: change.component,
            class: change.class.as_str(),
            old_version: change.old_version,
            new_version: change.new_version,
            artifacts: change.artifacts.into_iter().map(ArtifactReport::from).collect(),
            releases: [change.old_release, change.new_release],
        }
    }
}

impl From<ArtifactChange> for ArtifactReport {
    fn from(artifact: ArtifactChange) -> Self {
        Self {
            name: artifact.name,
            class: artifact.class.as_str(),
            old_uri: artifact.old_uri,
            new_uri: artifact.new_uri,
            old_digest: artifact.old_digest,
            new_digest: artifact.new_digest,
        }
    }
}

impl BundleDiffReport {
    fn new(changes: Changes, old: &Path, new: &Path) -> Self {
        let mut notes = Vec::new();
        for (versions, path) in [(&changes.kubernetes_versions_added, new), (&changes.kubernetes_versions_removed, old)]
        {
            notes.extend(versions.iter().map(|version| {
                let count = changes.for_kubernetes(version).count();
                format!("Kubernetes {version} is only in {}, with {count} components", path.display())
            }));
        }
        let drifted = changes.changes.iter().filter(|change| change.class == ChangeClass::DigestDrift);
        notes.extend(drifted.map(|change| {
            let artifacts = change.artifacts.iter().filter(|it| it.class == ChangeClass::DigestDrift);
            let names: Vec<_> = artifacts.map(|it| it.name.as_str()).collect();
            let (version, component) = (&change.kubernetes_version, &change.component);
            format!(
                "alarm: {component} of Kubernetes {version} has other content under the same version: {}",
                names.join(", ")
            )
        }));
        if changes.is_empty() {
            notes.push("nothing changed".to_owned());
        }
        let one_sided = changes.kubernetes_versions_added.iter().chain(&changes.kubernetes_versions_removed);
        let one_sided = one_sided.map(ToString::to_string).collect();
        Self { changes: changes.changes.into_iter().map(ChangeReport::from).collect(), notes, one_sided }
    }
}

impl Report for BundleDiffReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        // Most components say the same under every Kubernetes version: one row for all of them.
        let mut rows: BTreeMap<[String; 4], Vec<&str>> = BTreeMap::new();
        for change in self.changes.iter().filter(|it| !self.one_sided.contains(&it.kubernetes_version)) {
            let [old, new] = &change.releases;
            let text = |version: &Option<String>, release: &Option<String>| {
                version
                    .as_ref()
                    .or(release.as_ref())
                    .filter(|text| !text.is_empty())
                    .cloned()
                    .unwrap_or_else(|| "-".to_owned())
            };
            let key = [
                change.component.clone(),
                change.class.to_owned(),
                text(&change.old_version, old),
                text(&change.new_version, new),
            ];
            rows.entry(key).or_default().push(&change.kubernetes_version);
        }
        let row =
            |(cells, versions): (&[String; 4], &Vec<&str>)| cells.iter().cloned().chain([versions.join(" ")]).collect();
        let headers = vec!["COMPONENT", "CLASS", "OLD", "NEW", "KUBERNETES"];
        vec![(None, Table { headers, rows: rows.iter().map(row).collect(), notes: self.notes.clone(), width: None })]
    }
}

/// Compares the two files and prints what changed.
pub fn run(arguments: &DiffArguments) -> Result<Exit, CommandError> {
    let (old, new) = (read_bundles(&arguments.old)?, read_bundles(&arguments.new)?);
    let old_lock = lock(arguments.old_lock.as_deref(), &arguments.old)?;
    let new_lock = lock(arguments.new_lock.as_deref(), &arguments.new)?;
    let mut changes = compare(&old, &new, Locks { old: old_lock.as_ref(), new: new_lock.as_ref() });
    if let Some(version) = &arguments.kubernetes_version {
        let known: Vec<_> =
            old.versions_bundles.iter().chain(&new.versions_bundles).map(|it| &it.kubernetes_version).collect();
        let Some(found) = known.iter().find(|it| it.minor() == version.minor()) else {
            let mut names: Vec<_> = known.iter().map(|it| it.minor()).collect();
            names.sort_unstable();
            names.dedup();
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            let error = CommandError::new(format!("neither file has a versionsBundle for Kubernetes {version}"));
            return Err(error.hint(format!("known Kubernetes versions: {}", names.join(", "))));
        };
        changes = changes.only_kubernetes(found);
    }
    let exit = if changes.is_empty() { Exit::Success } else { Exit::Differences };
    if !arguments.all {
        changes = changes.without_unchanged();
    }
    output::print(arguments.output, &BundleDiffReport::new(changes, &arguments.old, &arguments.new))?;
    Ok(exit)
}

fn lock(named: Option<&Path>, bundle: &Path) -> Result<Option<Lock>, CommandError> {
    let path = named.map(Path::to_owned).or_else(|| lock_beside(bundle));
    path.map(|path| read_lock(&path)).transpose()
}
