//! One owner of machines: paused before its machines differ from it, and resumed when none does.

use bundles::KubernetesVersion;
use jiff::Timestamp;

use super::{
    Action, Cordon, Driver, Holder, Machine, Owner, OwnerKind, Pause, World, busy, busy_with, inputs, precheck,
};
use crate::objects::{
    GroupKind, GroupUpgrade, GroupUpgradeSpec, GroupUpgradeStatus, Lease, NamedObject, NodePhase, NodeUpgrade,
    NodeUpgradeSpec, Role, Standing, conditions,
};

pub(super) fn decide(world: &World, owner: &Owner, now: Timestamp) -> Vec<Action> {
    if owner.driver != Driver::Controller || owner.deleting {
        return Vec::new();
    }
    let Some(version) = &owner.version else { return Vec::new() };
    let mut machines: Vec<&Machine> = world.machines_of(owner).filter(|machine| !machine.deleting).collect();
    machines.sort_by(|one, other| one.object.cmp(&other.object));
    let group = Group { world, owner, version, machines, object: group_of(world, owner, version) };
    group.decide(now)
}

/// Machines that Cluster API has chosen itself and waits for.
pub(super) fn decide_hooks(world: &World) -> Vec<Action> {
    let asked = world.machines.iter().filter(|machine| machine.updated_by_hook && !machine.deleting);
    // One that cannot go there gets an object all the same: it says why, and nothing is begun.
    let spec = |machine: &Machine| create(world, machine, machine.version.as_ref()?);
    asked.filter_map(spec).collect()
}

fn kind_of(owner: &Owner) -> GroupKind {
    match owner.kind {
        OwnerKind::ControlPlane => GroupKind::ControlPlane,
        OwnerKind::Workers => GroupKind::Workers,
    }
}

fn groups_of<'a>(world: &'a World, owner: &'a Owner) -> impl Iterator<Item = &'a GroupUpgrade> {
    let kind = kind_of(owner);
    world.group_upgrades.iter().filter(move |group| group.kind == kind && group.spec.owner() == Some(&owner.object))
}

fn group_of<'a>(world: &'a World, owner: &'a Owner, version: &KubernetesVersion) -> Option<&'a GroupUpgrade> {
    groups_of(world, owner).find(|group| group.spec.kubernetes_version == *version)
}

/// The upgrade of this machine to this version by the image that it has now is made; what is in its place goes first.
fn create(world: &World, machine: &Machine, version: &KubernetesVersion) -> Option<Action> {
    let node = machine.node.as_ref()?;
    let image = world.releases.get(version.as_str()).map(|release| release.image.clone()).unwrap_or_default();
    let others = world.control_plane().filter(|known| known.object != machine.object);
    let runs_it =
        |known: &Machine| known.node.as_ref().is_some_and(|node| version.is_met_by_kubelet(&node.kubelet_version));
    let role = match machine.control_plane {
        false => Role::Worker,
        true if others.into_iter().any(runs_it) => Role::ControlPlane,
        true => Role::FirstControlPlane,
    };
    let spec = NodeUpgradeSpec {
        cluster_name: world.cluster.clone(),
        machine: machine.object.clone(),
        node: node.name.clone(),
        role,
        kubernetes_version: version.clone(),
        image,
        files: machine.files.clone(),
        // Whoever makes the object writes them down.
        steps: Vec::new(),
    };
    let name = spec.object_name();
    match world.node_upgrades.iter().find(|known| known.name == name) {
        None => Some(Action::CreateNode { spec: Box::new(spec) }),
        Some(known) if known.deleting || known.spec.has_target_of(&spec) || known.status.phase.is_active() => None,
        Some(known) => {
            Some(Action::DeleteNode { upgrade: NamedObject { name: known.name.clone(), uid: known.uid.clone() } })
        }
    }
}

struct Group<'a> {
    world: &'a World,
    owner: &'a Owner,
    version: &'a KubernetesVersion,
    machines: Vec<&'a Machine>,
    object: Option<&'a GroupUpgrade>,
}

/// Where a group stands, in one line.
struct Told {
    standing: Standing,
    reason: &'static str,
    message: String,
}

impl Told {
    fn waits(reason: &'static str, message: impl Into<String>) -> Self {
        Self { standing: Standing::Reconciling, reason, message: message.into() }
    }

    fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self { standing: Standing::Stalled, reason, message: message.into() }
    }
}

impl<'a> Group<'a> {
    fn is_outdated(&self, machine: &Machine) -> bool {
        machine.version.as_ref() != Some(self.version) || !machine.configuration_matches
    }

