//! How many requests a stage of many clusters costs, on a strict server that speaks as GitHub documents it.

use forge::{ForgeAccess, ForgeCredential};
use git::Repository;

use super::hub::Server;
use crate::approvals::{Git, Merge};
use crate::fleet::{Fleet, assert_stage_once, outcome, told};

const CLUSTERS: usize = 100;
#[tokio::test(flavor = "multi_thread")]
async fn a_stage_of_a_hundred_clusters_is_one_pull_request_and_few_requests() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let repository = Repository::create(&folder.path().join("fleet.git"), &"main".parse()?)?;
    let server = Server::start(&folder.path().join("fleet.git")).await;
    let url = &server.url;
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "CANARY-token\n")?;
    let access =
        ForgeAccess { credential: Some(ForgeCredential::Token(token_file)), hosts: vec!["127.0.0.1".to_owned()] };
    let names: Vec<String> = (0..CLUSTERS).map(|number| format!("team-{number:03}")).collect();
    let fleet = Fleet::of_many(folder, repository, access, &names, |policy| {
        format!(
            "{policy}approval: stage\nclusters: {{mgmt: {{approval: none}}}}\nwaves: [{{name: first, clusters: [mgmt]}}, {{name: teams, clusters: ['team-*'], \
             concurrency: {CLUSTERS}}}]\nforge: {{kind: github, url: '{url}', repository: platform/fleet}}\n"
        )
    });
    let controller = fleet.controller();
    let edit = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\ncommonAnnotations: {team.example.com/owner: platform}\n";
    fleet.edit("overlays/cilium/kustomization.yaml", |_| edit.to_owned());
    let all_ask = |pass: &stepgate::reconcile::ReconcileReport| {
        names
            .iter()
            .all(|name| outcome(pass, name).message().contains("waits for approval: https://github.example.com"))
    };
    let pass = fleet.run_until(&controller, all_ask);
    let opened = server.hub().counted.len();
    // Nobody does anything for a while.
    for _ in 0..5 {
        fleet.wait(Some(&pass));
        fleet.pass(&controller);
    }
    let (branch, head) = {
        let git = Git::of(&fleet);
        let proposed = git.proposed();
        assert_eq!(proposed.len(), 1, "{proposed:?} {}", told(&pass));
        assert_eq!(git.parts(proposed[0].1).len(), CLUSTERS);
        git.merge(proposed[0].1, Merge::Commit, fleet.clock_now());
        proposed[0].clone()
    };
    {
        let hub = server.hub();
        assert_eq!(hub.pulls.len(), 1);
        let body = hub.pulls[0]["body"].as_str().unwrap().to_owned();
        assert!(names.iter().all(|name| body.contains(&format!("| {name} |"))), "{body}");
        assert_eq!(hub.statuses[&head.to_string()].len(), 1);
    }
    server.merged(branch.as_str(), "alice", fleet.clock_now());
    let waited = server.hub().counted.len();
    fleet.run_until(&controller, |pass| {
        !names.iter().any(|name| outcome(pass, name).message().contains("waits for approval"))
            && names.iter().all(|name| {
                fleet.deployed(&format!("clusters/{name}/rollout.yaml")).unwrap().contains("by: alice (https")
            })
    });
    let hub = server.hub();
    assert_eq!(hub.wrong, [""; 0]);
    for request in &hub.counted {
        println!("  {request}");
    }
    println!(
        "{CLUSTERS} clusters, one stage on {branch}: {} requests ({opened} to open it, {} while nobody did anything, {} when it was merged), and {} that were \
         answered with \"not modified\" and do not count",
        hub.counted.len(),
        waited - opened,
        hub.counted.len() - waited,
        hub.unmodified
    );
    let created = hub.counted.iter().filter(|request| !request.starts_with("GET")).count();
    assert!(created <= 2, "{created} requests that create something");
    assert!(hub.counted.len() <= GOAL, "{:?}", hub.counted);
    assert_stage_once(&fleet, &names);
    Ok(())
}

/// The most requests that a stage may cost, however many clusters it has.
const GOAL: usize = 6;
