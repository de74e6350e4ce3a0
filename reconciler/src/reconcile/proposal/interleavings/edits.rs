//! What people change on a proposed branch, and what the parts that decide about it make of that. A version of a stage is one file here.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::CommitId;
use overlays::{ComponentName, RenderedTree};
use rollout::{ApprovalRequest, Ledger, Plan, StageCommit, StageId, StageName, plan};
use simulator::model::{Parts, part_digest};

use super::scene::{Deployed, Proposed, Scene, branch_of};
use crate::reconcile::clusters::directory::path;
use crate::reconcile::proposal::edited::Edited;
use crate::reconcile::proposal::provenance::records;
use approvals::take_up::{EditedFile, keep_proposed, take_up};
use planning::edits::{self, Edit};
use planning::stage_tree::StageTree;
use planning::{ClusterDirectory, DeployedLedger};

/// A version that nobody may have: the file holds another object.
pub const BY_HAND: u32 = 99;

/// Versions from here on are never rendered: they are what people want instead.
pub const EDITED: u32 = 1_000;

const STAGES: [(StageName, ComponentName); 2] =
    [(StageName::CertManager, ComponentName::CertManager), (StageName::Cilium, ComponentName::Cilium)];

/// What a proposed commit holds of its stage.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// What its ledger says.
    pub recorded: u32,
    /// What its files are.
    pub version: u32,
}

/// A plan with what people changed and may change.
pub struct Considered {
    pub plan: Plan,
    pub edited: Option<Edited>,
    /// The branch that has edits which are not proposed yet.
    pub takes_up_from: Option<String>,
}

impl Proposed {
    /// Whether people changed it.
    pub fn is_edited(&self) -> bool {
        self.words.last().is_some_and(|(_, version)| *version != self.content.version)
    }

    /// Whether it is the commit that would be made now.
    pub fn is_ours(&self, request: &ApprovalRequest, deployed: Option<&Ledger>, plan: &Plan) -> bool {
        let (before, after) = (&request.commit.before, &request.commit.after);
        let digest =
            |version| part_digest(&Parts::from([(self.commit.stage.name.clone(), version)]), &self.commit.stage.name);
        records(&self.commit.ledger, deployed, plan, (&request.commit.stage, before, after))
            && [self.content.recorded, self.content.version].into_iter().all(|version| digest(version) == *after)
    }
}

impl Scene {
    /// The plan of a source commit with the edits that are deployed and these.
    pub fn edited_plan(&self, source: usize, state: &Deployed, proposed: &[Edit]) -> Plan {
        let (id, wanted, _) = &self.sources[source];
        let (mut wanted, mut accepted) = (wanted.clone(), Vec::new());
        let is_edited = state.ledger.as_ref().is_some_and(|ledger| !ledger.edits.is_empty());
        if is_edited || !proposed.is_empty() {
            let mut parts = STAGES.map(|stage| self.part(source, state, stage));
            let mut files = RenderedTree::new();
            for part in &parts {
                files.files.extend(part.before.files.clone());
            }
            let mut edits = edits_of(state.ledger.as_ref(), files);
            edits.extend(proposed.iter().cloned());
            accepted = edits::apply(&mut parts, &edits);
            wanted.extend(parts.iter().map(|part| (part.stage.name.clone(), version(&part.after))));
        }
        let input = self.cluster.plan_input(id, &state.parts, &wanted, state.ledger.clone());
        Plan { edits: accepted, ..plan(input) }
    }

    fn part(&self, source: usize, state: &Deployed, (name, component): (StageName, ComponentName)) -> StageTree {
        let (before, after) = (state.parts[&name], self.sources[source].1[&name]);
        StageTree {
            before: tree(&name, before),
            after: tree(&name, after),
            ..StageTree::unchanged(StageId::last(name), component, RenderedTree::new())
        }
    }

    /// The plan as a controller sees it that looks at these branches.
    pub fn considered(&self, source: usize, state: &Deployed, branches: &BTreeMap<String, CommitId>) -> Considered {
        let plan = self.edited_plan(source, state, &[]);
        let none = |plan| Considered { plan, edited: None, takes_up_from: None };
        let Some(stage) = plan.next_stage() else { return none(plan) };
        let (branch, name) = (branch_of(&stage.stage.name), stage.stage.name.clone());
        let Some(proposed) = branches.get(&branch).and_then(|head| self.objects.get(head)) else { return none(plan) };
        let has_edits = stage.policy.accept_edits && !proposed.commit.ledger.edits.is_empty();
        let place = STAGES.into_iter().find(|(known, _)| *known == name).filter(|_| proposed.is_edited() || has_edits);
        let Some(mut part) = place.map(|place| self.part(source, state, place)) else { return none(plan) };
        // What is deployed already is part of the plan.
        let deployed = edits_of(state.ledger.as_ref(), part.before.clone());
        edits::apply(std::slice::from_mut(&mut part), &deployed);
        let mut known = Vec::new();
        if stage.policy.accept_edits {
            known = edits_of(Some(&proposed.commit.ledger), tree(&name, proposed.content.version));
            keep_proposed(&mut known, &plan, stage, &part);
        }
        let edited = proposed.is_edited().then(|| {
            let mut by: Vec<String> = proposed.words.iter().rev().map(|(who, _)| who.clone()).collect();
            by.dedup();
            let wanted = proposed.words.last().map_or(proposed.content.version, |(_, version)| *version);
            let bytes = |version| Some(Arc::from(text(version).into_bytes()));
            let (is, was) = (bytes(wanted), bytes(proposed.content.version));
            let file = EditedFile { path: file(&name), is_inside: true, before: was, after: is, by };
            match take_up(&self.name(), stage, &part, &[file], &mut known) {
                None => Edited::TakenUp,
                Some(reason) => Edited::Refused(reason),
            }
        });
        if known.is_empty() && edited != Some(Edited::TakenUp) {
            return Considered { edited, ..none(plan) };
        }
        let plan = self.edited_plan(source, state, &known);
        let waits = edited == Some(Edited::TakenUp) && proposed.commit.plan != plan.digest;
        Considered { plan, takes_up_from: waits.then_some(branch), edited }
    }

