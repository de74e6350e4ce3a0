//! What the fleet says of the cluster of a cell.

use anyhow::Context as _;
use serde_json::{Value, json};
use simulator::{DesiredMachines, DesiredObject};
use tests::continuous::cell::{Cell, Etcd, Management, Scaling, Strategy};
use tests::continuous::matrix::CHAIN;
use tests::servers::manifests::kind;

use super::in_place::keep_machines;
use crate::external_etcd::bench::{CLUSTER, NAMESPACE};
use crate::external_etcd::once::with_external_etcd;
use crate::simulator::machines::MachineProvider;

/// The worker group.
pub const GROUP: &str = "blue";

/// The cluster's file in the fleet repository.
pub const FILE: &str = "clusters/shop/cluster.yaml";

/// What a cluster is to be like at a time.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    pub cell: Cell,
    /// The place of its version in the chain.
    pub version: usize,
    /// How many machines the control plane has.
    pub control_plane: u32,
    pub workers: u32,
}

impl Wanted {
    /// As it begins.
    pub fn first(cell: Cell) -> Self {
        Self { cell, version: 0, control_plane: cell.control_plane_machines(), workers: 1 }
    }

    /// Makes it larger, as its cell has it; whether that is so.
    pub fn grow(&mut self) -> bool {
        match self.cell.scaling {
            Scaling::Steady => return false,
            Scaling::Workers => self.workers += 1,
            Scaling::ControlPlane => self.control_plane = 3,
        }
        true
    }

    /// Its version of Kubernetes.
    pub fn kubernetes(&self) -> &'static str {
        CHAIN[self.version]
    }

    /// The objects of the cluster.
    pub fn objects(&self, provider: &MachineProvider) -> anyhow::Result<Vec<Value>> {
        let machines = |name: &str, replicas| DesiredMachines {
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
            replicas,
            version: self.kubernetes().to_owned(),
            template: format!("{name}-1s"),
            bootstrap_template: None,
        };
        let control_plane = machines(CLUSTER, self.control_plane);
        let control_plane = DesiredObject::ControlPlane { machines: control_plane, kube_vip: None };
        let workers = DesiredObject::Workers { group: GROUP.parse()?, machines: machines(GROUP, self.workers) };
        let mut objects = provider.manifest(CLUSTER, &control_plane)?;
        if self.cell.etcd == Etcd::External {
            with_external_etcd(&mut objects, &self.etcd_template());
        }
        objects.extend(provider.manifest(CLUSTER, &workers)?);
        if self.cell.strategy == Strategy::InPlace {
            keep_machines(self.cell, &mut objects);
        }
        let manager = match self.cell.management {
            Management::Managed => "management",
            Management::SelfManaged => CLUSTER,
        };
        let cluster = objects.iter_mut().find(|object| kind(object) == "Cluster").context("no cluster")?;
        cluster["metadata"]["annotations"] = json!({"stepgate.dev/management-cluster": manager});
        Ok(objects)
    }

    /// The same as a file.
    pub fn text(&self, provider: &MachineProvider) -> anyhow::Result<String> {
        Ok(self.objects(provider)?.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n"))
    }

    /// What members of an external etcd are made of: etcd goes up with each minor of Kubernetes.
    fn etcd_template(&self) -> String {
        format!("etcd-{}", self.version + 1)
    }
}
