//! A small laboratory: stages that are one Deployment each, a Flux that applies at once, and a controller that carries out effects.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{record, step};
use crate::approval::{ApprovalFacts, ApprovalRecord, ApprovalState, People};
use crate::change::{ChangeClass, ComponentChange};
use crate::deploy::{DeployCommit, DeployHead, Landing, StageTrailer};
use crate::effect::{Effect, StageCommit};
use crate::expectation::{ChecksExpectation, Expectation};
use crate::history::GateHistory;
use crate::identity::Identification;
use crate::ledger::{Ledger, LedgerState};
use crate::observation::{
    Artifacts, BackupFailure, BackupReport, Condition, ConditionStatus, Deployment, FluxKustomization, Inspection,
    Node, Observation, RunningImage, SidecarReading, SourceKind, Survey, conditions,
};
use crate::plan::{Block, ClusterRole, Plan, PlanInput, SkewFacts, StageInput, VersionStep, plan};
use crate::stage::{StageId, StageName};
use crate::wave::WaveHold;
use crate::world::{ForeignChange, Pause, Prerequisite, World};
use domain::{CommitId, TreeDigest};
use policy::{GivenApproval, Means, PlanPolicy, StagePolicy};

/// Where a stage is and where it is to go: `(stage, deployed version, target version)`.
pub(crate) type Stage = (&'static str, u8, u8);

pub(crate) struct RolloutHarness {
    pub(crate) now: Timestamp,
    /// Which cluster answers.
    pub(crate) identity: Identification,
    pub(crate) source: u8,
    pub(crate) stages: Vec<Stage>,
    /// Stages as of earlier sources, for the plan of a running rollout.
    pub(crate) sources: Vec<Vec<(&'static str, u8)>>,
    pub(crate) policy: StagePolicy,
    pub(crate) one_way: bool,
    /// Whether one field moves `etcd` and `control-plane`, or one commit `addons` and all that comes after.
    pub(crate) one_field: bool,
    pub(crate) deploy: DeployHead,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) history: GateHistory,
    pub(crate) observation: Option<Observation>,
    pub(crate) approvals: Vec<ApprovalRecord>,
    pub(crate) people: People,
    /// The commit that people were asked about last.
    pub(crate) proposed: Option<StageCommit>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) backup: Option<BackupReport>,
    pub(crate) backup_failure: Option<BackupFailure>,
    /// Stages whose Deployment does not become available at this version.
    pub(crate) broken: Vec<(&'static str, u8)>,
    /// Stages that Flux refuses at this version: why, in its words.
    pub(crate) refused: Vec<(&'static str, u8, &'static str, &'static str)>,
    pub(crate) paused: Option<Pause>,
    pub(crate) unconfirmed: Vec<Block>,
    pub(crate) foreign_change: Option<ForeignChange>,
    pub(crate) prerequisites: Vec<Prerequisite>,
    pub(crate) wave: Option<WaveHold>,
    pub(crate) log: Vec<String>,
}

pub(crate) fn digest_of(stage: &str, version: u8) -> TreeDigest {
    TreeDigest::of([stage.as_bytes(), &[version]])
}

pub(crate) fn image(stage: &str, version: u8) -> String {
    format!("registry.example/{stage}:v{version}@sha256:{}", format!("{version:x}").repeat(64))
}

pub(crate) fn expectations(stage: &str, version: u8) -> Vec<Expectation> {
    vec![
        Expectation::Flux { namespace: "flux-system".into(), kustomizations: vec![stage.into()] },
        Expectation::Deployment { namespace: "system".into(), name: stage.into(), images: vec![image(stage, version)] },
    ]
}

impl RolloutHarness {
    pub(crate) fn new(stages: &[Stage]) -> Self {
        let policy =
            StagePolicy { soak: Duration::from_secs(10), timeout: Duration::from_secs(600), ..StagePolicy::default() };
        Self {
            now: Timestamp::from_second(1_000_000).unwrap(),
            source: 0,
            stages: stages.to_vec(),
            sources: vec![stages.iter().map(|(stage, _, target)| (*stage, *target)).collect()],
            policy,
            one_way: false,
            one_field: false,
            deploy: DeployHead::default(),
            ledger: None,
            history: GateHistory::default(),
            observation: None,
            approvals: Vec::new(),
            people: People::default(),
            proposed: None,
            nodes: Vec::new(),
            backup: None,
            identity: Identification::without_server("laboratory"),
            backup_failure: None,
            broken: Vec::new(),
            refused: Vec::new(),
            paused: None,
            unconfirmed: Vec::new(),
            foreign_change: None,
            prerequisites: Vec::new(),
            wave: None,
            log: Vec::new(),
        }
    }

    /// A new target for some stages.
    pub(crate) fn push(&mut self, targets: &[(&'static str, u8)]) {
        for (stage, version) in targets {
            self.stages.iter_mut().find(|(name, _, _)| name == stage).unwrap().2 = *version;
        }
        self.source += 1;
        self.sources.push(self.stages.iter().map(|(stage, _, target)| (*stage, *target)).collect());
    }

    pub(crate) fn source_commit(source: u8) -> CommitId {
        format!("{source:040x}").parse().unwrap()
    }

    pub(crate) fn tree(stages: impl Iterator<Item = (&'static str, u8)>) -> TreeDigest {
        let text: Vec<String> = stages.map(|(stage, version)| format!("{stage}={version}")).collect();
        TreeDigest::of(text.iter().map(String::as_bytes))
    }

    pub(crate) fn deployed(&self) -> TreeDigest {
        Self::tree(self.stages.iter().map(|(stage, deployed, _)| (*stage, *deployed)))
    }

    pub(crate) fn plan_at(&self, source: u8) -> Plan {
        let targets = &self.sources[usize::from(source)];
        let differs = |name: &str| {
            let place = self.stages.iter().position(|(stage, _, _)| *stage == name);
            place.is_some_and(|place| self.stages[place].1 != targets[place].1)
        };
        let carried = |name: &str| self.carrier_of(name).filter(|carrier| differs(carrier));
        let stages = self.stages.iter().zip(targets).map(|((name, deployed, _), (_, target))| {
            let stage: StageId = name.parse().unwrap();
            StageInput {
                deployed: digest_of(name, if carried(name).is_some() { *target } else { *deployed }),
                target: digest_of(name, *target),
                carried_by: carried(name).map(|carrier| carrier.parse().unwrap()),
                changes: vec![ComponentChange {
                    component: (*name).to_owned(),
                    class: ChangeClass::Patch,
                    old_version: Some(deployed.to_string()),
                    new_version: Some(target.to_string()),
                    artifacts: Vec::new(),
                }],
                reasons: Vec::new(),
                risks: Vec::new(),
                one_way: if self.one_way { vec!["no way back".to_owned()] } else { Vec::new() },
                expectations: expectations(name, *target),
                deployed_expectations: expectations(name, *deployed),
                policy: self.policy.clone(),
                machines: 0,
                uncounted_machines: false,
                render_error: None,
                stage,
            }
        });
        let mut stages: Vec<StageInput> = stages.collect();
        let without_commit = |name: StageName, expectations: Vec<Expectation>| StageInput {
            stage: name.into(),
            deployed: digest_of("", 0),
            target: digest_of("", 0),
            changes: Vec::new(),
            reasons: Vec::new(),
            risks: Vec::new(),
            one_way: Vec::new(),
            expectations,
            deployed_expectations: Vec::new(),
            policy: self.policy.clone(),
            machines: 0,
            uncounted_machines: false,
            render_error: None,
            carried_by: None,
        };
        stages.insert(
            0,
            without_commit(
                StageName::Preflight,
                vec![Expectation::ClusterHealthy { cluster: None }, Expectation::Checks(ChecksExpectation::default())],
            ),
        );
        stages.insert(
            1,
            without_commit(
                StageName::Backup,
                vec![Expectation::BackupTaken { maximum_age: Duration::from_secs(24 * 60 * 60) }],
            ),
        );
        let kubernetes = VersionStep { deployed: Some("1.30".into()), target: "1.30".into() };
        plan(PlanInput {
            cluster: "mgmt".parse().unwrap(),
            role: ClusterRole::Management,
            source: Self::source_commit(source),
            deployed: self.deployed(),
            target: Self::tree(targets.iter().copied()),
            stages,
            skew: SkewFacts { control_plane: Some(kubernetes), ..SkewFacts::default() },
            policy: PlanPolicy::default(),
            checks: ChecksExpectation::default(),
            blocked: Vec::new(),
            warnings: Vec::new(),
            ledger: self.ledger.clone(),
            rollback: None,
            eksctl: None,
            tanzu: None,
        })
    }

    /// The stage whose commit moves this one too.
    fn carrier_of(&self, name: &str) -> Option<&'static str> {
        let has_addons = self.stages.iter().any(|(known, ..)| *known == "addons");
        let (carrier, is_carried) =
            if has_addons { ("addons", name != "addons") } else { ("etcd", name == "control-plane") };
        (self.one_field && is_carried).then_some(carrier)
    }

    pub(crate) fn world(&self) -> World {
        let plan = self.plan_at(self.source);
        let running = self.ledger.as_ref().filter(|ledger| ledger.state == LedgerState::Running && !plan.running);
        let running = running.map(|ledger| {
            let source = (0..=self.source).rev().find(|source| Self::source_commit(*source) == ledger.source).unwrap();
            self.plan_at(source)
        });
        World {
            plan: Arc::new(plan),
            running: running.map(Arc::new),
            ledger: self.ledger.clone().map(Arc::new),
            deploy: Arc::new(self.deploy.clone()),
            observation: self.observation.clone().map(Arc::new),
            rest: None,
            history: self.history.clone(),
            paused: self.paused.clone(),
            unconfirmed: self.unconfirmed.clone(),
            foreign_change: self.foreign_change.clone(),
            prerequisites: self.prerequisites.clone(),
            wave: self.wave.clone(),
            approvals: self.approvals.clone(),
            people: self.people.clone(),
        }
    }

    /// What a cluster looks like in which Flux has applied the deploy head and everything that is not broken has come up.
    pub(crate) fn read(&self) -> Observation {
        let mut observation = Observation::empty(self.now);
        observation.identity = self.identity.clone();
        observation.survey = Some(Survey::default());
        observation.sidecars = Some(SidecarReading::default());
        observation.inspection = Some(Inspection::default());
        observation.nodes.clone_from(&self.nodes);
        let head = self.deploy.commit().cloned();
        for (name, deployed, _) in &self.stages {
            let healthy = !self.broken.contains(&(*name, *deployed));
            observation.flux.kustomizations.push(FluxKustomization {
                namespace: "flux-system".into(),
                name: (*name).into(),
                source: None,
                source_kind: SourceKind::default(),
                source_namespace: None,
                generation: 1,
                observed_generation: Some(1),
                suspended: false,
                reconcile_disabled: false,
                suspended_by: None,
                hold: None,
                ready: conditions([("Ready", ConditionStatus::True)]).remove("Ready"),
                last_applied_revision: head.clone(),
                last_attempted_revision: head.clone(),
                artifacts: Artifacts::default(),
                ready_since: None,
            });
            let refused = self.refused.iter().find(|(stage, version, ..)| (stage, version) == (name, deployed));
            if let (Some((_, _, reason, message)), Some(known)) = (refused, observation.flux.kustomizations.last_mut())
            {
                let ready = conditions([("Ready", ConditionStatus::False)]).remove("Ready");
                let (reason, message) = ((*reason).to_owned(), (*message).to_owned());
                known.ready = ready.map(|ready| Condition { reason, message, ..ready });
                known.last_applied_revision = None;
            }
            let reference = image(name, *deployed);
            let digest = reference.split_once('@').map(|(_, digest)| digest.to_owned());
            observation.deployments.push(Deployment {
                namespace: "system".into(),
                name: (*name).into(),
                generation: i64::from(*deployed),
                observed_generation: Some(i64::from(*deployed)),
                spec_replicas: 1,
                replicas: Some(1),
                updated_replicas: Some(1),
                ready_replicas: Some(u32::from(healthy)),
                available_replicas: Some(u32::from(healthy)),
                conditions: conditions([("Available", ConditionStatus::True)]),
                images: vec![reference.clone()],
                running: vec![RunningImage {
                    pod: format!("{name}-{deployed}"),
                    container: "manager".into(),
                    image: reference,
                    digest,
                    ready: healthy,
                    waiting: None,
                    deleting: false,
                }],
                ..Deployment::default()
            });
        }
        observation.backup.clone_from(&self.backup);
        observation.backup_failure.clone_from(&self.backup_failure);
        observation
    }

    /// Reads the cluster, decides, and carries out what was decided.
    pub(crate) fn turn(&mut self) -> Vec<Effect> {
        self.now += SignedDuration::from_secs(6);
        self.observation = Some(self.read());
        self.history = record(&self.world(), self.now);
        let world = self.world();
        let effects = step(&world, self.now);
        assert!(!effects.is_empty());
        assert_eq!(effects, step(&world, self.now), "deterministic");
        for effect in &effects {
            self.carry_out(effect);
        }
        effects
    }

    pub(crate) fn carry_out(&mut self, effect: &Effect) {
        match effect {
            Effect::Commit(commit) | Effect::Revert(commit) => {
                assert_eq!(commit.parent, self.deploy.commit().cloned());
                let name = commit.stage.to_string();
                let stage = self.stages.iter_mut().find(|(stage, _, _)| *stage == name).unwrap();
                assert_eq!(commit.before, digest_of(stage.0, stage.1));
                stage.1 = (0..=9).find(|version| digest_of(stage.0, *version) == commit.after).unwrap();
                let (moved, carrier) = (stage.1, stage.0);
                let names: Vec<&str> = self.stages.iter().map(|(name, ..)| *name).collect();
                let carried: Vec<&str> =
                    names.into_iter().filter(|name| self.carrier_of(name) == Some(carrier)).collect();
                for known in self.stages.iter_mut().filter(|(name, ..)| carried.contains(name)) {
                    known.1 = moved;
                }
                let stage = self.stages.iter().find(|(stage, _, _)| *stage == name).unwrap();
                let (word, version) = (if commit.undoes.is_some() { "revert" } else { "commit" }, stage.1);
                self.log.push(format!("{word} {name} {version}"));
                let trailer = StageTrailer {
                    cluster: commit.cluster.clone(),
                    rollout: commit.rollout.clone(),
                    stage: commit.stage.clone(),
                };
                self.append(Some(trailer));
                self.ledger = Some(commit.ledger.clone().with_tree(self.deployed()));
            }
            Effect::Close(close) => {
                self.log.push("close".to_owned());
                self.append(None);
                self.ledger = Some(close.ledger.clone());
            }
            Effect::Backup { rollout, .. } => {
                self.backup_failure = None;
                self.backup = Some(BackupReport {
                    rollout: rollout.clone(),
                    taken_at: self.now,
                    objects: 1,
                    read_back: true,
                    location: "backups/1".into(),
                });
            }
            Effect::RequestApproval(request) => {
                let known =
                    |record: &ApprovalRecord| record.scope == request.scope && record.plan == request.commit.plan;
                if !self.approvals.iter().any(known) {
                    self.log.push("ask".to_owned());
                    self.approvals.push(ApprovalRecord {
                        scope: request.scope.clone(),
                        plan: request.commit.plan.clone(),
                        state: ApprovalState::Pending,
                        by: None,
                        place: None,
                        facts: ApprovalFacts::default(),
                    });
                }
                self.proposed = Some(request.commit.clone());
            }
            Effect::OrderMachines { .. }
            | Effect::Observe { .. }
            | Effect::Etcd(_)
            | Effect::Cluster(_)
            | Effect::Wait { .. }
            | Effect::Hold { .. }
            | Effect::Blocked { .. }
            | Effect::Done => {}
        }
    }

    /// People merge what was proposed last.
    pub(crate) fn merge(&mut self) {
        let proposed = self.proposed.take().unwrap();
        self.carry_out(&Effect::Commit(proposed));
    }

    /// Somebody merges what was proposed last, and is the only one who is known to have approved it.
    pub(crate) fn merge_by(&mut self, who: &str) {
        let proposed = self.proposed.clone().unwrap();
        self.merge();
        let last = self.deploy.commits().len() - 1;
        self.deploy.tell(last, Landing::Merged(who.to_owned()), None);
        let approved = proposed.ledger.approvals.last().unwrap();
        let plan = proposed.plan.clone();
        let given = GivenApproval { who: who.parse().unwrap(), plan: plan.clone(), at: None, means: Means::Merge };
        self.people.landed.push(ApprovalRecord {
            scope: approved.scope.clone(),
            plan,
            state: ApprovalState::Approved,
            by: None,
            place: None,
            facts: ApprovalFacts { given: vec![given], ..ApprovalFacts::default() },
        });
    }

    /// Somebody approves what landed last.
    pub(crate) fn approve(&mut self, who: &str) {
        let facts = &mut self.people.landed.last_mut().unwrap().facts;
        let first = facts.given.first().unwrap().clone();
        facts.given.push(GivenApproval { who: who.parse().unwrap(), means: Means::Review, ..first });
    }

    pub(crate) fn append(&mut self, trailer: Option<StageTrailer>) {
        let id = format!("{:040x}", 0xc0ffee + self.deploy.commits().len()).parse().unwrap();
        self.deploy.push(DeployCommit {
            id,
            committed_at: self.now,
            landing: Landing::Pushed,
            trailer: trailer.map(Arc::new),
        });
    }

    pub(crate) fn turns(&mut self, count: usize) -> Vec<Effect> {
        (0..count).map(|_| self.turn()).last().unwrap()
    }

    pub(crate) fn until(&mut self, what: &str) {
        let mut effects = Vec::new();
        for _ in 0..500 {
            effects = self.turn();
            if self.log.last().is_some_and(|last| last == what) {
                return;
            }
        }
        panic!("{what} was not reached: {:?}, and at the end {effects:?}", self.log);
    }

    pub(crate) fn log(&self) -> Vec<&str> {
        self.log.iter().map(String::as_str).collect()
    }
}
