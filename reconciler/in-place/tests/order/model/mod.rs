//! A cluster whose nodes are upgraded: what `decide` asks for is carried out, and what Kubernetes and Cluster API would
//! do happens.

mod course;

use std::collections::BTreeMap;

use in_place::objects::{GroupUpgrade, Lease, NamedObject, NodePhase, NodeUpgrade, NodeUpgradeStatus};
use in_place::order::{
    Action, Architecture, Component, Container, ContainerState, Cordon, Driver, HealthCheck, Holder, Machine, Mark,
    Node, Owner, OwnerKind, Pause, Pod, PodPurpose, Release, Settings, World, decide,
};
use jiff::{SignedDuration, Timestamp};

pub const OLD: &str = "v1.35.4";
pub const NEW: &str = "v1.36.0";
pub const NEWER: &str = "v1.36.4";
const STEPS: [&str; 7] = ["copy", "containerd", "drain", "kubeadm", "kubelet", "verify", "uncordon"];
const PATIENCE: usize = 3_000;

/// How large a cluster is, and who drives it.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub control_plane: usize,
    pub workers: usize,
    pub hooks: bool,
}

impl Shape {
    pub fn of_seed(seed: u64) -> Self {
        let hooks = seed % 3 == 2;
        // Cluster API does not upgrade a single control-plane machine in place.
        let control_plane = if seed.is_multiple_of(2) || hooks { 3 } else { 1 };
        Self { control_plane, workers: (seed % 4) as usize, hooks }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    None,
    All,
}

/// What is true of a node, whatever anybody says of it.
#[derive(Debug, Clone, Default)]
struct Real {
    /// For which version, and how many steps are done.
    journal: Option<(String, usize)>,
    before: String,
    /// The step that fails until somebody repairs the node.
    broken: Option<usize>,
    /// Whether it cannot be undone either.
    stuck: bool,
    /// How often kubelet was replaced, by version.
    replaced: BTreeMap<String, u32>,
    undone: u32,
    away: u32,
}

pub struct Model {
    pub world: World,
    pub now: Timestamp,
    pub most_actions: Option<usize>,
    /// Nodes in the order in which their Pods were made.
    pub order: Vec<String>,
    random: fastrand::Rng,
    faults: Faults,
    real: BTreeMap<String, Real>,
    uids: u32,
    retarget: bool,
    hooks: bool,
    log: Vec<(Timestamp, Action)>,
}

pub fn machine(name: &str, owner: &str, control_plane: bool) -> Machine {
    let components = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
    let components = components.map(|name| Component { name: name.to_owned(), ready: true });
    Machine {
        object: NamedObject { name: name.to_owned(), uid: format!("uid-{name}") },
        owner: Some(owner.to_owned()),
        control_plane,
        version: Some(OLD.parse().unwrap()),
        configuration_matches: true,
        files: Vec::new(),
        created: None,
        deleting: false,
        updated_by_hook: false,
        skips_remediation: Mark::None,
        node: Some(Node {
            name: format!("node-{name}"),
            ready: true,
            disk_pressure: false,
            kubelet_version: OLD.to_owned(),
            operating_system: "linux".to_owned(),
            os_image: "Debian GNU/Linux 12".to_owned(),
            architecture: "amd64".to_owned(),
            cordon: Cordon::None,
            components: if control_plane { components.into() } else { Vec::new() },
        }),
    }
}

pub fn owner(name: &str, kind: OwnerKind, driver: Driver) -> Owner {
    Owner {
        object: NamedObject { name: name.to_owned(), uid: format!("uid-{name}") },
        kind,
        driver,
        version: Some(OLD.parse().unwrap()),
        cluster_configuration: None,
        replicas: None,
        pause: Pause::None,
        up_to_date: true,
        template_matches: true,
        deleting: false,
        declined: Vec::new(),
    }
}

pub fn world(shape: Shape) -> World {
    let driver = if shape.hooks { Driver::ClusterApi } else { Driver::Controller };
    let mut machines: Vec<Machine> =
        (0..shape.control_plane).map(|n| machine(&format!("cp-{n}"), "cp", true)).collect();
    machines.extend(
        (0..shape.workers).map(|n| machine(&format!("w-{n}"), if n % 2 == 0 { "blue" } else { "green" }, false)),
    );
    let names = |control_plane: bool| {
        machines.iter().filter(|it| it.control_plane == control_plane).map(|it| it.object.name.clone()).collect()
    };
    let check = |name: &str, machines| HealthCheck { name: name.to_owned(), pause: Pause::None, machines };
    let health_checks = vec![check("cp-unhealthy", names(true)), check("workers-unhealthy", names(false))];
    let release = |version: &str| {
        let image = format!("registry.test/upgrader:{version}");
        (version.to_owned(), Release { image, architectures: vec![Architecture::Amd64] })
    };
    World {
        cluster: "c".to_owned(),
        paused: false,
        stacked_etcd: true,
        unreachable: None,
        owners: vec![
            owner("cp", OwnerKind::ControlPlane, driver),
            owner("blue", OwnerKind::Workers, driver),
            owner("green", OwnerKind::Workers, driver),
        ],
        address_holder: Holder::Known("node-cp-0".to_owned()),
        etcd_leader: (shape.control_plane > 1).then(|| "cp-0".to_owned()).into(),
        machines,
        node_upgrades: Vec::new(),
        group_upgrades: Vec::new(),
        health_checks,
        pods: BTreeMap::new(),
        releases: [NEW, NEWER].map(release).into(),
        settings: Settings::default(),
    }
}

impl Model {
    pub fn new(seed: u64, shape: Shape, faults: Faults) -> Self {
        let world = world(shape);
        let real = world.machines.iter().map(|machine| (machine.object.name.clone(), Real::default())).collect();
        let mut random = fastrand::Rng::with_seed(seed);
        let retarget = faults == Faults::All && !shape.hooks && random.u8(..4) == 0;
        Self {
            world,
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
            most_actions: None,
            order: Vec::new(),
            random,
            faults,
            real,
            uids: 0,
            retarget,
            hooks: shape.hooks,
            log: Vec::new(),
        }
    }

