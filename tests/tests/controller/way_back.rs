//! A control plane of EKS that was to go back a minor, and waits for longer than EKS takes it back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use domain::{BranchName, RepoPath};
use git::Repository;
use jiff::SignedDuration;
use stepgate::reconcile::cache::sources::FetchSources;
use stepgate::reconcile::clusters::access::NoAccess;
use stepgate::reconcile::effects::adopt::adopt;
use stepgate::reconcile::main_loop::clock::{Clock as _, VirtualClock};
use stepgate::reconcile::planner::Planner;
use stepgate::reconcile::{ClusterOutcome, Controller};

use crate::fleet::{commit, outcome, told};

const POLICY: &str = "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\napply: pipeline\nallowMinorRollback: true\n";

const LEDGER: &str = "clusters/shop/rollout.yaml";

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn config(version: &str) -> String {
    format!(
        "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {{name: shop, region: eu-west-1, version: \"{version}\"}}\n\
         managedNodeGroups:\n- name: ng-1-31\n"
    )
}

#[test]
fn a_plan_that_goes_back_is_made_anew_when_its_days_are_over() {
    let folder = tempfile::tempdir().unwrap();
    let main: BranchName = "main".parse().unwrap();
    let repository = Repository::create(&folder.path().join("fleet.git"), &main).unwrap();
    let clock = VirtualClock::new("2026-01-05T09:00:00Z".parse().unwrap());
    let write = |branch: &BranchName, files: &[(&str, String)]| {
        let file = |(path, text): &(&str, String)| ((*path).to_owned(), Some(text.clone().into_bytes()));
        commit(&repository, branch, &files.iter().map(file).collect::<BTreeMap<_, _>>(), clock.now())
    };
    write(&main, &[("stepgate.yaml", POLICY.to_owned()), ("shop.yaml", config("1.32"))]);
    let planner = || Planner::new(repository.clone(), main.clone(), Arc::new(FetchSources::new(Vec::<PathBuf>::new())));
    let reading = planner().read().unwrap();
    adopt(&planner(), &reading, "shop", clock.now(), false).unwrap();
    // As the rollout that raised it would have recorded it.
    let deploy = reading.layout.branch;
    let ledger = repository.snapshot(&deploy).unwrap().read(&RepoPath::new(LEDGER).unwrap()).unwrap();
    let ledger = String::from_utf8(ledger.to_vec()).unwrap();
    let raised = format!("{ledger}wayBack: {{told: EKS takes it back, since: \"{}\"}}\n", clock.now());
    write(&deploy, &[(LEDGER, raised)]);

    let clusters = Arc::new(NoAccess::new("nobody is to be asked"));
    let controller = Controller::new(planner(), clusters, Arc::new(clock.clone()), 1);
    write(&main, &[("shop.yaml", config("1.31"))]);
    let pass = || futures::executor::block_on(controller.pass()).unwrap();
    for _ in 0..3 {
        let waits = pass();
        assert!(matches!(outcome(&waits, "shop"), ClusterOutcome::Waiting { .. }), "{}", told(&waits));
        clock.advance(DAY * 2);
    }
    clock.advance(DAY);
    let blocked = pass();
    assert!(matches!(outcome(&blocked, "shop"), ClusterOutcome::Blocked { .. }), "{}", told(&blocked));
    assert!(told(&blocked).contains("within 7 days, and no record says"), "{}", told(&blocked));
}
