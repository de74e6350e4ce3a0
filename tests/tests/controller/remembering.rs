//! What is remembered saves work and changes nothing.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cluster::Cluster;
use git::{GitSettings, Limit, Limits, Repository};
use overlays::ClusterSpec;
use stepgate::reconcile::clusters::access::Clusters;
use stepgate::reconcile::planner::{ClusterView, Planner};
use stepgate::reconcile::{ClusterOutcome, ClusterPass, Controller, ReconcileReport};

use crate::fleet::{CLUSTERS, Files, Fleet, is_done, told};

/// Clusters whose people push while a pass goes on, once.
struct Pushed {
    fleet: Arc<Fleet>,
    pushed: AtomicBool,
}

impl Clusters for Pushed {
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster> {
        if !self.pushed.swap(true, Ordering::SeqCst) {
            self.fleet.bump();
        }
        self.fleet.simulated.cluster(cluster)
    }
}

#[test]
fn what_is_pushed_during_a_pass_is_looked_at_in_the_next() {
    let fleet = Arc::new(Fleet::new());
    let pushed = AtomicBool::new(false);
    let controller = fleet.controller_of(Arc::new(Pushed { fleet: Arc::clone(&fleet), pushed }));
    let passes = [(); 2].map(|()| fleet.pass(&controller));
    assert!(!is_done(&passes[1]), "{}", told(&passes[1]));
}

#[test]
fn a_fleet_in_which_everything_is_done_is_worked_on_once() {
    let fleet = Fleet::new();
    let controller = fleet.controller();
    let passes = [(); 2].map(|()| fleet.pass(&controller));
    assert!(is_done(&passes[0]) && Arc::ptr_eq(&passes[0], &passes[1]));
    // Somebody has written to the deploy branch.
    fleet.meddle("note.txt", Some("I was here.\n"));
    assert!(!Arc::ptr_eq(&passes[0], &fleet.pass(&controller)));
}

const OVERLAY: &str = "overlays/cert-manager/kustomization.yaml";
const SHARED: &str = "shared/label.yaml";