    fn outdated(&self) -> Vec<&'a Machine> {
        self.machines.iter().copied().filter(|machine| self.is_outdated(machine)).collect()
    }

    /// Upgrades of machines of this group.
    fn upgrades(&self) -> impl Iterator<Item = (&'a Machine, &'a NodeUpgrade)> {
        let of = |machine: &'a Machine| {
            let upgrades = self.world.node_upgrades.iter();
            upgrades.filter(|upgrade| upgrade.spec.machine == machine.object).map(move |upgrade| (machine, upgrade))
        };
        self.machines.iter().copied().flat_map(of)
    }

    fn decide(&self, now: Timestamp) -> Vec<Action> {
        let outdated = self.outdated();
        if outdated.is_empty() {
            return self.ended(now);
        }
        let mut actions = Vec::new();
        let lease = || Lease::new(format!("its machines go to {} in place", self.version), now);
        let (kind, owner) = (self.owner.kind, self.owner.object.clone());
        match &self.owner.pause {
            // It is read to be paused before anything begins.
            Pause::None => return vec![Action::PauseOwner { kind, owner, lease: lease() }],
            Pause::Ours(known) if known.is_short(now) => {
                actions.push(Action::PauseOwner { kind, owner, lease: lease() });
            }
            Pause::Ours(_) | Pause::Others => {}
        }
        let Some(object) = self.object else {
            actions.push(self.create_group(&outdated));
            return actions;
        };
        // What it says of kubeadm's configuration cannot be changed, and has to be true of what follows.
        if object.spec.kubeadm_cluster_config != self.owner.cluster_configuration {
            let group = NamedObject { name: object.name.clone(), uid: object.uid.clone() };
            actions.push(Action::DeleteGroup { kind: object.kind, group });
            return actions;
        }
        actions.extend(self.adopt());
        actions.extend(self.delete_old_groups());
        let (told, next) = self.next(&outdated);
        actions.extend(self.write(object, &told, now));
        actions.extend(next);
        actions
    }

    /// No machine is outdated: the owner may look for itself.
    fn ended(&self, now: Timestamp) -> Vec<Action> {
        let mut actions = Vec::new();
        let owner = || self.owner.object.clone();
        if matches!(self.owner.pause, Pause::Ours(_)) {
            if !self.owner.template_matches {
                return vec![Action::AdoptTemplate { owner: owner() }];
            }
            actions.push(Action::ResumeOwner { kind: self.owner.kind, owner: owner() });
        }
        if let Some(object) = self.object {
            let is_ready = self.owner.pause == Pause::None && self.owner.up_to_date;
            let told = if is_ready {
                Told { standing: Standing::Ready, reason: "Upgraded", message: format!("all at {}", self.version) }
            } else {
                Told::waits("Settling", format!("its owner has to find all machines at {}", self.version))
            };
            actions.extend(self.write(object, &told, now));
        }
        actions.extend(self.delete_old_groups());
        actions
    }

    fn create_group(&self, outdated: &[&Machine]) -> Action {
        let kind = kind_of(self.owner);
        let named = |is_it: bool| is_it.then(|| self.owner.object.clone());
        let spec = GroupUpgradeSpec {
            cluster_name: self.world.cluster.clone(),
            control_plane: named(kind == GroupKind::ControlPlane),
            machine_deployment: named(kind == GroupKind::Workers),
            machines_require_upgrade: outdated.iter().map(|machine| machine.object.clone()).collect(),
            kubernetes_version: self.version.clone(),
            kubelet_version: Some(self.version.clone()),
            etcd_version: self.image_tag("/etcd/local/imageTag"),
            core_dns_version: self.image_tag("/dns/imageTag"),
            kubeadm_cluster_config: self.owner.cluster_configuration.clone(),
        };
        Action::CreateGroup { kind, spec: Box::new(spec) }
    }

    fn image_tag(&self, place: &str) -> Option<String> {
        let tag = self.owner.cluster_configuration.as_ref()?.pointer(place)?.as_str()?;
        (!tag.is_empty()).then(|| tag.to_owned())
    }

    /// Groups of targets that the owner has no more.
    fn delete_old_groups(&self) -> Vec<Action> {
        let old = groups_of(self.world, self.owner).filter(|group| group.spec.kubernetes_version != *self.version);
        let delete = |group: &GroupUpgrade| Action::DeleteGroup {
            kind: group.kind,
            group: NamedObject { name: group.name.clone(), uid: group.uid.clone() },
        };
        old.map(delete).collect()
    }

    /// Machines whose node is proven at a version that they do not say yet.
    fn adopt(&self) -> Vec<Action> {
        let is_due = |(machine, upgrade): &(&Machine, &NodeUpgrade)| {
            let version = &upgrade.spec.kubernetes_version;
            let runs_it = machine.node.as_ref().is_some_and(|node| version.is_met_by_kubelet(&node.kubelet_version));
            let is_said = machine.version.as_ref() == Some(version) && machine.configuration_matches;
            upgrade.status.completed && !upgrade.deleting && runs_it && !is_said && is_newest(self.world, upgrade)
        };
        let adopt = |(machine, upgrade): (&Machine, &NodeUpgrade)| Action::Adopt {
            kind: self.owner.kind,
            owner: self.owner.object.clone(),
            machine: machine.object.clone(),
            version: upgrade.spec.kubernetes_version.clone(),
        };
        self.upgrades().filter(is_due).map(adopt).collect()
    }

    /// Where the group stands, and what begins.
    fn next(&self, outdated: &[&'a Machine]) -> (Told, Vec<Action>) {
        let nothing = |told: Told| (told, Vec::new());
        let failed = self.upgrades().find(|(_, upgrade)| self.stops(upgrade));
        if let Some((machine, upgrade)) = failed {
            let (name, message) = (&machine.object.name, &upgrade.status.message);
            // Another value than the one that was followed last.
            let retried = upgrade.status.retried.as_ref().and_then(|retried| retried.parse::<u32>().ok());
            let next = retried.unwrap_or_default().saturating_add(1);
            let (upgrade, retry) = (&upgrade.name, crate::objects::RETRY);
            let help = format!("kubectl annotate nodekubeadmupgrade {upgrade} {retry}={next} --overwrite");
            return nothing(Told::stalled("NodeFailed", format!("{name}: {message}; once it is put right: {help}")));
        }
        if let Some((_, upgrade)) = self.upgrades().find(|(_, upgrade)| upgrade.status.phase.is_active()) {
            return nothing(Told::waits("NodeUnderWay", format!("{}{}", upgrade.status.message, self.unknown())));
        }
        if let Some(busy) = busy(self.world, None) {
            return nothing(Told::waits("OtherNodeUnderWay", busy_with(busy)));
        }
        if self.owner.pause == Pause::Others {
            let owner = &self.owner.object.name;
            return nothing(Told::waits(
                "Paused",
                format!("{} {owner} is paused by somebody else", self.owner.kind.as_str()),
            ));
        }
        if let Some(field) = self.owner.declined.first() {
            return nothing(Told::stalled("Declined", format!("not changed in place: {field}; nothing was begun")));
        }
        if let Some(going) = self.world.machines_of(self.owner).find(|machine| machine.deleting) {
            return nothing(Told::waits("MachineDeleted", format!("Machine {} is being deleted", going.object.name)));
        }
        if let Some(reason) = &self.world.unreachable {
            let cluster = &self.world.cluster;
            let told = format!("the API server of cluster {cluster} does not answer: {reason}");
            return nothing(Told::waits("Unreachable", told));
        }
        if let Some(why) = outdated.iter().find_map(|machine| self.why_not(machine)) {
            return nothing(Told::stalled("NotPossible", format!("{why}; nothing was begun")));
        }
        // Those that are done say so in a moment.
        let is_done = |machine: &Machine| {
            let mut upgrades = self.world.node_upgrades.iter();
            upgrades.any(|known| {
                known.spec.machine == machine.object
                    && known.spec.kubernetes_version == *self.version
                    && known.status.phase == NodePhase::Completed
            })
        };
        let left: Vec<&Machine> = outdated.iter().copied().filter(|machine| !is_done(machine)).collect();
        let Some(machine) = left.iter().copied().min_by_key(|machine| self.rank(machine)) else {
            return nothing(Told::waits("Adopting", "its machines are written"));
        };
        let name = &machine.object.name;
        // What was begun is finished first, whatever the target is by now.
        let begun = begun_for(machine).filter(|begun| self.world.releases.contains_key(begun.as_str()));
        let version = begun.as_ref().unwrap_or(self.version);
        if let Some(why) = precheck::why_not_now(self.world, machine, version) {
            return nothing(Told::waits("NotNow", format!("before {name}: {why}")));
        }
        let begins = create(self.world, machine, version).into_iter().collect();
        (Told::waits("NodeUnderWay", format!("{name} is next{}", self.unknown())), begins)
    }

    /// What the order of a control plane's machines would go by, and could not be read.
    fn unknown(&self) -> String {
        let is_ordered = self.owner.kind == OwnerKind::ControlPlane && self.machines.len() > 1;
        let asked = [
            ("which node holds the virtual address", &self.world.address_holder),
            ("which member of etcd leads", &self.world.etcd_leader),
        ];
        let told = asked.into_iter().filter(|_| is_ordered).map(|(what, holder)| match holder {
            Holder::Unknown(why) => format!("; {what} is not known, and keeps no machine for last: {why}"),
            Holder::Known(_) | Holder::Nobody => String::new(),
        });
        told.collect()
    }

    /// What fails at this version stops the group, and so does a node that is not undone.
    fn stops(&self, upgrade: &NodeUpgrade) -> bool {
        match upgrade.status.phase {
            NodePhase::RolledBack => upgrade.spec.kubernetes_version == *self.version,
            NodePhase::Failed => upgrade.spec.kubernetes_version == *self.version || is_begun(self.world, upgrade),
            _ => false,
        }
    }

    fn why_not(&self, machine: &Machine) -> Option<String> {
        if machine.version.as_ref() == Some(self.version) && machine.node.is_some() {
            let runs_it = |node: &super::Node| self.version.is_met_by_kubelet(&node.kubelet_version);
            if machine.node.as_ref().is_some_and(runs_it) {
                let name = &machine.object.name;
                return Some(format!("Machine {name} is configured otherwise at the same version"));
            }
        }
        inputs::why_not(self.world, machine, self.version)
    }

    /// What was begun first, then what is chosen already; holder of the address and leader of etcd last; else by age.
    fn rank(&self, machine: &Machine) -> (bool, bool, bool, Option<Timestamp>, String) {
        let holds = machine.node.as_ref().is_some_and(|node| self.world.address_holder.is(&node.name));
        let leads = self.world.etcd_leader.is(&machine.object.name);
        let is_chosen = self.world.node_upgrades.iter().any(|known| {
            known.spec.machine == machine.object
                && known.spec.kubernetes_version == *self.version
                && known.status.phase == NodePhase::Pending
        });
        (begun_for(machine).is_none(), !is_chosen, holds || leads, machine.created, machine.object.name.clone())
    }

    fn write(&self, object: &GroupUpgrade, told: &Told, now: Timestamp) -> Option<Action> {
        let outdated = self.outdated().len();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let current = self.upgrades().find(|(_, upgrade)| upgrade.status.phase.is_active());
        let current = current.or_else(|| self.upgrades().find(|(_, upgrade)| self.stops(upgrade)));
        let conditions =
            conditions(&object.status.conditions, told.standing, told.reason, &told.message, object.generation, now);
        let status = GroupUpgradeStatus {
            observed_generation: object.generation,
            require_upgrade: count(outdated),
            upgraded: count(self.machines.len().saturating_sub(outdated)),
            ready: told.standing == Standing::Ready,
            machine: current.map(|(machine, _)| machine.object.name.clone()),
            step: current.and_then(|(_, upgrade)| upgrade.status.step.clone()),
            message: told.message.clone(),
            conditions,
        };
        let group = NamedObject { name: object.name.clone(), uid: object.uid.clone() };
        (status != object.status).then(|| Action::WriteGroup { kind: object.kind, group, status: Box::new(status) })
    }
}

