//! A cluster, its branches and its people as values, and what can happen to them in any order.

mod decide;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::{CommitId, PlanDigest};
use jiff::{SignedDuration, Timestamp};
use policy::{GivenApproval, Means, Owner, OwningEntry, Policy, Signatures, StagePolicy};
use rollout::{
    ApprovalFacts, ApprovalRecord, ApprovalScope, ApprovalState, ChangeClass, ClusterRole, ComponentChange,
    DeployCommit, DeployHead, Effect, GateHistory, Ledger, LedgerFormat, LedgerState, Observation, People, Plan,
    RenderFailure, StageCommit, StageId, StageName, StageTrailer, World, approval_scope, plan, record, step,
};
use simulator::model::{ModelCluster, Parts, tree_digest};
use simulator::{ClusterShape, DeployedCommit, Etcd, MachineStrategy, Random, SimulatedCluster};

use super::super::{Before, Befores, Field, Pushed, confirmations};
use super::draw::{Focus, Knobs};
use super::oracle::{Landing, apply_directly, is_the_teams, lowered, objection};
use crate::people::roster_since;

const STAGES: [StageName; 2] = [StageName::CertManager, StageName::Cilium];

/// Versions from here on are what people changed on a proposed branch.
const EDITED: u32 = 1_000;

/// A commit of the source branch.
struct Source {
    id: CommitId,
    wanted: Parts,
    policy: Arc<Policy>,
    /// Who wrote it, where it wants something else of the cluster.
    author: Option<&'static str>,
    at: Timestamp,
}

/// A state of the deploy branch.
#[derive(Clone)]
struct Deployed {
    parts: Parts,
    ledger: Ledger,
    /// Who owns everything by CODEOWNERS.
    owner: &'static str,
    /// Whether it is a commit of the cluster's, and not one that only changes who owns it.
    is_own: bool,
}

/// What a process has read.
#[derive(Clone)]
struct Seen {
    source: usize,
    length: usize,
    observation: Observation,
}

#[derive(Default)]
struct Process {
    seen: Option<Seen>,
    history: GateHistory,
}

pub struct Play {
    cluster: ModelCluster,
    focus: Focus,
    first: Knobs,
    knobs: Knobs,
    now: Timestamp,
    sources: Vec<Source>,
    head: DeployHead,
    states: Vec<Deployed>,
    simulated: SimulatedCluster,
    processes: [Process; 2],
    /// What was proposed last, on which directory, and from which source.
    proposed: Option<(StageCommit, Parts)>,
    /// Who said yes to a stage of a plan: on the team's forge, and by commits.
    on_forge: BTreeMap<(PlanDigest, StageId), BTreeSet<String>>,
    by_commit: BTreeMap<(PlanDigest, StageId), BTreeSet<String>>,
    /// What somebody wants of a stage instead of what is rendered.
    edit: Option<(StageName, u32)>,
    /// The oldest policy that counts, as whoever runs the program says.
    trusted: usize,
    /// How much has happened since the last push.
    quiet: u32,
    pub told: Vec<String>,
    /// What happened that must not.
    pub violation: Option<String>,
    ids: u64,
}

/// Everything that a decision is made on.
struct Decided {
    world: World,
    policies: Vec<Arc<Policy>>,
    befores: Befores,
}

