//! EKS Anywhere's Cluster in git: one field moves etcd and the control plane, so that one commit has
//! two gates in order. What stands in for its controller does what that does to Cluster API's
//! objects (`pkg/controller/clusters/controlplane.go`).

use anyhow::{Context as _, bail, ensure};
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, define, kind_in, list};
use tests::servers::{definition, isolated};

use super::bench::{BROKEN, CLUSTER, CONTROL_PLANE, ETCD, ETCDADM, NAMESPACE};
use super::once::{NEW, OLD, Rolls, Stand, UNDONE};
use crate::machines;
use crate::scene::POLICY;

const FILE: &str = "clusters/shop/cluster.yaml";
const EKSA: &str = "anywhere.eks.amazonaws.com/v1alpha1";
const PAUSED: &str = "cluster.x-k8s.io/paused";

/// The commits of the deploy branch: recorded, a member that is taken back, one for etcd and the
/// control plane, and the record that the second gate begins.
const STAGES: [&str; 6] = ["verify", "etcd", "etcd", "etcd", "control-plane", "verify"];

const BUNDLES: &str = "\
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Bundles
metadata: {name: bundles-1}
spec:
  number: 1
  cliMinVersion: v0.24.0
  cliMaxVersion: v0.24.0
  versionsBundles:
  - {kubeVersion: \"1.34\", endOfStandardSupport: \"2099-01-31\"}
  - {kubeVersion: \"1.35\", endOfStandardSupport: \"2099-01-31\"}
";

/// Images of etcd's machines, and the minor of Kubernetes that each is tagged for.
const IMAGES: [(&str, &str); 3] = [(OLD.1, "1.34"), (BROKEN, "1.34"), (NEW.1, "1.35")];

/// The kinds that the specification consists of.
const KINDS: [(&str, &str); 3] = [
    ("Cluster", "clusters"),
    ("VSphereDatacenterConfig", "vspheredatacenterconfigs"),
    ("VSphereMachineConfig", "vspheremachineconfigs"),
];

/// The specification at a version of Kubernetes and an image of etcd's machines.
fn specification(minor: &str, template: &str) -> String {
    let object = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": EKSA, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec})
            .to_string()
    };
    let group = |name: &str| json!({"kind": "VSphereMachineConfig", "name": name});
    let machine = |image: &str| json!({"memoryMiB": 8192, "numCPUs": 2, "osFamily": "ubuntu", "template": format!("/north/vm/{image}")});
    let spec = json!({
        "bundlesRef": {"apiVersion": EKSA, "name": "bundles-1", "namespace": "eksa-system"},
        "clusterNetwork": {"cniConfig": {"cilium": {"skipUpgrade": true}}, "pods": {"cidrBlocks": ["192.168.0.0/16"]},
            "services": {"cidrBlocks": ["10.96.0.0/12"]}},
        "controlPlaneConfiguration": {"count": 1, "endpoint": {"host": "192.0.2.40"}, "skipLoadBalancerDeployment": true,
            "machineGroupRef": group("shop-control-plane")},
        "datacenterRef": {"kind": "VSphereDatacenterConfig", "name": CLUSTER},
        "externalEtcdConfiguration": {"count": 3, "machineGroupRef": group("shop-etcd")},
        "kubernetesVersion": minor,
        "managementCluster": {"name": "management"},
    });
    let datacenter = json!({"datacenter": "north", "network": "/north/network/nodes", "server": "vcenter.example.com"});
    [
        object("Cluster", CLUSTER, spec),
        object("VSphereDatacenterConfig", CLUSTER, datacenter),
        object("VSphereMachineConfig", "shop-control-plane", machine("ubuntu")),
        object("VSphereMachineConfig", "shop-etcd", machine(template)),
    ]
    .join("\n---\n")
}

/// Carries out what is specified, until this is dropped: external etcd first while the control plane
/// is paused, and the control plane's own change with the end of the pause.
async fn carry_out(client: &Client) -> anyhow::Result<()> {
    loop {
        // What Flux has not applied yet, or somebody changed meanwhile, is the next time's.
        let _ = turn(client).await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

async fn turn(client: &Client) -> anyhow::Result<()> {
    let clusters = kind_in(client, (EKSA, "Cluster"), "default").await?;
    let cluster = clusters.get(CLUSTER).await?;
    let machines = list(client, (EKSA, "VSphereMachineConfig"), "default").await?;
    let datacenters = list(client, (EKSA, "VSphereDatacenterConfig"), "default").await?;
    let children: i64 = machines.iter().chain(&datacenters).filter_map(|child| child.metadata.generation).sum();
    let image = machines.iter().find(|config| config.metadata.name.as_deref() == Some("shop-etcd"));
    let image = image.and_then(|config| text(config, "/spec/template")).context("no image")?;
    let template = image.rsplit('/').next().context("no image")?;
    let minor = text(&cluster, "/spec/kubernetesVersion").context("no version")?;
    // Flux applies object by object: an image that is not tagged for the version is refused, as
    // EKS Anywhere's validation of vSphere's templates does.
    ensure!(IMAGES.contains(&(template, minor)), "{template} is no image for {minor}");
    let version = format!("v{minor}.0");
    let observed = cluster.metadata.generation;
    let status = async |fields: Value| {
        let patch = Patch::Merge(json!({"status": fields}));
        clusters.patch_status(CLUSTER, &PatchParams::default(), &patch).await
    };
    status(json!({"observedGeneration": observed})).await?;
    let etcd = kind_in(client, ETCDADM, NAMESPACE).await?;
    let control_plane = kind_in(client, CONTROL_PLANE, NAMESPACE).await?;
    let pause = async |value: Value, version: Value| {
        let patch = json!({"metadata": {"annotations": {PAUSED: value}}, "spec": {"version": version}});
        control_plane.patch(CLUSTER, &PatchParams::default(), &Patch::Merge(patch)).await
    };
    let (members, known) = (etcd.get(ETCD).await?, control_plane.get(CLUSTER).await?);
    if text(&members, "/spec/infrastructureTemplate/name") != Some(template) {
        pause(json!("true"), known.data["spec"]["version"].clone()).await?;
        let upgrading = json!({"etcdcluster.cluster.x-k8s.io/upgrading": "true"});
        let patch =
            json!({"metadata": {"annotations": upgrading}, "spec": {"infrastructureTemplate": {"name": template}}});
        etcd.patch(ETCD, &PatchParams::default(), &Patch::Merge(patch)).await?;
        return Ok(());
    }
    let is_observed =
        |object: &DynamicObject| object.data["status"]["observedGeneration"] == json!(object.metadata.generation);
    if !is_observed(&members) || members.data["status"]["ready"] != true {
        return Ok(());
    }
    if known.metadata.annotations.as_ref().is_some_and(|marks| marks.contains_key(PAUSED))
        || text(&known, "/spec/version") != Some(&version)
    {
        pause(Value::Null, json!(version)).await?;
        return Ok(());
    }
    let is_done = is_observed(&known)
        && text(&known, "/status/version") == Some(&version)
        && known.data["status"]["upToDateReplicas"] == 1;
    if is_done && known.data["status"]["replicas"] == 1 {
        status(json!({"reconciledGeneration": observed, "childrenReconciledGeneration": children})).await?;
    }
    Ok(())
}

fn text<'a>(object: &'a DynamicObject, path: &str) -> Option<&'a str> {
    object.data.pointer(path)?.as_str()
}

#[test]
fn one_commit_has_two_gates_and_a_first_member_is_undone_before() {
    let name = "external_etcd::eks_anywhere::one_commit_has_two_gates_and_a_first_member_is_undone_before";
    isolated(name, &machines::needed(), async |programs| {
        let Stand { scene, provider: _provider, mut bench } = Stand::start(programs).await?;
        let kinds = KINDS
            .map(|(kind, plural)| definition(("anywhere.eks.amazonaws.com", "v1alpha1", kind, plural), "Namespaced"));
        define(&scene.client, &kinds).await?;
        let policy = format!("{POLICY}{UNDONE}");
        let before = specification("1.34", OLD.1);
        let objects = tests::servers::manifests::objects(&before)?;
        apply(&scene.client, &objects).await?;
        turn(&scene.client).await?;
        scene.repository.push(
            "Describe the fleet",
            &[("stepgate.yaml", policy.as_str()), ("bundles/bundles-1.yaml", BUNDLES), (FILE, before.as_str())],
        )?;
        scene.adopt()?;
        scene.connect_flux().await?;

        let rolls = Rolls::follow(&scene.client);
        let _controller = scene.controller()?;
        let carried = async {
            scene.repository.push("Another image for etcd", &[(FILE, &specification("1.34", BROKEN))])?;
            scene.stages_are(CLUSTER, &STAGES[..3]).await?;
            scene.why_says(CLUSTER, &["was committed once and reverted"]).await?;
            let undone = rolls.seen();
            ensure!(undone.etcd.len() == 4 && undone.control_plane.len() == 1, "{undone:?}");
            let last = specification("1.35", NEW.1);
            scene.repository.push("Kubernetes 1.35", &[("stepgate.yaml", POLICY), (FILE, &last)])?;
            scene.stages_are(CLUSTER, &STAGES).await
        };
        tokio::select! {
            failed = bench.follow(NEW.0) => bail!("etcd's controller ended: {failed:?}"),
            failed = carry_out(&scene.client) => bail!("EKS Anywhere's controller ended: {failed:?}"),
            carried = carried => carried?,
        }
        let seen = rolls.seen();
        assert_eq!((seen.etcd.len(), seen.control_plane.len()), (7, 2), "{seen:?}");
        assert_eq!((seen.while_paused.len(), seen.etcd_before), (1, Some(7)), "{seen:?}");
        // Both gates have left their evidence.
        let ledger = scene.repository.deployed("clusters/shop/rollout.yaml")?;
        for proof in ["carries", "EtcdadmCluster eksa-system/shop-etcd", "KubeadmControlPlane eksa-system/shop"] {
            ensure!(ledger.contains(proof), "{proof}: {ledger}");
        }
        scene.assert_nothing_is_left()?;
        scene.folder.done();
        Ok(())
    });
}
