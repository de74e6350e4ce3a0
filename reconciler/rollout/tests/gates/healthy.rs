//! A cluster in which everything holds, and everything that can be expected of it.

use std::collections::BTreeMap;

use domain::{CommitId, PlanDigest, RolloutId};
use jiff::{SignedDuration, Timestamp};
use rollout::{
    BackupReport, Before, ChecksExpectation, Condition, ConditionStatus, ControlPlane, ControlPlaneExpectation,
    CustomResourceDefinition, DaemonSet, Deployment, EksaCluster, EksaClusterExpectation, EtcdExpectation, EtcdHealth,
    EtcdMember, EtcdMembership, EtcdadmCluster, Expectation, Extent, FluxKustomization, FluxSource, Identification,
    Inspection, KubeVipExpectation, KubeletVersions, Machine, MachineDeployment, MachineOrderRules, MachineSet,
    MachineTopology, MembersHeard, Node, ObjectPresence, ObjectReference, Observation, OldMembers, Pod, RunningImage,
    Survey, VerifiedExpectation, VirtualAddress, WebhookOutcome, WebhookProbe, WorkersExpectation, conditions,
};

pub const VERSION: &str = "v1.35.0-eks-1-35-4";
pub const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

pub fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

pub fn second(offset: i64) -> Timestamp {
    now() + SignedDuration::from_secs(offset)
}

pub fn commit(name: char) -> CommitId {
    name.to_string().repeat(40).parse().unwrap()
}

pub fn image() -> String {
    format!("registry.example/manager:v2@{DIGEST}")
}

pub fn running(pod: &str) -> RunningImage {
    RunningImage {
        pod: pod.into(),
        container: "manager".into(),
        image: image(),
        digest: Some(DIGEST.into()),
        ready: true,
        waiting: None,
        deleting: false,
    }
}

pub fn healthy_conditions(names: &[&str], unhealthy: &[&str]) -> BTreeMap<String, Condition> {
    let pairs = names
        .iter()
        .map(|name| (*name, ConditionStatus::True))
        .chain(unhealthy.iter().map(|name| (*name, ConditionStatus::False)));
    let mut all = conditions(pairs);
    for condition in all.values_mut() {
        condition.observed_generation = Some(2);
    }
    all
}

pub fn machine(name: &str, owner: &str, control_plane: bool) -> Machine {
    Machine {
        uid: None,
        created_at: None,
        rollout: None,
        certificates_end: None,
        deleted_at: None,
        namespace: "eksa-system".into(),
        name: name.into(),
        cluster: "prod".into(),
        generation: Some(2),
        control_plane,
        owner: Some(owner.into()),
        etcd_cluster: None,
        addresses: Vec::new(),
        pool: None,
        deleting: false,
        spec_version: Some(VERSION.into()),
        infrastructure_template: Some("template-2".into()),
        node: Some(format!("node-{name}")),
        kubelet_version: Some("v1.35.0-eks-6f07bbc".into()),
        phase: Some("Running".into()),
        delete_first: None,
        brake: None,
        hardware: None,
        conditions: healthy_conditions(
            &["UpToDate", "NodeHealthy", "Ready", "EtcdMemberHealthy"],
            &["Updating", "Deleting"],
        ),
    }
}

/// One workload was broken before.
pub fn before() -> Before {
    Before {
        observed_at: second(-600),
        ready_nodes: 5,
        kubelets: BTreeMap::new(),
        workloads: 4,
        broken: vec!["Deployment shop/long-broken".into()],
        more_broken: 0,
        missing_sidecars: None,
        more_missing_sidecars: 0,
        api_requests: None,
        dump: None,
        strays: Some(vec!["Node by-hand".into()]),
        templates: Vec::new(),
    }
}

/// A member of the external etcd: no Kubernetes runs on it.
pub fn member(name: &str) -> Machine {
    Machine {
        certificates_end: None,
        deleted_at: None,
        spec_version: None,
        infrastructure_template: Some("etcd-template-2".into()),
        node: None,
        kubelet_version: None,
        etcd_cluster: Some("prod-etcd".into()),
        addresses: vec![address(name)],
        ..machine(name, "prod-etcd", false)
    }
}

/// Where a member listens.
pub fn address(name: &str) -> String {
    name.replace("etcd-", "192.0.2.")
}

