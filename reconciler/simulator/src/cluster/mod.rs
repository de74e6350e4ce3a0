//! A cluster and the Flux that serves it, under a virtual clock.

mod acting;
mod control_plane;
mod daemon_set;
mod deployment;
mod eks_anywhere;
mod etcd;
mod fault;
mod flux;
mod machine;
mod object;
mod order;
mod pod;
mod presence;
mod truth;
mod upgrades;
mod view;
mod workers;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use domain::RolloutId;
use jiff::Timestamp;
use policy::ControlPlaneGate;
use rollout::{
    BackupReport, Condition, ConditionStatus, CustomResourceDefinition, EtcdAct, ObjectReference, Observation,
    StageName,
};

use crate::{
    clock::Moment,
    desired::DeployedCommit,
    fault::{Fault, Injection, Trigger},
    pace::{MachineKind, Pace},
    random::Random,
    schedule::Schedule,
    shape::{ClusterShape, Etcd},
};
use flux::{Flux, Pushed};
use machine::Owner;
use view::View;

pub use upgrades::{UpgradeDefect, UpgradeFault};

/// A simulated cluster, with the Flux that applies the deploy branch to it.
///
/// Time moves only by the arguments `at` and `to`; a moment earlier than one named before means that earlier moment's
/// successor, so time never goes back. The same calls with the same seed give the same observations.
///
/// A clone goes its own way from here on: crash tests branch off at every effect.
#[derive(Debug, Clone)]
pub struct SimulatedCluster {
    state: State,
    view: View,
}

impl SimulatedCluster {
    /// A cluster with all its machines running, and nothing on its deploy branch. Everything random follows from `seed`.
    #[must_use]
    pub fn new(shape: &ClusterShape, seed: u64, at: Timestamp) -> Self {
        Self { state: State::new(shape, seed, Moment::of(at)), view: View::new(seed) }
    }

    /// Puts a commit on the deploy branch and everything it says into the cluster at once, as if it had been there for long.
    /// For the state before the first rollout.
    pub fn install(&mut self, commit: &DeployedCommit, at: Timestamp) {
        self.advance(at);
        let at = self.state.now;
        self.state.push(at, commit);
        self.state.install_head();
        self.state.settle_specification();
        self.state.elect_address_holder();
        self.state.known_images = self.state.live_images();
    }

