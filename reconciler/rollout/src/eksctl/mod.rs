//! What eksctl is to do for a stage, given what AWS says is there already.
//!
//! Every command may be lost, or end while nobody looks. So what is to be done follows from what is there, and the newest
//! run only says that nothing is begun twice, and when something that failed is tried again.

pub mod fargate;
pub(crate) mod way_back;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::expectation::EksPart;
use crate::observation::{EksReading, EksctlOutcome, EksctlRun};
use domain::{CommitId, GroupName, RolloutId};

/// How long a run that failed is left alone at first; twice as long after each further one.
const FIRST_PAUSE: SignedDuration = SignedDuration::from_secs(60);
/// The longest such time.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);

/// What eksctl is asked to do: what a stage is about, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verb")]
pub enum EksctlVerb {
    /// `upgrade cluster`.
    UpgradeCluster,
    /// `create addon`.
    CreateAddon {
        /// Its name.
        name: GroupName,
    },
    /// `update addon`.
    UpdateAddon {
        /// Its name.
        name: GroupName,
    },
    /// `delete addon`.
    DeleteAddon {
        /// Its name.
        name: GroupName,
    },
    /// `create nodegroup`.
    CreateNodeGroup {
        /// Its name.
        name: GroupName,
    },
    /// `delete nodegroup --drain`.
    DeleteNodeGroup {
        /// Its name.
        name: GroupName,
    },
}

/// A commit that eksctl is to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EksctlStep {
    /// The rollout.
    pub rollout: RolloutId,
    /// The stage's commit on the deploy branch.
    pub commit: CommitId,
    /// What its gate expects.
    pub part: EksPart,
    /// Whether the deployed `ClusterConfig` has the add-on that the stage is about.
    pub has_addon: bool,
}

/// What is to be done about a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EksctlAct {
    /// Nothing: what it asks for is there, or on its way.
    Nothing,
    /// Nothing before something else.
    Wait {
        /// What for.
        reason: String,
        /// What helps; none where it passes by itself.
        help: Option<String>,
    },
    /// eksctl is started.
    Run {
        /// What it does.
        verb: EksctlVerb,
        /// Which attempt of this commit it is.
        attempt: u32,
    },
}

fn wait(reason: impl Into<String>) -> EksctlAct {
    EksctlAct::Wait { reason: reason.into(), help: None }
}

/// Why a commit is not the one to carry out; none where it is.
///
/// `is_known` says of a commit whether the branch contains it since the rollout began.
pub fn refuses(step: &EksctlStep, last: Option<&EksctlRun>, is_known: impl Fn(&CommitId) -> bool) -> Option<EksctlAct> {
    let last = last?;
    if matches!(last.outcome, EksctlOutcome::Running) && last.commit != step.commit {
        let commit = short(&last.commit);
        return Some(wait(format!("eksctl still carries out commit {commit} (`{}`)", last.command)));
    }
    // Whoever knows less of the branch than the run before would take away what that made.
    (last.rollout == step.rollout && last.commit != step.commit && !is_known(&last.commit)).then(|| EksctlAct::Wait {
        reason: format!(
            "commit {} is refused: eksctl has carried out {} of the same rollout, which the deploy branch does not contain",
            short(&step.commit),
            short(&last.commit)
        ),
        help: Some("put the deploy branch back to a commit that contains it".to_owned()),
    })
}

fn short(commit: &CommitId) -> &str {
    commit.as_str().get(..10).unwrap_or(commit.as_str())
}

