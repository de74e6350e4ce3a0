//! The text of a proposed update: what changes for which cluster, what cannot be undone, what vouches for it.
//!
//! Nothing in it depends on the time, so that it is the same as long as what it says is.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bundles::{Bundles, PublishedRelease};
use planning::updates::KubernetesUpdate;
use policy::Approval;
use rollout::{Plan, StageState, risk_groups};

use super::objects::plain;
use super::truncate::{cell, line, whole};

/// A bundle that is proposed.
pub struct BundleReport<'a> {
    /// The release.
    pub release: &'a PublishedRelease,
    /// Its Bundles.
    pub bundles: &'a Bundles,
    /// The newest ones of before.
    pub before: &'a Bundles,
    /// The digest of the file.
    pub digest: String,
    /// What its signatures say.
    pub signatures: Vec<String>,
    /// How many manifests and charts the lock has digests of.
    pub locked: usize,
    /// Clusters whose reference is written anew.
    pub referring: &'a [String],
    /// Clusters that stay.
    pub staying: &'a [String],
    /// The plan of each cluster.
    pub plans: Vec<&'a Plan>,
}

/// The text of a proposed bundle.
#[must_use]
pub fn bundle_text(report: &BundleReport<'_>) -> String {
    let BundleReport { release, bundles, before, .. } = report;
    let version = plain(release.version.as_str());
    let mut text = format!("# EKS Anywhere {version}\n\n");
    let published = release.date.as_deref().map(plain).unwrap_or_default();
    let _ = writeln!(
        text,
        "`{}` (number {}) follows on `{}`; published {published}, from `{}`, digest `{}`.\n",
        plain(&bundles.name),
        bundles.number,
        plain(&before.name),
        plain(&release.bundle_manifest_url),
        report.digest
    );
    list(&mut text, "Signatures", report.signatures.iter().map(|statement| line(statement)).collect());
    clusters(&mut text, &report.plans);
    let versions = |bundles: &Bundles| -> BTreeSet<String> {
        bundles.versions_bundles.iter().map(|it| it.kubernetes_version.to_string()).collect()
    };
    let (old, new) = (versions(before), versions(bundles));
    let mut kubernetes: Vec<String> =
        new.difference(&old).map(|version| format!("{} is new", plain(version))).collect();
    kubernetes.extend(old.difference(&new).map(|version| format!("{} is gone", plain(version))));
    kubernetes.extend(bundles.versions_bundles.iter().filter_map(|it| {
        let end = it.end_of_standard_support.as_deref()?;
        Some(format!("{}: standard support until {}", plain(it.kubernetes_version.as_str()), plain(end)))
    }));
    list(&mut text, "Kubernetes", kubernetes);
    let (old, new) = (images(before), images(bundles));
    let count = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).count();
    let images = [
        format!("{} images are new, {} are gone, {} stay", count(&new, &old), count(&old, &new), {
            new.intersection(&old).count()
        }),
        format!("`bundles.lock` has the digests of all {} manifests and charts that it needs", report.locked),
    ];
    list(&mut text, "Images and manifests", images.into());
    let mut unchanged = vec!["The Kubernetes version of clusters: each minor is proposed by itself.".to_owned()];
    let names = |names: &[String]| names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ");
    if !report.staying.is_empty() {
        unchanged
            .push(format!("{} stay: `bundle` in stepgate.yaml names another one for them.", names(report.staying)));
    }
    list(&mut text, "What stays", unchanged);
    if !report.referring.is_empty() {
        let _ = writeln!(text, "The specification names the bundle, and is written anew: {}.", names(report.referring));
    }
    ending(&mut text);
    whole(text)
}

/// The text of a proposed Kubernetes minor.
#[must_use]
pub fn kubernetes_text(update: &KubernetesUpdate, plans: &[&Plan]) -> String {
    let mut text = format!("# Kubernetes {}\n\n", update.minor);
    let names: Vec<String> = update.clusters.keys().map(|name| format!("`{}`", plain(name))).collect();
    let _ = writeln!(text, "For {}; nothing else of their specifications changes.\n", names.join(", "));
    clusters(&mut text, plans);
    let left_out = update.left_out.iter().map(|(name, reason)| format!("{}: {}", plain(name), line(reason)));
    list(&mut text, "Left out", left_out.collect());
    ending(&mut text);
    whole(text)
}

fn images(bundles: &Bundles) -> BTreeSet<String> {
    let components = bundles.versions_bundles.iter().flat_map(|it| &it.components);
    let artifacts = components.flat_map(|component| &component.artifacts);
    artifacts.filter_map(|artifact| Some(format!("{}@{}", artifact.uri, artifact.digest?))).collect()
}

fn clusters(text: &mut String, plans: &[&Plan]) {
    asked(text, plans);
    for plan in plans {
        let _ = writeln!(text, "## {}\n", plain(plan.cluster.as_str()));
        let estimate = plan.estimate;
        if estimate.commits == 0 {
            let _ = writeln!(text, "Nothing changes.\n");
            continue;
        }
        let _ = writeln!(text, "{} commits; {} machines are replaced.\n", estimate.commits, estimate.machines);
        let _ = writeln!(text, "| component | from | to | change | stage | machines |\n|---|---|---|---|---|---|");
        for stage in &plan.stages {
            for change in &stage.changes {
                let version = |version: &Option<String>| version.as_deref().map(cell).unwrap_or_default();
                let _ = writeln!(
                    text,
                    "| {} | {} | {} | {} | {} | {} |",
                    cell(&change.component),
                    version(&change.old_version),
                    version(&change.new_version),
                    change.class,
                    cell(&stage.stage.to_string()),
                    stage.machines
                );
            }
        }
        text.push('\n');
        let doors = plan.stages.iter().flat_map(|stage| {
            stage.one_way.iter().map(|door| format!("{}: {}", plain(&stage.stage.to_string()), line(door)))
        });
        list(text, "Cannot be undone", doors.collect());
        list(text, "Risks", risk_groups(&plan.stages).iter().map(|group| line(&group.line())).collect());
    }
}

/// The clusters whose rollouts would ask people; without any, a merge is all that is needed.
#[must_use]
pub fn asking<'a>(plans: &[&'a Plan]) -> Vec<&'a str> {
    let asks = |plan: &&&Plan| {
        let mut pending = plan.stages.iter().filter(|stage| stage.state == StageState::Pending);
        pending.any(|stage| stage.policy.approval != Approval::None)
    };
    plans.iter().filter(asks).map(|plan| plan.cluster.as_str()).collect()
}

fn asked(text: &mut String, plans: &[&Plan]) {
    let asking: Vec<String> = asking(plans).into_iter().map(|name| format!("`{}`", plain(name))).collect();
    let _ = match asking.as_slice() {
        [] => writeln!(text, "Nobody is asked after the merge (`approval: none`): windows and gates alone decide.\n"),
        names => writeln!(text, "People are asked after the merge for {}.\n", names.join(", ")),
    };
}

fn list(text: &mut String, heading: &str, items: Vec<String>) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(text, "### {heading}\n");
    for item in items {
        let _ = writeln!(text, "- {item}");
    }
    text.push('\n');
}

fn ending(text: &mut String) {
    text.push_str(
        "\nMerging asks for the rollout; its stages, gates and approvals follow as ever. Whoever closes this is not asked \
         for this version again.\n",
    );
}
