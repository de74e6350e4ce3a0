//! What was pushed of the policy and does not count, or not alone, yet: for people, and as what stands in the way of a commit.

use domain::CommitId;
use policy::{Apply, Deploy, ForgeKind, ForgePolicy, Policy, Signing, SigningFormat, Wave, WaveApproval};
use rollout::Block;

use super::STAGES;
use super::before::{Before, Befores, Field};

/// The code of what stands in the way.
const UNCONFIRMED: &str = "policy-unconfirmed";

/// The policy as it was pushed last.
#[derive(Clone, Copy, Debug)]
pub struct Pushed<'a> {
    /// The commit.
    pub commit: &'a CommitId,
    /// What it says.
    pub policy: &'a Policy,
    /// Where Stepgate wrote by a commit before it, where that is somewhere else and holds what was deployed.
    pub moved: Option<&'a (CommitId, Deploy)>,
}

/// A field that says something else than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The field.
    pub field: Field,
    /// The commit of the policy of before.
    pub commit: CommitId,
    /// What both say, where both cannot be met at once: then nothing is committed.
    pub values: Option<(String, String)>,
}

impl Field {
    /// As it is written in `stepgate.yaml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::People => "people",
            Self::Groups => "groups",
            Self::Approvers => "approvers",
            Self::CodeOwners => "approvers.codeOwners",
            Self::Approval => "approval",
            Self::AcceptEdits => "acceptEdits",
            Self::OnStaleMerge => "onStaleMerge",
            Self::Windows => "windows",
            Self::Paused => "paused",
            Self::AllowDowngrade => "allowDowngrade",
            Self::AllowForcedUpdate => "allowForcedUpdate",
            Self::AllowMinorRollback => "allowMinorRollback",
            Self::RestartFargate => "restartFargate",
            Self::ForceDrain => "forceDrain",
            Self::FetchAllow => "fetch.allow",
            Self::Forge => "forge",
            Self::DeployBranch => "deploy.branch",
            Self::DeployPath => "deploy.path",
            Self::Apply => "apply",
            Self::Author => "author",
            Self::Signing => "signing",
            Self::Signatures => "signatures",
            Self::Waivers => "waivers",
            Self::DriftIgnore => "drift.ignore",
            Self::Notes => "notes",
            Self::Injection => "injection",
            Self::Machines => "stages.control-plane",
        }
    }
}

impl Change {
    /// What it means, one line; `cluster` is whom it concerns.
    pub fn message(&self, cluster: &str) -> String {
        let (name, commit) = (self.field.name(), &self.commit);
        match &self.values {
            Some((before, now)) => format!(
                "{name} is {now} now and was {before} in commit {commit}, which is deployed for {cluster}: nothing is committed for it until \
                 both say the same"
            ),
            None => format!(
                "{name} is not what it was in commit {commit}, which is deployed for {cluster}: until a rollout has ended with it, the stricter \
                 of both counts"
            ),
        }
    }

    /// The way out; `newest` is the commit that says what is wanted now.
    pub fn help(&self, newest: &CommitId) -> String {
        let trust = format!("whoever runs Stepgate lets it count at once by `--trust-policy {newest}`");
        match self.values {
            Some(_) => format!("put it back, or {trust}"),
            None => trust,
        }
    }
}