impl Play {
    pub fn new(seed: u64, focus: Focus, random: &mut Random) -> Self {
        let policy = StagePolicy {
            soak: Duration::from_secs(5),
            timeout: Duration::from_secs(1_000_000),
            ..StagePolicy::default()
        };
        let cluster = ModelCluster {
            shape: ClusterShape {
                name: "mgmt".parse().unwrap(),
                namespace: "eksa-system".to_owned(),
                kubernetes_version: "v1.34.0".to_owned(),
                control_plane_replicas: 1,
                worker_groups: Vec::new(),
                etcd: Etcd::Stacked,
                strategy: MachineStrategy::Rolling,
            },
            role: ClusterRole::Management,
            components: STAGES.to_vec(),
            policy,
            after: Vec::new(),
            flux_waits: false,
            rendered: None,
        };
        let parts: Parts = cluster.stages().into_iter().map(|stage| (stage, 41)).collect();
        let now: Timestamp = "2026-01-05T09:00:00Z".parse().unwrap();
        let mut simulated = SimulatedCluster::new(&cluster.shape, seed, now);
        let first: CommitId = format!("{:040x}", 1).parse().unwrap();
        simulated.install(&DeployedCommit { id: first.clone(), stage: None, desired: cluster.desired(&parts) }, now);
        let knobs = Knobs::first(focus, random);
        let source: CommitId = format!("{:040x}", 2).parse().unwrap();
        let sources =
            vec![Source { id: source.clone(), wanted: parts.clone(), policy: knobs.policy(), author: None, at: now }];
        let adopted = plan(cluster.plan_input(&source, &parts, &parts, None));
        let ledger = Ledger {
            format: LedgerFormat::default(),
            cluster: cluster.name().clone(),
            rollout: adopted.rollout_id,
            plan: adopted.digest,
            source,
            base: tree_digest(&parts),
            target: tree_digest(&parts),
            tree: tree_digest(&parts),
            state: LedgerState::Done,
            started_at: now,
            finished_at: Some(now),
            before: None,
            identity: None,
            stages: Vec::new(),
            approvals: Vec::new(),
            retries: Vec::new(),
            edits: Vec::new(),
            rollback: None,
            chain: None,
            as_declared: Vec::new(),
            way_back: None,
            durations: rollout::PastDurations::default(),
            verified: None,
            components: BTreeMap::new(),
        };
        let commit = DeployCommit { id: first, committed_at: now, landing: rollout::Landing::Pushed, trailer: None };
        Self {
            cluster,
            focus,
            first: knobs,
            knobs,
            now: now + SignedDuration::from_secs(10),
            sources,
            head: vec![commit].into(),
            states: vec![Deployed { parts, ledger, owner: "alice", is_own: true }],
            simulated,
            processes: [Process::default(), Process::default()],
            proposed: None,
            on_forge: BTreeMap::new(),
            by_commit: BTreeMap::new(),
            edit: None,
            trusted: 0,
            quiet: 0,
            told: vec![knobs.text()],
            violation: None,
            ids: 2,
        }
    }

    fn id(&mut self) -> CommitId {
        self.ids += 1;
        format!("{:040x}", self.ids).parse().unwrap()
    }

    /// One thing happens.
    pub fn happen(&mut self, random: &mut Random) {
        match random.below(64) {
            0 => self.push(random),
            // What is pushed is worked on for a while.
            1..=2 if self.quiet > 24 => self.push(random),
            3..=7 => self.say(random, true),
            8..=11 => self.say(random, false),
            13 => {
                let owner = if random.chance(1, 2) { "alice" } else { "mallory" };
                let id = self.id();
                let state = Deployed { owner, is_own: false, ..self.states.last().unwrap().clone() };
                let landing = rollout::Landing::Pushed;
                self.head.push(DeployCommit { id, committed_at: self.now, landing, trailer: None });
                self.states.push(state);
                self.told.push(format!("CODEOWNERS names {owner}"));
            }
            14 => {
                let stage = random.choose(&STAGES).cloned().unwrap();
                self.told.push(format!("bob edited what is proposed of {stage}"));
                self.edit = Some((stage, EDITED + u32::try_from(random.below(3)).unwrap()));
            }
            15 => self.merge_by_hand(),
            16 => self.processes[usize::from(random.chance(1, 2))] = Process::default(),
            17 => self.now += SignedDuration::from_secs(40),
            18..=19 if self.quiet > 16 => {
                self.trusted = self.sources.len() - 1;
                self.told.push(format!("whoever runs it trusts {}", self.sources[self.trusted].id));
            }
            _ => self.work(usize::from(random.chance(1, 6))),
        }
        self.quiet += 1;
    }

