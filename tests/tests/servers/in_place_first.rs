//! What comes before the Pod of a node, on a real API server: which machine is first, what kubeadm reads, and which files are brought.
//!
//! The server is that of the management cluster and of the nodes at once; machines are objects, and nobody else acts on them.

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bundles::Digest;
use cluster::kubernetes::{Connection, ConnectionSource, UpgradeController, in_place_definitions};
use in_place::objects::{CONTROLLER, LEASE, Lease, PAUSED, STRATEGY, paused_words};
use in_place::order::Settings;
use jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tests::servers::manifests::{apply, define, kind_in, kind_of_cluster, list};
use tests::servers::{ApiServer, ApiServerOptions, FakeKubelet, Folder, KubeletApi, definition, isolated};

use super::in_place::kubelets::upgraders;

const NEEDED: &[&str] = &["etcd", "kube-apiserver"];
const NAME: &str = "edge";
const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];
const PODS: &str = "stepgate-nodes";
const OLD: &str = "v1.35.4";
const NEW: &str = "v1.36.4";
const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const CONTROL_PLANE: (&str, &str) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");
const CONFIGURATION: (&str, &str) = ("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig");
const NODE_UPGRADE: (&str, &str) = ("inplace.stepgate.dev/v1alpha1", "NodeKubeadmUpgrade");
const KUBE_VIP: &str = "/etc/kubernetes/manifests/kube-vip.yaml";
const MIRROR: &str = "/etc/containerd/certs.d/registry.test/hosts.toml";

/// A password of a registry: it is told nowhere but in the Secret of the Pod.
const PASSWORD: &str = "Basic aHVudGVyMg==";

fn kube_vip(tag: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: kube-vip}}\nspec: {{containers: [{{name: kube-vip, image: 'registry.test/kube-vip:{tag}'}}]}}\n"
    )
}

fn configuration(tag: &str, header: &str) -> Value {
    json!({
        "clusterConfiguration": {"imageRepository": "registry.test", "etcd": {"local": {"imageTag": tag}}},
        "joinConfiguration": {"controlPlane": {}},
        "files": [
            {"path": KUBE_VIP, "content": kube_vip(tag), "permissions": "0600"},
            {"path": MIRROR, "content": format!("[header]\nAuthorization = \"{header}\"\n"), "permissions": "0600"},
        ],
    })
}

fn definitions() -> Vec<Value> {
    let mut kinds: Vec<(&str, &str)> =
        ["Cluster", "Machine", "MachineSet", "MachineDeployment", "MachineHealthCheck"].map(|kind| (CAPI, kind)).into();
    kinds.extend([CONTROL_PLANE, CONFIGURATION]);
    let of = |(api_version, kind): (&str, &str)| {
        let (group, version) = api_version.split_once('/')?;
        Some(definition((group, version, kind, &format!("{}s", kind.to_lowercase())), "Namespaced"))
    };
    in_place_definitions().into_iter().chain(kinds.into_iter().filter_map(of)).collect()
}

