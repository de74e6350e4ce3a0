//! `stepgate bundle show`.

use std::path::PathBuf;

use bundles::{Bundles, EksaRelease, EksdRelease, Manifest, VersionsBundle};
use clap::Args;
use serde::Serialize;

use super::{bundle_error, read_file};
use crate::cli::common::output;
use crate::cli::{CommandError, Exit, Format, Report, Table};

/// Arguments of `stepgate bundle show`.
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// The manifest file.
    file: PathBuf,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What the objects of a manifest file say.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleShowReport {
    /// Bundles objects, in the order of the file.
    bundles: Vec<BundlesReport>,
    /// `EKSARelease` objects.
    eksa_releases: Vec<EksaReleaseReport>,
    /// EKS-D Release objects.
    eksd_releases: Vec<EksdReleaseReport>,
}

/// A Bundles object.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BundlesReport {
    /// Name of the object.
    name: String,
    /// Its number within its release line.
    number: u64,
    /// Lowest version of the command line of EKS Anywhere.
    cli_min_version: Option<String>,
    /// Highest version of the command line of EKS Anywhere.
    cli_max_version: Option<String>,
    /// By Kubernetes version.
    versions_bundles: Vec<VersionsBundleReport>,
}

/// What belongs to one Kubernetes minor.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct VersionsBundleReport {
    /// `1.31`.
    kubernetes_version: String,
    /// `2026-12-31`.
    end_of_standard_support: Option<String>,
    /// `v1.31.13-eks-1-31-34`.
    eks_d: Option<String>,
    /// By name.
    components: Vec<ComponentReport>,
}

/// A component.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ComponentReport {
    /// The manifest's own key.
    name: String,
    /// The field `version`.
    version: Option<String>,
    /// Kept for compatibility only: nothing in it can be installed.
    placeholder: bool,
    /// By name.
    artifacts: Vec<ArtifactReport>,
}

/// An artifact.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ArtifactReport {
    /// Dotted path inside the component.
    name: String,
    /// `image`, `archive` or `manifest`.
    kind: &'static str,
    /// Its address.
    uri: String,
    /// Its digest.
    digest: Option<String>,
}

/// An `EKSARelease` object.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EksaReleaseReport {
    /// Name of the object.
    name: String,
    /// Version of EKS Anywhere.
    version: String,
    /// Name of its Bundles.
    bundles: Option<String>,
}

/// An EKS-D Release object.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EksdReleaseReport {
    /// Name of the object.
    name: String,
    /// `v1.31.13-eks-1-31-34`.
    version: Option<String>,
    /// Name and git tag of every project.
    components: Vec<EksdComponentReport>,
}

/// A project in an EKS-D release.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EksdComponentReport {
    /// `etcd`.
    name: String,
    /// Its git tag.
    version: Option<String>,
}

impl From<&Bundles> for BundlesReport {
    fn from(bundles: &Bundles) -> Self {
        Self {
            name: bundles.name.clone(),
            number: bundles.number,
            cli_min_version: bundles.cli_min_version.clone(),
            cli_max_version: bundles.cli_max_version.clone(),
            versions_bundles: bundles.versions_bundles.iter().map(VersionsBundleReport::from).collect(),
        }
    }
}

impl From<&VersionsBundle> for VersionsBundleReport {
    fn from(versions_bundle: &VersionsBundle) -> Self {
        let component = |component: &bundles::Component| ComponentReport {
            name: component.name.clone(),
            version: component.version.as_ref().map(ToString::to_string),
            placeholder: component.is_placeholder(),
            artifacts: component.artifacts.iter().map(artifact).collect(),
        };
        Self {
            kubernetes_version: versions_bundle.kubernetes_version.to_string(),
            end_of_standard_support: versions_bundle.end_of_standard_support.clone(),
            eks_d: versions_bundle.eks_d.as_ref().and_then(|it| it.version()).map(|it| it.to_string()),
            components: versions_bundle.components.iter().map(component).collect(),
        }
    }
}