    /// Somebody pushes another target, another policy, or both at once.
    fn push(&mut self, random: &mut Random) {
        let mut wanted = self.sources.last().unwrap().wanted.clone();
        if random.chance(2, 3) {
            let stage = random.choose(&STAGES).cloned().unwrap();
            wanted.insert(stage, 40 + u32::try_from(random.below(4)).unwrap());
        }
        let before = self.knobs;
        self.quiet = 0;
        for _ in 0..random.below(3) {
            // As often as not what was changed is put back.
            self.knobs = if random.chance(2, 5) {
                self.knobs.nearer(self.first, random)
            } else {
                self.knobs.turned(self.focus, random)
            };
        }
        let changes = wanted != self.sources.last().unwrap().wanted;
        let who = if random.chance(1, 2) { "mallory@x.org" } else { "bob@x.org" };
        let (new, old) = (self.knobs.text(), before.text());
        let of = |text: &str, other: &str| -> Vec<String> {
            text.lines().filter(|line| !other.contains(line)).map(str::to_owned).collect()
        };
        let id = self.id();
        self.told.push(format!(
            "{who} pushes {id}: {wanted:?} {:?} in the place of {:?}",
            of(&new, &old),
            of(&old, &new)
        ));
        let author = changes.then_some(who);
        self.sources.push(Source { id, wanted, policy: self.knobs.policy(), author, at: self.now });
    }

    /// Somebody says yes to what would be committed next: on the forge under their own name, by a commit under any.
    fn say(&mut self, random: &mut Random, on_forge: bool) {
        let seen = Seen {
            source: self.sources.len() - 1,
            length: self.states.len(),
            observation: Observation::empty(self.now),
        };
        let plan = self.decided(&seen).world.plan;
        let Some(next) = plan.next_stage() else { return };
        let key = (plan.digest.clone(), next.stage.clone());
        let names: &[&str] = random.choose(&[&["alice", "bob"][..], &["alice"], &["mallory"]]).unwrap();
        for name in names {
            let (said, name) = if on_forge {
                (&mut self.on_forge, (*name).to_owned())
            } else {
                (&mut self.by_commit, format!("{name}@x.org"))
            };
            self.told.push(format!("{name} says yes to {} of {}", key.1, key.0));
            said.entry(key.clone()).or_default().insert(name);
        }
    }

