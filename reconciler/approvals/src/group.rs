//! Which proposals belong together: those of one stage of the clusters of a wave, that the same rules let through.
//!
//! What makes a group does not depend on who waits at the moment, so its branch keeps its name while clusters join and leave.

use std::collections::{BTreeMap, BTreeSet};

use domain::{ClusterName, PlanDigest};
use policy::ApprovalRules;
use policy::Policy;
use rollout::{ApprovalScope, Plan, approval_rules};

use crate::PREFIX;
use domain::{BranchName, BranchNameError};

/// The group of clusters that are in no wave and no environment.
const WHOLE_FLEET: &str = "fleet";

/// The longest part of a branch's name that a wave or an environment gives, in bytes.
const LONGEST_NAME: usize = 60;

/// What proposals have in common that are asked for together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The wave, else the environment, else the fleet.
    pub name: String,
    /// What is asked for.
    pub scope: ApprovalScope,
    /// Whose approval is enough.
    pub rules: ApprovalRules,
    /// Whether those are the rules of the fleet as a whole.
    usual: bool,
}

impl Group {
    /// The group in which this plan of a cluster is asked for.
    pub fn of(policy: &Policy, cluster: &ClusterName, plan: &Plan, scope: &ApprovalScope) -> Self {
        let wave = policy.wave_of(cluster.as_str()).and_then(|place| policy.waves.get(place));
        let name = wave.map(|wave| wave.name.as_str()).or_else(|| policy.environment_of(cluster.as_str()));
        let rules = approval_rules(plan, scope);
        let usual = rules == ApprovalRules::from(&policy.settings.approvers) || rules.take_anybody();
        Self { name: name.unwrap_or(WHOLE_FLEET).to_owned(), scope: scope.clone(), rules, usual }
    }

    /// The branch on which it is proposed: `stepgate/<name>/<stage>`, and a digest of the rules where they are not the fleet's own.
    ///
    /// # Errors
    /// [`BranchNameError`] when the stage's name is not a valid part of a branch name.
    pub fn branch(&self) -> Result<BranchName, BranchNameError> {
        let stage = match &self.scope {
            ApprovalScope::Rollout => "rollout".to_owned(),
            ApprovalScope::Stage(stage) => stage.to_string(),
        };
        let rules = if self.usual { String::new() } else { format!("-{}", short_digest(&self.rules.to_string())) };
        let name = format!("{PREFIX}{}/{stage}{rules}", branch_part(&self.name));
        name.parse()
    }
}

/// A name as one part of a branch's name. Names that would become the same are told apart by their digest.
fn branch_part(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    let part: String = name.chars().map(plain).take(LONGEST_NAME).collect();
    if part == name && !part.starts_with('-') && !part.is_empty() {
        return part;
    }
    format!("{}-{}", part.trim_matches('-'), short_digest(name)).trim_start_matches('-').to_owned()
}

fn short_digest(text: &str) -> String {
    let digest = PlanDigest::of([text.as_bytes()]);
    digest.as_str().trim_start_matches("sha256:").chars().take(8).collect()
}

/// A cluster that is to be asked for, as far as the places of its wave are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The cluster.
    pub cluster: ClusterName,
    /// Whether its rollout is on the way: it has its place.
    pub running: bool,
    /// Whether it is proposed already: its place is spoken for.
    pub proposed: bool,
}

