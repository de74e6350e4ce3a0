//! The guard on a real API server with Cluster API's own definitions: who may change what, and how that is told.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, ensure};
use cluster::kubernetes::{Connection, ConnectionSource, Projection, RolloutView};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use stepgate::install::{GuardAccounts, Settings, manifests};
use tests::servers::manifests::{apply, define, kind, objects};
use tests::servers::{
    ApiServer, ApiServerOptions, ClusterApi, FleetRepository, Folder, definition, demo_fleet, isolated, service_account,
};
use tests::waiting::until;

use super::installed::settings;
use super::scene::POLICY;

const NEEDED: &[&str] =
    &["etcd", "kube-apiserver", "cluster-api-core", "cluster-api-control-plane", "cluster-api-in-memory"];
const SYSTEM: &str = "stepgate-system";
const NAMESPACE: &str = "fleet";

const EKSA: (&str, &str, &str, &str) = ("anywhere.eks.amazonaws.com", "v1alpha1", "Cluster", "clusters");
const CONTROL_PLANE: Kind = Kind("controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane");
const DEPLOYMENT: Kind = Kind("cluster.x-k8s.io", "v1beta2", "MachineDeployment");
const CLUSTER: Kind = Kind("cluster.x-k8s.io", "v1beta2", "Cluster");
const MACHINE_TEMPLATE: Kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "DevMachineTemplate");
const EKSA_CLUSTER: Kind = Kind(EKSA.0, EKSA.1, EKSA.2);

/// Somebody who may do everything but for what the guard says.
const PERSON: (&str, &str) = ("jane", "people");
const FLUX: (&str, &str) =
    ("system:serviceaccount:flux-system:kustomize-controller", "system:serviceaccounts:flux-system");
const EKS_ANYWHERE: (&str, &str) =
    ("system:serviceaccount:eksa-system:eksa-controller-manager", "system:serviceaccounts:eksa-system");

#[derive(Clone, Copy)]
struct Kind(&'static str, &'static str, &'static str);

impl Kind {
    fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(self.0, self.1, self.2));
        Api::namespaced_with(client.clone(), namespace, &resource)
    }

    fn object(self, namespace: &str, spec: &Value) -> Value {
        json!({"apiVersion": format!("{}/{}", self.0, self.1), "kind": self.2, "spec": spec,
            "metadata": {"name": "mgmt", "namespace": namespace, "labels": {"cluster.x-k8s.io/cluster-name": "mgmt"}}})
    }
}

/// A server with an installation, and one cluster's objects in each of two namespaces.
struct Scene {
    server: ApiServer,
    client: Client,
}

