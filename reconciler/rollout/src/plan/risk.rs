//! What could go wrong with a plan, told by kind.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Plan, StagePlan};
use crate::observation::CustomResourceDefinition;
use crate::stage::StageId;

/// The kind of a risk: risks of one kind are told together, in the order of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RiskKind {
    /// Upstream changed what an overlay sets.
    OverlayConflict,
    /// A signature does not fit what it stands for.
    SignatureInvalid,
    /// Nothing converts stored objects to the version that is stored from now on.
    ConversionMissing,
    /// A version disappears from a definition.
    VersionRemoved,
    /// An object is deleted and made anew.
    ObjectReplaced,
    /// A definition stays behind.
    ObjectLeft,
    /// A webhook disappears.
    WebhookRemoved,
    /// Worker groups roll earlier than their own stage.
    RolledTogether,
    /// A version that is out of the ordinary: no order, a new major, an earlier one.
    UnusualVersion,
    /// Something that the permissions of an installation do not let Stepgate read.
    Unreadable,
    /// Somebody else writes the same objects.
    TwoWriters,
    /// How versions are converted changes.
    ConversionChanged,
    /// Contracts of Cluster API change, or do not fit.
    Contract,
    /// A default changes.
    DefaultChanged,
    /// Images are of another release than their manifest.
    ImagesOfAnotherRelease,
    /// An image without a digest.
    ImageNotPinned,
    /// A manifest without a digest.
    ManifestNotLocked,
    /// A gate cannot tell everything.
    GateReach,
    /// Something that manifests tell, of no kind of its own.
    Other,
}

impl RiskKind {
    /// What several of them are called.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::OverlayConflict => "fields that upstream changed under an overlay",
            Self::SignatureInvalid => "signatures that do not fit",
            Self::ConversionMissing => "stored objects that nothing converts",
            Self::VersionRemoved => "versions that definitions lose",
            Self::ObjectReplaced => "objects that are deleted and made anew",
            Self::ObjectLeft => "objects that stay behind",
            Self::WebhookRemoved => "webhooks that go",
            Self::RolledTogether => "rolls before a stage of their own",
            Self::UnusualVersion => "unusual steps of versions",
            Self::Unreadable => "things that Stepgate may not read",
            Self::TwoWriters => "objects with a second writer",
            Self::ConversionChanged => "conversions that change",
            Self::Contract => "contracts of Cluster API that change",
            Self::DefaultChanged => "defaults that change",
            Self::ImagesOfAnotherRelease => "manifests with images of another release",
            Self::ImageNotPinned => "images that are not pinned",
            Self::ManifestNotLocked => "manifests that are not locked",
            Self::GateReach => "things that a gate cannot tell",
            Self::Other => "other things to look at",
        }
    }

    /// The word for scripts.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OverlayConflict => "overlay-conflict",
            Self::SignatureInvalid => "signature-invalid",
            Self::ConversionMissing => "conversion-missing",
            Self::VersionRemoved => "version-removed",
            Self::ObjectReplaced => "object-replaced",
            Self::ObjectLeft => "object-left",
            Self::WebhookRemoved => "webhook-removed",
            Self::RolledTogether => "rolled-together",
            Self::UnusualVersion => "unusual-version",
            Self::Unreadable => "unreadable",
            Self::TwoWriters => "two-writers",
            Self::ConversionChanged => "conversion-changed",
            Self::Contract => "contract",
            Self::DefaultChanged => "default-changed",
            Self::ImagesOfAnotherRelease => "images-of-another-release",
            Self::ImageNotPinned => "image-not-pinned",
            Self::ManifestNotLocked => "manifest-not-locked",
            Self::GateReach => "gate-reach",
            Self::Other => "other",
        }
    }
}

/// A version that a definition loses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LostVersion {
    /// Name of the definition, `<plural>.<group>`.
    pub definition: String,
    /// The kind that it defines.
    pub kind: String,
    /// The version.
    pub version: String,
}

/// Something that could go wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    /// Its kind.
    pub kind: RiskKind,
    /// What it is.
    pub text: String,
    /// The versions that it is about, for [`RiskKind::VersionRemoved`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostVersion>,
    /// Whether the cluster was read: then each of those versions is stored there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stored: bool,
}

impl Risk {
    /// A risk of a kind.
    #[must_use]
    pub fn new(kind: RiskKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), lost: Vec::new(), stored: false }
    }

    /// As far as it applies to a cluster with these definitions; none where it does not.
    fn applied(self, known: &BTreeMap<&str, &[String]>) -> Option<Self> {
        if self.kind != RiskKind::VersionRemoved {
            return Some(self);
        }
        let is_stored = |lost: &LostVersion| {
            known.get(lost.definition.as_str()).is_some_and(|stored| stored.contains(&lost.version))
        };
        let lost: Vec<LostVersion> = self.lost.into_iter().filter(is_stored).collect();
        (!lost.is_empty()).then(|| Self { kind: self.kind, text: stored_text(lost.iter()), lost, stored: true })
    }
}

/// What is said of versions that are lost and stored.
fn stored_text<'a>(lost: impl Iterator<Item = &'a LostVersion>) -> String {
    let each: Vec<String> = lost.map(|lost| format!("{} at {}", lost.definition, lost.version)).collect();
    format!(
        "status.storedVersions lists versions that go, so that the API server refuses the definition: {}; rewrite \
         those objects at the storage version, then take the version out of status.storedVersions",
        each.join(", ")
    )
}

