//! One change each: a class, an image of another name, a release that goes down.

use anyhow::{Context as _, ensure};
use kube::ResourceExt as _;
use tests::servers::isolated;
use tests::servers::manifests::list;

use super::{ALL, BEFORE_NEW, Bench, FILE, NAME, NEW, POLICY, RECORDS, SMALL, cluster, records};
use crate::machines::{self, MACHINE, NAMESPACE};

/// What says which rollout it was: the owner of machines, a machine, and what it is made of.
const SIGNED: [(&str, &str); 4] = [
    ("cluster.x-k8s.io/v1beta2", "MachineDeployment"),
    MACHINE,
    ("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine"),
    ("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig"),
];

impl Bench {
    /// Which objects of a pool say by which rollout they are as they are; where they do, it is the one of the record.
    async fn signed(&self, pool: &str) -> anyhow::Result<[(&'static str, bool); 4]> {
        let mut said = SIGNED.map(|(_, kind)| (kind, false));
        let record = self.scene.repository.deployed(&format!("clusters/{NAME}/rollout.yaml"))?;
        for ((api, kind), (_, is_signed)) in SIGNED.into_iter().zip(&mut said) {
            let objects = list(&self.scene.client, (api, kind), NAMESPACE).await?;
            let mut of_pool = objects.iter().filter(|object| object.name_any().starts_with(&format!("{NAME}-{pool}")));
            let object = of_pool.next().with_context(|| format!("no {kind} of {pool}"))?;
            if let Some(rollout) = object.annotations().get("stepgate.dev/rollout") {
                ensure!(record.contains(rollout), "{kind}: {rollout}: {record}");
                *is_signed = true;
            }
        }
        Ok(said)
    }
}

#[test]
fn a_class_changes_its_pool_alone() {
    let name = "tanzu::rendered::moves::a_class_changes_its_pool_alone";
    isolated(name, &machines::needed(), async |programs| {
        let mut bench = Bench::start(&programs, NEW, SMALL, POLICY).await?;
        let _controller = bench.scene.controller()?;
        let (plane, blue, green) =
            (bench.uids("control-plane").await?, bench.uids("blue").await?, bench.uids("green").await?);
        let larger = cluster(NEW, "large", SMALL);
        bench.scene.repository.push("Larger machines", &[(FILE, &larger)])?;
        bench.rolled(&["workers/green", "templates", "verify"]).await?;
        assert_eq!((bench.uids("control-plane").await?, bench.uids("blue").await?), (plane, blue));
        assert!(bench.uids("green").await?.is_disjoint(&green));
        assert_eq!(bench.signed("green").await?, SIGNED.map(|(_, kind)| (kind, true)));
        assert_eq!(bench.signed("blue").await?, SIGNED.map(|(_, kind)| (kind, false)));
        bench.scene.assert_nothing_is_left()?;
        bench.scene.folder.done();
        Ok(())
    });
}

/// The same release under another name rolls everything, so it waits until somebody wants it.
#[test]
fn a_renamed_image_waits_until_somebody_takes_it() {
    let name = "tanzu::rendered::moves::a_renamed_image_waits_until_somebody_takes_it";
    isolated(name, &machines::needed(), async |programs| {
        let mut bench = Bench::start(&programs, NEW, SMALL, POLICY).await?;
        let _controller = bench.scene.controller()?;
        let before = bench.all_uids().await?;
        let renamed = records("image-newer");
        bench.scene.repository.push("Record images anew", &[(RECORDS, &renamed)])?;
        bench.scene.why_says(NAME, &["image-new", "has become image-newer"]).await?;
        assert_eq!(bench.all_uids().await?, before);
        let accepted = cluster(NEW, "small", SMALL)
            .replace("annotations: {", "annotations: {stepgate.dev/accepted-image: image-newer, ");
        bench.scene.repository.push("Take the image", &[(FILE, &accepted)])?;
        bench.rolled(&ALL).await?;
        assert!(bench.all_uids().await?.is_disjoint(&before));
        bench.scene.assert_nothing_is_left()?;
        bench.scene.folder.done();
        Ok(())
    });
}

#[test]
fn a_release_goes_down_by_workers_first() {
    let name = "tanzu::rendered::moves::a_release_goes_down_by_workers_first";
    isolated(name, &machines::needed(), async |programs| {
        let mut bench = Bench::start(&programs, NEW, SMALL, POLICY).await?;
        let _controller = bench.scene.controller()?;
        bench.scene.repository.push("Go back", &[(FILE, &cluster(BEFORE_NEW, "small", SMALL))])?;
        bench.rolled(&["workers/blue", "workers/green", "control-plane", "templates", "verify"]).await?;
        bench.builds_are("v1.35.0+vmware.1").await?;
        bench.scene.assert_nothing_is_left()?;
        bench.scene.folder.done();
        Ok(())
    });
}