/// The clusters for which their wave has no place now: a merge begins every rollout that it brings. `sizes` are those of the policy's waves.
pub fn without_place(
    policy: &Policy,
    sizes: &[usize],
    candidates: &[Candidate],
    running: &BTreeSet<ClusterName>,
) -> BTreeSet<ClusterName> {
    let mut left: BTreeMap<usize, usize> = BTreeMap::new();
    for (place, (wave, size)) in policy.waves.iter().zip(sizes).enumerate() {
        let busy = running.iter().filter(|name| policy.wave_of(name.as_str()) == Some(place)).count();
        left.insert(place, rollout::places(wave, *size).saturating_sub(busy));
    }
    let mut beginning: Vec<&Candidate> = candidates.iter().filter(|candidate| !candidate.running).collect();
    beginning.sort_by(|one, two| (!one.proposed, &one.cluster).cmp(&(!two.proposed, &two.cluster)));
    let mut out = BTreeSet::new();
    for candidate in beginning {
        let Some(places) = policy.wave_of(candidate.cluster.as_str()).and_then(|wave| left.get_mut(&wave)) else {
            continue;
        };
        match places.checked_sub(1) {
            Some(rest) => *places = rest,
            None => {
                out.insert(candidate.cluster.clone());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use domain::{RepoPath, TreeDigest};
    use policy::{PlanPolicy, StagePolicy};
    use rollout::{ChecksExpectation, ClusterRole, PlanInput, SkewFacts, StageInput};

    use super::*;

    fn policy(text: &str) -> Policy {
        let (policy, problems) = policy::read_policy(&RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        assert!(problems.is_empty(), "{problems:?}");
        policy
    }

    fn group(name: &str, stage: &str) -> Group {
        let scope = ApprovalScope::Stage(stage.parse().unwrap());
        Group { name: name.to_owned(), scope, rules: ApprovalRules::default(), usual: true }
    }

    fn candidate(cluster: &str, running: bool, proposed: bool) -> Candidate {
        Candidate { cluster: cluster.parse().unwrap(), running, proposed }
    }

    #[test]
    fn a_branch_is_named_by_wave_and_stage() {
        for (name, stage, wanted) in [
            ("prod", "cert-manager", "stepgate/prod/cert-manager"),
            ("wave-1", "workers/md-0", "stepgate/wave-1/workers/md-0"),
            ("wave_1", "capi", "stepgate/wave_1/capi"),
            ("fleet", "cilium@v1.18.2-0", "stepgate/fleet/cilium@v1.18.2-0"),
        ] {
            assert_eq!(group(name, stage).branch().unwrap().as_str(), wanted);
        }
        let rollout = Group { scope: ApprovalScope::Rollout, ..group("prod", "capi") };
        assert_eq!(rollout.branch().unwrap().as_str(), "stepgate/prod/rollout");
    }

    #[test]
    fn hostile_names_are_made_harmless_and_stay_apart() {
        let long = "x".repeat(300);
        let names = ["a b", "a/b", "a..b", "../..", ".lock", "-x", "", "é", "a~b", "a@{b", long.as_str()];
        let branches: BTreeSet<String> =
            names.iter().map(|name| group(name, "capi").branch().unwrap().to_string()).collect();
        assert_eq!(branches.len(), names.len(), "{branches:?}");
        assert!(branches.iter().all(|name| name.matches('/').count() == 2), "{branches:?}");
    }

    #[test]
    fn other_rules_make_another_group() {
        let strict = ApprovalRules { minimum: 2, ..ApprovalRules::default() };
        let stricter = Group { rules: strict.clone(), usual: false, ..group("prod", "capi") };
        let other = Group { rules: ApprovalRules { minimum: 3, ..strict }, usual: false, ..group("prod", "capi") };
        let names = [group("prod", "capi"), stricter, other].map(|group| group.branch().unwrap());
        assert!(names[0] != names[1] && names[1] != names[2], "{names:?}");
    }

    /// A plan of one stage, for which these approve.
    fn plan(approvers: ApprovalRules) -> Plan {
        let digest = |text: &str| TreeDigest::of([text.as_bytes()]);
        let policy = StagePolicy { approval: policy::Approval::Stage, approvers, ..StagePolicy::default() };
        let stage = StageInput {
            stage: "capi".parse().unwrap(),
            deployed: digest("before"),
            target: digest("after"),
            changes: Vec::new(),
            reasons: Vec::new(),
            risks: Vec::new(),
            one_way: Vec::new(),
            expectations: Vec::new(),
            deployed_expectations: Vec::new(),
            policy,
            machines: 0,
            uncounted_machines: false,
            render_error: None,
            carried_by: None,
        };
        rollout::plan(PlanInput {
            cluster: "mgmt".parse().unwrap(),
            role: ClusterRole::Management,
            source: "a".repeat(40).parse().unwrap(),
            deployed: digest("before"),
            target: digest("after"),
            stages: vec![stage],
            skew: SkewFacts::default(),
            policy: PlanPolicy::default(),
            checks: ChecksExpectation::default(),
            blocked: Vec::new(),
            warnings: Vec::new(),
            ledger: None,
            rollback: None,
            eksctl: None,
            tanzu: None,
        })
    }

    #[test]
    fn rules_of_the_fleet_and_none_have_a_branch_without_a_digest_and_others_have_one() {
        let policy = policy("approvers: {minimum: 2}\n");
        let fleets = ApprovalRules::from(&policy.settings.approvers);
        assert_eq!(fleets.minimum, 2);
        let others = ApprovalRules { minimum: 3, ..fleets.clone() };
        let scope = ApprovalScope::Stage("capi".parse().unwrap());
        let branch = |approvers: &ApprovalRules| {
            let group = Group::of(&policy, &"mgmt".parse().unwrap(), &plan(approvers.clone()), &scope);
            assert_eq!(group.rules, *approvers);
            group.branch().unwrap().to_string()
        };
        assert_eq!(branch(&fleets), "stepgate/fleet/capi");
        assert_eq!(branch(&ApprovalRules::default()), "stepgate/fleet/capi");
        let other = branch(&others);
        assert!(other.starts_with("stepgate/fleet/capi-"), "{other}");
    }

    #[test]
    fn a_wave_has_as_many_places_as_it_says() {
        let policy = policy(
            "waves:\n- {name: one, clusters: ['a*'], concurrency: 2}\n- {name: two, clusters: ['b*'], concurrency: 1}\n",
        );
        let candidates = [
            candidate("a3", false, true),
            candidate("a1", false, false),
            candidate("a2", false, false),
            candidate("a9", true, false),
            candidate("b1", false, false),
            candidate("c1", false, false),
        ];
        let out = |running: &[&str]| -> Vec<String> {
            let running = running.iter().map(|name| name.parse().unwrap()).collect();
            without_place(&policy, &[3, 1], &candidates, &running).iter().map(ToString::to_string).collect()
        };
        assert_eq!(out(&[]), ["a2"]);
        assert_eq!(out(&["a9"]), ["a1", "a2"]);
        assert_eq!(out(&["a9", "a8", "b9"]), ["a1", "a2", "a3", "b1"]);
        // Whoever is proposed already goes before who is not, and in no wave there are no places.
        assert_eq!(without_place(&self::policy(""), &[], &candidates, &BTreeSet::new()), BTreeSet::new());
    }
}