    /// A commit is pushed to the deploy branch. Flux finds it at its next fetch.
    pub fn commit(&mut self, commit: &DeployedCommit, at: Timestamp) {
        self.advance(at);
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.push(Moment::of(at), commit);
        }
    }

    /// Lets time pass up to `to`.
    pub fn advance(&mut self, to: Timestamp) {
        self.state.advance(Moment::of(to));
    }

    /// When something happens next by itself; none when nothing is planned. Cheap loops jump from one such moment to the
    /// next.
    #[must_use]
    pub fn next_event(&self) -> Option<Timestamp> {
        self.state.schedule.next().map(Moment::timestamp)
    }

    /// The moment up to which time has passed.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.state.now.timestamp()
    }

    /// What a watch's cache says of the cluster at `at`: not confirmed, and subject to every fault of the view.
    pub fn observe(&mut self, at: Timestamp) -> Observation {
        self.advance(at);
        self.view.cached(&self.state)
    }

    /// What fresh reads from the API server say of the cluster at `at`: confirmed, and never stale. Outages, reads that fail
    /// and a skewed clock concern these too.
    pub fn observe_afresh(&mut self, at: Timestamp) -> Observation {
        self.advance(at);
        self.view.fresh(&self.state)
    }

    /// Observations say from now on whether these objects are there, too. Whatever the deploy branch names is observed anyway.
    pub fn ask_for(&mut self, objects: impl IntoIterator<Item = ObjectReference>) {
        let objects: Vec<ObjectReference> = objects.into_iter().collect();
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.named.extend(objects.iter().cloned());
        }
    }

    /// Cluster API objects are saved and read back for a rollout.
    pub fn back_up(&mut self, rollout: &RolloutId, at: Timestamp) {
        self.advance(at);
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.back_up(rollout.clone(), at);
        }
    }

    /// Machines of external etcd and of a control plane behind it that were made since the
    /// beginning: of which object and target, how many, and how many it wants.
    #[must_use]
    pub fn made_anew(&self) -> Vec<(String, u32, u32)> {
        self.state.made_anew()
    }

    /// What Stepgate does to the objects of an external etcd.
    pub fn act_on_etcd(&mut self, act: &EtcdAct, at: Timestamp) {
        self.advance(at);
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.act_on_etcd(act);
        }
    }

    /// Something goes wrong, now or later.
    pub fn inject(&mut self, injection: &Injection) {
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.inject(injection);
        }
    }

    /// Everything that has gone wrong is put right at `at`, and nothing that was still to go wrong will.
    pub fn heal(&mut self, at: Timestamp) {
        self.advance(at);
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.injections.clear();
            state.schedule.plan(Moment::of(at), Event::Heal);
        }
        self.advance(at);
    }

    /// From now on machines of a kind take so long to start.
    pub fn set_pace(&mut self, kind: &MachineKind, pace: Pace) {
        for state in [Some(&mut self.state), self.view.shadow()].into_iter().flatten() {
            state.paces.insert(kind.clone(), pace);
        }
    }

    /// What the head of the deploy branch says and the cluster is not yet, whatever its status may say: the truth that a gate
    /// is measured by. Empty when everything is rolled out.
    #[must_use]
    pub fn unfinished(&self) -> Vec<String> {
        self.unfinished_for(ControlPlaneGate::Whole)
    }

    /// The same, where so much of the control plane is enough.
    #[must_use]
    pub fn unfinished_for(&self, gate: ControlPlaneGate) -> Vec<String> {
        self.state.unfinished(gate)
    }

    /// What upgrades in place have left, once they are done: empty where nothing is.
    #[must_use]
    pub fn unfinished_upgrades(&self) -> Vec<String> {
        self.state.unfinished_upgrades()
    }

    /// What goes wrong at this moment.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.state.active
    }
}

/// What can happen. Numbers are indexes into the lists of the state, or ids of pods and machines.
#[derive(Debug, Clone)]
enum Event {
    Fetch,
    Stored,
    Kustomization(usize),
    Deployment(usize),
    DeploymentPod(usize, u64),
    DaemonSet(usize),
    DaemonSetPod(usize, u64),
    MachineObjects,
    ControlPlane,
    Workers(usize),
    Etcd,
    EtcdLeftovers,
    Machine(u64),
    AddressHolder,
    Established(usize),
    Migrated(usize),
    Injected(Arc<str>),
    FaultBegins(Fault, Option<Duration>),
    FaultEnds(Fault),
    Heal,
    UpgradeController,
    Upgrader(Arc<str>),
    UpdateMachine(u64),
    NodeStarted(u64),
    NodeFound(u64),
    UpgradeFault(UpgradeFault),
    NodesRepaired,
}

