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
use jiff::Timestamp;
use policy::{Apply, DriftIgnore, ForceDrain, InjectionRule, Paused, Policy, ReleaseNote, Signatures, Waiver};
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
    /// `allowForcedUpdate`.
    AllowForcedUpdate,
    /// `allowMinorRollback`.
    AllowMinorRollback,
    /// `restartFargate`.
    RestartFargate,
    /// `forceDrain`.
    ForceDrain,
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
    /// `waivers`.
    Waivers,
    /// `drift.ignore`.
    DriftIgnore,
    /// `notes`.
    Notes,
    /// `injection`.
    Injection,
    /// `brakes` and `gate` of the control plane.
    Machines,
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
        let machines = other(Field::Machines).iter().fold(own.machines.clone(), |all, other| all.and(&other.machines));
        StagePolicy {
            machines,
            approval: own.approval.max(approval),
            approvers,
            accept_edits: own.accept_edits && other(Field::AcceptEdits).iter().all(|other| other.accept_edits),
            on_stale_merge: if revert { OnFailure::Revert } else { OnFailure::Hold },
            windows: self.windows(wanted, newest, cluster, stage),
            ..own
        }
    }

    fn windows(&self, wanted: &Policy, newest: &Policy, cluster: &str, stage: &str) -> Windows {
        let policies = [wanted, newest].into_iter().chain(self.policies(Field::Windows));
        let freezes = policies.clone().flat_map(|policy| policy.freezes(cluster));
        Windows::of(policies.map(|policy| policy.windows(cluster, stage).to_vec())).frozen(freezes)
    }

    /// The policy in force for a plan as a whole.
    pub fn plan_policy(&self, wanted: &Policy, newest: &Policy, cluster: &str) -> PlanPolicy {
        let mut others = std::iter::once(newest).chain(self.policies(Field::AllowDowngrade));
        let own = wanted.plan_policy(cluster);
        let everybody = others.all(|policy| policy.allows_downgrade(cluster));
        let waivers = self.waivers(own.waivers.clone(), newest, cluster);
        let counts =
            |waiver: &Waiver| waivers.iter().any(|known| waiver.is_within(known) && waiver.expires <= known.expires);
        PlanPolicy {
            allow_downgrade: own.allow_downgrade && everybody,
            waivers_to_come: own.waivers.into_iter().filter(|waiver| !counts(waiver)).collect(),
            waivers,
            drift_ignores: self.drift_ignores(own.drift_ignores, newest, cluster),
            injection: self.injection(own.injection, newest),
            ..own
        }
    }

    /// The waivers that everybody gives, each until the first last day that anybody gives it.
    fn waivers(&self, own: Vec<Waiver>, newest: &Policy, cluster: &str) -> Vec<Waiver> {
        let others = std::iter::once(newest).chain(self.policies(Field::Waivers)).map(|policy| policy.waivers(cluster));
        others.fold(own, |all, other| {
            let until = |waiver: &Waiver, of: &[Waiver]| {
                let last = of.iter().filter(|wider| waiver.is_within(wider)).map(|wider| wider.expires).max()?;
                Some(Waiver { expires: last.min(waiver.expires), ..waiver.clone() })
            };
            both(&all, &other, until, |one, other| (one.check, &one.object) == (other.check, &other.object))
        })
    }

    /// What everybody ignores.
    fn drift_ignores(&self, own: Vec<DriftIgnore>, newest: &Policy, cluster: &str) -> Vec<DriftIgnore> {
        let policies = std::iter::once(newest).chain(self.policies(Field::DriftIgnore));
        policies.map(|policy| policy.drift_ignores(cluster)).fold(own, |all, other| {
            let within = |ignore: &DriftIgnore, of: &[DriftIgnore]| {
                of.iter().any(|wider| ignore.is_within(wider)).then(|| ignore.clone())
            };
            both(&all, &other, within, |one, other| one == other)
        })
    }

    /// What anybody wants to be read, or done, before versions.
    pub fn notes<'a>(&'a self, newest: &'a Policy) -> Vec<&'a ReleaseNote> {
        let mut notes: Vec<&ReleaseNote> = Vec::new();
        for note in std::iter::once(newest).chain(self.policies(Field::Notes)).flat_map(|policy| &policy.notes) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    /// The sidecars that anybody asks after.
    fn injection(&self, own: Vec<InjectionRule>, newest: &Policy) -> Vec<InjectionRule> {
        let others =
            std::iter::once(newest).chain(self.policies(Field::Injection)).flat_map(|policy| &policy.injection);
        others.fold(own, |mut all, rule| {
            if !all.contains(rule) {
                all.push(rule.clone());
            }
            all
        })
    }

    /// The policy of before that pauses a cluster, where the newest does not.
    pub fn pausing(&self, cluster: &str, now: Timestamp) -> Option<&Before> {
        let paused = self.of(Field::Paused).filter(|before| before.policy.is_paused(cluster, now));
        paused.max_by_key(|before| before.policy.pause(cluster, now).map(Paused::ends))
    }

    /// Whether Stepgate itself applies what is deployed: by the newest policy and by all of before.
    pub fn applies_directly(&self, newest: &Policy) -> bool {
        std::iter::once(newest).chain(self.policies(Field::Apply)).all(|policy| policy.apply == Apply::Direct)
    }

    /// Whether an upgrade of EKS may override what EKS says: by the newest policy and by all of before.
    pub fn allows_forced_update(&self, newest: &Policy, cluster: &str) -> bool {
        let mut policies = std::iter::once(newest).chain(self.policies(Field::AllowForcedUpdate));
        policies.all(|policy| policy.allows_forced_update(cluster))
    }

    /// Whether the control plane may go back a minor while EKS takes it back: by the newest policy and by all of before.
    pub fn allows_minor_rollback(&self, newest: &Policy, cluster: &str) -> bool {
        let mut policies = std::iter::once(newest).chain(self.policies(Field::AllowMinorRollback));
        policies.all(|policy| policy.allows_minor_rollback(cluster))
    }

    /// Whether Stepgate restarts what runs on old nodes of Fargate: by the newest policy and by all of before.
    pub fn restarts_fargate(&self, newest: &Policy, cluster: &str) -> bool {
        let mut policies = std::iter::once(newest).chain(self.policies(Field::RestartFargate));
        policies.all(|policy| policy.restarts_fargate(cluster))
    }

    /// What may be forced while nodes are drained: by the newest policy and by all of before, as much as all of them let.
    pub fn force_drain(&self, newest: &Policy, cluster: &str) -> Vec<ForceDrain> {
        let policies = self.policies(Field::ForceDrain).map(|policy| policy.force_drain(cluster));
        policies.fold(least(newest.force_drain(cluster)), |all, other| {
            let other = least(other);
            let both = |rule: &ForceDrain| Some(rule.and(other.iter().find(|known| known.group == rule.group)?));
            all.iter().filter_map(both).collect()
        })
    }

    /// Whether Stepgate runs eksctl for a cluster: by the newest policy and by all of before.
    pub fn runs_eksctl(&self, newest: &Policy, cluster: &str) -> bool {
        let policies = std::iter::once(newest).chain(self.policies(Field::Apply));
        policies.map(|policy| policy.apply_of(cluster)).all(|apply| apply == Apply::Eksctl)
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

/// One rule for each group: where several name it, as much as all of them let.
fn least(rules: Vec<ForceDrain>) -> Vec<ForceDrain> {
    rules.into_iter().fold(Vec::new(), |mut all: Vec<ForceDrain>, rule| {
        match all.iter_mut().find(|known| known.group == rule.group) {
            Some(known) => *known = known.and(&rule),
            None => all.push(rule),
        }
        all
    })
}

/// What two lists of exceptions have in common: the entries of each, as far as `within` finds them in the other.
fn both<T>(one: &[T], other: &[T], within: impl Fn(&T, &[T]) -> Option<T>, is_same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut found: Vec<T> = one.iter().filter_map(|entry| within(entry, other)).collect();
    for entry in other.iter().filter_map(|entry| within(entry, one)) {
        if !found.iter().any(|known| is_same(known, &entry)) {
            found.push(entry);
        }
    }
    found
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
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let pauses = |before: &str, time: &str| befores(&[before]).pausing("mgmt", at(time)).is_some();
        assert!(pauses("paused: true\n", "2999-01-01T00:00:00Z") && !pauses(lax, "2026-01-01T00:00:00Z"));
        let lease = "paused: {reason: audit, until: 2026-03-01T12:00Z, by: ops}\n";
        assert!(pauses(lease, "2026-03-01T11:00:00Z") && !pauses(lease, "2026-03-01T12:00:00Z"), "it ends by itself");
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
    fn a_push_waives_and_ignores_nothing_for_itself() {
        let counts = |now: &str, before: &[&str]| {
            let list = |text: &str| format!("waivers: [{text}]\n");
            let before: Vec<String> = before.iter().map(|text| list(text)).collect();
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            let now = policy(&list(now));
            let plan = befores(&before).plan_policy(&now, &now, "mgmt");
            plan.waivers.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let all = "{check: nodes, reason: all, expires: 2026-12-31}";
        let one = "{check: nodes, object: Node/a, reason: one, expires: 2026-06-30}";
        let other = "{check: drains, reason: other, expires: 2026-12-31}";
        let later = "{check: nodes, reason: later, expires: 2027-12-31}";
        assert_eq!(counts(all, &[]), ["waived until 2026-12-31: all"]);
        assert_eq!(counts(all, &[""]), [""; 0]);
        assert_eq!(counts(all, &[other]), [""; 0]);
        assert_eq!(counts(one, &[all]), ["waived until 2026-06-30: one"]);
        assert_eq!(counts(all, &[one]), ["waived until 2026-06-30: one"]);
        assert_eq!(counts(later, &[all]), ["waived until 2026-12-31: later"]);
        assert_eq!(counts(all, &[all, ""]), [""; 0]);
        // What does not count yet is not forgotten.
        let now = policy(&format!("waivers: [{all}, {other}]\n"));
        let plan = befores(&[&format!("waivers: [{other}]\n")]).plan_policy(&now, &now, "mgmt");
        assert_eq!((plan.waivers.len(), plan.waivers_to_come.len()), (1, 1));
        assert_eq!(plan.waivers_to_come[0].reason, "all");

        let ignored = |now: &str, before: &str| {
            let text = |rule: &str| format!("drift: {{ignore: [{rule}]}}\n");
            let now = policy(&text(now));
            befores(&[&text(before)]).plan_policy(&now, &now, "mgmt").drift_ignores.len()
        };
        let (wide, narrow) = ("{paths: [/spec]}", "{object: Deployment/a/b, paths: [/spec/replicas], managers: [hpa]}");
        assert_eq!((ignored(wide, wide), ignored(wide, narrow), ignored(narrow, wide)), (1, 1, 1));
        assert_eq!(
            (ignored(wide, ""), ignored("{paths: [/metadata]}", wide), ignored("{managers: [a]}", wide)),
            (0, 0, 0)
        );
    }

    #[test]
    fn a_push_takes_off_no_brake_and_no_note() {
        let machines = |now: &str, before: &[&str]| {
            let text = |settings: &str| format!("stages: {{control-plane: {{{settings}}}}}\n");
            let before: Vec<String> = before.iter().map(|text_of| text(text_of)).collect();
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            let now = policy(&text(now));
            let machines = befores(&before).stage_policy(&now, &now, "mgmt", "control-plane").machines;
            (machines.brakes, machines.gate.is_whole())
        };
        let lax = "brakes: false, gate: first-node";
        assert_eq!(machines(lax, &[]), (Some(false), false));
        assert_eq!(machines(lax, &[lax]), (Some(false), false));
        assert_eq!(machines(lax, &["brakes: true"]), (Some(true), true));
        assert_eq!(machines(lax, &["gate: first-node"]), (None, false));
        assert_eq!(machines("brakes: true", &[lax]), (Some(true), true));

        let note = |blocking: bool| format!("notes: [{{name: n, component: eksa, says: s, blocking: {blocking}}}]\n");
        let told = |now: &str, before: &str| -> Vec<bool> {
            befores(&[before]).notes(&policy(now)).iter().map(|note| note.blocking).collect()
        };
        assert_eq!(told("", &note(true)), [true]);
        assert_eq!(told(&note(false), &note(true)), [false, true]);
        assert_eq!(told(&note(true), &note(true)), [true]);
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