/// What is changed, and how.
type Change = (&'static str, fn(&Fleet));

/// Changes of every input that a plan follows from, one after the other.
fn changes() -> Vec<Change> {
    fn add(fleet: &Fleet, path: &str, text: &str) {
        fleet.push(&Files::from([(path.to_owned(), text.as_bytes().to_vec())]));
    }
    vec![
        ("a file that concerns nobody", |fleet| add(fleet, "docs/readme.md", "hello\n")),
        ("the team's overlay", |fleet| {
            fleet.edit(OVERLAY, |text| text.replace("system-cluster-critical", "system-node-critical"));
        }),
        ("one cluster's overlay", |fleet| {
            add(fleet, "clusters/team-b/overlays/cilium/kustomization.yaml", "commonAnnotations:\n  owner: team-b\n");
        }),
        ("an overlay that reaches beyond the overlays", |fleet| {
            let text = "commonAnnotations:\n  owner: team-b\npatches:\n- path: ../../../../shared/label.yaml\n  target: {kind: DaemonSet}\n";
            fleet.push(&Files::from([
                (SHARED.to_owned(), b"- op: add\n  path: /metadata/labels/shared\n  value: one\n".to_vec()),
                ("clusters/team-b/overlays/cilium/kustomization.yaml".to_owned(), text.as_bytes().to_vec()),
            ]));
        }),
        ("the file that it reaches", |fleet| {
            fleet.edit(SHARED, |text| text.replace("one", "two"));
        }),
        ("the policy", |fleet| {
            fleet.edit("stepgate.yaml", |text| format!("{text}\n# a remark\n"));
        }),
        ("one cluster's specification", |fleet| {
            fleet.edit("clusters/team-a/cluster.yaml", |text| text.replacen("count: ", "count: 1", 1));
        }),
        ("the bundle and every cluster", |fleet| {
            fleet.bump();
        }),
        ("a mistake in one cluster", |fleet| {
            fleet.edit("clusters/team-a/cluster.yaml", |text| text.replace("kubernetesVersion", "kubernetesVersio"));
        }),
        ("its repair", |fleet| {
            fleet.edit("clusters/team-a/cluster.yaml", |text| text.replace("kubernetesVersio:", "kubernetesVersion:"));
        }),
    ]
}

#[track_caller]
fn assert_same_views(what: &str, fleet: &Fleet, remembering: &Planner) {
    let fresh = fleet.planner();
    let (one, two) = (remembering.read().unwrap(), fresh.read().unwrap());
    for cluster in CLUSTERS {
        match (remembering.view(&one, cluster), fresh.view(&two, cluster)) {
            (Ok(one), Ok(two)) => {
                assert_eq!(one.plan, two.plan, "{what}: {cluster}");
                let shown = |view: &ClusterView| format!("{:?} {:?} {:?}", view.parts, view.head, view.running);
                assert_eq!(shown(&one), shown(&two), "{what}: {cluster}");
            }
            (Err(one), Err(two)) => assert_eq!(one.to_string(), two.to_string(), "{what}: {cluster}"),
            (one, two) => panic!("{what}: {cluster}: {:?} and {:?}", one.err(), two.err()),
        }
    }
}

#[test]
fn a_controller_that_remembers_commits_what_one_that_starts_anew_after_each_commit_commits() {
    let (remembering, forgetful) = (Fleet::new(), Fleet::new());
    let (controller, planner) = (remembering.controller(), remembering.planner());
    for (what, change) in changes() {
        for fleet in [&remembering, &forgetful] {
            change(fleet);
        }
        assert_same_views(what, &remembering, &planner);
        // Where a cluster cannot be read, the others come to their end all the same.
        let end = |pass: &ReconcileReport| {
            let quiet = |own: &ClusterPass| {
                own.committed.is_empty()
                    && matches!(
                        own.outcome,
                        ClusterOutcome::Done | ClusterOutcome::Blocked { .. } | ClusterOutcome::Failed { .. }
                    )
            };
            pass.clusters.iter().all(quiet)
        };
        remembering.run_until(&controller, end);
        let mut anew = forgetful.controller();
        loop {
            let pass = forgetful.pass(&anew);
            if end(&pass) {
                break;
            }
            if pass.clusters.iter().any(|own| !own.committed.is_empty()) {
                anew = forgetful.controller();
            }
            forgetful.wait(Some(&pass));
        }
        assert_same_views(what, &remembering, &planner);
        for cluster in CLUSTERS {
            assert_eq!(remembering.stages(cluster), forgetful.stages(cluster), "{what}: {cluster}");
        }
        assert!(remembering.tree() == forgetful.tree(), "{what}: the trees differ");
    }
    let stages: usize = CLUSTERS.iter().map(|cluster| remembering.stages(cluster).len()).sum();
    assert!(stages > 20, "{stages} stages were committed: the changes change too little");
}

#[test]
fn a_controller_without_room_comes_to_the_same_end() {
    let (roomy, narrow) = (Fleet::new(), Fleet::new());
    let one = roomy.controller();
    let two = narrow.controller().with_room_for(0);
    let most = Cell::new(0);
    let readings = |controller: &Controller| controller.remembered_bytes()[1];
    for (fleet, controller) in [(&roomy, &one), (&narrow, &two)] {
        fleet.bump();
        fleet.run_until(controller, |pass| {
            most.set(most.get().max(readings(controller)));
            is_done(pass)
        });
    }
    for cluster in CLUSTERS {
        assert_eq!(roomy.stages(cluster), narrow.stages(cluster), "{cluster}");
    }
    assert!(roomy.tree() == narrow.tree(), "the trees differ");
    // While they go on they take memory, and nothing of it stays.
    assert!(most.get() > 10_000, "{most:?}");
    assert!(readings(&one) < most.get() / 10, "{}", readings(&one));
}

#[test]
fn a_cluster_that_is_done_is_planned_without_the_commit_it_was_made_from() {
    let fleet = Fleet::new();
    let deployed = fleet.edit("clusters/team-a/cluster.yaml", |text| text.replacen("count: ", "count: 1", 1));
    fleet.run_to_the_end(&fleet.controller());
    fleet.edit("clusters/team-b/cluster.yaml", |text| format!("{text}# People go on.\n"));
    let view = || {
        let planner = fleet.planner_of(&Repository::open(fleet.repository.location()).unwrap());
        planner.view(&planner.read().unwrap(), "team-a")
    };
    let whole = view().unwrap().plan;
    // What was said before can be read by nobody any more.
    fleet.lose(&format!("{deployed}:clusters"));
    assert_eq!(view().unwrap().plan, whole);
    // Whoever is to move on is told what its changes are measured by.
    fleet.edit("clusters/team-a/cluster.yaml", |text| text.replacen("count: 1", "count: ", 1));
    let error = view().unwrap_err().to_string();
    assert!(error.contains("is missing"), "{error}");
}

#[test]
fn a_history_without_a_base_is_looked_through_as_far_as_the_limit_allows() {
    let fleet = Fleet::new();
    for number in 0..4 {
        fleet.edit("stepgate.yaml", |text| format!("{text}\n# remark {number}\n"));
    }
    let read = |commits: u64| {
        let limits = Limits::default().with(Limit::Commits, commits);
        let settings = GitSettings { limits, ..GitSettings::default() };
        let repository = Repository::open_with(fleet.repository.location(), &settings).unwrap();
        fleet.planner_of(&repository).read().map(drop)
    };
    let error = read(3).unwrap_err();
    assert!(error.to_string().contains("more than 3 commits"), "{error}");
    assert!(error.to_string().contains("--repo-limit commits=NUMBER"), "{error}");
    assert!(read(100).is_ok());
}

#[test]
fn a_view_counts_with_what_it_keeps() {
    let fleet = Fleet::new();
    let bytes = |fleet: &Fleet| {
        let planner = fleet.planner();
        planner.view(&planner.read().unwrap(), "team-a").unwrap().bytes()
    };
    let before = bytes(&fleet);
    let text = format!("# {}\n", "x".repeat(1 << 20));
    fleet.meddle("clusters/team-a/cilium/note.yaml", Some(&text));
    let after = bytes(&fleet);
    assert!(before < text.len() / 4, "{before}");
    assert!(after > text.len() && after < 3 * text.len(), "{before} {after}");
}

#[test]
fn clusters_share_the_commits_of_the_deploy_branch() {
    let fleet = Fleet::new();
    let planner = fleet.planner();
    let own = |planner: &Planner| planner.view(&planner.read().unwrap(), "team-a").unwrap().head.bytes();
    let (before, commits) = (own(&planner), 400);
    for number in 0..commits {
        fleet.meddle("clusters/team-b/note.txt", Some(&format!("{number}\n")));
    }
    let reading = planner.read().unwrap();
    let view = planner.view(&reading, "team-a").unwrap();
    assert!(view.head.lineage().len() > commits);
    assert_eq!(view.head.commit(), reading.deploy_head());
    assert!(own(&planner) < before + 2 * commits, "{before} {}", own(&planner));
}
