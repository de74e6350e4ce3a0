//! While Flux has not applied what a gate waits for, nothing else is read; and a glance at it decides nothing.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cluster::kubernetes::{ChangeScope, Changes};
use jiff::SignedDuration;
use rollout::StageName;
use simulator::Fault;
use stepgate::reconcile::{Controller, ReconcileReport};

use crate::approvals::{Git, Merge};
use crate::fleet::{Fleet, outcome};
use crate::hooked::{Act, Hook, Hooked};

const CLUSTER: &str = "mgmt";

/// A fleet whose clusters tell of their changes, and what its controller reads of one of them.
struct Scene {
    fleet: Fleet,
    controller: Controller,
    changes: Arc<Changes>,
    read: Arc<Mutex<Vec<Act>>>,
    /// Whether something changes while a gate is confirmed.
    disturbed: Arc<AtomicBool>,
    last: RefCell<Option<Arc<ReconcileReport>>>,
}

impl Scene {
    fn new() -> Self {
        Self::of(Fleet::new())
    }

    fn of(fleet: Fleet) -> Self {
        Self::telling(fleet, |clusters| clusters)
    }

    fn telling(fleet: Fleet, more: fn(Hooked) -> Hooked) -> Self {
        let (changes, read) = (Arc::<Changes>::default(), Arc::<Mutex<Vec<Act>>>::default());
        let disturbed = Arc::<AtomicBool>::default();
        let (reads, disturbs, told) = (Arc::clone(&read), Arc::clone(&disturbed), Arc::clone(&changes));
        let hook: Hook = Arc::new(move |cluster, act| {
            if act == Act::Confirm && disturbs.load(Ordering::Relaxed) {
                told.note(CLUSTER, ChangeScope::More);
            }
            if cluster == CLUSTER && !matches!(act, Act::BackUp | Act::Nudge) {
                reads.lock().unwrap().push(act);
            }
            true
        });
        let clusters = more(Hooked::new(&fleet.simulated, hook).telling(&changes));
        let controller = fleet.controller_of(Arc::new(clusters));
        Self { fleet, controller, changes, read, disturbed, last: RefCell::default() }
    }

    /// The next pass, so long after the last one: what it reads.
    fn pass_after(&self, seconds: i64) -> Vec<Act> {
        self.fleet.clock.advance(SignedDuration::from_secs(seconds));
        self.read.lock().unwrap().clear();
        *self.last.borrow_mut() = Some(self.fleet.pass(&self.controller));
        self.read.lock().unwrap().clone()
    }

    /// What the last pass said of the cluster.
    fn said(&self) -> String {
        self.last.borrow().as_ref().map(|pass| outcome(pass, CLUSTER).message()).unwrap_or_default()
    }

    /// Passes until the cluster's first stage is committed.
    fn commit_first(&self) {
        self.fleet.bump();
        self.commit();
    }

    /// Passes until a stage of the cluster is committed.
    fn commit(&self) {
        self.fleet.run_until(&self.controller, |pass| {
            self.read.lock().unwrap().clear();
            pass.clusters.iter().any(|own| own.cluster == CLUSTER && !own.committed.is_empty())
        });
    }

    /// Passes, each a second after the other and a word of Flux, as long as these glance: how many did, and what the one after them read.
    fn glances(&self) -> (usize, Vec<Act>) {
        for count in 0..100 {
            self.changes.note(CLUSTER, ChangeScope::Flux);
            let read = self.pass_after(1);
            if read != [Act::Glance] {
                return (count, read);
            }
        }
        panic!("nothing else is ever read")
    }
}

#[test]
fn what_people_merge_is_looked_for_by_the_pass_that_finds_it() {
    let scene = Scene::of(Fleet::with_policy(|policy| policy + "approval: stage\n"));
    scene.fleet.bump();
    let git = Git::of(&scene.fleet);
    scene.fleet.run_until(&scene.controller, |_| git.of_cluster(CLUSTER).is_some());
    assert_eq!(scene.pass_after(1), [], "nothing is to be seen before somebody merges it");
    let (_, proposed) = git.of_cluster(CLUSTER).unwrap();
    git.merge(proposed, Merge::Commit, scene.fleet.clock_now());
    assert_eq!(scene.pass_after(1), [Act::Glance]);
}

#[test]
fn after_a_commit_flux_alone_is_read_until_it_has_applied_that() {
    let scene = Scene::new();
    scene.commit_first();
    let behind = "does not contain the stage's commit";
    for second in 1..200 {
        let read = scene.pass_after(1);
        let said = scene.said();
        if read == [Act::Glance] {
            assert!(said.contains(behind), "after {second} s: {said}");
        } else if read == [Act::Glance, Act::Observe] {
            // The glance that sees that Flux is done decides nothing: everything is read.
            assert!(!said.contains(behind), "after {second} s: {said}");
            return;
        } else {
            // Half a minute was over.
            assert_eq!((read, second % 30), (vec![Act::Observe], 0));
        }
        scene.changes.note(CLUSTER, ChangeScope::Flux);
    }
    panic!("Flux is never done");
}