async fn create(client: &Client, kind: (&str, &str), name: &str, more: Value) -> anyhow::Result<DynamicObject> {
    let mut object = json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name, "namespace": NAME,
        "labels": {"cluster.x-k8s.io/cluster-name": NAME, "cluster.x-k8s.io/control-plane": ""}}});
    for (field, value) in more.as_object().context("no fields")? {
        match value.as_object().filter(|_| field == "metadata") {
            Some(fields) => fields.iter().for_each(|(key, value)| object["metadata"][key] = value.clone()),
            None => object[field] = value.clone(),
        }
    }
    Ok(kind_in(client, kind, NAME).await?.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

/// A control plane of three that has just read another version, paused with it.
async fn control_plane(client: &Client) -> anyhow::Result<()> {
    create(client, (CAPI, "Cluster"), NAME, json!({"spec": {}})).await?;
    let lease = Lease::new("a new version", Timestamp::now());
    let annotations =
        json!({STRATEGY: CONTROLLER, PAUSED: paused_words(&lease), LEASE: serde_json::to_string(&lease)?});
    let spec = json!({"replicas": 3, "version": NEW, "kubeadmConfigSpec": configuration("3.6.8-0", PASSWORD)});
    let owner =
        create(client, CONTROL_PLANE, NAME, json!({"metadata": {"annotations": annotations}, "spec": spec})).await?;
    let owners = json!([{"apiVersion": CONTROL_PLANE.0, "kind": CONTROL_PLANE.1, "name": NAME, "uid": owner.metadata.uid, "controller": true}]);
    for node in NODES {
        let name = format!("machine-{node}");
        create(client, CONFIGURATION, &name, json!({"spec": configuration("3.6.6-0", "Basic b2xk")})).await?;
        let reference = json!({"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": CONFIGURATION.1, "name": name});
        let spec = json!({"clusterName": NAME, "version": OLD, "bootstrap": {"configRef": reference}});
        let fields = json!({"metadata": {"ownerReferences": owners}, "spec": spec});
        create(client, (CAPI, "Machine"), &name, fields).await?;
        let status = Patch::Merge(json!({"status": {"nodeRef": {"name": node}}}));
        kind_in(client, (CAPI, "Machine"), NAME).await?.patch_status(&name, &PatchParams::default(), &status).await?;
    }
    Ok(())
}

/// What runs in the cluster of the nodes.
async fn nodes(client: &Client, kubelets: &KubeletApi) -> anyhow::Result<()> {
    let text = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: {OLD}\n\
         networking: {{podSubnet: 10.0.0.0/16}}\netcd: {{local: {{dataDir: /var/lib/etcd, imageTag: 3.6.6-0}}}}\n"
    );
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "kube-system"}});
    let read = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
        "data": {"ClusterConfiguration": text}});
    let address = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "plndr-cp-lock", "namespace": "kube-system"}, "spec": {"holderIdentity": "cp2"}});
    let mut objects = vec![account, read, address];
    for node in NODES {
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{name}-{node}"), "namespace": "kube-system",
                "labels": {"component": name, "tier": "control-plane"}},
                "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [{"name": name, "image": format!("registry.test/{name}:1")}]}}));
        }
    }
    apply(client, &objects).await?;
    let api = kind_of_cluster(client, ("v1", "Node")).await?;
    for node in NODES {
        let status = json!({"status": kubelets.status()});
        api.patch_status(node, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    Ok(())
}

/// The kubeconfig of the cluster, as Cluster API keeps it.
fn kubeconfig(server: &ApiServer) -> anyhow::Result<Value> {
    Ok(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{NAME}-kubeconfig"), "namespace": NAME},
        "stringData": {"value": server.portable_kubeconfig()?}}),
    )
}

/// The member on this node leads etcd.
fn etcdctl(path: &str, leader: &str) -> Option<String> {
    let node = NODES
        .into_iter()
        .position(|node| path.starts_with(&format!("/run/kube-system/etcd-{node}/etcd?cmd=etcdctl")))?;
    let leader = NODES.into_iter().position(|node| node == leader)?;
    let status = json!({"header": {"member_id": 10 + node}, "leader": 10 + leader});
    Some(json!([{"Endpoint": "https://127.0.0.1:2379", "Status": status}]).to_string())
}

