//! What the policies of before say besides the newest one: whoever pushes does not lower the bar that judges the push.
//!
//! Architecture Invariant: what decides whose word counts, how many words, where commits land and under whose name is judged by the policy before
//! a push and by the one after it, and both have to be met. What of that can be met by both at once is the stricter of both; what cannot (a commit
//! lands in one place, under one name) waits for whoever runs Stepgate.
//!
//! The policies of before are those of the source commit that the cluster was last committed from,
//! and of the one that its rollout began from.

use std::sync::Arc;

use domain::CommitId;
use policy::{Apply, Policy, Signatures};
use policy::{Approval, OnFailure, PlanPolicy, StagePolicy, Windows};

use super::STAGES;

/// Fields of `stepgate.yaml` that are judged before a push and after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// `people`.
    People,
    /// `groups`.
    Groups,
    /// `approvers`.
    Approvers,
    /// The file CODEOWNERS, where `approvers.codeOwners` follows it.
    CodeOwners,
    /// `approval`.
    Approval,
    /// `acceptEdits`.
    AcceptEdits,
    /// `onStaleMerge`.
    OnStaleMerge,
    /// `windows`.
    Windows,
    /// `paused`.
    Paused,
    /// `allowDowngrade`.
    AllowDowngrade,
    /// `fetch.allow`.
    FetchAllow,
    /// `forge`.
    Forge,
    /// `deploy.branch`.
    DeployBranch,
    /// `deploy.path`.
    DeployPath,
    /// `apply`.
    Apply,
    /// `author`.
    Author,
    /// `signing`.
    Signing,
    /// `signatures`.
    Signatures,
}

/// A policy of before.
#[derive(Clone, Debug, PartialEq)]
pub struct Before {
    /// The commit of the source branch that it stands in.
    pub commit: CommitId,
    /// What it says.
    pub policy: Arc<Policy>,
}

/// The policies of before that count for a cluster: that of the source commit which it was committed from last, and while a rollout runs also that
/// which it was at before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Befores {
    /// Those that could be read.
    pub known: Vec<Before>,
    /// Those that count and cannot be read, and why.
    pub unreadable: Vec<(CommitId, String)>,
}

impl Befores {
    /// What was said of a field before.
    pub fn of(&self, field: Field) -> impl Iterator<Item = &Before> + Clone {
        let is_forgotten = forgotten(field);
        self.known.iter().filter(move |_| !is_forgotten)
    }

    /// The policy that says what counted of a field before.
    pub fn said<'a>(&self, field: Field, before: &'a Before, newest: &'a Policy) -> &'a Policy {
        if forgotten(field) { newest } else { &before.policy }
    }

    fn policies(&self, field: Field) -> impl Iterator<Item = &Policy> + Clone {
        self.of(field).map(|before| before.policy.as_ref())
    }