fn artifact(artifact: &bundles::Artifact) -> ArtifactReport {
    ArtifactReport {
        name: artifact.name.clone(),
        kind: match artifact.kind {
            bundles::ArtifactKind::Image => "image",
            bundles::ArtifactKind::Archive => "archive",
            bundles::ArtifactKind::Manifest => "manifest",
        },
        uri: artifact.uri.clone(),
        digest: artifact.digest_text.clone(),
    }
}

impl From<&EksaRelease> for EksaReleaseReport {
    fn from(release: &EksaRelease) -> Self {
        Self { name: release.name.clone(), version: release.version.to_string(), bundles: release.bundles_name.clone() }
    }
}

impl From<&EksdRelease> for EksdReleaseReport {
    fn from(release: &EksdRelease) -> Self {
        let component = |component: &bundles::EksdComponent| EksdComponentReport {
            name: component.name.clone(),
            version: component.version.as_ref().map(ToString::to_string),
        };
        Self {
            name: release.name.clone(),
            version: release.version().map(|version| version.to_string()),
            components: release.components.iter().map(component).collect(),
        }
    }
}

impl Report for BundleShowReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        let mut tables = Vec::new();
        for bundles in &self.bundles {
            for versions_bundle in &bundles.versions_bundles {
                let row = |component: &ComponentReport| {
                    let version =
                        component.version.clone().filter(|it| !it.is_empty()).unwrap_or_else(|| "-".to_owned());
                    let remark = if component.placeholder { "placeholder" } else { "" };
                    vec![component.name.clone(), version, component.artifacts.len().to_string(), remark.to_owned()]
                };
                let eks_d = versions_bundle.eks_d.as_deref().unwrap_or("no EKS-D release");
                let end = versions_bundle.end_of_standard_support.as_deref().unwrap_or("unknown");
                let title = format!(
                    "{}, Kubernetes {} ({eks_d}, standard support until {end})",
                    bundles.name, versions_bundle.kubernetes_version
                );
                let rows = versions_bundle.components.iter().map(row).collect();
                tables.push((
                    Some(title),
                    Table {
                        headers: vec!["COMPONENT", "VERSION", "ARTIFACTS", "REMARK"],
                        rows,
                        notes: Vec::new(),
                        width: None,
                    },
                ));
            }
        }
        for release in &self.eksa_releases {
            let bundles = release.bundles.as_deref().unwrap_or("no Bundles");
            let note = format!("{}: EKS Anywhere {} with {bundles}", release.name, release.version);
            tables.push((None, Table { notes: vec![note], ..Table::default() }));
        }
        for release in &self.eksd_releases {
            let title = format!("{} ({})", release.name, release.version.as_deref().unwrap_or("no Kubernetes version"));
            let row = |it: &EksdComponentReport| vec![it.name.clone(), it.version.clone().unwrap_or_default()];
            let rows = release.components.iter().map(row).collect();
            tables.push((
                Some(title),
                Table { headers: vec!["PROJECT", "VERSION"], rows, notes: Vec::new(), width: None },
            ));
        }
        tables
    }
}

/// Reads the file and prints what is in it.
pub fn run(arguments: &ShowArguments) -> Result<Exit, CommandError> {
    let place = arguments.file.display().to_string();
    let manifests = bundles::parse(&place, &read_file(&arguments.file)?).map_err(bundle_error)?;
    if manifests.is_empty() {
        let error =
            CommandError::new(format!("{place}:1:1: the file holds no Bundles, EKSARelease or EKS-D Release object"));
        return Err(error.hint("give a manifest of EKS Anywhere or EKS-D"));
    }
    let mut report = BundleShowReport::default();
    for manifest in &manifests {
        match manifest {
            Manifest::Bundles(bundles) => report.bundles.push(bundles.into()),
            Manifest::EksaRelease(release) => report.eksa_releases.push(release.into()),
            Manifest::EksdRelease(release) => report.eksd_releases.push(release.into()),
        }
    }
    output::print(arguments.output, &report)?;
    Ok(Exit::Success)
}