    /// A process reads, or decides on what it has read before and carries that out.
    fn work(&mut self, which: usize) {
        let Some(seen) = self.processes[which].seen.take() else {
            self.now += SignedDuration::from_secs(6);
            let observation = self.simulated.observe_afresh(self.now);
            let (source, length) = (self.sources.len() - 1, self.states.len());
            self.processes[which].seen = Some(Seen { source, length, observation });
            return;
        };
        let Decided { mut world, policies, befores } = self.decided(&seen);
        let policies: Vec<&Policy> = policies.iter().map(Arc::as_ref).collect();
        let newest = Arc::clone(&self.sources[seen.source].policy);
        if befores.applies_directly(&newest) && !apply_directly(&policies) {
            self.violation = Some("it is applied by Stepgate, and a policy does not say so".to_owned());
        }
        let (forces, restarts) =
            (befores.allows_forced_update(&newest, "mgmt"), befores.restarts_fargate(&newest, "mgmt"));
        let goes_back = befores.allows_minor_rollback(&newest, "mgmt");
        if policies.iter().any(|policy| {
            (forces && !policy.allow_forced_update)
                || (restarts && !policy.restart_fargate)
                || (goes_back && !policy.allow_minor_rollback)
        }) {
            self.violation = Some("EKS is asked for more than a policy says".to_owned());
        }
        let exceeds = |rule: &policy::ForceDrain, policy: &Policy| {
            let lets = |known: &policy::ForceDrain| {
                known.group == rule.group && rule.after >= known.after && rule.pods <= known.pods
            };
            !policy.force_drain("mgmt").iter().any(lets)
        };
        let forced = befores.force_drain(&newest, "mgmt");
        if policies.iter().any(|policy| forced.iter().any(|rule| exceeds(rule, policy))) {
            self.violation = Some("pods are forced, and a policy does not say so".to_owned());
        }
        let notes: Vec<_> = befores.notes(&newest).into_iter().cloned().collect();
        let plans = std::iter::once(&world.plan).chain(&world.running);
        if let Some(why) = { plans }.find_map(|plan| lowered(&policies, plan, &notes)) {
            self.violation = Some(format!("a policy does not judge it so: {why}"));
        }
        world.history = std::mem::take(&mut self.processes[which].history);
        world.history = record(&world, self.now);
        self.processes[which].history = world.history.clone();
        for effect in step(&world, self.now) {
            // The branch moves by compare-and-swap.
            let is_head = self.states.len() == seen.length;
            match effect {
                Effect::Backup { rollout, .. } => self.simulated.back_up(&rollout, self.now),
                Effect::Commit(commit) if is_head => self.commit(&seen, &policies, &newest, commit, None),
                Effect::Revert(commit) if is_head => {
                    let version = self.version_of(&commit);
                    self.judge(&seen, &policies, &newest, Some(&commit), true);
                    self.told.push(format!("process {which} takes back {}", commit.stage));
                    self.land(commit.stage.clone(), version, commit.ledger, rollout::Landing::Pushed, commit.rollout);
                }
                Effect::Close(close) if is_head => {
                    self.judge(&seen, &policies, &newest, None, false);
                    let id = self.id();
                    let landing = rollout::Landing::Pushed;
                    self.head.push(DeployCommit { id, committed_at: self.now, landing, trailer: None });
                    let state = self.states.last().unwrap().clone();
                    self.states.push(Deployed { ledger: close.ledger, is_own: true, ..state });
                    self.told.push("closes the rollout".to_owned());
                }
                Effect::RequestApproval(request) => {
                    let key = (request.commit.plan.clone(), request.commit.stage.clone());
                    let said = |of: &BTreeMap<_, BTreeSet<String>>| of.get(&key).is_some_and(|names| !names.is_empty());
                    let fake = newest.forge.as_ref().is_some_and(|forge| !is_the_teams(forge));
                    let heard = match &newest.forge {
                        Some(_) => fake || said(&self.on_forge),
                        None => said(&self.by_commit),
                    };
                    self.proposed = Some((request.commit.clone(), self.states[seen.length - 1].parts.clone()));
                    if is_head && heard && request.missing.is_empty() && request.not_yet.is_none() {
                        self.commit(&seen, &policies, &newest, request.commit, Some("bob"));
                    }
                }
                Effect::Blocked { .. } => self.told.push(format!("process {which} is blocked")),
                Effect::Cluster(act) => self.simulated.act(&act, self.now),
                Effect::OrderMachines { changes } => self.simulated.order_machines(&changes, self.now),
                Effect::Commit(_)
                | Effect::Etcd(_)
                | Effect::Revert(_)
                | Effect::Close(_)
                | Effect::Observe { .. }
                | Effect::Wait { .. }
                | Effect::Hold { .. }
                | Effect::Done => {}
            }
        }
    }

    fn commit(&mut self, seen: &Seen, policies: &[&Policy], newest: &Policy, commit: StageCommit, by: Option<&str>) {
        self.judge(seen, policies, newest, Some(&commit), false);
        let version = self.version_of(&commit);
        let edited = if version >= EDITED { ", which bob edited" } else { "" };
        self.told.push(format!("{} lands in version {version}{edited}", commit.stage));
        let landing = match by {
            Some(by) => rollout::Landing::Merged(by.to_owned()),
            None => rollout::Landing::Pushed,
        };
        self.land(commit.stage.clone(), version, commit.ledger, landing, commit.rollout);
    }

