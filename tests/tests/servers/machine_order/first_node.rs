//! What the gate of a control plane says of a roll by Cluster API: of the first node, and of the whole.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use jiff::Timestamp;
use policy::{ControlPlaneGate, StagePolicy};
use rollout::{
    ControlPlaneExpectation, Expectation, GateHistory, KubeletVersions, MachineOrderRules, control_plane_gate,
};

use super::{Bench, NAME, NEW};

/// What is read of the roll.
pub struct Gates {
    cluster: KubernetesCluster,
}

impl Gates {
    pub async fn of(bench: &Bench) -> anyhow::Result<Self> {
        let source = ConnectionSource::Kubeconfig { path: Some(bench.scene.server.kubeconfig()), context: None };
        let connection = Connection::open(&source).await?.with_requests_per_second(1000);
        Ok(Self { cluster: KubernetesCluster::management(connection, bench.scene.file("gates")) })
    }

    /// Whether the first node, and the whole, pass by two readings of now, and what they wait for.
    pub async fn pass(&self) -> anyhow::Result<([bool; 2], String)> {
        let expectation = |gate| ControlPlaneExpectation {
            namespace: NAME.to_owned(),
            cluster: NAME.to_owned(),
            version: NEW.to_owned(),
            replicas: Some(3),
            infrastructure_template: None,
            stacked_etcd: true,
            kubelet_versions: KubeletVersions::WhenReported,
            kube_vip: None,
            order: MachineOrderRules::default(),
            gate,
        };
        let gates = [ControlPlaneGate::FirstNode, ControlPlaneGate::Whole].map(expectation);
        let policy = StagePolicy { soak: Duration::ZERO, ..StagePolicy::default() };
        let (mut histories, mut passed, mut said) =
            ([GateHistory::default(), GateHistory::default()], [false; 2], String::new());
        for _ in 0..2 {
            let request = ObserveRequest {
                expectations: gates.iter().cloned().map(Expectation::ControlPlane).collect(),
                kustomizations: Vec::new(),
                deployed: Arc::default(),
                freshness: Freshness::Fresh,
                at: Timestamp::now(),
            };
            let observation = self.cluster.observe(&request).await;
            ensure!(observation.unread.is_empty(), "{:?}", observation.unread);
            said.clear();
            for (place, gate) in gates.iter().enumerate() {
                let (verdict, history) = control_plane_gate(gate, &observation, &policy, &histories[place]);
                said.push_str(&format!("{:?}: {verdict:?}\n", gate.gate));
                (passed[place], histories[place]) = (verdict.is_pass(), history);
            }
        }
        Ok((passed, said))
    }
}