/// What a healthy member says of itself.
pub fn word(name: &str) -> EtcdMember {
    EtcdMember {
        id: name.into(),
        name: name.into(),
        hosts: vec![address(name)],
        learner: false,
        health: EtcdHealth::Healthy,
        version: Some("3.5.21".into()),
    }
}

/// A machine configuration that EKS Anywhere's Cluster refers to.
pub fn machine_config() -> ObjectReference {
    ObjectReference {
        api_version: "anywhere.eks.amazonaws.com/v1alpha1".into(),
        kind: "VSphereMachineConfig".into(),
        namespace: Some("default".into()),
        name: "prod-etcd".into(),
    }
}

pub fn leftover() -> ObjectReference {
    ObjectReference {
        api_version: "apps/v1".into(),
        kind: "DaemonSet".into(),
        namespace: Some("kube-system".into()),
        name: "pre-pull".into(),
    }
}

pub fn bundle() -> ObjectReference {
    ObjectReference {
        api_version: "anywhere.eks.amazonaws.com/v1alpha1".into(),
        kind: "Bundles".into(),
        namespace: Some("eksa-system".into()),
        name: "bundles-81".into(),
    }
}

pub fn rollout_id() -> RolloutId {
    PlanDigest::of([b"plan".as_slice()]).rollout_id()
}