/// What is to be done about a commit at this time.
#[must_use]
pub fn next_act(step: &EksctlStep, reading: &EksReading, now: Timestamp) -> EksctlAct {
    let own = reading.run.as_ref().filter(|run| run.commit == step.commit && run.part == step.part);
    if own.is_some_and(|run| run.outcome == EksctlOutcome::Running) {
        return EksctlAct::Nothing;
    }
    let Some(cluster) = &reading.cluster else {
        return wait("nothing is begun before EKS has said what the cluster is like");
    };
    let succeeded = own.is_some_and(|run| matches!(run.outcome, EksctlOutcome::Succeeded { .. }));
    let wanted = match &step.part {
        EksPart::ControlPlane { version } if cluster.version == *version && cluster.status == "ACTIVE" => None,
        EksPart::ControlPlane { .. } => Some(Ok(EksctlVerb::UpgradeCluster)),
        EksPart::Addon { name, version } => addon(name, version.as_deref(), step.has_addon, succeeded, own, reading),
        EksPart::NodeGroup { name, .. } => created(name, succeeded, reading),
        EksPart::NodeGroupGone { name } => deleted(name, reading),
        EksPart::Fargate { .. } | EksPart::Leftovers { .. } => None,
    };
    let verb = match wanted {
        None => return EksctlAct::Nothing,
        Some(Err(act)) => return act,
        Some(Ok(verb)) => verb,
    };
    if cluster.status != "ACTIVE" {
        return wait(format!("the cluster is {}: nothing is begun before it is ACTIVE", cluster.status));
    }
    if succeeded && verb == EksctlVerb::UpgradeCluster {
        return wait(format!("eksctl ended well, and EKS says {} still", cluster.version));
    }
    match own {
        None => EksctlAct::Run { verb, attempt: 1 },
        Some(run) => again(run, verb, now),
    }
}

type Wanted = Option<Result<EksctlVerb, EksctlAct>>;

/// Whether something is being done to it by whoever.
fn is_moving(status: &str) -> bool {
    matches!(status, "CREATING" | "UPDATING" | "DELETING") || status.ends_with("_IN_PROGRESS")
}

fn addon(
    name: &GroupName,
    version: Option<&str>,
    has_addon: bool,
    succeeded: bool,
    own: Option<&EksctlRun>,
    reading: &EksReading,
) -> Wanted {
    let Some(addons) = &reading.addons else {
        return Some(Err(wait("nothing is begun before EKS has said which add-ons there are")));
    };
    let found = addons.iter().find(|known| known.name == name.as_str());
    let name = name.clone();
    match found {
        Some(known) if is_moving(&known.status) => {
            Some(Err(wait(format!("add-on {name} is {}: that is waited for", known.status))))
        }
        Some(_) if !has_addon => Some(Ok(EksctlVerb::DeleteAddon { name })),
        None if !has_addon => None,
        None => Some(Ok(EksctlVerb::CreateAddon { name })),
        Some(_) if succeeded => None,
        // Whoever began it has not seen how it ended; configuration aside, what was asked for is there.
        Some(known) if own.is_some() && known.status == "ACTIVE" && version == Some(known.version.as_str()) => None,
        Some(_) => Some(Ok(EksctlVerb::UpdateAddon { name })),
    }
}

fn created(name: &GroupName, succeeded: bool, reading: &EksReading) -> Wanted {
    let Some(groups) = &reading.node_groups else {
        return Some(Err(wait("nothing is begun before EKS has said which node groups there are")));
    };
    if groups.iter().any(|known| known.name == name.as_str()) {
        return None;
    }
    // eksctl makes only groups of which there is no stack, and says nothing of the others.
    let reason = format!("eksctl ended well, and there is no node group {name}: it makes none that has a stack");
    let help = format!("`eksctl utils describe-stacks` shows it; delete what is left of {name}");
    Some(if succeeded {
        Err(EksctlAct::Wait { reason, help: Some(help) })
    } else {
        Ok(EksctlVerb::CreateNodeGroup { name: name.clone() })
    })
}

fn deleted(name: &GroupName, reading: &EksReading) -> Wanted {
    let Some(groups) = &reading.node_groups else {
        return Some(Err(wait("nothing is begun before EKS has said which node groups there are")));
    };
    let status = &groups.iter().find(|known| known.name == name.as_str())?.status;
    if matches!(status.as_str(), "DELETING" | "DELETE_IN_PROGRESS") {
        return Some(Err(wait(format!("node group {name} is {status}: that is waited for"))));
    }
    Some(Ok(EksctlVerb::DeleteNodeGroup { name: name.clone() }))
}