    /// The policy in force for a stage: as `wanted` says, and not below what is asked of people by any other of these and before.
    pub fn stage_policy<'a>(
        &'a self,
        wanted: &'a Policy,
        newest: &'a Policy,
        cluster: &str,
        stage: &str,
    ) -> StagePolicy {
        let own = wanted.stage_policy(cluster, stage);
        let other = |field: Field| {
            let policies = std::iter::once(newest).chain(self.policies(field));
            policies.map(|policy| policy.stage_policy(cluster, stage)).collect::<Vec<_>>()
        };
        let approval = other(Field::Approval).iter().map(|other| other.approval).max().unwrap_or(Approval::None);
        let approvers =
            other(Field::Approvers).iter().fold(own.approvers.clone(), |all, other| all.and(&other.approvers));
        let reverts = |policy: &StagePolicy| policy.on_stale_merge == OnFailure::Revert;
        // To hold lets nothing more happen; to take back is done where everybody says so.
        let revert = reverts(&own) && other(Field::OnStaleMerge).iter().all(reverts);
        StagePolicy {
            approval: own.approval.max(approval),
            approvers,
            accept_edits: own.accept_edits && other(Field::AcceptEdits).iter().all(|other| other.accept_edits),
            on_stale_merge: if revert { OnFailure::Revert } else { OnFailure::Hold },
            windows: self.windows(wanted, newest, cluster),
            ..own
        }
    }

    fn windows(&self, wanted: &Policy, newest: &Policy, cluster: &str) -> Windows {
        let policies = [wanted, newest].into_iter().chain(self.policies(Field::Windows));
        Windows::of(policies.map(|policy| policy.windows(cluster).to_vec()))
    }

    /// The policy in force for a plan as a whole.
    pub fn plan_policy(&self, wanted: &Policy, newest: &Policy, cluster: &str) -> PlanPolicy {
        let mut others = std::iter::once(newest).chain(self.policies(Field::AllowDowngrade));
        let own = wanted.plan_policy(cluster);
        let everybody = others.all(|policy| policy.allows_downgrade(cluster));
        PlanPolicy { allow_downgrade: own.allow_downgrade && everybody, ..own }
    }

    /// The policy of before that pauses a cluster, where the newest does not.
    pub fn pausing(&self, cluster: &str) -> Option<&Before> {
        self.of(Field::Paused).find(|before| before.policy.is_paused(cluster))
    }

    /// Whether Stepgate itself applies what is deployed: by the newest policy and by all of before.
    pub fn applies_directly(&self, newest: &Policy) -> bool {
        std::iter::once(newest).chain(self.policies(Field::Apply)).all(|policy| policy.apply == Apply::Direct)
    }

    /// What is asked of signatures: by the newest policy and by all of before, whoever asks for most.
    pub fn signatures(&self, newest: &Policy) -> Signatures {
        self.policies(Field::Signatures).map(|policy| policy.signatures).fold(newest.signatures, Signatures::max)
    }

    /// Whether any policy of before wants owners by CODEOWNERS to be heard for a stage of this cluster.
    pub fn asks_owners(&self, cluster: &str) -> bool {
        let asks = |policy: &Policy, stage: &str| policy.stage_policy(cluster, stage).approvers.code_owners;
        self.policies(Field::CodeOwners).any(|policy| STAGES.iter().any(|stage| asks(policy, stage)))
    }

    /// The hosts, and paths below them, that the newest policy and all of before allow to be asked for manifests and charts.
    pub fn fetch_allow(&self, newest: &Policy) -> Vec<String> {
        self.policies(Field::FetchAllow).fold(newest.fetch_allow.clone(), |allowed, before| {
            let (one, other) = (&allowed, &before.fetch_allow);
            let within = |entries: &[String], other: &[String]| -> Vec<String> {
                let is_covered = |entry: &&String| other.iter().any(|wider| covers(wider, entry));
                entries.iter().filter(is_covered).cloned().collect()
            };
            let mut both = within(one, other);
            let more = within(other, one).into_iter().filter(|entry| !both.contains(entry)).collect::<Vec<_>>();
            both.extend(more);
            both
        })
    }
}

/// Whether everything that `entry` of `fetch.allow` allows is allowed by `wider`.
fn covers(wider: &str, entry: &str) -> bool {
    fn split(text: &str) -> (&str, &str) {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        (host, path.trim_end_matches('/'))
    }
    let ((wider_host, prefix), (host, path)) = (split(wider), split(entry));
    let is_below = || path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    wider_host.eq_ignore_ascii_case(host) && (prefix.is_empty() || is_below())
}

/// Whether a test wants to see that it notices when this field is not judged by what was before.
#[cfg(not(test))]
fn forgotten(_: Field) -> bool {
    false
}

#[cfg(test)]
pub(crate) use seeded::forgetting;
#[cfg(test)]
use seeded::forgotten;

/// A bug that tests seed: a field is judged by the newest policy alone.
#[cfg(test)]
mod seeded {
    use std::cell::Cell;

    use super::Field;

    thread_local! {
        static FORGOTTEN: Cell<Option<Field>> = const { Cell::new(None) };
    }

    pub(super) fn forgotten(field: Field) -> bool {
        FORGOTTEN.get() == Some(field)
    }