    /// The version comes, and everything goes on until nothing is left to do.
    pub fn run(&mut self) {
        self.target(NEW);
        let retarget_at = self.retarget.then(|| self.random.usize(1..200));
        let mut target = NEW;
        for turn in 0..PATIENCE {
            if retarget_at == Some(turn) {
                self.target(NEWER);
                target = NEWER;
            }
            self.turn();
            if retarget_at.is_none_or(|at| at < turn) && self.is_done(target) {
                self.assert_end();
                return;
            }
        }
        let log = &self.log[self.log.len().saturating_sub(40)..];
        panic!("not done:\n{:#?}\n{:#?}\n{:#?}", log, self.world, self.real);
    }

    fn is_done(&mut self, target: &str) -> bool {
        let is_at = |machine: &Machine| {
            machine.version.as_ref().is_some_and(|it| it.as_str() == target) && !machine.updated_by_hook
        };
        self.world.machines.iter().all(is_at)
            && decide(&self.world, self.now).is_empty()
            && self.world.unreachable.is_none()
    }

    fn assert_end(&self) {
        let World { owners, machines, health_checks, pods, group_upgrades, .. } = &self.world;
        assert!(owners.iter().all(|owner| owner.pause == Pause::None), "{owners:?}");
        assert!(health_checks.iter().all(|check| check.pause == Pause::None), "{health_checks:?}");
        assert!(machines.iter().all(|machine| machine.skips_remediation == Mark::None));
        let cordons = machines.iter().filter_map(|machine| machine.node.as_ref()).map(|node| &node.cordon);
        assert!(cordons.into_iter().all(|cordon| *cordon == Cordon::None), "{machines:?}");
        assert!(pods.is_empty(), "{pods:?}");
        assert!(group_upgrades.iter().all(|group| group.status.ready), "{group_upgrades:?}");
    }

    /// The version reaches owners: those that our controller drives are paused in the same write.
    pub fn target(&mut self, version: &str) {
        let lease = Lease::new("admission", self.now);
        let has_machines: Vec<String> =
            self.world.machines.iter().filter_map(|machine| machine.owner.clone()).collect();
        for owner in &mut self.world.owners {
            if !has_machines.contains(&owner.object.name) {
                continue;
            }
            owner.version = Some(version.parse().unwrap());
            (owner.up_to_date, owner.template_matches) = (false, owner.kind == OwnerKind::ControlPlane);
            if owner.driver == Driver::Controller {
                owner.pause = Pause::Ours(lease.clone());
            }
        }
    }