impl Scene {
    async fn start(programs: &tests::servers::Programs, folder: &Folder) -> anyhow::Result<Self> {
        let server = ApiServer::start(programs, &folder.path().join("server"), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        ClusterApi::define(programs, &server).await?;
        define(&client, &[definition(EKSA, "Namespaced")]).await?;
        let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        let open = namespace("open", json!({"stepgate.dev/guard": "disabled"}));
        apply(&client, &[namespace(NAMESPACE, json!({})), open]).await?;
        for namespace in [NAMESPACE, "open"] {
            apply(&client, &all(namespace)).await?;
        }
        // That these are taken shows that every expression compiles.
        let guard = GuardAccounts { users: vec!["ci@corp".to_owned()], groups: vec!["platform".to_owned()] };
        let installed = objects(&manifests(&Settings { guard: Some(guard), ..settings() })?)?;
        let (defined, rest): (Vec<Value>, Vec<Value>) =
            installed.into_iter().partition(|object| kind(object) == "CustomResourceDefinition");
        define(&client, &defined).await?;
        let (namespaces, rest): (Vec<Value>, Vec<Value>) =
            rest.into_iter().partition(|object| kind(object) == "Namespace");
        apply(&client, &namespaces).await?;
        apply(&client, &rest).await?;
        let scene = Self { server, client };
        // What is taken before it is in force changes something each time.
        let count = AtomicU32::new(0);
        let is_in_force = async || {
            let patch = json!({"spec": {"probe": count.fetch_add(1, Ordering::Relaxed)}});
            scene.refused(PERSON, EKSA_CLUSTER, &patch).await
        };
        until("the guard is in force", is_in_force).await?;
        Ok(scene)
    }

    /// Somebody to whom RBAC allows everything.
    async fn as_user(&self, (user, group): (&str, &str)) -> anyhow::Result<Client> {
        let mut kubeconfig = Kubeconfig::read_from(self.server.kubeconfig())?;
        let administrator = kubeconfig.auth_infos.first_mut().and_then(|named| named.auth_info.as_mut());
        let administrator = administrator.context("no user")?;
        administrator.impersonate = Some(user.to_owned());
        administrator.impersonate_groups = Some(vec![group.to_owned(), "system:masters".to_owned()]);
        Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
    }

    /// Why a patch is refused by the guard; none where it is taken.
    async fn refused(&self, who: (&str, &str), kind: Kind, patch: &Value) -> anyhow::Result<Option<String>> {
        let api = kind.api(&self.as_user(who).await?, NAMESPACE);
        outcome(api.patch("mgmt", &PatchParams::default(), &Patch::Merge(patch)).await)
    }
}

fn outcome<T>(result: Result<T, kube::Error>) -> anyhow::Result<Option<String>> {
    match result {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.message.contains("stepgate-guard") => Ok(Some(status.message.clone())),
        Err(error) => Err(error.into()),
    }
}

fn all(namespace: &str) -> Vec<Value> {
    let reference =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "mgmt"});
    let control_plane = json!({"version": "v1.34.0", "replicas": 3, "kubeadmConfigSpec": {"files": [{"path": "/a", "content": "b"}]},
        "machineTemplate": {"spec": {"infrastructureRef": reference}}});
    let deployment = json!({"clusterName": "mgmt", "replicas": 2, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"clusterName": "mgmt", "version": "v1.34.0",
            "bootstrap": {"dataSecretName": "x"}, "infrastructureRef": reference}}});
    let cluster = json!({"controlPlaneEndpoint": {"host": "10.0.0.9", "port": 6443},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "mgmt"}});
    let template = json!({"template": {"spec": {"backend": {"inMemory": {}}}}});
    let eksa = json!({"kubernetesVersion": "1.34", "controlPlaneConfiguration": {"count": 3}});
    vec![
        CONTROL_PLANE.object(namespace, &control_plane),
        DEPLOYMENT.object(namespace, &deployment),
        CLUSTER.object(namespace, &cluster),
        MACHINE_TEMPLATE.object(namespace, &template),
        EKSA_CLUSTER.object(namespace, &eksa),
    ]
}

/// A change of the specification of each kind.
fn changes() -> [(Kind, Value); 5] {
    [
        (CONTROL_PLANE, json!({"spec": {"version": "v1.35.0"}})),
        (DEPLOYMENT, json!({"spec": {"template": {"spec": {"version": "v1.35.0"}}}})),
        (CLUSTER, json!({"spec": {"controlPlaneEndpoint": {"port": 443}}})),
        (MACHINE_TEMPLATE, json!({"spec": {"template": {"spec": {"providerID": "x"}}}})),
        (EKSA_CLUSTER, json!({"spec": {"kubernetesVersion": "1.35"}})),
    ]
}

fn back(kind: Kind) -> Value {
    let whole = all(NAMESPACE)
        .into_iter()
        .find(|object| object["kind"] == kind.2 && object["apiVersion"] == format!("{}/{}", kind.0, kind.1));
    json!({"spec": whole.map(|object| object["spec"].clone())})
}

#[test]
fn nobody_but_flux_and_the_controllers_changes_what_a_rollout_changes() {
    let name = "guard::nobody_but_flux_and_the_controllers_changes_what_a_rollout_changes";
    isolated(name, NEEDED, async |programs| {
        let folder = Folder::new()?;
        let scene = Scene::start(&programs, &folder).await?;
        let (kind, patch) = (EKSA_CLUSTER, json!({"spec": {"kubernetesVersion": "1.35"}}));
        for (kind, patch) in changes() {
            let refused = scene.refused(PERSON, kind, &patch).await?.with_context(|| kind.2)?;
            let told = format!("stepgate guards {} mgmt against jane: put the change into git", kind.2);
            ensure!(refused.contains(&told) && refused.contains("stepgate.dev/emergency='why'"), "{refused}");
            // Flux, the controllers of EKS Anywhere, and whom the operator has named.
            for who in [FLUX, EKS_ANYWHERE, ("ci@corp", "robots"), ("joe", "platform")] {
                assert_eq!(scene.refused(who, kind, &patch).await?, None, "{} {who:?}", kind.2);
                scene.refused(who, kind, &back(kind)).await?;
            }
        }
        // A name that is only like one of those is nobody's.
        let like = ("system:serviceaccounts:flux-system", "kustomize-controller");
        ensure!(scene.refused(like, kind, &patch).await?.is_some());
        let api = CONTROL_PLANE.api(&scene.as_user(PERSON).await?, NAMESPACE);
        ensure!(outcome(api.delete("mgmt", &DeleteParams::default()).await)?.is_some());

        scaling_status_and_marks_are_free(&scene).await?;
        definitions_are_guarded(&scene).await?;

        // What a namespace is labelled for.
        let elsewhere = CONTROL_PLANE.api(&scene.as_user(PERSON).await?, "open");
        let patch = Patch::Merge(json!({"spec": {"version": "v1.35.0"}}));
        assert_eq!(outcome(elsewhere.patch("mgmt", &PatchParams::default(), &patch).await)?, None);
        folder.done();
        Ok(())
    });
}