    /// What is done in this thread while a field is judged by the newest policy alone.
    pub(crate) fn forgetting<T>(field: Option<Field>, work: impl FnOnce() -> T) -> T {
        let before = FORGOTTEN.replace(field);
        let done = work();
        FORGOTTEN.set(before);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Policy {
        let (policy, problems) = policy::read_policy(&domain::RepoPath::new("stepgate.yaml").unwrap(), text.as_bytes());
        assert!(problems.is_empty(), "{problems:?}");
        policy
    }

    fn befores(texts: &[&str]) -> Befores {
        let before = |text: &&str| Before { commit: "a".repeat(40).parse().unwrap(), policy: Arc::new(policy(text)) };
        Befores { known: texts.iter().map(before).collect(), unreadable: Vec::new() }
    }

    fn stage(now: &str, before: &[&str]) -> StagePolicy {
        let now = policy(now);
        befores(before).stage_policy(&now, &now, "mgmt", "capi")
    }

    #[test]
    fn the_stricter_of_both_holds_for_every_setting() {
        let (strict, lax) = (
            "approval: stage\napprovers: {minimum: 2, codeOwners: true}\nwindows: [{from: \"22:00\", to: \"04:00\"}]\n",
            "acceptEdits: true\nonStaleMerge: revert\nallowDowngrade: true\n",
        );
        let both = format!("{strict}{lax}");
        for (now, before) in [(strict, lax), (lax, strict), (both.as_str(), strict), (strict, both.as_str())] {
            let policy = stage(now, &[before]);
            assert_eq!((policy.approval, policy.approvers.minimum), (Approval::Stage, 2), "{now} {before}");
            assert!(policy.approvers.code_owners && !policy.approvers.author && !policy.windows.is_empty());
            assert!(!policy.accept_edits && policy.on_stale_merge == OnFailure::Hold, "{now} {before}");
        }
        let policy = stage(&both, &[&both, lax]);
        assert!(policy.accept_edits && policy.on_stale_merge == OnFailure::Revert);
        let allows = |now: &str, before: &[&str]| {
            let now = self::policy(now);
            befores(before).plan_policy(&now, &now, "mgmt").allow_downgrade
        };
        assert!(allows(lax, &[lax]) && allows(lax, &[]) && !allows(lax, &[strict]) && !allows(strict, &[lax]));
        // What is no bar for people counts as it was pushed.
        assert_eq!(stage("soak: 7s\n", &["soak: 9s\n"]).soak.as_secs(), 7);
        assert!(befores(&["paused: true\n"]).pausing("mgmt").is_some() && befores(&[lax]).pausing("mgmt").is_none());
    }

    #[test]
    fn what_runs_already_is_judged_by_what_was_pushed_since_as_well() {
        let (own, newest) = (policy("approval: none\n"), policy("approval: stage\napprovers: {minimum: 3}\n"));
        let policy = Befores::default().stage_policy(&own, &newest, "mgmt", "capi");
        assert_eq!((policy.approval, policy.approvers.minimum), (Approval::Stage, 3));
    }

    #[test]
    fn a_push_does_not_lower_what_is_asked_of_signatures() {
        for (now, before, expected) in [
            ("signatures: off\n", &["signatures: require\n"][..], Signatures::Require),
            ("signatures: off\n", &["signatures: off\n", ""], Signatures::Warn),
            ("signatures: require\n", &["signatures: off\n"], Signatures::Require),
            ("signatures: off\n", &[], Signatures::Off),
            ("", &[], Signatures::Warn),
        ] {
            assert_eq!(befores(before).signatures(&policy(now)), expected, "{now:?} {before:?}");
        }
    }

    #[test]
    fn only_what_both_allow_is_fetched() {
        let allow = |now: &[&str], before: &[&[&str]]| {
            let text = |hosts: &[&str]| format!("fetch: {{allow: [{}]}}\n", hosts.join(", "));
            let before: Vec<String> = before.iter().map(|hosts| text(hosts)).collect();
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            befores(&before).fetch_allow(&policy(&text(now)))
        };
        assert_eq!(allow(&["a.org", "evil.org"], &[&["a.org", "b.org"]]), ["a.org"]);
        assert_eq!(allow(&["a.org"], &[&["A.org/x", "b.org"]]), ["A.org/x"]);
        assert_eq!(allow(&["a.org/x/y", "a.org/xy"], &[&["a.org/x/"]]), ["a.org/x/y"]);
        assert_eq!(allow(&["a.org"], &[&["a.org"], &[]]), [""; 0]);
        assert_eq!(allow(&["a.org"], &[]), ["a.org"]);
    }
}