/// The truth about a cluster.
#[derive(Debug, Clone)]
struct State {
    now: Moment,
    random: Random,
    schedule: Schedule<Event>,
    cluster: String,
    namespace: String,
    stacked_etcd: bool,
    last_id: u64,
    flux: Flux,
    deployments: Vec<deployment::Deployment>,
    daemon_sets: Vec<daemon_set::DaemonSet>,
    definitions: Vec<CustomResourceDefinition>,
    webhooks: Vec<object::Webhook>,
    objects: BTreeMap<ObjectReference, eks_anywhere::PlainObject>,
    /// Objects whose presence is observed: all that the branch has ever named, and those that were asked for.
    named: BTreeSet<ObjectReference>,
    /// EKS Anywhere's own Cluster; none where Cluster API's objects are applied without it.
    eksa: Option<eks_anywhere::EksaCluster>,
    /// When the controller that writes Cluster API's objects takes its next turn; an event of another moment is out of date.
    controller_due: Option<Moment>,
    control_plane: Option<control_plane::ControlPlane>,
    workers: Vec<workers::Workers>,
    etcd: Option<etcd::EtcdadmCluster>,
    /// Machines made since the beginning, by owner, version and template.
    made: Vec<(Owner, String, String)>,
    machines: Vec<machine::Machine>,
    address_holder: Option<String>,
    /// How often it was taken.
    address_transitions: u32,
    backup: Option<BackupReport>,
    /// Attempts that stand on the Cluster.
    attempts: Option<rollout::Attempts>,
    /// The pause of ours that stands on it.
    lease: Option<rollout::Hold>,
    /// Whether what its machines trust was lost, and put back.
    restored: bool,
    active: Vec<Fault>,
    /// Faults that wait for the commit of a stage.
    injections: Vec<(StageName, Fault, Option<Duration>)>,
    /// Images that ran before an image fault began: they go on starting.
    known_images: BTreeSet<String>,
    /// How long machines take to start, where that is known.
    paces: BTreeMap<MachineKind, Pace>,
    /// None where machines are replaced.
    upgrades: Option<upgrades::Upgrades>,
}

impl State {
    fn new(shape: &ClusterShape, seed: u64, now: Moment) -> Self {
        let mut state = Self {
            now,
            random: Random::new(seed),
            schedule: Schedule::new(),
            cluster: shape.name.to_string(),
            namespace: shape.namespace.clone(),
            stacked_etcd: shape.etcd == Etcd::Stacked,
            last_id: 0,
            flux: Flux::new("flux-system", "flux-system"),
            deployments: Vec::new(),
            daemon_sets: Vec::new(),
            definitions: Vec::new(),
            webhooks: Vec::new(),
            objects: BTreeMap::new(),
            named: BTreeSet::new(),
            eksa: None,
            controller_due: None,
            control_plane: None,
            workers: Vec::new(),
            etcd: None,
            made: Vec::new(),
            machines: Vec::new(),
            address_holder: None,
            address_transitions: 0,
            backup: None,
            attempts: None,
            lease: None,
            restored: false,
            active: Vec::new(),
            injections: Vec::new(),
            known_images: BTreeSet::new(),
            paces: BTreeMap::new(),
            upgrades: upgrades::Upgrades::new(shape.strategy),
        };
        state.found_machines(
            Owner::ControlPlane,
            shape.control_plane_replicas,
            shape.name.as_str(),
            &shape.kubernetes_version,
        );
        for (index, group) in shape.worker_groups.iter().enumerate() {
            let (owner, prefix) = (Owner::Workers(index), format!("{}-{}", shape.name, group.name));
            state.found_machines(owner, group.replicas, &prefix, &shape.kubernetes_version);
            let machines = crate::desired::DesiredMachines {
                namespace: shape.namespace.clone(),
                name: prefix,
                replicas: group.replicas,
                version: shape.kubernetes_version.clone(),
                template: String::new(),
                bootstrap_template: None,
            };
            state.workers.push(workers::Workers::settled(group.name.clone(), machines, shape.name.as_str()));
        }
        if let Etcd::External { replicas } = shape.etcd {
            state.found_machines(Owner::Etcd, replicas, &format!("{}-etcd", shape.name), "");
        }
        let first_fetch = state.random.between(Duration::ZERO, Duration::from_secs(60));
        state.plan_in(first_fetch, Event::Fetch);
        if state.upgrades.is_some() {
            state.elect_etcd_leader("");
            state.plan_in(Duration::from_secs(1), Event::UpgradeController);
        }
        state
    }

    fn plan_in(&mut self, delay: Duration, event: Event) {
        self.schedule.plan(self.now + delay, event);
    }

    /// Plans what a controller does as soon as its watch tells it.
    fn plan_soon(&mut self, event: Event) {
        let delay = self.random.between(Duration::from_millis(100), Duration::from_millis(300));
        self.plan_in(delay, event);
    }