/// What failed is tried again after a pause, since who mends it tells nobody.
fn again(run: &EksctlRun, verb: EksctlVerb, now: Timestamp) -> EksctlAct {
    let attempt = run.attempt.saturating_add(1);
    let ended_at = match &run.outcome {
        EksctlOutcome::Running => return EksctlAct::Nothing,
        EksctlOutcome::Unwatched | EksctlOutcome::Succeeded { .. } => return EksctlAct::Run { verb, attempt },
        EksctlOutcome::Failed { ended_at, .. } | EksctlOutcome::TimedOut { ended_at } => *ended_at,
    };
    let next = ended_at.saturating_add(pause_after(run.attempt)).unwrap_or(Timestamp::MAX);
    if now < next { EksctlAct::Nothing } else { EksctlAct::Run { verb, attempt } }
}

/// How long nothing is begun after this many attempts have failed.
#[must_use]
pub fn pause_after(attempts: u32) -> SignedDuration {
    let doubled = 1_i32.checked_shl(attempts.saturating_sub(1).min(16)).unwrap_or(i32::MAX);
    FIRST_PAUSE.checked_mul(doubled).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE)
}

/// What an error text of eksctl means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownError {
    /// A part of the text.
    pub text: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What helps.
    pub help: &'static str,
}

/// Texts of eksctl and AWS that people meet, the most telling first.
const KNOWN_ERRORS: &[KnownError] = &[
    KnownError {
        text: "Kubelet version of Fargate pods must be updated to match cluster version",
        meaning: "pods on Fargate are of an older version",
        help: "restart what runs on Fargate: `kubectl rollout restart`, one workload after another",
    },
    KnownError {
        text: "unevictable from node",
        meaning: "a budget keeps pods on a node",
        help: "`stepgate why` names the pods and their budgets: scale up, or change the budget",
    },
    KnownError {
        text: "ExpiredToken",
        meaning: "the credentials have expired",
        help: "give Stepgate's process new credentials",
    },
    KnownError {
        text: "UnrecognizedClient",
        meaning: "AWS does not know the credentials",
        help: "give Stepgate's process valid credentials",
    },
    KnownError {
        text: "InvalidClientTokenId",
        meaning: "AWS does not know the credentials",
        help: "give Stepgate's process valid credentials",
    },
    KnownError {
        text: "failed to refresh cached credentials",
        meaning: "there are no credentials",
        help: "give Stepgate's process credentials by its environment or by the role of its machine",
    },
    KnownError {
        text: "AccessDenied",
        meaning: "the role may not do this",
        help: "allow it to the role that Stepgate's process has; the text names the action",
    },
    KnownError {
        text: "ResourceInUseException",
        meaning: "somebody else changes the same",
        help: "nothing: it is tried again",
    },
    KnownError {
        text: "AlreadyExistsException",
        meaning: "it is there already",
        help: "`eksctl utils describe-stacks` shows its stack; delete what is left of it",
    },
    KnownError { text: "Throttling", meaning: "AWS is asked too often", help: "nothing: it is tried again" },
    KnownError { text: "Rate exceeded", meaning: "AWS is asked too often", help: "nothing: it is tried again" },
    KnownError {
        text: "InsufficientFreeAddresses",
        meaning: "the subnets have too few free addresses",
        help: "free addresses in the cluster's subnets, or lower WARM_IP_TARGET of the VPC CNI",
    },
    KnownError {
        text: "unknown field",
        meaning: "this eksctl does not know a field of the file",
        help: "pin an eksctl that knows it, or remove the field",
    },
    KnownError {
        text: "InvalidParameterException",
        meaning: "EKS refuses what is asked for",
        help: "the text says what: mend the file and push",
    },
    KnownError {
        text: "ROLLBACK",
        meaning: "its stack failed and was taken back",
        help: "`eksctl utils describe-stacks` says why; delete the stack, and it is made anew",
    },
    KnownError {
        text: "timed out",
        meaning: "eksctl has waited for too long",
        help: "`stepgate why` says what is not ready",
    },
    KnownError {
        text: "exceeded max wait time",
        meaning: "eksctl has waited for too long",
        help: "`stepgate why` says what is not ready",
    },
];

/// What the end of an output means, where one of the known texts stands there.
#[must_use]
pub fn known_error(output: &[String]) -> Option<&'static KnownError> {
    KNOWN_ERRORS.iter().find(|known| output.iter().any(|line| line.contains(known.text)))
}

#[cfg(test)]
mod tests;