/// Everything of a policy that says something else than before, for a cluster. Whether anybody is asked decides whether the forge matters.
pub fn changes(pushed: &Pushed<'_>, befores: &Befores, cluster: &str, asks_people: bool) -> Vec<Change> {
    let now = pushed.policy;
    let mut changes = values(pushed, befores, cluster, asks_people);
    let stages = |policy: &Policy, of: fn(&policy::StagePolicy) -> String| {
        STAGES.map(|stage| of(&policy.stage_policy(cluster, stage))).to_vec()
    };
    let mut compare = |field: Field, of: &dyn Fn(&Policy) -> Vec<String>| {
        let wanted = of(now);
        let other = befores.of(field).find(|before| of(&before.policy) != wanted);
        changes.extend(other.map(|before| Change { field, commit: before.commit.clone(), values: None }));
    };
    compare(Field::People, &|policy| vec![format!("{:?}", policy.people)]);
    compare(Field::Groups, &|policy| vec![format!("{:?}", policy.groups)]);
    let wave = |policy: &Policy, of: &dyn Fn(&Wave) -> String| {
        policy.wave_of(cluster).and_then(|place| policy.waves.get(place)).map(of)
    };
    compare(Field::Approvers, &|policy| {
        let of_wave = wave(policy, &|wave| policy.wave_approvers(wave).to_string());
        stages(policy, |stage| stage.approvers.to_string()).into_iter().chain(of_wave).collect()
    });
    compare(Field::Approval, &|policy| {
        let of_wave = wave(policy, &|wave| format!("{:?}", wave.approval));
        stages(policy, |stage| format!("{:?}", stage.approval)).into_iter().chain(of_wave).collect()
    });
    compare(Field::AcceptEdits, &|policy| stages(policy, |stage| stage.accept_edits.to_string()));
    compare(Field::OnStaleMerge, &|policy| stages(policy, |stage| format!("{:?}", stage.on_stale_merge)));
    compare(Field::Windows, &|policy| vec![format!("{:?}", policy.openings(cluster))]);
    compare(Field::Paused, &|policy| vec![format!("{:?}", policy.pauses(cluster))]);
    compare(Field::AllowDowngrade, &|policy| vec![policy.allows_downgrade(cluster).to_string()]);
    compare(Field::AllowForcedUpdate, &|policy| vec![policy.allows_forced_update(cluster).to_string()]);
    compare(Field::AllowMinorRollback, &|policy| vec![policy.allows_minor_rollback(cluster).to_string()]);
    compare(Field::RestartFargate, &|policy| vec![policy.restarts_fargate(cluster).to_string()]);
    compare(Field::ForceDrain, &|policy| vec![format!("{:?}", policy.force_drain(cluster))]);
    compare(Field::FetchAllow, &|policy| policy.fetch_allow.clone());
    compare(Field::Signatures, &|policy| vec![format!("{:?}", policy.signatures)]);
    compare(Field::Waivers, &|policy| vec![format!("{:?}", policy.waivers(cluster))]);
    compare(Field::DriftIgnore, &|policy| vec![format!("{:?}", policy.drift_ignores(cluster))]);
    compare(Field::Notes, &|policy| vec![format!("{:?}", policy.notes)]);
    compare(Field::Injection, &|policy| vec![format!("{:?}", policy.injection)]);
    compare(Field::Machines, &|policy| {
        let machines = policy.stage_policy(cluster, "control-plane").machines;
        vec![format!("{:?} {:?}", machines.brakes, machines.gate)]
    });
    changes
}

/// Whether any of the policies that count asks people about the wave of a cluster.
pub fn asks_about_wave(newest: &Policy, befores: &Befores, cluster: &str) -> bool {
    let asks = |policy: &Policy| {
        let wave = policy.wave_of(cluster).and_then(|place| policy.waves.get(place));
        wave.is_some_and(|wave| wave.approval != WaveApproval::None)
    };
    asks(newest) || befores.of(Field::Approval).any(|before| asks(&before.policy))
}

/// Whether any of the policies that count asks people before a stage of a cluster.
pub fn may_ask_people(pushed: &Pushed<'_>, befores: &Befores, cluster: &str) -> bool {
    STAGES.iter().any(|stage| {
        befores.stage_policy(pushed.policy, pushed.policy, cluster, stage).approval != policy::Approval::None
    })
}

