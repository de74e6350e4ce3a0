//! What a forge and a repository can be instead of ready, on a strict server that speaks as GitHub documents it: each is a named state, nothing
//! is lost by it, and nothing is there twice.

use std::path::PathBuf;

use axum::http::Method;
use forge::{ForgeAccess, ForgeCredential};
use git::Repository;
use jiff::SignedDuration;
use stepgate::reconcile::Controller;

use super::OVERLAY;
use super::hub::{Fate, Server};
use crate::approvals::{Git, Merge};
use crate::fleet::{Fleet, assert_no_stage_twice, outcome, told};

const BRANCH: &str = "stepgate/fleet/cert-manager";

struct Scene {
    server: Server,
    fleet: Fleet,
    controller: Controller,
}

impl Scene {
    /// A fleet in which one stage of one cluster is to be asked for.
    async fn start() -> Self {
        Self::ahead(SignedDuration::ZERO).await
    }

    /// The same, where our clock is ahead of everybody else's.
    async fn ahead(ahead: SignedDuration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bare: PathBuf = folder.path().join("fleet.git");
        let repository = Repository::create(&bare, &"main".parse().unwrap()).unwrap();
        let server = Server::start(&bare).await;
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "CANARY-token\n").unwrap();
        let access =
            ForgeAccess { credential: Some(ForgeCredential::Token(token_file)), hosts: vec!["127.0.0.1".to_owned()] };
        let url = server.url.clone();
        let start = "2026-01-05T09:00:00Z".parse::<jiff::Timestamp>().unwrap() + ahead;
        let fleet = Fleet::on(folder, repository, start, access, |policy| {
            format!("{policy}approval: stage\nforge: {{kind: github, url: '{url}', repository: platform/fleet}}\n")
        });
        let controller = fleet.controller();
        fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "class-a"));
        Self { server, fleet, controller }
    }

    /// It is said what is in the way, and how it helps, and what is proposed is there for git.
    #[track_caller]
    fn says(&self, wanted: &[&str]) {
        let before = self.fleet.head();
        let pass = self.fleet.run_until(&self.controller, |pass| outcome(pass, "mgmt").message().contains(wanted[0]));
        let message = outcome(&pass, "mgmt").message();
        for wanted in wanted {
            assert!(message.contains(wanted), "{wanted} is not in {}", told(&pass));
        }
        assert!(!told(&pass).contains("CANARY"), "{}", told(&pass));
        assert_eq!(self.fleet.head(), before, "something landed");
        assert_eq!(Git::of(&self.fleet).proposed().len(), 1, "{}", told(&pass));
    }

    /// The forge is itself again: one pull request is there, and its merge ends the rollout.
    #[track_caller]
    fn recovers(&self) {
        self.server.fates(|_, _| Fate::Answered);
        let asks = "waits for approval: https://github.example.com";
        self.fleet.run_until(&self.controller, |pass| outcome(pass, "mgmt").message().contains(asks));
        assert_eq!(self.server.hub().pulls.len(), 1);
        let git = Git::of(&self.fleet);
        let (branch, head) = git.proposed().remove(0);
        git.merge(head, Merge::Commit, self.fleet.clock_now());
        self.server.merged(&branch, "alice", self.fleet.clock_now());
        self.fleet.run_to_the_end(&self.controller);
        assert_eq!(self.fleet.stages("mgmt"), ["cert-manager", "verify"]);
        let ledger = self.fleet.deployed("clusters/mgmt/rollout.yaml").unwrap();
        assert!(ledger.contains("by: alice (https"), "{ledger}");
        assert_no_stage_twice(&self.fleet);
        assert_eq!(self.server.hub().wrong, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_repository_is_named() {
    let scene = Scene::start().await;
    scene.server.fates(|_, _| Fate::Refused(301, "Moved Permanently"));
    let to = "the repository has moved to https://github.example.com/platform/renamed";
    scene.says(&[to, "waits for approval: branch stepgate/", "change forge.url and forge.repository"]);
    assert!(scene.server.hub().pulls.is_empty());
    scene.recovers();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_repository_is_named() {
    let scene = Scene::start().await;
    let archived = "Repository was archived so is read-only.";
    scene
        .server
        .fates(move |method, _| if method == Method::GET { Fate::Answered } else { Fate::Refused(403, archived) });
    scene.says(&["the forge refused (403 Repository was archived", "archived, pull requests off, or a rule"]);
    assert!(scene.server.hub().pulls.is_empty());
    scene.recovers();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_only_read_is_named() {
    let scene = Scene::start().await;
    let scope = "Resource not accessible by personal access token; needs pull_requests=write";
    scene.server.fates(move |method, _| if method == Method::GET { Fate::Answered } else { Fate::Refused(403, scope) });
    scene.says(&["needs pull_requests=write", "give the token the scopes that the forge names"]);
    scene.recovers();
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_are_no_answers() {
    let scene = Scene::start().await;
    scene.server.fates(|_, _| Fate::Page);
    scene.says(&["the answer is not what a forge says (it is a web page)", "what stands before the forge"]);
    // The search is answered, and what is sent is not.
    scene.server.fates(|method, _| if method == Method::GET { Fate::Answered } else { Fate::Page });
    scene.says(&["could not open a pull request for", "it is a web page"]);
    assert!(scene.server.hub().pulls.is_empty());
    scene.recovers();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_opened_without_an_answer_is_found() {
    let scene = Scene::start().await;
    // The time-out of a request is waited for once: 20 s.
    scene
        .server
        .fates(|method, path| if method == Method::POST && path == "pulls" { Fate::Hangs } else { Fate::Answered });
    scene.fleet.run_until(&scene.controller, |_| !scene.server.hub().pulls.is_empty());
    scene.recovers();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_too_long_for_the_forge_is_named() {
    let scene = Scene::start().await;
    let long = "Validation Failed: body is too long";
    scene.server.fates(move |method, path| {
        if method == Method::POST && path == "pulls" { Fate::Refused(422, long) } else { Fate::Answered }
    });
    scene.says(&["the forge refused (422 Validation Failed: body is too long"]);
    scene.recovers();
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_differ_lose_nothing() {
    for hours in [-5, 5] {
        let scene = Scene::ahead(SignedDuration::from_hours(hours)).await;
        scene.server.fates(|_, _| Fate::Answered);
        let asks = "waits for approval: https://github.example.com";
        let fleet = &scene.fleet;
        fleet.run_until(&scene.controller, |pass| outcome(pass, "mgmt").message().contains(asks));
        let git = Git::of(fleet);
        let (branch, head) = git.proposed().remove(0);
        // Whoever merges and the forge go by the other clock.
        let theirs = fleet.clock_now() - SignedDuration::from_hours(hours);
        git.merge(head, Merge::Commit, theirs);
        scene.server.merged(&branch, "alice", theirs);
        fleet.run_to_the_end(&scene.controller);
        assert_eq!(fleet.stages("mgmt"), ["cert-manager", "verify"], "{hours} h");
        assert_no_stage_twice(fleet);
        assert_eq!(scene.server.hub().pulls.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_of_somebody_else_is_not_written_over() {
    let scene = Scene::start().await;
    let git = Git::of(&scene.fleet);
    let somebody = |branch: &str| {
        let deploy = git.deploy().id();
        git.0.reference(&format!("refs/heads/{branch}"), deploy, false, "somebody's").unwrap();
        git.follow(branch, "My own work", None)
    };
    let own = somebody(BRANCH);
    scene.says(&[BRANCH, "holds commits of somebody else", "rename or delete"]);
    assert_eq!(git.proposed(), [(BRANCH.to_owned(), own)]);
    git.0.find_reference(&format!("refs/heads/{BRANCH}")).unwrap().delete().unwrap();
    // A branch in whose place the names of ours begin.
    let own = somebody("stepgate");
    let told = format!("branch stepgate is in the way of {BRANCH}");
    scene.fleet.run_until(&scene.controller, |pass| outcome(pass, "mgmt").message().contains(&told));
    assert_eq!(git.0.find_reference("refs/heads/stepgate").unwrap().target(), Some(own));
    git.0.find_reference("refs/heads/stepgate").unwrap().delete().unwrap();
    scene.recovers();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_with_what_somebody_wrote_is_named_and_nothing_is_merged() {
    let scene = Scene::start().await;
    scene.server.fates(|_, _| Fate::Answered);
    let (fleet, file) = (&scene.fleet, "clusters/mgmt/cert-manager/cert-manager.yaml");
    let asks = "waits for approval: https://github.example.com";
    fleet.run_until(&scene.controller, |pass| outcome(pass, "mgmt").message().contains(asks));
    let before = fleet.deployed(file).unwrap();
    fleet.meddle(file, Some("kind: Secret\n"));
    let changed = "Stepgate did not make that commit";
    let pass = fleet.run_until(&scene.controller, |pass| !outcome(pass, "mgmt").message().contains(asks));
    assert!(outcome(&pass, "mgmt").message().contains(changed), "{}", told(&pass));
    fleet.pass(&scene.controller);
    assert!(Git::of(fleet).proposed().is_empty(), "what cannot be merged is still proposed");
    assert_eq!(scene.server.hub().pulls[0]["state"], "closed");
    fleet.meddle(file, Some(&before));
    fleet.run_until(&scene.controller, |pass| outcome(pass, "mgmt").message().contains(asks));
    let open = |pulls: &[serde_json::Value]| pulls.iter().filter(|pull| pull["state"] == "open").count();
    assert_eq!(open(&scene.server.hub().pulls), 1);
    let git = Git::of(fleet);
    let (branch, head) = git.proposed().remove(0);
    git.merge(head, Merge::Squash, fleet.clock_now());
    scene.server.merged(&branch, "alice", fleet.clock_now());
    fleet.run_until(&scene.controller, |_| fleet.stages("mgmt").contains(&"verify".to_owned()));
    assert_no_stage_twice(fleet);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forge_that_does_not_answer_costs_one_time_out_a_pass() {
    let scene = Scene::start().await;
    let (fleet, server) = (&scene.fleet, &scene.server);
    let controller = fleet.controller_working_on(1);
    // Each cluster asks for something, on two branches.
    let edit =
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\ncommonAnnotations: {a.example.com/b: c}\n";
    fleet.edit("overlays/cilium/kustomization.yaml", |_| edit.to_owned());
    server.fates(|_, _| Fate::Hangs);
    let pass = fleet.pass(&controller);
    assert_eq!(server.hub().asked(""), 1, "{}", told(&pass));
    // Nor has it to be started anew to be asked again.
    server.fates(|_, _| Fate::Answered);
    fleet.run_until(&controller, |_| !server.hub().pulls.is_empty());
}
