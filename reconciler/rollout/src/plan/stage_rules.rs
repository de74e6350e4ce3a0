//! What a stage may not change, what it is warned of, and what is unusual about it.

use crate::change::{ChangeClass, ComponentChange};
use crate::stage::StageName;
use policy::OnFailure;

use super::build::{has_flux, is_bound};
use super::default_stages::DEFAULT_STAGES;
use super::hops::ONE_MINOR_AT_A_TIME;
use super::version::{Version, product};
use super::{Block, ClusterRole, MinorBack, PlanInput, Risk, RiskKind, StageInput};

/// Refuses what a stage may not change.
pub(super) fn check_stage(stage: &StageInput, input: &PlanInput, blocked: &mut Vec<Block>, warnings: &mut Vec<String>) {
    let mut block = |code: &str, message: String, help: &str| {
        blocked.push(Block { code: code.to_owned(), stage: Some(stage.stage.clone()), message, help: help.to_owned() });
    };
    if let Some(error) = &stage.render_error {
        block("render", error.message.clone(), &error.help);
    }
    if stage.deployed == stage.target {
        return;
    }
    let for_workloads =
        matches!(
            stage.stage.name,
            StageName::Workers(_) | StageName::Addon(_) | StageName::Addons | StageName::Templates
        ) || DEFAULT_STAGES.iter().any(|(name, for_workloads)| name == &stage.stage.name && *for_workloads);
    if input.role == ClusterRole::Workload && !for_workloads {
        let message = format!("{} belongs to the management cluster", stage.stage);
        block("stage-of-management", message, "move the component to the management cluster's directory");
    }
    if !stage.stage.is_without_commit() && !is_bound(&stage.expectations) {
        let message = format!("no expectation of {} ties its gate to the commit", stage.stage);
        block("unbound-gate", message, "render a Flux Kustomization for the component");
    }
    if stage.policy.on_failure == OnFailure::Revert && !has_flux(&stage.deployed_expectations) {
        warnings.push(format!("{}: its previous state has no gate, so on_failure: revert holds instead", stage.stage));
    }
    for change in &stage.changes {
        check_change(change, input, &mut block);
    }
}

fn check_change(change: &ComponentChange, input: &PlanInput, block: &mut impl FnMut(&str, String, &str)) {
    let old = change.old_version.as_deref().unwrap_or("nothing");
    let new = change.new_version.as_deref().unwrap_or("nothing");
    match change.class {
        ChangeClass::DigestDrift => {
            let message = format!("{} {new}: other content under the same version", change.component);
            block("digest-drift", message, "find out who changed the published artifact before anything else");
        }
        // Where EKS is asked to take a control plane back, the rule on that says what keeps it, and what helps.
        ChangeClass::Downgrade
            if !input.policy.allow_downgrade
                && input.rollback.is_none()
                && input.skew.minor_back == MinorBack::Never =>
        {
            let message = format!("{} would go from {old} down to {new}", change.component);
            block("downgrade", message, "set allowDowngrade for the cluster if that is meant");
        }
        ChangeClass::SkipMinor if ONE_MINOR_AT_A_TIME.contains(&change.component.as_str()) => {
            let missing = super::hops(old, new, []).err().map(|missing| missing.minors.join(", ")).unwrap_or_default();
            let message =
                format!("{} goes up one minor at a time: {old} to {new} leaves out {missing}", change.component);
            block("skip-minor", message, &format!("add a bundle that has {} {missing} to bundles/", change.component));
        }
        ChangeClass::Unchanged
        | ChangeClass::Retag
        | ChangeClass::Rebuild
        | ChangeClass::Patch
        | ChangeClass::Minor
        | ChangeClass::Major
        | ChangeClass::SkipMinor
        | ChangeClass::Downgrade
        | ChangeClass::Added
        | ChangeClass::Removed
        | ChangeClass::Opaque => {}
    }
}

/// What is unusual about a change of a component.
pub(super) fn risk(change: &ComponentChange) -> Option<Risk> {
    let old = change.old_version.as_deref().unwrap_or("nothing");
    let new = change.new_version.as_deref().unwrap_or("nothing");
    let text = match change.class {
        ChangeClass::Opaque => Some(format!("{}: {old} and {new} cannot be ordered", change.component)),
        ChangeClass::Major => Some(format!("{}: a new major, {old} to {new}", change.component)),
        ChangeClass::SkipMinor => Some(format!("{}: leaves out a minor, {old} to {new}", change.component)),
        ChangeClass::Downgrade => Some(format!("{}: an earlier version, {old} to {new}", change.component)),
        ChangeClass::Removed => Some(format!("{} {old} is removed", change.component)),
        ChangeClass::Unchanged
        | ChangeClass::Retag
        | ChangeClass::Rebuild
        | ChangeClass::Patch
        | ChangeClass::Minor
        | ChangeClass::Added
        | ChangeClass::DigestDrift => None,
    };
    text.map(|text| Risk::new(RiskKind::UnusualVersion, text))
}

/// Says that a control plane does not go back a minor, where it goes up one.
pub(super) fn kubernetes_one_way(input: &PlanInput) -> Option<String> {
    let step = input.skew.control_plane.as_ref()?;
    let (deployed, target) = (Version::parse(step.deployed.as_deref()?)?, Version::parse(&step.target)?);
    let differs = (deployed.major, deployed.minor) != (target.major, target.minor);
    differs.then(|| {
        format!(
            "{} {}.{} to {}.{}: a control plane does not go back a minor",
            product(&step.target),
            deployed.major,
            deployed.minor,
            target.major,
            target.minor
        )
    })
}