#[test]
fn glances_end_after_half_a_minute_whatever_flux_says() {
    let scene = Scene::new();
    scene.fleet.break_at(CLUSTER, StageName::CertManager, Fault::FluxSuspended);
    scene.commit_first();
    let (count, read) = scene.glances();
    assert!((28..=30).contains(&count), "{count}");
    assert_eq!(read, [Act::Observe]);
    // From then on everything is read whenever something is.
    scene.changes.note(CLUSTER, ChangeScope::More);
    assert_eq!(scene.pass_after(5), [Act::Observe]);
}

#[test]
fn while_nothing_is_told_of_a_cluster_that_waits_nothing_is_read() {
    let scene = Scene::new();
    scene.fleet.break_at(CLUSTER, StageName::CertManager, Fault::FluxSuspended);
    scene.commit_first();
    assert_eq!(scene.pass_after(1), [Act::Glance]);
    let said = scene.said();
    for second in 2..30 {
        // Of the other cluster everything changes.
        scene.changes.note("team-a", ChangeScope::More);
        assert_eq!((scene.pass_after(1), scene.said()), (Vec::new(), said.clone()), "after {second} s");
    }
    // Half a minute after the commit it is read, whether anything was told or not.
    assert_eq!(scene.pass_after(3), [Act::Observe]);
    scene.changes.note(CLUSTER, ChangeScope::Flux);
    assert_eq!(scene.pass_after(1), [Act::Glance]);
}

#[test]
fn what_else_has_changed_is_read_at_once() {
    let scene = Scene::new();
    scene.fleet.break_at(CLUSTER, StageName::CertManager, Fault::FluxSuspended);
    scene.commit_first();
    assert_eq!(scene.pass_after(1), [Act::Glance]);
    scene.changes.note(CLUSTER, ChangeScope::Flux);
    scene.changes.note("team-a", ChangeScope::More);
    assert_eq!(scene.pass_after(1), [Act::Glance]);
    scene.changes.note(CLUSTER, ChangeScope::More);
    scene.changes.note(CLUSTER, ChangeScope::Flux);
    assert_eq!(scene.pass_after(1), [Act::Observe]);
    // What Flux alone tells later is looked at with it alone.
    scene.changes.note(CLUSTER, ChangeScope::Flux);
    assert_eq!(scene.pass_after(1), [Act::Glance]);
}

#[test]
fn a_cluster_that_is_held_is_read_whole() {
    let scene = Scene::new();
    scene.fleet.break_at(CLUSTER, StageName::CertManager, Fault::FailingPod);
    scene.fleet.bump();
    scene.fleet.run_until(&scene.controller, |pass| outcome(pass, CLUSTER).word() == "held");
    scene.changes.note(CLUSTER, ChangeScope::Flux);
    let read = scene.pass_after(5);
    assert!(read.contains(&Act::Observe) && !read.contains(&Act::Glance), "{read:?}");
}

/// A fleet in which nothing soaks, and a cluster in which Flux has not begun with a stage's commit. No workload changes: what Flux says is the
/// last that comes true.
fn without_soak(changed: &[&str]) -> Scene {
    let scene = committed(Scene::of(fleet_without_soak()), changed);
    assert_eq!(scene.pass_after(0), [Act::Glance]);
    scene
}

fn fleet_without_soak() -> Fleet {
    Fleet::with_policy(|policy: String| policy.replace("soak: 30s", "soak: 0s"))
}

/// The first stage of a change of these components is committed.
fn committed(scene: Scene, changed: &[&str]) -> Scene {
    for component in changed {
        scene.fleet.edit(&format!("overlays/{component}/kustomization.yaml"), |_| {
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\npatches:\n- target: {kind: Namespace}\n  \
             patch: '[{\"op\": \"add\", \"path\": \"/metadata/annotations\", \"value\": {\"team.example.com/owner\": \"platform\"}}]'\n"
                .to_owned()
        });
    }
    scene.commit();
    scene
}

impl Scene {
    /// What is read in the pass in which Flux is done, each told as `extent`, and how many stages it commits.
    fn when_flux_is_done(&self, extent: ChangeScope) -> (Vec<Act>, usize) {
        let waits = if extent == ChangeScope::Flux { Act::Glance } else { Act::Observe };
        for _ in 1..200 {
            self.changes.note(CLUSTER, extent);
            let read = self.pass_after(1);
            if read != [waits] {
                let pass = self.last.borrow();
                let own = pass.as_ref().unwrap().clusters.iter().find(|own| own.cluster == CLUSTER);
                return (read, own.unwrap().committed.len());
            }
        }
        panic!("Flux is never done: {}", self.said());
    }
}

