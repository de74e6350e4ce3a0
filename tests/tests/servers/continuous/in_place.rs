//! What upgrades machines where they are: the extension with its controller, and the kubelets of nodes in memory.
//!
//! Three machines of a control plane are upgraded by Cluster API's hooks; it does not allow them for a single one, whose machine Stepgate's
//! controller upgrades while its owner is paused.

use anyhow::ensure;
use cluster::kubernetes::in_place_definitions;
use in_place::objects::{CONTROLLER, STRATEGY};
use kube::Client;
use serde_json::{Value, json};
use tests::continuous::cell::{Cell, ControlPlane};
use tests::continuous::matrix::CHAIN;
use tests::servers::manifests::{apply, define, kind};
use tests::servers::{ApiServer, Process};

use super::cluster::Wanted;
use crate::external_etcd::bench::{CLUSTER, NAMESPACE};
use crate::in_place::bench::{ON_DECLINE, SYSTEM, extension, is_discovered, registration};
use crate::in_place::kubelets::{Kubelets, upgraders, workload};
use crate::in_place_controller::start_extension;
use crate::scene::Scene;

pub struct InPlace {
    pub extension: Process,
    kubelets: Option<Kubelets>,
}

/// Whether Cluster API asks for each machine by its hooks.
pub fn is_by_hooks(cell: Cell) -> bool {
    cell.control_plane == ControlPlane::Three
}

/// Says of the objects of a cluster that its machines stay, and names what upgrades them.
pub fn keep_machines(cell: Cell, objects: &mut Vec<Value>) {
    for object in objects.iter_mut() {
        let (template, unavailable) = match kind(object) {
            "KubeadmControlPlane" => ("machineTemplate", None),
            "MachineDeployment" => ("template", Some(1)),
            _ => continue,
        };
        if !is_by_hooks(cell) {
            object["metadata"]["annotations"][STRATEGY] = json!(CONTROLLER);
            continue;
        }
        let mut update = json!({"maxSurge": 0});
        if let Some(unavailable) = unavailable {
            update["maxUnavailable"] = json!(unavailable);
        }
        object["spec"]["rollout"] = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": update}});
        object["spec"][template]["metadata"] = json!({"annotations": {ON_DECLINE: "hold"}});
    }
    let mut images = upgraders(NAMESPACE, CHAIN[0]);
    for version in CHAIN {
        images["data"][version] = images["data"][CHAIN[0]].clone();
    }
    objects.push(images);
}

impl InPlace {
    /// Before there is a cluster.
    pub async fn start(scene: &Scene, cell: Cell) -> anyhow::Result<Self> {
        let Scene { folder, server, client, .. } = scene;
        define(client, &in_place_definitions()).await?;
        apply(client, &[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})]).await?;
        let extension = if is_by_hooks(cell) {
            by_hooks(scene).await?
        } else {
            start_extension(folder.path(), server, client).await?
        };
        Ok(Self { extension, kubelets: None })
    }

    /// Once the cluster has a server of its own.
    pub async fn start_kubelets(&mut self, client: &Client) -> anyhow::Result<()> {
        let own = workload(client, NAMESPACE, CLUSTER).await?;
        self.kubelets = Some(Kubelets::start_as_machines(own, client.clone(), NAMESPACE));
        Ok(())
    }

    /// Each node was upgraded once in each upgrade of the chain that it was there for; the worker that came in the first one was there for the
    /// others.
    pub fn assert_upgraded_once(&self, wanted: &Wanted) -> anyhow::Result<()> {
        let Some(kubelets) = &self.kubelets else { return Ok(()) };
        let upgraded = kubelets.upgraded()?;
        let first = Wanted::first(wanted.cell);
        let (upgrades, added) = (CHAIN.len() - 1, usize::try_from(wanted.workers - first.workers)?);
        let from_the_start = usize::try_from(wanted.control_plane + first.workers)?;
        let expected = from_the_start * upgrades + added * (upgrades - 1);
        ensure!(upgraded.len() == expected, "{} upgrades of nodes, {expected} expected: {upgraded:?}", upgraded.len());
        Ok(())
    }
}

async fn by_hooks(scene: &Scene) -> anyhow::Result<Process> {
    let server: &ApiServer = &scene.server;
    let extension = extension(scene.folder.path(), server, &server.kubeconfig()).await?;
    apply(&scene.client, &[registration(server, "stepgate")]).await?;
    is_discovered(&scene.client, "stepgate").await?;
    Ok(extension)
}