    /// The version of its stage that a commit leads to.
    pub fn version_of(&self, commit: &StageCommit) -> u32 {
        let name = &commit.stage.name;
        let mut versions = (40..50).chain([BY_HAND]).chain(EDITED..EDITED + 10);
        versions.find(|version| part_digest(&Parts::from([(name.clone(), *version)]), name) == commit.after).unwrap()
    }

    /// A plan's digest stands for one tree: whoever approves it approves that.
    pub fn fix_trees<'a>(&mut self, plans: impl Iterator<Item = &'a Plan>) {
        for plan in plans {
            let after = plan.stages.iter().filter_map(|stage| Some((stage.stage.name.clone(), stage.after.clone()?)));
            let known = self.trees.entry(plan.digest.clone()).or_default();
            for (stage, after) in after.filter(|(stage, _)| STAGES.iter().any(|(name, _)| name == stage)) {
                let fixed = known.entry(stage.clone()).or_insert_with(|| after.clone());
                assert_eq!(*fixed, after, "plan {} of {stage} has two trees", plan.digest);
            }
        }
    }

    /// What Stepgate merges is what the plan says whose approvals are counted.
    pub fn assert_is_of_plan(&self, head: &CommitId) {
        let Proposed { commit, content, .. } = &self.objects[head];
        let name = &commit.stage.name;
        let digest = part_digest(&Parts::from([(name.clone(), content.version)]), name);
        let known = self.trees.get(&commit.plan).and_then(|trees| trees.get(name));
        assert_eq!(known, Some(&digest), "{head} is not what plan {} says\n{}", commit.plan, self.context(0));
    }

    /// What people changed and may change is not lost when it is proposed anew.
    pub fn assert_kept(&self, considered: &Considered, branch: &String, request: &ApprovalRequest, version: u32) {
        let is_asked = request.commit.plan == considered.plan.digest;
        if considered.takes_up_from.as_ref() == Some(branch) && is_asked {
            let head = &self.branches[branch];
            let wanted = self.objects[head].words.last().map(|(_, version)| *version);
            assert_eq!(wanted, Some(version), "what people changed of {branch} is lost\n{}", self.context(0));
        }
    }

    /// No edit stays that nobody approved.
    pub fn assert_edits_approved(&self) {
        let Deployed { parts, ledger } = self.deployed();
        for (stage, version) in parts.iter().filter(|(_, version)| **version >= BY_HAND) {
            let edits = ledger.iter().flat_map(|ledger| &ledger.edits);
            let edit = edits.into_iter().find(|edit| edit.stage.name == *stage);
            let plan = self.landed_by.get(&(stage.clone(), *version));
            let known = plan.map_or(0, |plan| self.approvers(plan, &branch_of(stage)));
            assert!(
                edit.is_some() && known >= self.needed as usize,
                "version {version} of {stage} stays, {known} approved it\n{}",
                self.context(0)
            );
        }
    }
}

/// The edits of a ledger that are in these files.
fn edits_of(ledger: Option<&Ledger>, files: RenderedTree) -> Vec<Edit> {
    let ledger = ledger.cloned().map_or(DeployedLedger::Absent, |ledger| DeployedLedger::Read(Arc::new(ledger)));
    edits::of_directory(&ClusterDirectory { files, ledger, ..ClusterDirectory::absent() })
}

/// The file of a stage.
pub fn file(stage: &StageName) -> String {
    let component = STAGES.iter().find(|(name, _)| name == stage).map(|(_, component)| component.directory());
    format!("clusters/mgmt/{}/manifests.yaml", component.unwrap())
}

pub fn text(version: u32) -> String {
    let object = |kind: &str| {
        format!("apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{replicas: {version}}}\n")
    };
    match version {
        BY_HAND => format!("{}---\n{}", object("Deployment"), object("DaemonSet")),
        _ => object("Deployment"),
    }
}

fn tree(stage: &StageName, version: u32) -> RenderedTree {
    let mut tree = RenderedTree::new();
    tree.insert(path(&file(stage)).unwrap(), text(version).into_bytes());
    tree
}

fn version(tree: &RenderedTree) -> u32 {
    let text = String::from_utf8(tree.files.values().next().unwrap().to_vec()).unwrap();
    text.rsplit_once("replicas: ").unwrap().1.trim_end_matches(['}', '\n']).parse().unwrap()
}