    /// A person who may write the deploy branch merges what was proposed last, whatever has been pushed since.
    fn merge_by_hand(&mut self) {
        let Some((commit, on)) = self.proposed.take() else { return };
        let state = self.states.last().unwrap();
        if state.parts != on || state.ledger.last_record(&commit.stage) == commit.ledger.last_record(&commit.stage) {
            return;
        }
        let version = self.version_of(&commit);
        self.told.push(format!("bob merges {} in version {version} by hand", commit.stage));
        let landing = rollout::Landing::Merged("bob".to_owned());
        self.land(commit.stage.clone(), version, commit.ledger, landing, commit.rollout);
    }

    fn land(
        &mut self,
        stage: StageId,
        version: u32,
        ledger: Ledger,
        landing: rollout::Landing,
        rollout: domain::RolloutId,
    ) {
        let id = self.id();
        let mut parts = self.states.last().unwrap().parts.clone();
        parts.insert(stage.name.clone(), version);
        let desired = self.cluster.desired(&parts);
        self.simulated.commit(&DeployedCommit { id: id.clone(), stage: Some(stage.name.clone()), desired }, self.now);
        let trailer = StageTrailer { cluster: self.cluster.name().clone(), rollout, stage };
        self.head.push(DeployCommit { id, committed_at: self.now, landing, trailer: Some(trailer.into()) });
        let ledger = ledger.with_tree(tree_digest(&parts));
        let owner = self.states.last().unwrap().owner;
        self.states.push(Deployed { parts, ledger, owner, is_own: true });
    }

    fn version_of(&self, commit: &StageCommit) -> u32 {
        let name = &commit.stage.name;
        let is_it = |version: &u32| {
            simulator::model::part_digest(&Parts::from([(name.clone(), *version)]), name) == commit.after
        };
        (40..45).chain(EDITED..EDITED + 3).find(is_it).unwrap()
    }

    /// Whether each policy that counts lets this land.
    fn judge(
        &mut self,
        seen: &Seen,
        policies: &[&Policy],
        newest: &Policy,
        commit: Option<&StageCommit>,
        takes_back: bool,
    ) {
        let none = BTreeSet::new();
        let key = commit.map(|commit| (commit.plan.clone(), commit.stage.clone()));
        let said = |of: &'_ BTreeMap<(PlanDigest, StageId), BTreeSet<String>>| {
            key.as_ref().and_then(|key| of.get(key)).unwrap_or(&none).clone()
        };
        let (on_forge, by_commit, authors) = (said(&self.on_forge), said(&self.by_commit), self.authors(seen));
        let version = commit.filter(|_| !takes_back).map(|commit| self.version_of(commit));
        let before = commit.map(|commit| self.states.last().unwrap().parts[&commit.stage.name]);
        let landing = Landing {
            stage: commit.map(|commit| &commit.stage),
            at: self.now,
            under: newest,
            host: version.and_then(host),
            is_signed: version.is_none_or(is_signed),
            goes_down: version.zip(before).is_some_and(|(after, before)| after < before),
            is_edited: version.is_some_and(|version| version >= EDITED),
            takes_back,
            on_forge: &on_forge,
            by_commit: &by_commit,
            authors: &authors,
            owners: self.owners(seen.length),
        };
        if let Some(why) = objection(policies, &landing) {
            let what = commit.map_or_else(|| "the end".to_owned(), |commit| commit.stage.to_string());
            self.violation.get_or_insert(format!("{what} lands, and {why}"));
        }
    }
}

/// Whether the manifest of a version is signed. What people edit is no manifest of a release.
fn is_signed(version: u32) -> bool {
    version >= EDITED || version.is_multiple_of(2)
}

/// The host that the manifest of a version comes from.
fn host(version: u32) -> Option<&'static str> {
    match version {
        EDITED.. => None,
        43.. => Some("b.example.com"),
        _ => Some("a.example.com"),
    }
}
