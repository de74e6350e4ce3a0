//! What people do between two looks of one pass, and what is proposed in Stepgate's name; a strict server that speaks as GitHub documents it.

use std::path::Path;

use forge::{ForgeAccess, ForgeCredential};
use git::Repository;
use stepgate::reconcile::{ClusterOutcome, Controller, ReconcileReport};

use super::hub::Server;
use super::{OVERLAY, message};
use crate::approvals::{Git, Merge};
use crate::fleet::{Fleet, outcome, told};

struct Scene {
    server: Server,
    fleet: Fleet,
    controller: Controller,
}

impl Scene {
    /// One stage of the management cluster is asked for.
    async fn asking(lines: &str) -> anyhow::Result<Self> {
        let scene = Self::with_policy(lines).await?;
        scene.fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
        scene.fleet.run_until(&scene.controller, asks);
        Ok(scene)
    }

    async fn with_policy(lines: &str) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let bare = folder.path().join("fleet.git");
        let repository = Repository::create(&bare, &"main".parse()?)?;
        let server = Server::start(&bare).await;
        let token_file = folder.path().join("token");
        std::fs::write(&token_file, "CANARY-token\n")?;
        let access =
            ForgeAccess { credential: Some(ForgeCredential::Token(token_file)), hosts: vec!["127.0.0.1".to_owned()] };
        let url = &server.url;
        let fleet = Fleet::on(folder, repository, "2026-01-05T09:00:00Z".parse()?, access, |policy| {
            format!(
                "{policy}approval: stage\n{lines}forge: {{kind: github, url: '{url}', repository: platform/fleet}}\n"
            )
        });
        let controller = fleet.controller();
        Ok(Self { server, fleet, controller })
    }
}