/// What stands in the way of a commit until whoever runs Stepgate has confirmed it, or it is put back.
pub fn confirmations(pushed: &Pushed<'_>, befores: &Befores, cluster: &str, asks_people: bool) -> Vec<Block> {
    let block = |message: String, help: String| Block { code: UNCONFIRMED.to_owned(), stage: None, message, help };
    let unreadable = befores.unreadable.iter().map(|(commit, reason)| {
        let message = format!("the policy that cluster {cluster} is at cannot be read from commit {commit}: {reason}");
        let trust = format!("`--trust-policy {}` takes the newest policy for it", pushed.commit);
        block(message, format!("push commit {commit} to the repository again, or {trust}"))
    });
    let changes = values(pushed, befores, cluster, asks_people);
    let changes = changes.iter().map(|change| block(change.message(cluster), change.help(pushed.commit)));
    unreadable.chain(changes).collect()
}

/// Fields of which both values cannot be met at once.
fn values(pushed: &Pushed<'_>, befores: &Befores, cluster: &str, asks_people: bool) -> Vec<Change> {
    let now = pushed.policy;
    let mut changes = Vec::new();
    let mut compare = |field: Field, of: &dyn Fn(&Policy) -> String| {
        let wanted = of(now);
        let other = befores.of(field).map(|before| (before, of(&before.policy))).find(|(_, value)| *value != wanted);
        changes.extend(other.map(|(before, value)| change(field, before, value, wanted)));
    };
    compare(Field::DeployBranch, &|policy| policy.deploy.branch.clone());
    compare(Field::DeployPath, &|policy| path(&policy.deploy));
    compare(Field::Apply, &|policy| apply(policy.apply_of(cluster)).to_owned());
    compare(Field::Author, &|policy| format!("{} <{}>", policy.author.name, policy.author.email));
    // Whoever asked for no signature is content with one.
    let wanted = signing(now.signing.as_ref());
    let other = befores
        .of(Field::Signing)
        .find(|before| before.policy.signing.is_some() && before.policy.signing != now.signing);
    changes.extend(other.map(|before| change(Field::Signing, before, signing(before.policy.signing.as_ref()), wanted)));
    if asks_people {
        let wanted = forge(now.forge.as_ref());
        let other = befores.of(Field::Forge).find(|before| before.policy.forge != now.forge);
        changes.extend(other.map(|before| change(Field::Forge, before, forge(before.policy.forge.as_ref()), wanted)));
    }
    if let Some((commit, before)) = pushed.moved {
        let mut moved = |field: Field, before: String, now: String| {
            if before != now && !changes.iter().any(|change| change.field == field) {
                changes.push(Change { field, commit: commit.clone(), values: Some((before, now)) });
            }
        };
        moved(Field::DeployBranch, before.branch.clone(), now.deploy.branch.clone());
        moved(Field::DeployPath, path(before), path(&now.deploy));
    }
    changes
}

fn change(field: Field, before: &Before, value: String, now: String) -> Change {
    Change { field, commit: before.commit.clone(), values: Some((value, now)) }
}

fn path(deploy: &Deploy) -> String {
    deploy.path.as_ref().map_or_else(|| "the top of the branch".to_owned(), ToString::to_string)
}

fn apply(apply: Apply) -> &'static str {
    match apply {
        Apply::Flux => "flux",
        Apply::Direct => "direct",
        Apply::Pipeline => "pipeline",
        Apply::Eksctl => "eksctl",
    }
}

fn signing(signing: Option<&Signing>) -> String {
    match signing.map(|signing| signing.format) {
        None => "none".to_owned(),
        Some(SigningFormat::Ssh) => "by an SSH key".to_owned(),
        Some(SigningFormat::Gpg) => "by a GPG key".to_owned(),
    }
}

fn forge(forge: Option<&ForgePolicy>) -> String {
    let Some(forge) = forge else { return "none".to_owned() };
    let kind = match forge.kind {
        ForgeKind::Gitea => "gitea",
        ForgeKind::GitHub => "github",
        ForgeKind::GitLab => "gitlab",
    };
    format!("{kind} {} {}", forge.url, forge.repository)
}