async fn scaling_status_and_marks_are_free(scene: &Scene) -> anyhow::Result<()> {
    for (kind, patch, is_free) in [
        (CONTROL_PLANE, json!({"spec": {"replicas": 5}}), true),
        (DEPLOYMENT, json!({"spec": {"replicas": null}}), true),
        (CONTROL_PLANE, json!({"spec": {"replicas": 3, "version": "v1.35.0"}}), false),
        (
            DEPLOYMENT,
            json!({"metadata": {"labels": {"team": "a"}, "annotations": {"cluster.x-k8s.io/paused": ""}}}),
            true,
        ),
        (DEPLOYMENT, json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "other"}}}), false),
        (CLUSTER, json!({"metadata": {"finalizers": ["a.example/b"]}}), false),
        (
            CLUSTER,
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}]}}),
            false,
        ),
    ] {
        assert_eq!(scene.refused(PERSON, kind, &patch).await?.is_none(), is_free, "{} {patch}", kind.2);
    }
    let client = scene.as_user(PERSON).await?;
    let scale = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let api = DEPLOYMENT.api(&client, NAMESPACE);
    assert_eq!(outcome(api.patch_scale("mgmt", &PatchParams::default(), &scale).await)?, None);
    let status = Patch::Merge(json!({"status": {"observedGeneration": 9}}));
    assert_eq!(outcome(api.patch_status("mgmt", &PatchParams::default(), &status).await)?, None);
    // Who makes something new changes nobody's.
    let mut template =
        MACHINE_TEMPLATE.object(NAMESPACE, &json!({"template": {"spec": {"backend": {"inMemory": {}}}}}));
    template["metadata"]["name"] = json!("another");
    let made = MACHINE_TEMPLATE.api(&client, NAMESPACE);
    assert_eq!(outcome(made.create(&PostParams::default(), &serde_json::from_value(template)?).await)?, None);
    Ok(())
}

/// Those of components, however large they are; not those of others.
async fn definitions_are_guarded(scene: &Scene) -> anyhow::Result<()> {
    let others = definition(("shop.example", "v1", "Order", "orders"), "Namespaced");
    define(&scene.client, &[others]).await?;
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    let named = |short: &str| Patch::Merge(json!({"spec": {"names": {"shortNames": [short]}}}));
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    for (who, definition, patch, is_free) in [
        (PERSON, "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", named("a"), false),
        (PERSON, "clusters.anywhere.eks.amazonaws.com", named("b"), false),
        (PERSON, "rollouts.stepgate.dev", named("c"), false),
        (PERSON, "orders.shop.example", named("d"), true),
        // Compared as a whole: that must not cost more than the server allows.
        (PERSON, "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", labelled.clone(), true),
        (PERSON, "clusterclasses.cluster.x-k8s.io", labelled, true),
        (FLUX, "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", named("e"), true),
        (
            ("system:serviceaccount:cert-manager:cert-manager-cainjector", "system:serviceaccounts:cert-manager"),
            "clusters.cluster.x-k8s.io",
            named("f"),
            true,
        ),
    ] {
        let api: Api<DynamicObject> = Api::all_with(scene.as_user(who).await?, &resource);
        let refused = outcome(api.patch(definition, &PatchParams::default(), &patch).await)?;
        assert_eq!(refused.is_none(), is_free, "{who:?} {definition}: {refused:?}");
    }
    Ok(())
}