fn asks(pass: &ReconcileReport) -> bool {
    message(pass).contains("waits for approval: https")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_closed_before_the_next_would_be_opened_is_rejected() -> anyhow::Result<()> {
    let scene = Scene::asking("").await?;
    assert_eq!(scene.server.hub().pulls.len(), 1);
    // A process that knows of nothing looks, finds none yet, and then there is one that somebody has closed.
    let other = scene.fleet.controller();
    scene.fleet.wait(None);
    scene.server.hub().closes_unseen = Some("bob");
    let pass = scene
        .fleet
        .run_until(&other, |pass| matches!(outcome(pass, "mgmt"), ClusterOutcome::Held { .. }) || asks(pass));
    assert!(message(&pass).contains("rejected by bob"), "{}", told(&pass));
    assert_eq!(scene.server.hub().pulls.len(), 1, "no other one was opened");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_looked_up_once_a_pass() -> anyhow::Result<()> {
    // Two branches, since their rules differ.
    let scene = Scene::with_policy(
        "clusters: {mgmt: {approval: none}, team-a: {approvers: {minimum: 3, author: true}}, team-b: {approvers: {minimum: 4, author: true}}}\n",
    )
    .await?;
    let edit = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\ncommonAnnotations: {team.example.com/owner: platform}\n";
    scene.fleet.edit("overlays/cilium/kustomization.yaml", |_| edit.to_owned());
    let waits = |pass: &ReconcileReport, words: &str| {
        ["team-a", "team-b"].iter().all(|team| outcome(pass, team).message().contains(words))
    };
    scene.fleet.run_until(&scene.controller, |pass| waits(pass, "waits for approval: https"));
    for number in [1, 2] {
        scene.server.say(number, "alice", "/stepgate approve");
        let head = scene.server.hub().pulls[number - 1]["head"]["sha"].as_str().unwrap().to_owned();
        scene.server.review(number, "bob", &head);
    }
    let before = scene.server.hub().asked("collaborators");
    let pass = scene.fleet.pass(&scene.controller);
    assert!(outcome(&pass, "team-b").message().contains("2 of 4 approvals"), "{}", told(&pass));
    assert_eq!(scene.server.hub().asked("collaborators") - before, 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_the_forge_notices_late_is_told_as_one() -> anyhow::Result<()> {
    let scene = Scene::asking("").await?;
    let git = Git::of(&scene.fleet);
    let (_, head) = git.of_cluster("mgmt").unwrap();
    scene.server.hub().notices_after = 4;
    git.merge(head, Merge::Commit, scene.fleet.clock_now());
    scene.fleet.run_to_the_end(&scene.controller);
    assert_eq!(scene.fleet.stages("mgmt"), ["cert-manager", "verify"]);
    let hub = scene.server.hub();
    assert_eq!(hub.notices_after, 0, "the forge was not asked often enough to notice");
    assert!(hub.pulls[0]["merged_at"].is_string(), "{}", hub.pulls[0]);
    assert!(git.of_cluster("mgmt").is_none(), "the branch is left");
    Ok(())
}

/// What somebody makes of a file.
type Change<'a> = &'a (dyn Fn(&str) -> String + Sync);

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_in_our_name_is_ours_by_what_it_holds() -> anyhow::Result<()> {
    let manifest = "clusters/mgmt/cert-manager/cert-manager.yaml";
    let ledger = "clusters/mgmt/rollout.yaml";
    let approved = |text: &str| text.replacen("  plan: sha256:", "  by: Alice <alice@example.com>\n  plan: sha256:", 1);
    let proposal = "clusters/mgmt/proposal.md";
    let changes: [(&str, Change<'_>); 5] = [
        (proposal, &|text| text.replace("## Changes", "## Nothing to look at")),
        // What hides the rest from whoever reads it as a page.
        (proposal, &|text| text.replace("## Changes", "## Not part of this any more\n\n- <!--\n\n## Changes")),
        (manifest, &|text| text.replace("system-node-critical", "evil")),
        (ledger, &|text| text.replace("state: running", "state: done")),
        (ledger, &approved),
    ];
    for (path, change) in changes {
        let scene = Scene::asking("").await?;
        let git = Git::of(&scene.fleet);
        let (branch, ours) = git.of_cluster("mgmt").unwrap();
        let forged = git.forge(&branch, path, change);
        // Both a process that has seen ours and one that has not.
        for controller in [&scene.controller, &scene.fleet.controller()] {
            scene
                .fleet
                .run_until(controller, |pass| asks(pass) && git.of_cluster("mgmt").is_some_and(|it| it.1 != forged));
        }
        let (_, head) = git.of_cluster("mgmt").unwrap();
        let tree = |commit: git2::Oid| {
            let tree = git.0.find_commit(commit).unwrap().tree().unwrap();
            tree.get_path(Path::new(manifest)).unwrap().id()
        };
        assert_eq!(tree(head), tree(ours), "{path}");
        git.merge(head, Merge::Commit, scene.fleet.clock_now());
        scene.server.merged(&branch, "alice", scene.fleet.clock_now());
        scene.fleet.run_to_the_end(&scene.controller);
        assert_eq!(scene.fleet.stages("mgmt"), ["cert-manager", "verify"]);
        assert!(!scene.fleet.deployed(manifest).unwrap().contains("evil"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_writes_into_the_text_of_a_pull_request_approves_nothing() -> anyhow::Result<()> {
    let scene = Scene::asking("approvers: {minimum: 2, author: true}\n").await?;
    let counts = |count: u8| move |pass: &ReconcileReport| message(pass).contains(&format!("{count} of 2 approvals"));
    let until = |count: u8| scene.fleet.run_until(&scene.controller, counts(count));
    scene.server.say(1, "alice", "/stepgate approve");
    until(1);
    scene.fleet.edit(OVERLAY, |text| text.replace("system-node-critical", "another-critical"));
    until(0);
    let body = || scene.server.hub().pulls[0]["body"].as_str().unwrap().to_owned();
    let honest = body();
    let from_the_beginning = |line: &str| match line.rsplitn(3, ' ').last() {
        Some(part) if line.starts_with("part ") => format!("{part} 0 0"),
        _ => line.to_owned(),
    };
    let claimed = honest.lines().map(from_the_beginning).collect::<Vec<_>>().join("\n");
    assert_ne!(claimed, honest.trim_end(), "what was said before the plan was shown is said not to be");
    scene.server.hub().pulls[0]["body"] = claimed.into();
    for _ in 0..3 {
        let pass = scene.fleet.run_until(&scene.controller, |_| true);
        assert!(counts(0)(&pass), "{}", told(&pass));
    }
    assert!(body().contains("what was said before is void"), "{}", body());
    // Words from now on count, as long as the token is the same.
    scene.server.say(1, "bob", "/stepgate approve");
    until(1);
    let Some(ForgeCredential::Token(file)) = &scene.fleet.access.credential else { anyhow::bail!("no token") };
    std::fs::write(file, "CANARY-another\n")?;
    until(0);
    for who in ["alice", "bob"] {
        scene.server.say(1, who, "/stepgate approve");
    }
    scene.fleet.run_to_the_end(&scene.controller);
    assert_eq!(scene.fleet.stages("mgmt"), ["cert-manager", "verify"]);
    Ok(())
}
