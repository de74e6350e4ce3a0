//! A deploy branch that is lost in the middle of a rollout, and what the cluster knows of it.

use simulator::{Fault, Injection, Trigger};
use stepgate::reconcile::clusters::access::Clusters as _;
use stepgate::reconcile::clusters::comparison::compare;
use stepgate::reconcile::clusters::recorded_commits::{self, ClusterTold};
use stepgate::reconcile::observe::explain::{Explainer, Explanation, State};

use super::fleet::Fleet;

/// The rollout of `mgmt` has come to cert-manager, and Flux has applied it.
fn applied() -> Fleet {
    let fleet = Fleet::new();
    fleet.bump();
    let controller = fleet.controller();
    fleet.run_until_committed(&controller, "mgmt", "cert-manager");
    fleet.run_until_committed(&controller, "mgmt", "capi");
    fleet
}

fn lose(fleet: &Fleet) {
    let deploy = fleet.repository.folder().join("refs/heads").join(fleet.layout.branch.as_str());
    std::fs::remove_file(deploy).unwrap();
}

/// What `stepgate why` says in a process that has never seen the branch.
async fn why(fleet: &Fleet, cluster: &str) -> Explanation {
    let repository = git::Repository::open(fleet.repository.location()).unwrap();
    let planner = fleet.planner_of(&repository);
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, cluster).unwrap();
    Explainer::new(&planner, &reading, fleet.simulated.as_ref(), &fleet.clock).explain(&view).await.unwrap()
}

#[tokio::test]
async fn a_new_process_learns_from_flux_where_the_lost_branch_was() {
    let fleet = applied();
    let known = fleet.history("mgmt").iter().map(|entry| entry.commit.clone()).collect::<Vec<_>>();
    lose(&fleet);
    let told = why(&fleet, "mgmt").await;
    assert_eq!(told.state, State::Blocked);
    let (message, help) = (told.reasons[0].to_string(), &told.help[0]);
    let named = known.iter().find(|commit| message.contains(commit.as_str())).unwrap_or_else(|| panic!("{message}"));
    assert!(message.contains("Flux in ") && !help.contains("adopt"), "{message} {help}");
    assert!(help.contains(&format!(" {named}:refs/heads/deploy")), "{help}");
    assert!(told.help.iter().all(|help| !help.contains("adopt")), "{told:?}");
}

#[tokio::test]
async fn a_branch_that_was_written_anew_without_the_record_is_told_by_the_cluster() {
    let fleet = applied();
    let main = fleet.repository.head(&"main".parse().unwrap()).unwrap().unwrap();
    let deploy = fleet.repository.folder().join("refs/heads").join(fleet.layout.branch.as_str());
    std::fs::write(deploy, format!("{main}\n")).unwrap();
    let told = why(&fleet, "mgmt").await;
    assert_eq!(told.state, State::Blocked);
    assert!(told.help[0].contains("-- clusters/mgmt flux/mgmt") && !told.help[0].contains("adopt"), "{told:?}");
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_no_cluster_without_a_record() {
    let fleet = applied();
    lose(&fleet);
    let outage = Injection { fault: Fault::ApiOutage, from: Trigger::At(fleet.clock_now()), lasts: None };
    fleet.simulated.get("mgmt").unwrap().cluster().inject(&outage);
    let repository = git::Repository::open(fleet.repository.location()).unwrap();
    let planner = fleet.planner_of(&repository);
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "mgmt").unwrap();
    let cluster = fleet.simulated.cluster(&view.cluster);
    let told = recorded_commits::ask(&planner, &reading, &view, cluster.as_ref(), fleet.clock_now()).await;
    assert!(matches!(told, ClusterTold::Unreachable(_)), "{told:?}");
    assert!(compare(&view, cluster.as_ref(), fleet.clock_now()).await.is_err());
}

#[tokio::test]
async fn what_runs_is_compared_with_the_source_branch_before_a_record() {
    let fleet = Fleet::new();
    lose(&fleet);
    let compared = async || {
        let repository = git::Repository::open(fleet.repository.location()).unwrap();
        let planner = fleet.planner_of(&repository);
        let reading = planner.read().unwrap();
        let view = planner.view(&reading, "mgmt").unwrap();
        compare(&view, fleet.simulated.cluster(&view.cluster).as_ref(), fleet.clock_now()).await.unwrap()
    };
    let same = compared().await;
    assert!(same.compared > 10 && same.differences.is_empty(), "{same:?}");
    fleet.bump();
    let bumped = compared().await;
    let told: Vec<String> = bumped.differences.iter().map(ToString::to_string).collect();
    let cert_manager = told.iter().find(|line| line.starts_with("Deployment cert-manager/cert-manager: runs "));
    let cert_manager = cert_manager.unwrap_or_else(|| panic!("{told:?}"));
    assert!(cert_manager.contains(", the source branch says "), "{cert_manager}");
}