    fn advance(&mut self, to: Moment) {
        while let Some((at, event)) = self.schedule.take(to) {
            self.now = self.now.max(at);
            self.handle(event);
            if self.upgrades.is_some() {
                self.check_upgrades();
            }
        }
        self.now = self.now.max(to);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Fetch => self.fetch(),
            Event::Stored => self.take_head(),
            Event::Kustomization(index) => self.reconcile_kustomization(index),
            Event::Deployment(index) => self.reconcile_deployment(index),
            Event::DeploymentPod(index, id) => self.deployment_pod(index, id),
            Event::DaemonSet(index) => self.reconcile_daemon_set(index),
            Event::DaemonSetPod(index, id) => self.daemon_set_pod(index, id),
            Event::MachineObjects => self.write_machine_objects(),
            Event::ControlPlane => self.reconcile_control_plane(),
            Event::Workers(index) => self.reconcile_workers(index),
            Event::Etcd => self.reconcile_etcd(),
            Event::EtcdLeftovers => self.delete_etcd_leftovers(),
            Event::Machine(id) => self.step_machine(id),
            Event::AddressHolder => self.elect_address_holder(),
            Event::Established(index) => self.establish(index),
            Event::Migrated(index) => self.migrate(index),
            Event::Injected(name) => self.inject_authority(&name),
            Event::FaultBegins(fault, lasts) => self.begin(fault, lasts),
            Event::FaultEnds(fault) => self.end(fault),
            Event::Heal => {
                for fault in self.active.clone() {
                    self.end(fault);
                }
                self.repair_nodes();
            }
            Event::UpgradeController => self.turn_upgrades(),
            Event::Upgrader(uid) => self.step_upgrader(&uid),
            Event::UpdateMachine(id) => self.ask_for_update(id),
            Event::NodeStarted(id) => self.node_started(id),
            Event::NodeFound(id) => self.node_found(id),
            Event::UpgradeFault(fault) => self.disturb(fault),
            Event::NodesRepaired => self.repair_nodes(),
        }
    }

    fn push(&mut self, at: Moment, commit: &DeployedCommit) {
        if let Some(stage) = &commit.stage {
            let begins: Vec<_> = self.injections.iter().filter(|(waits_for, ..)| waits_for == stage).cloned().collect();
            self.injections.retain(|(waits_for, ..)| waits_for != stage);
            for (_, fault, lasts) in begins {
                self.schedule.plan(at, Event::FaultBegins(fault, lasts));
            }
        }
        self.named.extend(presence::named_objects(&commit.desired));
        self.flux.branch.push(Pushed { at, id: commit.id.clone(), desired: Arc::clone(&commit.desired) });
    }

    fn inject(&mut self, injection: &Injection) {
        match &injection.from {
            Trigger::At(at) => {
                self.schedule.plan(Moment::of(*at), Event::FaultBegins(injection.fault, injection.lasts));
            }
            Trigger::Stage(StageName::Preflight | StageName::Backup) => {
                self.schedule.plan(self.now, Event::FaultBegins(injection.fault, injection.lasts));
            }
            Trigger::Stage(stage) => self.injections.push((stage.clone(), injection.fault, injection.lasts)),
        }
    }

    fn back_up(&mut self, rollout: RolloutId, at: Timestamp) {
        let objects = deployment::number(self.machines.len() + self.workers.len() + 2);
        let location = format!("backups/{}/{rollout}.tar", self.cluster);
        self.backup = Some(BackupReport {
            rollout,
            taken_at: at,
            objects,
            read_back: !self.is_active(Fault::BackupFailed),
            location,
        });
    }
}

/// A condition by its type.
fn condition(
    name: &str,
    status: ConditionStatus,
    reason: &str,
    observed_generation: Option<i64>,
) -> (String, Condition) {
    let reason = if reason.is_empty() { format!("{name}{status}") } else { reason.to_owned() };
    (name.to_owned(), Condition { status, reason, message: String::new(), observed_generation })
}

/// Conditions by type, as the status of an object holds them.
type Conditions = BTreeMap<String, Condition>;