pub fn healthy() -> Observation {
    let mut healthy = Observation::empty(second(-1));
    healthy.identity = Identification::without_server("test");
    let ready = healthy_conditions(&["Ready"], &[]).remove("Ready");
    healthy.flux.sources.push(FluxSource {
        kind: rollout::SourceKind::default(),
        namespace: "flux-system".into(),
        name: "fleet".into(),
        generation: 2,
        observed_generation: Some(2),
        suspended: false,
        ready: ready.clone(),
        artifact_revision: Some(commit('c')),
        artifact: None,
    });
    healthy.flux.kustomizations.push(FluxKustomization {
        namespace: "flux-system".into(),
        name: "capi".into(),
        source: Some("fleet".into()),
        source_kind: rollout::SourceKind::default(),
        source_namespace: None,
        generation: 2,
        observed_generation: Some(2),
        suspended: false,
        reconcile_disabled: false,
        suspended_by: None,
        hold: None,
        ready,
        last_applied_revision: Some(commit('c')),
        last_attempted_revision: Some(commit('c')),
        artifacts: rollout::Artifacts::default(),
        ready_since: None,
    });
    healthy.deployments.push(Deployment {
        namespace: "capi-system".into(),
        name: "manager".into(),
        generation: 2,
        observed_generation: Some(2),
        spec_replicas: 2,
        replicas: Some(2),
        updated_replicas: Some(2),
        ready_replicas: Some(2),
        available_replicas: Some(2),
        conditions: conditions([("Available", ConditionStatus::True), ("Progressing", ConditionStatus::True)]),
        images: vec![image()],
        running: vec![running("a"), running("b")],
        ..Deployment::default()
    });
    healthy.daemon_sets.push(DaemonSet {
        namespace: "kube-system".into(),
        name: "cilium".into(),
        generation: 2,
        observed_generation: Some(2),
        deleting: false,
        desired_scheduled: Some(2),
        current_scheduled: Some(2),
        updated_scheduled: Some(2),
        ready: Some(2),
        available: Some(2),
        misscheduled: Some(0),
        images: vec![image()],
        running: vec![running("c"), running("d")],
        template: None,
        pods: Vec::new(),
    });
    healthy.custom_resource_definitions.push(CustomResourceDefinition {
        name: "clusters.cluster.x-k8s.io".into(),
        established: true,
        names_accepted: true,
        deleting: false,
        versions: vec!["v1beta1".into(), "v1beta2".into()],
        served_versions: vec!["v1beta1".into(), "v1beta2".into()],
        storage_version: Some("v1beta2".into()),
        stored_versions: vec!["v1beta1".into(), "v1beta2".into()],
        conversion_authority_injected: Some(true),
    });
    healthy.webhooks.push(WebhookProbe {
        name: "capi".into(),
        probed_at: second(-2),
        outcome: WebhookOutcome::Answered,
    });
    for (reference, generation) in [(bundle(), Some(1)), (leftover(), None), (machine_config(), Some(3))] {
        let present = generation.is_some();
        healthy.objects.push(ObjectPresence {
            reference,
            present,
            generation,
            deleting: false,
            unfinished: None,
            origin: None,
        });
    }
    healthy.eksa_clusters.push(EksaCluster {
        namespace: "default".into(),
        name: "prod".into(),
        generation: 4,
        observed_generation: Some(4),
        reconciled_generation: Some(4),
        // A child that nobody here knows of is at generation 2.
        children_reconciled_generation: Some(5),
        ..EksaCluster::default()
    });
    healthy.control_planes.push(ControlPlane {
        namespace: "eksa-system".into(),
        name: "prod".into(),
        cluster: "prod".into(),
        generation: 2,
        observed_generation: Some(2),
        paused: false,
        deleting: false,
        spec_version: VERSION.into(),
        status_version: Some(VERSION.into()),
        spec_replicas: Some(3),
        replicas: Some(3),
        up_to_date_replicas: Some(3),
        ready_replicas: Some(3),
        available_replicas: Some(3),
        conditions: healthy_conditions(
            &[
                "MachinesUpToDate",
                "MachinesReady",
                "Available",
                "EtcdClusterHealthy",
                "ControlPlaneComponentsHealthy",
                "CertificatesAvailable",
            ],
            &["RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting", "Paused"],
        ),
        infrastructure_template: Some("template-2".into()),
        ..ControlPlane::default()
    });
    healthy.machine_deployments.push(MachineDeployment {
        namespace: "eksa-system".into(),
        name: "prod-md-0".into(),
        cluster: "prod".into(),
        rollout: None,
        group: Some("md-0".parse().unwrap()),
        generation: 2,
        observed_generation: Some(2),
        paused: false,
        paused_in_place: false,
        deleting: false,
        spec_version: Some(VERSION.into()),
        spec_replicas: Some(2),
        replicas: Some(2),
        up_to_date_replicas: Some(2),
        ready_replicas: Some(2),
        available_replicas: Some(2),
        conditions: healthy_conditions(
            &["MachinesUpToDate", "MachinesReady", "Available"],
            &["RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting", "Paused"],
        ),
        infrastructure_template: Some("template-2".into()),
        bootstrap_template: Some("bootstrap-2".into()),
    });
    for (name, template, bootstrap, version, machines) in [
        ("prod-md-0-new", "template-2", "bootstrap-2", VERSION, 2),
        ("prod-md-0-old", "template-1", "bootstrap-1", "v1.34.0-eks-1-34-9", 0),
        ("prod-md-0-older", "template-2", "bootstrap-1", VERSION, 0),
    ] {
        healthy.machine_sets.push(MachineSet {
            namespace: "eksa-system".into(),
            name: name.into(),
            machine_deployment: Some("prod-md-0".into()),
            spec_version: Some(version.into()),
            infrastructure_template: Some(template.into()),
            bootstrap_template: Some(bootstrap.into()),
            spec_replicas: Some(machines),
            replicas: Some(machines),
        });
    }
    for name in ["cp-0", "cp-1", "cp-2"] {
        healthy.machines.push(machine(name, "prod", true));
    }
    for name in ["md-0-0", "md-0-1"] {
        healthy.machines.push(machine(name, "prod-md-0", false));
    }
    for name in ["etcd-0", "etcd-1", "etcd-2"] {
        healthy.machines.push(member(name));
    }
    healthy.etcd_clusters.push(EtcdadmCluster {
        namespace: "eksa-system".into(),
        name: "prod-etcd".into(),
        cluster: "other".into(),
        generation: 2,
        observed_generation: Some(2),
        paused: false,
        paused_by_us: false,
        deleting: false,
        spec_replicas: Some(3),
        ready_replicas: Some(3),
        ready: Some(true),
        creation_complete: Some(true),
        conditions: BTreeMap::new(),
        infrastructure_template: Some("etcd-template-2".into()),
        version: Some("v3.5.21-eks-1-35-4".into()),
        membership: Some(EtcdMembership::Known { members: ["etcd-0", "etcd-1", "etcd-2"].map(word).into() }),
    });
    healthy.clusters.push(MachineTopology {
        namespace: "eksa-system".into(),
        name: "prod".into(),
        generation: Some(2),
        topology_version: Some(VERSION.into()),
        conditions: healthy_conditions(&["TopologyReconciled"], &[]),
        ..MachineTopology::default()
    });
    for machine in healthy.machines.clone().into_iter().filter(|machine| machine.node.is_some()) {
        healthy.nodes.push(Node {
            release: None,
            origin: None,
            unschedulable_since: None,
            name: machine.node.clone().unwrap(),
            ready: ConditionStatus::True,
            unschedulable: false,
            pressures: Vec::new(),
            control_plane: machine.control_plane,
            kubelet_version: Some("v1.35.0-eks-6f07bbc".into()),
        });
        if machine.control_plane {
            healthy.pods.push(Pod {
                namespace: "kube-system".into(),
                name: format!("kube-vip-{}", machine.name),
                application: "kube-vip".into(),
                node: machine.node,
                ready: true,
                running: vec![running("kube-vip")],
            });
        }
    }
    healthy.survey = Some(Survey { workloads: 4, broken: vec!["Deployment shop/long-broken".into()] });
    healthy.inspection = Some(Inspection::default());
    healthy.virtual_address =
        Some(VirtualAddress { holder: Some("node-cp-1".into()), renewed_at: None, transitions: None });
    healthy.backup = Some(BackupReport {
        rollout: rollout_id(),
        taken_at: second(-600),
        objects: 12,
        read_back: true,
        location: "backups/1".into(),
    });
    healthy
}