    fn turn(&mut self) {
        let mut actions = decide(&self.world, self.now);
        let killed_after = match (self.most_actions, self.faults) {
            (Some(most), _) => most,
            (None, Faults::All) if self.random.u8(..4) == 0 => self.random.usize(..3),
            (None, _) => usize::MAX,
        };
        actions.truncate(killed_after);
        for action in actions {
            self.log.push((self.now, action.clone()));
            self.carry_out(action);
            self.check();
        }
        self.now += SignedDuration::from_secs(20);
        if self.faults == Faults::All {
            self.misfortune();
        }
        self.pass();
        self.check();
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    fn upgrade(&mut self, object: &NamedObject) -> Option<&mut NodeUpgrade> {
        self.world.node_upgrades.iter_mut().find(|upgrade| upgrade.name == object.name && upgrade.uid == object.uid)
    }

    fn machine(&mut self, name: &str) -> &mut Machine {
        self.world.machines.iter_mut().find(|machine| machine.object.name == name).unwrap()
    }

    pub fn carry_out(&mut self, action: Action) {
        match action {
            Action::PauseOwner { owner, lease, .. } => self.owner(&owner).pause = Pause::Ours(lease),
            Action::ResumeOwner { owner, .. } => self.owner(&owner).pause = Pause::None,
            Action::PauseHealthCheck { name, lease } => self.health_check(&name).pause = Pause::Ours(lease),
            Action::ResumeHealthCheck { name } => self.health_check(&name).pause = Pause::None,
            Action::SkipRemediation { machine, on } => {
                self.machine(&machine.name).skips_remediation = if on { Mark::Ours } else { Mark::None };
            }
            Action::CreateGroup { kind, spec } => {
                let (name, uid) = (spec.object_name(), self.uid());
                if self.world.group_upgrades.iter().all(|group| group.name != name) {
                    let status = Default::default();
                    self.world.group_upgrades.push(GroupUpgrade {
                        name,
                        uid,
                        generation: Some(1),
                        kind,
                        spec: *spec,
                        status,
                    });
                }
            }
            Action::DeleteGroup { group, .. } => self.world.group_upgrades.retain(|known| known.uid != group.uid),
            Action::WriteGroup { group, status, .. } => {
                let mut groups = self.world.group_upgrades.iter_mut();
                groups.find(|known| known.uid == group.uid).unwrap().status = *status;
            }
            Action::CreateNode { spec } => {
                self.assert_may_begin(&spec.machine.name);
                let (name, uid, status) = (spec.object_name(), self.uid(), NodeUpgradeStatus::default());
                assert!(self.world.node_upgrades.iter().all(|known| known.name != name), "{name} is there");
                let (generation, deleting, retry) = (Some(1), false, None);
                self.world.node_upgrades.push(NodeUpgrade {
                    name,
                    uid,
                    generation,
                    deleting,
                    retry,
                    spec: *spec,
                    status,
                });
            }
            Action::DeleteNode { upgrade } => self.world.node_upgrades.retain(|known| known.uid != upgrade.uid),
            Action::WriteNode { upgrade, status } => {
                self.upgrade(&upgrade).unwrap().status = *status;
            }
            Action::EnsurePod { upgrade, purpose, .. } => self.make_pod(&upgrade, purpose),
            Action::DeletePod { upgrade } => {
                if let Some(pod) = self.world.pods.get_mut(&upgrade.name) {
                    pod.deleting = true;
                }
            }
            Action::Adopt { machine, version, .. } => {
                let machine = self.machine(&machine.name);
                let runs = machine.node.as_ref().unwrap().kubelet_version.clone();
                assert_eq!(runs, version.as_str(), "a machine says what its node does not run");
                (machine.version, machine.configuration_matches) = (Some(version), true);
            }
            Action::AdoptTemplate { owner } => self.owner(&owner).template_matches = true,
        }
    }

    fn owner(&mut self, object: &NamedObject) -> &mut Owner {
        self.world.owners.iter_mut().find(|owner| owner.object == *object).unwrap()
    }

    fn health_check(&mut self, name: &str) -> &mut HealthCheck {
        self.world.health_checks.iter_mut().find(|check| check.name == name).unwrap()
    }

    /// Who holds the address or leads etcd goes after all others.
    fn assert_may_begin(&self, name: &str) {
        let World { machines, owners, .. } = &self.world;
        let chosen = machines.iter().find(|machine| machine.object.name == name).unwrap();
        if self.hooks || !chosen.control_plane {
            return;
        }
        let node = chosen.node.as_ref().unwrap();
        // What was begun is finished first.
        if node.cordon != Cordon::None {
            return;
        }
        let is_last = self.world.address_holder.is(&node.name) || self.world.etcd_leader.is(name);
        let outdated = |machine: &&Machine| machine.control_plane && machine.version != owners[0].version;
        let special = |machine: &&Machine| {
            machine.node.as_ref().is_some_and(|node| self.world.address_holder.is(&node.name))
                || self.world.etcd_leader.is(&machine.object.name)
        };
        let mut others = machines.iter().filter(outdated).filter(|machine| machine.object.name != name);
        assert!(!is_last || others.all(|machine| special(&machine)), "{name} goes before others");
    }

    fn make_pod(&mut self, object: &NamedObject, purpose: PodPurpose) {
        let Some(upgrade) = self.upgrade(object).cloned() else { return };
        if self.world.pods.contains_key(&upgrade.name) || self.world.unreachable.is_some() {
            return;
        }
        let name = upgrade.spec.machine.name.clone();
        if upgrade.spec.role != in_place::objects::Role::Worker {
            let others =
                self.world.machines.iter().filter(|machine| machine.control_plane && machine.object.name != name);
            let down =
                others.filter_map(|machine| machine.node.as_ref()).filter(|node| node.cordon != Cordon::None).count();
            assert_eq!(down, 0, "two members of the control plane at once");
        }
        self.order.push(upgrade.spec.node.clone());
        let container = |name: &str| Container {
            name: name.to_owned(),
            state: ContainerState::Waiting("PodInitializing".to_owned()),
            failures: 0,
            last_failure: None,
        };
        let containers = match purpose {
            PodPurpose::Upgrade => STEPS.map(container).into(),
            PodPurpose::Rollback => vec![container("rollback")],
        };
        let pod = Pod {
            purpose,
            upgrade_uid: upgrade.uid.clone(),
            deleting: false,
            succeeded: false,
            failed: false,
            containers,
        };
        self.world.pods.insert(upgrade.name, pod);
    }

    fn check(&self) {
        let active = self.world.node_upgrades.iter().filter(|upgrade| upgrade.status.phase.is_active());
        assert!(active.clone().count() <= 1, "two nodes at once:\n{:#?}", self.log);
        for (name, real) in &self.real {
            for (version, count) in &real.replaced {
                assert!(*count <= 1 + real.undone, "{name} went to {version} {count} times:\n{:#?}", self.log);
            }
        }
        for upgrade in active {
            let of = |check: &&HealthCheck| check.machines.contains(&upgrade.spec.machine.name);
            let unpaused = self.world.health_checks.iter().filter(of).find(|check| check.pause == Pause::None);
            assert!(unpaused.is_none(), "{unpaused:?} looks at {}:\n{:#?}", upgrade.name, self.log);
        }
        for machine in &self.world.machines {
            let Some(node) = machine.node.as_ref().filter(|node| node.cordon != Cordon::None) else { continue };
            let known = self.world.node_upgrades.iter().filter(|upgrade| upgrade.spec.node == node.name);
            let says = known.clone().any(|upgrade| {
                !upgrade.status.completed
                    && (upgrade.status.phase == NodePhase::Pending || !upgrade.status.message.is_empty())
            });
            let is_outdated =
                self.world.owners.iter().any(|owner| {
                    machine.owner.as_ref() == Some(&owner.object.name) && machine.version != owner.version
                });
            assert!(
                says || is_outdated || machine.updated_by_hook,
                "{} is cordoned for nothing:\n{:#?}",
                node.name,
                self.log
            );
        }
    }
}
