//! `stepgate bundle verify`.

use std::path::PathBuf;

use bundles::{
    BuildMetadataVerdict, Bundles, EksdSignatureVerdict, SignatureVerdict, recompute_build_metadata,
    verify_eksd_reference, verify_signature,
};
use clap::Args;
use serde::Serialize;

use super::read_bundles;
use crate::cli::common::output;
use crate::cli::{CommandError, Exit, Format, Report, Table};

/// Arguments of `stepgate bundle verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// The Bundles manifest.
    file: PathBuf,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What can be trusted in a Bundles manifest.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleVerifyReport {
    /// Name of the Bundles object.
    name: String,
    /// What the signature says.
    signature: SignatureReport,
    /// What the signatures of the EKS-D releases say, by Kubernetes version.
    eksd_releases: Vec<EksdReleaseReport>,
    /// One entry for each component with a version.
    build_metadata: Vec<BuildMetadataReport>,
}

/// What a signature says.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SignatureReport {
    /// `valid`, `invalid` or `missing`.
    verdict: &'static str,
    /// First day on which EKS Anywhere signed with the list of left out paths that fits; null unless valid.
    era: Option<&'static str>,
    /// What the file holds and the signature does not cover.
    not_covered: Vec<String>,
    /// The verdict in plain words.
    statement: String,
}

/// What the signature of an EKS-D release says.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EksdReleaseReport {
    /// Kubernetes version of the versionsBundle.
    kubernetes_version: String,
    /// Name of the release.
    release: Option<String>,
    /// `valid`, `invalid` or `missing`.
    verdict: &'static str,
    /// The verdict in plain words.
    statement: String,
}

/// Whether the build metadata of a version belongs to the images of its component.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BuildMetadataReport {
    /// Kubernetes version of the versionsBundle.
    kubernetes_version: String,
    /// The manifest's own key.
    component: String,
    /// The version as written.
    version: String,
    /// `verified`, `mismatch` or `not-computable`.
    verdict: &'static str,
    /// Why, where it is not `verified`.
    reason: Option<String>,
}

impl BundleVerifyReport {
    fn new(bundles: &Bundles) -> Self {
        let verdict = verify_signature(bundles);
        let statement = verdict.statement();
        let (text, era, not_covered) = match verdict {
            SignatureVerdict::Valid { era, not_covered } => ("valid", Some(era.since()), not_covered),
            SignatureVerdict::Invalid { .. } => ("invalid", None, Vec::new()),
            SignatureVerdict::Missing => ("missing", None, Vec::new()),
        };
        let releases = bundles.versions_bundles.iter().filter_map(|it| Some((it, it.eks_d.as_ref()?)));
        let eksd_releases = releases.map(|(versions_bundle, reference)| {
            let verdict = verify_eksd_reference(bundles, reference);
            EksdReleaseReport {
                kubernetes_version: versions_bundle.kubernetes_version.to_string(),
                release: reference.name.clone(),
                statement: verdict.statement(),
                verdict: match verdict {
                    EksdSignatureVerdict::Valid => "valid",
                    EksdSignatureVerdict::Invalid { .. } => "invalid",
                    EksdSignatureVerdict::Missing => "missing",
                },
            }
        });
        let components =
            bundles.versions_bundles.iter().flat_map(|it| it.components.iter().map(move |component| (it, component)));
        let build_metadata = components.filter_map(|(versions_bundle, component)| {
            let (verdict, reason) = match recompute_build_metadata(component) {
                BuildMetadataVerdict::Verified => ("verified", None),
                BuildMetadataVerdict::Mismatch { found, computed } => {
                    ("mismatch", Some(format!("the version says {found}, the digests of the images give {computed}")))
                }
                BuildMetadataVerdict::NotComputable { reason } => ("not-computable", Some(reason.to_owned())),
            };
            Some(BuildMetadataReport {
                kubernetes_version: versions_bundle.kubernetes_version.to_string(),
                component: component.name.clone(),
                version: component.version.as_ref()?.to_string(),
                verdict,
                reason,
            })
        });
        Self {
            name: bundles.name.clone(),
            signature: SignatureReport { verdict: text, era, not_covered, statement },
            eksd_releases: eksd_releases.collect(),
            build_metadata: build_metadata.collect(),
        }
    }

    fn holds(&self) -> bool {
        self.signature.verdict == "valid"
            && self.eksd_releases.iter().all(|it| it.verdict != "invalid")
            && self.build_metadata.iter().all(|it| it.verdict != "mismatch")
    }
}

impl BundleVerifyReport {
    /// One line for all releases whose signature fits, one for each other.
    fn eksd_notes(&self) -> Vec<String> {
        let fitting: Vec<&EksdReleaseReport> = self.eksd_releases.iter().filter(|it| it.verdict == "valid").collect();
        let names = |reports: &[&EksdReleaseReport]| {
            reports.iter().map(|it| it.release.as_deref().unwrap_or("unnamed")).collect::<Vec<_>>().join(", ")
        };
        let valid = fitting.first().map(|first| format!("{}: {}", names(&fitting), first.statement));
        let invalid = self.eksd_releases.iter().filter(|it| it.verdict == "invalid");
        valid.into_iter().chain(invalid.map(|it| format!("{}: {}", names(&[it]), it.statement))).collect()
    }
}

impl Report for BundleVerifyReport {
    fn tables(&self) -> Vec<(Option<String>, Table)> {
        // What cannot be computed is most of the list, and nothing that a person could act on.
        let told = self.build_metadata.iter().filter(|it| it.verdict != "not-computable");
        let row = |it: &BuildMetadataReport| {
            let reason = it.reason.clone().unwrap_or_default();
            vec![it.kubernetes_version.clone(), it.component.clone(), it.version.clone(), it.verdict.to_owned(), reason]
        };
        let headers = vec!["KUBERNETES", "COMPONENT", "VERSION", "BUILD METADATA", "REASON"];
        let rows: Vec<_> = told.map(row).collect();
        let others = self.build_metadata.len() - rows.len();
        let mut notes = vec![format!("{}: {}", self.name, self.signature.statement)];
        notes.extend(self.eksd_notes());
        if others > 0 {
            notes.push(format!(
                "the build metadata of {others} versions cannot be recomputed from the bundle alone (-o json says why)"
            ));
        }
        vec![(None, Table { headers, rows, notes, width: None })]
    }
}

/// Checks the file and prints what can be trusted.
pub fn run(arguments: &VerifyArguments) -> Result<Exit, CommandError> {
    let report = BundleVerifyReport::new(&read_bundles(&arguments.file)?);
    output::print(arguments.output, &report)?;
    Ok(if report.holds() { Exit::Success } else { Exit::Blocked })
}