#[test]
fn what_is_read_while_flux_is_at_work_is_the_first_of_two_reads_where_nothing_soaks() {
    let scene = without_soak(&["capi", "eks-a"]);
    // Everything is read once before Flux has begun.
    assert_eq!(scene.pass_after(1), [Act::Observe]);
    // What the gate itself expects is read anew, and lets the next stage be committed; after that commit there is a glance.
    assert_eq!(scene.when_flux_is_done(ChangeScope::Flux), (vec![Act::Glance, Act::Confirm, Act::Glance], 1));
}

#[test]
fn a_whole_reading_is_followed_by_one_of_what_the_gate_expects() {
    let scene = without_soak(&["cert-manager", "capi"]);
    assert_eq!(scene.when_flux_is_done(ChangeScope::More), (vec![Act::Observe, Act::Confirm, Act::Glance], 1));
}

#[test]
fn what_changes_while_a_gate_is_confirmed_is_read_before_anything_follows() {
    let scene = without_soak(&["capi", "eks-a"]);
    assert_eq!(scene.pass_after(1), [Act::Observe]);
    scene.disturbed.store(true, Ordering::Relaxed);
    assert_eq!(
        scene.when_flux_is_done(ChangeScope::Flux),
        (vec![Act::Glance, Act::Confirm, Act::Observe, Act::Glance], 1)
    );
}

#[test]
fn before_the_end_of_a_rollout_everything_is_read() {
    let scene = without_soak(&["capi"]);
    // The last gate needs two reads; then machines are to be seen settled twice, a second apart.
    assert_eq!(scene.when_flux_is_done(ChangeScope::Flux), (vec![Act::Glance, Act::Observe, Act::Observe], 0));
}

#[test]
fn what_watches_tell_of_flux_is_looked_at_in_the_place_of_a_request() {
    let scene = committed(Scene::telling(fleet_without_soak(), Hooked::telling_of_flux), &["capi", "eks-a"]);
    assert_eq!(scene.pass_after(0), [Act::Look]);
    assert_eq!(scene.pass_after(1), [Act::Observe]);
    for _ in 1..200 {
        scene.changes.note(CLUSTER, ChangeScope::Flux);
        let read = scene.pass_after(1);
        if read != [Act::Look] {
            // What it tells is no more than the first of two reads: the gate passes on what was asked for.
            assert_eq!(read, [Act::Look, Act::Confirm, Act::Look]);
            return;
        }
        assert!(scene.said().contains("does not contain the stage's commit"), "{}", scene.said());
    }
    panic!("Flux is never done: {}", scene.said());
}

impl Scene {
    /// A stage is committed, and its gate is waited for, which tells of each change: `flux` is how Flux is looked at, `workloads` how the gate is.
    #[track_caller]
    fn waits_and_passes(&self, flux: Act, workloads: Act) {
        self.commit_first();
        assert_eq!(self.pass_after(0), [flux]);
        assert_eq!(self.pass_after(1), [Act::Observe]);
        let mut waited = false;
        for second in 1..200 {
            self.changes.note(CLUSTER, ChangeScope::Gate);
            let read = self.pass_after(1);
            if read == [flux] {
                assert!(!waited, "Flux is done");
            } else if read == [flux, workloads] {
                waited = true;
                assert!(self.said().contains("cert-manager"), "{}", self.said());
            } else if read == [Act::Observe] || read == [flux, Act::Observe] {
                // What was read of the rest is too old by now.
                assert!(second >= 28, "{second}");
            } else {
                // That it holds is no more than the first of two reads: the gate passes on what is asked for then.
                assert_eq!(read, [flux, workloads, Act::Confirm, flux], "after {second} s: {}", self.said());
                assert!(waited);
                return;
            }
        }
        panic!("the gate never passes: {}", self.said());
    }
}

#[test]
fn what_the_running_gate_looks_at_is_read_alone_when_it_has_changed() {
    Scene::of(fleet_without_soak()).waits_and_passes(Act::Glance, Act::Confirm);
}

#[test]
fn what_watches_tell_of_workloads_is_looked_at_in_the_place_of_a_request() {
    Scene::telling(fleet_without_soak(), Hooked::telling_of_workloads)
        .waits_and_passes(Act::Look, Act::LookAtWorkloads);
}

#[test]
fn what_else_changes_makes_everything_be_read_also_while_a_gate_is_looked_at_alone() {
    let scene = Scene::of(fleet_without_soak());
    scene.commit_first();
    assert_eq!(scene.pass_after(0), [Act::Glance]);
    assert_eq!(scene.pass_after(1), [Act::Observe]);
    scene.changes.note(CLUSTER, ChangeScope::Gate);
    assert_eq!(scene.pass_after(1), [Act::Glance]);
    scene.changes.note(CLUSTER, ChangeScope::More);
    scene.changes.note(CLUSTER, ChangeScope::Gate);
    assert_eq!(scene.pass_after(1), [Act::Observe]);
}
