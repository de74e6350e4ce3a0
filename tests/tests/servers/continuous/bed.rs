//! The servers and the cluster of a cell: how they come to be, and how the cluster goes.

use anyhow::{Context as _, ensure};
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::json;
use tests::continuous::cell::{Cell, Components, Etcd, Management, Strategy};
use tests::servers::manifests::{apply, kind_in, list};
use tests::servers::{FLUX_NAMESPACE, Programs};
use tests::waiting::{LONG_PATIENCE, until_within};

use super::cluster::{FILE, GROUP, Wanted};
use super::components;
use super::elections::Elections;
use super::in_place::{InPlace, is_by_hooks};
use super::versions::Versions;
use crate::external_etcd::bench::{Bench, CLUSTER, CONTROL_PLANE, NAMESPACE};
use crate::external_etcd::once::{let_machines_in_memory_sign, serve_external_etcd};
use crate::machine_order::nodes::Nodes;
use crate::machines::{CLUSTER_KIND, MACHINE, is_true};
use crate::scene::Scene;
use crate::simulator::machines::MachineProvider;

const WORKERS: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "MachineDeployment");
pub const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

pub struct Bed {
    pub cell: Cell,
    pub scene: Scene,
    pub provider: MachineProvider,
    /// The members of an external etcd, and what stands in for their controller.
    pub etcd: Option<Bench>,
    elections: Option<Elections>,
    /// What upgrades machines where they are.
    pub in_place: Option<InPlace>,
    /// What its nodes run, where that changes.
    versions: Option<Versions>,
    /// The nodes of a cluster that manages itself, on the server that stands in for its own.
    _nodes: Option<Nodes>,
}

impl Bed {
    /// The cluster of a cell at the first version, recorded and applied by Flux.
    pub async fn start(programs: Programs, cell: Cell) -> anyhow::Result<Self> {
        let mut scene = Scene::start(&programs).await?;
        let is_in_place = cell.strategy == Strategy::InPlace;
        let provider = if is_in_place && is_by_hooks(cell) {
            MachineProvider::start_with_in_place_updates(&programs, &scene.server).await?
        } else {
            MachineProvider::start(&programs, &scene.server).await?
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        apply(&scene.client, &[namespace]).await?;
        let mut nodes = None;
        if cell.management == Management::SelfManaged {
            // The kubeconfig that Cluster API keeps leads to the machines in memory.
            scene.environment.insert("STEPGATE_MANAGEMENT_CLUSTER", CLUSTER.into());
            nodes = Some(Nodes::follow(&scene.client, NAMESPACE));
        }
        let mut in_place = if is_in_place { Some(InPlace::start(&scene, cell).await?) } else { None };
        let wanted = Wanted::first(cell);
        let mut etcd = None;
        if cell.etcd == Etcd::External {
            serve_external_etcd(&scene.client).await?;
            let bench = etcd.insert(Bench::beside(programs, &scene.file("etcd"), &scene.server).await?);
            apply(&scene.client, &wanted.objects(&provider)?).await?;
            bench.first().await?;
            let_machines_in_memory_sign(&scene.client).await?;
        } else {
            apply(&scene.client, &wanted.objects(&provider)?).await?;
        }
        let mut files = components::first(&mut scene, cell.components)?;
        files.push((FILE, wanted.text(&provider)?));
        let mut bed =
            Self { cell, scene, provider, etcd, elections: None, in_place: None, versions: None, _nodes: nodes };
        bed.is_up(&wanted).await?;
        if bed.etcd.is_some() {
            bed.elections = Some(Elections::hold(&bed.scene.client).await?);
        }
        if let Some(in_place) = &mut in_place {
            in_place.start_kubelets(&bed.scene.client).await?;
            if cell.management == Management::SelfManaged {
                bed.versions = Some(Versions::follow(&bed.scene.client).await?);
            }
        }
        bed.in_place = in_place;
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        bed.scene.repository.push("Describe the fleet", &files)?;
        bed.adopt()?;
        bed.scene.connect_flux().await?;
        bed.is_applied().await?;
        Ok(bed)
    }

    async fn is_up(&self, wanted: &Wanted) -> anyhow::Result<()> {
        let counts = |object: &DynamicObject, count: u32| {
            object.data.pointer("/status/availableReplicas") == Some(&json!(count))
        };
        let up = async || {
            let client = &self.scene.client;
            let control_plane = kind_in(client, CONTROL_PLANE, NAMESPACE).await?.get(CLUSTER).await?;
            let workers = kind_in(client, WORKERS, NAMESPACE).await?.get(GROUP).await?;
            let all = counts(&control_plane, wanted.control_plane) && counts(&workers, wanted.workers);
            Ok(all.then_some(()))
        };
        until_within("the cluster is up", LONG_PATIENCE, up).await
    }

    /// Records what the source branch says. Flux brings its components only then.
    fn adopt(&self) -> anyhow::Result<()> {
        if self.cell.components == Components::Alone {
            return self.scene.adopt();
        }
        let output = self.scene.stepgate(&["adopt", "--as-declared", "--yes"]).output()?;
        ensure!(output.status.success(), "stepgate adopt: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    async fn is_applied(&self) -> anyhow::Result<()> {
        let applied = async || {
            let found = list(&self.scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
            Ok((found.len() > 1 && found.iter().all(|known| is_true(known, "Ready"))).then_some(()))
        };
        self.scene.until("Flux has applied what was recorded", applied).await
    }

    /// Takes the cluster away, by Cluster API.
    pub async fn delete(&mut self) -> anyhow::Result<()> {
        drop((self.elections.take(), self.versions.take()));
        // Flux would make it anew.
        self.scene.flux.kustomize.kill()?;
        let clusters = kind_in(&self.scene.client, CLUSTER_KIND, NAMESPACE).await?;
        clusters.delete(CLUSTER, &DeleteParams::default()).await.context("the cluster cannot be deleted")?;
        if self.etcd.take().is_some() {
            // As its controller would: they are not the Cluster's own.
            let machines = kind_in(&self.scene.client, MACHINE, NAMESPACE).await?;
            let of_etcd = ListParams::default().labels("cluster.x-k8s.io/etcd-cluster");
            machines.delete_collection(&DeleteParams::default(), &of_etcd).await?;
        }
        let gone = async || {
            let machines = list(&self.scene.client, MACHINE, NAMESPACE).await?;
            Ok((clusters.get_opt(CLUSTER).await?.is_none() && machines.is_empty()).then_some(()))
        };
        self.scene.until("the cluster is gone", gone).await
    }
}
