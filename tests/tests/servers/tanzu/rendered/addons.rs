//! What the image of a release brings besides machines.

use anyhow::{Context as _, ensure};
use cluster::kubernetes::rollout_definition;
use serde_json::json;
use tests::servers::manifests::{apply, define, list};
use tests::servers::{ApiServer, ApiServerOptions, Flux, isolated};
use tests::waiting::{LONG_PATIENCE, until_within};

use super::{FILE, NAME, OLD, POLICY, RECORDS, SMALL, cluster as described};
use crate::machines::NAMESPACE;
use crate::scene::Scene;

/// Add-ons of an image that is recorded: one that is well, one that cannot be read, one that others look after.
fn record_with_addons() -> String {
    let manifests = "apiVersion: v1\nkind: Namespace\nmetadata: {name: addons}\n---\napiVersion: apps/v1\nkind: DaemonSet\nmetadata: \
                     {name: agent, namespace: addons}\nspec:\n  selector: {matchLabels: {app: agent}}\n  template: {metadata: {labels: {app: \
                     agent}}, spec: {containers: [{name: agent, image: 'localhost:5000/agent:v1'}]}}\n---\napiVersion: apps/v1\nkind: \
                     Deployment\nmetadata: {name: server, namespace: addons}\nspec:\n  selector: {matchLabels: {app: server}}\n  template: \
                     {metadata: {labels: {app: server}}, spec: {containers: [{name: server, image: 'localhost:5000/server:v1'}]}}\n";
    let addon = |value: &str| json!({"version": "v1.13.3", "type": "inline", "value": value}).to_string();
    let key = |name: &str| format!("vmware-system.guest.kubernetes.{name}");
    let mut annotations = serde_json::Map::new();
    let distribution = json!({"distribution": {"version": OLD}}).to_string();
    annotations.insert(key("distribution.image.version"), distribution.into());
    annotations.insert(key("addons.antrea"), addon(manifests).into());
    annotations.insert(key("addons.pvcsi"), addon("kind: [").into());
    annotations.insert(key("addons.authsvc"), addon("kind: ConfigMap").into());
    json!({"apiVersion": "vmoperator.vmware.com/v1alpha1", "kind": "VirtualMachineImage",
        "metadata": {"name": "image-old", "annotations": annotations}})
    .to_string()
}

#[test]
fn add_ons_are_applied_in_the_cluster_each_by_itself() {
    let name = "tanzu::rendered::addons::add_ons_are_applied_in_the_cluster_each_by_itself";
    let needed: Vec<&str> =
        ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"].into_iter().chain(Flux::NEEDED).collect();
    isolated(name, &needed, async |programs| {
        let scene = Scene::start(&programs).await?;
        let workload =
            ApiServer::start(&programs, &scene.folder.path().join("workload"), ApiServerOptions::default()).await?;
        let client = workload.client().await?;
        let kubeconfig = workload.portable_kubeconfig()?;
        apply(&scene.client, &[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{NAME}-kubeconfig"), "namespace": NAMESPACE},
                "stringData": {"value": kubeconfig}}),
        ])
        .await?;
        let policy = POLICY.replace("in-memory}", "in-memory, unmanaged: [authsvc]}");
        let (cluster, records) = (described(OLD, "small", SMALL), record_with_addons());
        let files = [("stepgate.yaml", policy.as_str()), (FILE, &cluster), (RECORDS, &records)];
        scene.repository.push("Describe the depot", &files)?;
        let checked = scene.stepgate(&["check"]).output()?;
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        ensure!(said.contains("add-on pvcsi of image image-old: error: its manifests are not valid YAML"), "{said}");
        let output = scene.stepgate(&["adopt", "--yes", "--as-declared"]).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        scene.connect_flux().await?;

        let applied = async || {
            let (sets, deployments) = (
                list(&client, ("apps/v1", "DaemonSet"), "addons").await?,
                list(&client, ("apps/v1", "Deployment"), "addons").await?,
            );
            Ok(sets.into_iter().next().zip(deployments.into_iter().next()))
        };
        let (agent, server) = until_within("add-ons are applied", LONG_PATIENCE, applied).await?;
        assert_eq!(agent.data.pointer("/spec/updateStrategy/type"), Some(&json!("OnDelete")));
        let selector = server.data.pointer("/spec/template/spec/nodeSelector").context("no selector")?;
        let label = "run.tanzu.vmware.com/kubernetesDistributionVersion";
        assert_eq!(selector.get(label), Some(&json!("v1.34.2_vmware.1-tkg.1")));
        assert_eq!(server.data.pointer("/spec/strategy/rollingUpdate/maxUnavailable"), Some(&json!(0)));
        let kustomizations =
            list(&scene.client, ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"), NAMESPACE).await?;
        let names: Vec<String> = kustomizations.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(names, ["depot-addons-antrea"]);

        // What an image ships no longer stays in the cluster.
        let output = scene.stepgate(&["plan"]).output()?;
        let plan = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(!plan.contains("addons"), "{plan}");
        let less = records.replace("localhost:5000/server:v1", "localhost:5000/server:v2");
        scene.repository.push("Record another build", &[(RECORDS, &less)])?;
        let output = scene.stepgate(&["plan"]).output()?;
        let plan = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(plan.contains("addons") && plan.contains("pvcsi: error"), "{plan}");

        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stepgate-system"}});
        apply(&scene.client, &[namespace]).await?;
        define(&scene.client, &[rollout_definition()?]).await?;
        let _controller = scene.controller()?;
        let mut shown = String::new();
        let kubectl = programs.path("kubectl");
        let is_shown = async || {
            let mut command = std::process::Command::new(&kubectl);
            command.args(["get", "rollouts", "-n", "stepgate-system", "--kubeconfig"]).arg(scene.server.kubeconfig());
            let output = tokio::task::spawn_blocking(move || command.output()).await??;
            shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            let is_there = shown.contains("ADD-ONS") && shown.contains("1 error, 1 applied, 1 unmanaged");
            Ok(is_there.then_some(()))
        };
        let waited = until_within("kubectl shows how far add-ons are", LONG_PATIENCE, is_shown).await;
        waited.with_context(|| shown.clone())?;
        scene.folder.done();
        Ok(())
    });
}