/// Risks of one kind, with their stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RiskGroup<'a> {
    /// Their kind.
    pub kind: RiskKind,
    /// The stage and the risk, in the order of the plan.
    pub risks: Vec<(&'a StageId, &'a Risk)>,
}

impl RiskGroup<'_> {
    /// All of them in one line, with one example: `capi, flux: 8 defaults that change, such as …`.
    #[must_use]
    pub fn line(&self) -> String {
        let mut stages: Vec<String> = self.risks.iter().map(|(stage, _)| stage.to_string()).collect();
        stages.dedup();
        format!("{}: {}", stages.join(", "), self.text())
    }

    fn text(&self) -> String {
        let texts: BTreeSet<&str> = self.risks.iter().map(|(_, risk)| risk.text.as_str()).collect();
        match self.risks.as_slice() {
            [] => String::new(),
            [(_, first), ..] if texts.len() == 1 => first.text.clone(),
            [..] if self.kind == RiskKind::VersionRemoved => self.lost(),
            [(_, first), ..] => {
                format!("{} {}, such as {}", self.risks.len(), self.kind.title(), first.text)
            }
        }
    }

    fn lost(&self) -> String {
        let lost = || self.risks.iter().flat_map(|(_, risk)| &risk.lost);
        if self.risks.iter().all(|(_, risk)| risk.stored) {
            return stored_text(lost());
        }
        let definitions: BTreeSet<&str> = lost().map(|lost| lost.definition.as_str()).collect();
        let versions: BTreeSet<&str> = lost().map(|lost| lost.version.as_str()).collect();
        format!(
            "{} definitions lose versions ({}): the API server refuses one while its status.storedVersions lists \
             what it loses; `stepgate plan --kubeconfig FILE` reads which do",
            definitions.len(),
            versions.into_iter().collect::<Vec<_>>().join(", ")
        )
    }
}

/// The risks of stages by kind; those of stages that are skipped do not count.
#[must_use]
pub fn risk_groups<'a>(stages: impl IntoIterator<Item = &'a StagePlan>) -> Vec<RiskGroup<'a>> {
    let mut groups: BTreeMap<RiskKind, Vec<(&StageId, &Risk)>> = BTreeMap::new();
    for stage in stages.into_iter().filter(|stage| stage.state != super::StageState::Skipped) {
        for risk in &stage.risks {
            groups.entry(risk.kind).or_default().push((&stage.stage, risk));
        }
    }
    groups.into_iter().map(|(kind, risks)| RiskGroup { kind, risks }).collect()
}

impl Plan {
    /// Names of the definitions whose stored versions say whether risks apply.
    #[must_use]
    pub fn definitions_at_risk(&self) -> BTreeSet<&str> {
        let risks = self.stages.iter().flat_map(|stage| &stage.risks);
        risks.flat_map(|risk| &risk.lost).map(|lost| lost.definition.as_str()).collect()
    }

    /// The plan without risks that do not apply to a cluster with these definitions.
    #[must_use]
    pub fn with_definitions(mut self, definitions: &[CustomResourceDefinition]) -> Self {
        let known: BTreeMap<&str, &[String]> =
            definitions.iter().map(|known| (known.name.as_str(), known.stored_versions.as_slice())).collect();
        for stage in &mut self.stages {
            stage.risks =
                std::mem::take(&mut stage.risks).into_iter().filter_map(|risk| risk.applied(&known)).collect();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(definition: &str, version: &str) -> Risk {
        let lost = LostVersion { definition: definition.to_owned(), kind: "X".to_owned(), version: version.to_owned() };
        Risk {
            lost: vec![lost],
            ..Risk::new(RiskKind::VersionRemoved, format!("{version} of {definition} is removed"))
        }
    }

    fn line(risks: &[Risk]) -> String {
        let stage: StageId = "capi".parse().unwrap();
        let kind = risks[0].kind;
        RiskGroup { kind, risks: risks.iter().map(|risk| (&stage, risk)).collect() }.line()
    }

    #[test]
    fn one_risk_is_told_whole_and_several_by_count_and_example() {
        let risk = |text: &str| Risk::new(RiskKind::DefaultChanged, text);
        assert_eq!(line(&[risk("A changes")]), "capi: A changes");
        assert_eq!(line(&[risk("A changes"), risk("B changes")]), "capi: 2 defaults that change, such as A changes");
    }

    #[test]
    fn removed_versions_are_one_line_with_the_versions_that_matter() {
        let risks = [lost("a.example.com", "v1alpha3"), lost("a.example.com", "v1alpha4"), lost("b.example.com", "v1")];
        assert!(
            line(&risks).starts_with("capi: 2 definitions lose versions (v1, v1alpha3, v1alpha4): "),
            "{}",
            line(&risks)
        );
        let versions = ["v1alpha4".to_owned()];
        let stored = [("a.example.com", versions.as_slice()), ("b.example.com", &[])].into();
        let applied: Vec<Risk> = risks.into_iter().filter_map(|risk| risk.applied(&stored)).collect();
        assert_eq!(applied.len(), 1, "what no definition stores any more does not apply");
        assert!(line(&applied).contains("a.example.com at v1alpha4; rewrite"), "{}", line(&applied));
        let other = Risk::new(RiskKind::TwoWriters, "x");
        assert_eq!(other.clone().applied(&stored), Some(other));
    }
}