pub fn flux() -> Expectation {
    Expectation::Flux { namespace: "flux-system".into(), kustomizations: vec!["capi".into()] }
}

pub fn expectations() -> Vec<Expectation> {
    vec![
        flux(),
        Expectation::ClusterHealthy { cluster: Some("prod".into()) },
        Expectation::Surveyed,
        Expectation::Checks(ChecksExpectation {
            cluster: Some(("eksa-system".into(), "prod".into())),
            ..ChecksExpectation::default()
        }),
        Expectation::BackupTaken { maximum_age: std::time::Duration::from_secs(24 * 60 * 60) },
        Expectation::Object { object: bundle() },
        Expectation::Absent { object: leftover() },
        Expectation::Deployment { namespace: "capi-system".into(), name: "manager".into(), images: vec![image()] },
        Expectation::DaemonSet { namespace: "kube-system".into(), name: "cilium".into(), images: vec![image()] },
        Expectation::CustomResourceDefinition {
            name: "clusters.cluster.x-k8s.io".into(),
            served: vec!["v1beta1".into(), "v1beta2".into()],
            storage: "v1beta2".into(),
        },
        Expectation::Webhook { name: "capi".into() },
        Expectation::EksaCluster(EksaClusterExpectation {
            namespace: "default".into(),
            name: "prod".into(),
            children: vec![machine_config()],
            extent: Extent::Whole,
        }),
        Expectation::Etcd(EtcdExpectation {
            namespace: "eksa-system".into(),
            name: "prod-etcd".into(),
            replicas: 3,
            infrastructure_template: Some("etcd-template-2".into()),
            members: MembersHeard::Required,
            old_members: OldMembers::MayStay,
            rolls: true,
            above_generation: Some(1),
        }),
        Expectation::ControlPlane(ControlPlaneExpectation {
            namespace: "eksa-system".into(),
            cluster: "prod".into(),
            version: VERSION.into(),
            replicas: Some(3),
            infrastructure_template: Some("template-2".into()),
            stacked_etcd: true,
            kubelet_versions: KubeletVersions::Required,
            kube_vip: Some(KubeVipExpectation { image: Some(image()), lease: None }),
            order: MachineOrderRules::default(),
            gate: policy::ControlPlaneGate::Whole,
        }),
        Expectation::Workers(WorkersExpectation {
            namespace: "eksa-system".into(),
            cluster: "prod".into(),
            group: "md-0".parse().unwrap(),
            version: VERSION.into(),
            replicas: Some(2),
            infrastructure_template: Some("template-2".into()),
            bootstrap_template: Some("bootstrap-2".into()),
            kubelet_versions: KubeletVersions::Required,
        }),
        Expectation::Verified(VerifiedExpectation {
            cluster: Some("prod".into()),
            version: Some("1.35".into()),
            kubelet_versions: KubeletVersions::Required,
            leftovers: vec![leftover()],
            before: Some(before()),
        }),
    ]
}
