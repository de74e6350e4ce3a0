//! What a cluster looks like to a reader, and what its stages expect to see.

use rollout::{
    Condition, ConditionStatus, ControlPlane, ControlPlaneExpectation, Deployment, Expectation, KubeletVersions,
    Machine, MachineDeployment, MachineOrderRules, Observation, RunningImage, WorkersExpectation, conditions,
};

pub fn image(stage: &str, version: u8) -> String {
    format!("registry.example/{stage}:v{version}@sha256:{version}")
}

pub fn kubernetes(version: u8) -> String {
    format!("v1.30.{version}")
}

pub fn expectations(stage: &str, version: u8) -> Vec<Expectation> {
    let flux = Expectation::Flux { namespace: "flux-system".into(), kustomizations: vec!["cluster".into()] };
    let (namespace, cluster) = ("system".to_owned(), "prod".to_owned());
    let kubelet_versions = KubeletVersions::WhenReported;
    let own = match stage {
        "control-plane" => Expectation::ControlPlane(ControlPlaneExpectation {
            namespace,
            cluster,
            version: kubernetes(version),
            replicas: None,
            infrastructure_template: None,
            stacked_etcd: false,
            kubelet_versions,
            kube_vip: None,
            order: MachineOrderRules::default(),
            gate: policy::ControlPlaneGate::Whole,
        }),
        "workers/md-0" => Expectation::Workers(WorkersExpectation {
            namespace,
            cluster,
            group: "md-0".parse().unwrap(),
            version: kubernetes(version),
            replicas: None,
            infrastructure_template: None,
            bootstrap_template: None,
            kubelet_versions,
        }),
        name => Expectation::Deployment { namespace, name: name.into(), images: vec![image(name, version)] },
    };
    vec![flux, own]
}

pub fn add_deployment(seen: &mut Observation, name: &str, declared: u8, actual: u8) {
    let reference = image(name, actual);
    let digest = reference.split_once('@').map(|(_, digest)| digest.to_owned());
    seen.deployments.push(Deployment {
        namespace: "system".into(),
        name: name.into(),
        generation: i64::from(declared),
        // Behind while it rolls: counts are equal all the time.
        observed_generation: Some(i64::from(actual)),
        spec_replicas: 1,
        replicas: Some(1),
        updated_replicas: Some(1),
        ready_replicas: Some(1),
        available_replicas: Some(1),
        conditions: conditions([("Available", ConditionStatus::True)]),
        images: vec![image(name, declared)],
        running: vec![RunningImage {
            pod: format!("{name}-{actual}"),
            container: "manager".into(),
            image: reference,
            digest,
            ready: true,
            waiting: None,
            deleting: false,
        }],
        ..Deployment::default()
    });
}

fn healthy(names: &[&str], unhealthy: &[&str]) -> std::collections::BTreeMap<String, Condition> {
    conditions(
        names
            .iter()
            .map(|name| (*name, ConditionStatus::True))
            .chain(unhealthy.iter().map(|name| (*name, ConditionStatus::False))),
    )
}

fn machine(name: &str, owner: &str, control_plane: bool, version: u8) -> Machine {
    Machine {
        namespace: "system".into(),
        name: format!("{name}-{version}"),
        cluster: "prod".into(),
        control_plane,
        owner: Some(owner.into()),
        spec_version: Some(kubernetes(version)),
        node: Some(format!("{name}-{version}")),
        conditions: healthy(&["UpToDate", "NodeHealthy", "Ready"], &[]),
        ..Machine::default()
    }
}

/// As real control planes show it: stale but complete while the rollout has not begun.
pub fn add_control_plane(seen: &mut Observation, declared: u8, actual: u8) {
    seen.control_planes.push(ControlPlane {
        namespace: "system".into(),
        name: "prod".into(),
        cluster: "prod".into(),
        generation: i64::from(declared),
        observed_generation: Some(i64::from(actual)),
        spec_version: kubernetes(declared),
        status_version: Some(kubernetes(actual)),
        spec_replicas: Some(1),
        replicas: Some(1),
        up_to_date_replicas: Some(1),
        ready_replicas: Some(1),
        available_replicas: Some(1),
        conditions: healthy(
            &[
                "MachinesUpToDate",
                "MachinesReady",
                "Available",
                "ControlPlaneComponentsHealthy",
                "CertificatesAvailable",
            ],
            &["RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting"],
        ),
        ..ControlPlane::default()
    });
    seen.machines.push(machine("cp", "prod", true, actual));
}

/// As real machine deployments show it: finished by every count, with every machine old.
pub fn add_workers(seen: &mut Observation, declared: u8, actual: u8) {
    seen.machine_deployments.push(MachineDeployment {
        namespace: "system".into(),
        name: "prod-md-0".into(),
        cluster: "prod".into(),
        group: Some("md-0".parse().unwrap()),
        generation: i64::from(declared),
        observed_generation: Some(i64::from(declared)),
        spec_version: Some(kubernetes(declared)),
        spec_replicas: Some(1),
        replicas: Some(1),
        up_to_date_replicas: Some(1),
        ready_replicas: Some(1),
        available_replicas: Some(1),
        conditions: healthy(
            &["MachinesUpToDate", "MachinesReady", "Available"],
            &["RollingOut", "ScalingUp", "ScalingDown", "Remediating"],
        ),
        ..MachineDeployment::default()
    });
    seen.machines.push(machine("md", "prod-md-0", false, actual));
}