/// Whether the node is cordoned by this upgrade.
pub(super) fn is_begun(world: &World, upgrade: &NodeUpgrade) -> bool {
    let begun = world.machine(&upgrade.spec.machine).and_then(begun_for);
    begun.as_ref() == Some(&upgrade.spec.kubernetes_version)
}

/// Whether anybody wants this upgrade of which nothing was begun: its owner, Cluster API, or a node that is cordoned for
/// it.
pub(super) fn is_wanted(world: &World, upgrade: &NodeUpgrade) -> bool {
    let Some(machine) = world.machine(&upgrade.spec.machine) else { return false };
    let version = Some(&upgrade.spec.kubernetes_version);
    let owner = world.owners.iter().find(|owner| Some(&owner.object.name) == machine.owner.as_ref());
    let by_owner = owner.is_some_and(|it| it.driver == Driver::Controller && it.version.as_ref() == version);
    let by_hook = machine.updated_by_hook && machine.version.as_ref() == version;
    by_owner || by_hook || is_begun(world, upgrade)
}

/// The version for which an upgrade has cordoned the node.
fn begun_for(machine: &Machine) -> Option<KubernetesVersion> {
    match &machine.node.as_ref()?.cordon {
        Cordon::Ours(version) => version.parse().ok(),
        Cordon::None | Cordon::Others => None,
    }
}

/// Whether no other upgrade of the same machine was completed later.
fn is_newest(world: &World, upgrade: &NodeUpgrade) -> bool {
    world.node_upgrades.iter().all(|other| {
        other.spec.machine != upgrade.spec.machine
            || !other.status.completed
            || other.spec.kubernetes_version.order(&upgrade.spec.kubernetes_version).is_le()
    })
}