#[test]
fn what_is_overridden_in_an_emergency_is_told() {
    isolated("guard::what_is_overridden_in_an_emergency_is_told", NEEDED, async |programs| {
        let folder = Folder::new()?;
        let scene = Scene::start(&programs, &folder).await?;
        let patch = json!({"spec": {"version": "v1.35.0"}});
        let annotated = |reason: Value| json!({"metadata": {"annotations": {"stepgate.dev/emergency": reason}}});
        // A reason is a reason.
        assert_eq!(scene.refused(PERSON, CONTROL_PLANE, &annotated(json!(" "))).await?, None);
        ensure!(scene.refused(PERSON, CONTROL_PLANE, &patch).await?.is_some());
        assert_eq!(scene.refused(PERSON, CONTROL_PLANE, &annotated(json!("etcd is full"))).await?, None);
        assert_eq!(scene.refused(PERSON, CONTROL_PLANE, &patch).await?, None);

        // An event and the Rollout tell of it, and of its end; who looks is the installed identity.
        let kubeconfig = service_account(&scene.server, SYSTEM, "stepgate").await?;
        let source = ConnectionSource::Kubeconfig { path: Some(kubeconfig.clone()), context: None };
        let mut projection = Projection::new(Connection::open(&source).await?, SYSTEM).with_guard(true);
        let view = |cluster: &str| RolloutView {
            cluster: cluster.to_owned(),
            state: "done",
            stage: None,
            message: "nothing to do".to_owned(),
            help: None,
            commit: None,
            kept: Vec::new(),
            tanzu: None,
        };
        let now = Timestamp::now();
        projection.show(&[view("mgmt"), view("other")], now).await?;
        let told = "KubeadmControlPlane fleet/mgmt: etcd is full (stepgate.dev/emergency, written by";
        let events = async |reason: &str| -> anyhow::Result<Vec<String>> {
            let events = Api::<Event>::namespaced(scene.client.clone(), SYSTEM).list(&ListParams::default()).await?;
            let of = events.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
            Ok(of
                .map(|event| {
                    format!("{} {}", event.involved_object.name.unwrap_or_default(), event.message.unwrap_or_default())
                })
                .collect())
        };
        let overridden = events("GuardOverridden").await?;
        ensure!(
            overridden.len() == 1 && overridden[0].starts_with("mgmt the guard lets anybody change "),
            "{overridden:?}"
        );
        ensure!(overridden[0].contains(told), "{overridden:?}");
        let rollout = Kind("stepgate.dev", "v1alpha1", "Rollout").api(&scene.client, SYSTEM);
        let shown = async |name: &str| anyhow::Ok(rollout.get(name).await?.data["status"]["emergencies"].clone());
        ensure!(shown("mgmt").await?[0].as_str().is_some_and(|line| line.starts_with(told)));
        assert_eq!(shown("other").await?, json!([]));

        let repository = fleet(&folder)?;
        let said = why(&repository, &folder, &kubeconfig)?;
        ensure!(said.contains(&format!("open to anybody: {told}")), "{said}");

        assert_eq!(scene.refused(FLUX, CONTROL_PLANE, &annotated(Value::Null)).await?, None);
        projection.show(&[view("mgmt"), view("other")], now + SignedDuration::from_secs(61)).await?;
        assert_eq!(events("GuardRestored").await?.len(), 1);
        ensure!(!why(&repository, &folder, &kubeconfig)?.contains("open to anybody"));

        // The audit log tells of both, and by whom.
        let noted = |key: &str, text: &str| {
            anyhow::Ok(scene.server.audit()?.iter().any(|line| {
                line["annotations"][key].as_str().is_some_and(|value| value.contains(text))
                    && line["impersonatedUser"]["username"] == "jane"
            }))
        };
        let is_noted = async || {
            let is_told = noted("validation.policy.admission.k8s.io/validation_failure", "stepgate-guard")?
                && noted("stepgate-guard/emergency", "jane: etcd is full")?;
            Ok(is_told.then_some(()))
        };
        until("the audit log tells of it", is_noted).await?;
        folder.done();
        Ok(())
    });
}

/// A fleet of the cluster of these objects.
fn fleet(folder: &Folder) -> anyhow::Result<FleetRepository> {
    let fleet = demo_fleet(folder.path())?;
    let repository = FleetRepository::create(&folder.path().join("repository"))?;
    let specification = "clusters/mgmt/cluster.yaml";
    let text = fleet.get(specification).context("no cluster")?;
    repository.push("Describe the fleet", &[("stepgate.yaml", POLICY), (specification, text.as_str())])?;
    Ok(repository)
}

/// What `stepgate why` says of it.
fn why(repository: &FleetRepository, folder: &Folder, kubeconfig: &Path) -> anyhow::Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"))
        .args(["why", "mgmt"])
        .env("STEPGATE_REPO", repository.bare())
        .env("STEPGATE_KUBECONFIG", kubeconfig)
        .env("STEPGATE_MIRROR", folder.path().join("mirror"))
        .output()?;
    Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}