#[test]
fn first_node_is_no_holder_and_finds_its_files_and_kubeadms_configuration() {
    let name = "in_place_first::first_node_is_no_holder_and_finds_its_files_and_kubeadms_configuration";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let _kubelet = FakeKubelet::start(&client, &NODES, OLD).await?;
        // cp2 holds the address, and the member on cp1 leads.
        let says = |uri: &axum::http::Uri| etcdctl(&uri.to_string(), "cp1");
        let kubelets = KubeletApi::start(server.authority(), says).await?;
        define(&client, &definitions()).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}});
        apply(&client, &[namespace, kubeconfig(&server)?, upgraders(NAME, NEW)]).await?;
        nodes(&client, &kubelets).await?;
        control_plane(&client).await?;

        let source = ConnectionSource::Kubeconfig { path: Some(server.kubeconfig()), context: None };
        let controller = UpgradeController::new(Connection::open(&source).await?, Settings::default());
        let (mut pod, mut told) = (None, Vec::new());
        for _ in 0..40 {
            for turn in controller.turn(Timestamp::now()).await? {
                told.push(turn.error.map_or_else(|| format!("{:?}", turn.done), |error| format!("{error}")));
            }
            let pods: Api<DynamicObject> = kind_in(&client, ("v1", "Pod"), PODS).await?;
            pod = pods.list(&Default::default()).await?.items.pop();
            if pod.is_some() {
                break;
            }
            // Static Pods become ready at the pace of their kubelet.
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
        told.dedup();
        let waits = list(&client, (NODE_UPGRADE.0, "ControlPlaneKubeadmUpgrade"), NAME).await?;
        let waits = waits.iter().map(|upgrade| upgrade.data["status"].to_string()).collect::<Vec<_>>();
        let pod = pod.with_context(|| format!("no Pod was made: {told:#?}\nnow: {waits:#?}"))?;
        ensure!(pod.data["spec"]["nodeName"] == "cp3", "{}", pod.data["spec"]["nodeName"]);

        let read = kind_in(&client, ("v1", "ConfigMap"), "kube-system").await?.get("kubeadm-config").await?;
        let configuration: Value =
            serde_json::from_str(read.data["data"]["ClusterConfiguration"].as_str().context("no text")?)?;
        let expected = json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": OLD,
            "networking": {"podSubnet": "10.0.0.0/16"}, "imageRepository": "registry.test",
            "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageTag": "3.6.8-0"}}});
        assert_eq!(
            configuration, expected,
            "kubeadm reads what the control plane says, and keeps whatever else it reads"
        );

        let [group] = &list(&client, (NODE_UPGRADE.0, "ControlPlaneKubeadmUpgrade"), NAME).await?[..] else {
            anyhow::bail!("one group")
        };
        let target = &group.data["spec"];
        assert_eq!([&target["kubeletVersion"], &target["etcdVersion"]], [&json!(NEW), &json!("3.6.8-0")]);
        assert_eq!(target["kubeadmClusterConfig"]["imageRepository"], "registry.test");
        let groups = kind_in(&client, (NODE_UPGRADE.0, "ControlPlaneKubeadmUpgrade"), NAME).await?;
        let other =
            Patch::Merge(json!({"spec": {"kubeadmClusterConfig": {"imageRepository": "registry.example.com"}}}));
        let refused = groups.patch(&group.name_any(), &PatchParams::default(), &other).await;
        let refused = refused.err().context("the target of a group was changed")?.to_string();
        ensure!(refused.contains("kubeadmClusterConfig cannot be changed"), "{refused}");

        let [upgrade] = &list(&client, NODE_UPGRADE, NAME).await?[..] else { anyhow::bail!("one node") };
        let sha256 = |content: &str| Digest::of(content.as_bytes()).to_string();
        let hosts = format!("[header]\nAuthorization = \"{PASSWORD}\"\n");
        assert_eq!(
            upgrade.data["spec"]["files"],
            json!([
                {"path": MIRROR, "sha256": sha256(&hosts), "mode": "0600"},
                {"path": KUBE_VIP, "sha256": sha256(&kube_vip("3.6.8-0")), "mode": "0600"},
            ])
        );
        let steps = |containers: &Value| -> Vec<(Value, Value)> {
            let all = containers.as_array().cloned().unwrap_or_default();
            all.iter().map(|step| (step["name"].clone(), step["args"].clone())).collect()
        };
        assert_eq!(steps(&upgrade.data["spec"]["steps"]), steps(&pod.data["spec"]["initContainers"]));
        ensure!(steps(&upgrade.data["spec"]["steps"]).len() == 8, "{:?}", upgrade.data["spec"]["steps"]);
        let secret = pod.data["spec"]["volumes"]
            .as_array()
            .context("no volumes")?
            .iter()
            .find_map(|it| it["secret"]["secretName"].as_str());
        let secret = kind_in(&client, ("v1", "Secret"), PODS).await?.get(secret.context("no Secret")?).await?;
        assert_eq!(secret.data["data"]["0"], json!(STANDARD.encode(&hosts)));
        for object in [serde_json::to_value(upgrade)?, serde_json::to_value(&pod)?] {
            ensure!(!object.to_string().contains(PASSWORD), "a password is told: {object}");
        }
        // The target of an object does not change.
        let other = json!({"spec": {"files": [{"path": MIRROR, "sha256": sha256("x"), "mode": "0600"}]}});
        let api = kind_in(&client, NODE_UPGRADE, NAME).await?;
        let name = upgrade.metadata.name.as_deref().context("no name")?;
        let refused =
            api.patch(name, &PatchParams::default(), &Patch::Merge(other)).await.err().context("it was changed")?;
        ensure!(refused.to_string().contains("files cannot be changed"), "{refused}");
        folder.done();
        Ok(())
    });
}
