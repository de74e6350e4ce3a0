//! Living in a management cluster: the installed identity, the Lease, Rollouts and their events.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use cluster::kubernetes::{Connection, ConnectionSource, Holder, KubernetesCluster, Lease, Projection, RolloutView};
use cluster::{ApplyRequest, ApplyServer, ApplySet, Cluster as _, Freshness, ObserveRequest};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use rollout::Expectation;
use rollout::FluxReference;
use serde_json::{Value, json};
use stepgate::install::{Settings, helm_chart, kustomize_base, manifests};
use tests::servers::manifests::{define, kind, objects};
use tests::servers::{ApiServer, ApiServerOptions, definition, isolated, service_account};

pub const NEEDED: &[&str] = &["etcd", "kube-apiserver"];
pub const SYSTEM: &str = "stepgate-system";
const IDENTITY: &str = "system:serviceaccount:stepgate-system:stepgate";

pub fn settings() -> Settings {
    Settings {
        namespace: SYSTEM.to_owned(),
        image: "registry.example/stepgate:v1".to_owned(),
        repository: "https://git.example/fleet.git".to_owned(),
        source_branch: "main".to_owned(),
        helm_image: "registry.example/helm:v4".to_owned(),
        management_cluster: None,
        pull_secrets: Vec::new(),
        guard: None,
        in_place: None,
        runbooks: None,
    }
}

async fn open(kubeconfig: &Path) -> anyhow::Result<Connection> {
    Ok(Connection::open(&ConnectionSource::Kubeconfig { path: Some(kubeconfig.to_owned()), context: None }).await?)
}

fn apply(text: &str) -> ApplyRequest {
    let set = ApplySet {
        kustomization: FluxReference { namespace: SYSTEM.to_owned(), name: "install".to_owned() },
        server: ApplyServer::Management,
        prune: false,
        folder: "install".to_owned(),
        files: vec![("install/stepgate.yaml".to_owned(), Arc::from(text.as_bytes()))],
    };
    ApplyRequest {
        cluster: "install".parse().unwrap(),
        commit: "0".repeat(40).parse().unwrap(),
        sets: vec![set],
        delete_data: Vec::new(),
    }
}

/// Installs as the administrator, and returns a connection with the installed identity's token.
pub async fn install(server: &ApiServer, client: &Client) -> anyhow::Result<Connection> {
    let administrator = KubernetesCluster::management(open(&server.kubeconfig()).await?, server.folder().join("b"));
    // The inventory of what is applied is kept in it.
    let namespace = serde_json::from_value(json!({"metadata": {"name": SYSTEM}}))?;
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let report = administrator.apply(&apply(&manifests(&settings())?), Timestamp::now()).await?;
    assert_eq!(report.applied.len(), 15, "{report:?}");

    open(&service_account(server, SYSTEM, "stepgate").await?).await
}

/// What the audit log says of the installed identity's requests, each in its stages.
pub fn asked(server: &ApiServer) -> anyhow::Result<Vec<Value>> {
    Ok(server.audit()?.into_iter().filter(|line| line["user"]["username"] == IDENTITY).collect())
}

fn writes(server: &ApiServer) -> anyhow::Result<usize> {
    // A request is noted as received before it is answered, and as complete only some time after.
    let is_write = |line: &&Value| {
        line["stage"] == "RequestReceived" && !["get", "list", "watch"].iter().any(|verb| line["verb"] == **verb)
    };
    Ok(asked(server)?.iter().filter(is_write).count())
}

/// What it was refused.
pub fn refused(server: &ApiServer) -> anyhow::Result<Vec<String>> {
    let refused = asked(server)?.into_iter().filter(|line| line["responseStatus"]["code"] == 403);
    Ok(refused.map(|line| line["requestURI"].to_string()).collect())
}

fn view(cluster: &str, state: &'static str, message: &str) -> RolloutView {
    RolloutView {
        cluster: cluster.to_owned(),
        state,
        stage: Some("capi".to_owned()),
        message: message.to_owned(),
        help: None,
        commit: None,
        kept: Vec::new(),
        tanzu: None,
    }
}

fn rollouts(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("stepgate.dev", "v1alpha1", "Rollout"));
    Api::namespaced_with(client.clone(), SYSTEM, &resource)
}

#[test]
fn rollouts_are_shown_by_the_installed_identity_and_nothing_is_written_when_nothing_changes() {
    let name = "installed::rollouts_are_shown_by_the_installed_identity_and_nothing_is_written_when_nothing_changes";
    isolated(name, NEEDED, async |programs| {
        let folder = tempfile::tempdir()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let connection = install(&server, &client).await?;
        let now = Timestamp::now();
        let mut projection = Projection::new(connection.clone(), SYSTEM);
        projection.show(&[view("one", "waiting", "1 of 3 ready"), view("two", "done", "nothing to do")], now).await?;
        let one = rollouts(&client).get("one").await?;
        assert_eq!(one.data["status"]["conditions"][1]["type"], "Reconciling");
        assert_eq!(one.data["status"]["conditions"][1]["status"], "True");
        assert_eq!(one.data["status"]["observedGeneration"], json!(one.metadata.generation));

        // Nothing new, nothing written: not by this process, and not by the next.
        let before = writes(&server)?;
        let views = [view("one", "waiting", "2 of 3 ready"), view("two", "done", "nothing to do")];
        projection.show(&views, now).await?;
        Projection::new(connection.clone(), SYSTEM).show(&views, now).await?;
        assert_eq!(writes(&server)?, before);

        // A transition is one write and one event.
        let held = [view("one", "held", "Deployment a/b: not available"), view("two", "done", "nothing to do")];
        projection.show(&held, now).await?;
        assert_eq!(writes(&server)?, before + 2);
        let events = Api::<Event>::namespaced(client.clone(), SYSTEM).list(&ListParams::default()).await?;
        let warnings: Vec<_> = events.items.iter().filter(|event| event.type_.as_deref() == Some("Warning")).collect();
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].reason.as_deref(), Some("GateFailed"));

        // What is over is not shown any more, and the next process finds nothing to write.
        let done = RolloutView { stage: None, ..view("one", "done", "nothing to do") };
        let again = [RolloutView { help: Some("describe it".to_owned()), ..held[0].clone() }, held[1].clone()];
        projection.show(&again, now).await?;
        projection.show(&[done.clone(), held[1].clone()], now).await?;
        let status = rollouts(&client).get("one").await?.data["status"].clone();
        assert_eq!((status.get("stage"), status.get("help")), (None, None), "{status}");
        let before = writes(&server)?;
        Projection::new(connection.clone(), SYSTEM).show(&[done, held[1].clone()], now).await?;
        assert_eq!(writes(&server)?, before);

        // What somebody deleted comes back with the next process, and what left the fleet goes.
        rollouts(&client).delete("one", &kube::api::DeleteParams::default()).await?;
        let mut again = Projection::new(connection, SYSTEM);
        again.show(&held[..1], now).await?;
        let left = rollouts(&client).list(&ListParams::default()).await?.items;
        let left: Vec<_> = left.iter().filter_map(|rollout| rollout.metadata.name.as_deref()).collect();
        assert_eq!(left, ["one"]);
        assert_eq!(refused(&server)?, Vec::<String>::new());
        Ok(())
    });
}

#[test]
fn the_installed_identity_may_do_what_it_has_to_and_takes_turns_by_a_lease() {
    let name = "installed::the_installed_identity_may_do_what_it_has_to_and_takes_turns_by_a_lease";
    isolated(name, NEEDED, async |programs| {
        let folder = tempfile::tempdir()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let connection = install(&server, &client).await?;
        // Where nobody else lets it see what is public, its own role does.
        let public = Api::<k8s_openapi::api::rbac::v1::ClusterRoleBinding>::all(client.clone());
        public.delete("system:public-info-viewer", &kube::api::DeleteParams::default()).await?;
        let lease =
            |identity: &str| Lease::new(connection.clone(), SYSTEM, "stepgate", identity, Duration::from_secs(1));
        let (first, second) = (lease("first"), lease("second"));
        assert_eq!(first.hold(Timestamp::now()).await?, Holder::Us);
        assert_eq!(second.hold(Timestamp::now()).await?, Holder::Other("first".to_owned()));
        assert_eq!(first.hold(Timestamp::now()).await?, Holder::Us);
        // Whoever lets go is followed at once; whoever falls silent, after the Lease's duration by the other's own clock.
        first.release().await?;
        assert_eq!(second.hold(Timestamp::now()).await?, Holder::Us);
        let silent = tokio::time::Instant::now();
        while first.hold(Timestamp::now()).await? != Holder::Us {
            tokio::time::sleep(first.pace()).await;
        }
        assert!(silent.elapsed() >= Duration::from_secs(1));

        let cluster = KubernetesCluster::management(connection.clone(), folder.path().join("backups"));
        let request = ObserveRequest {
            expectations: vec![
                Expectation::ClusterHealthy { cluster: Some("prod".to_owned()) },
                Expectation::Surveyed,
                Expectation::Deployment {
                    namespace: SYSTEM.to_owned(),
                    name: "stepgate".to_owned(),
                    images: Vec::new(),
                },
                Expectation::DaemonSet {
                    namespace: "kube-system".to_owned(),
                    name: "cilium".to_owned(),
                    images: Vec::new(),
                },
                Expectation::CustomResourceDefinition {
                    name: "rollouts.stepgate.dev".to_owned(),
                    served: vec!["v1alpha1".to_owned()],
                    storage: "v1alpha1".to_owned(),
                },
                Expectation::Webhook { name: "cert-manager-webhook".to_owned() },
                Expectation::Flux { namespace: "flux-system".to_owned(), kustomizations: vec!["prod-capi".to_owned()] },
            ],
            kustomizations: Vec::new(),
            deployed: Arc::default(),
            freshness: Freshness::Fresh,
            at: Timestamp::now(),
        };
        let seen = cluster.observe(&request).await;
        assert!(seen.unread.is_empty(), "{:?}", seen.unread);
        assert!(seen.custom_resource_definitions[0].established);
        assert_eq!(seen.custom_resource_definitions[0].stored_versions, ["v1alpha1"]);
        assert_eq!(refused(&server)?, Vec::<String>::new());
        Ok(())
    });
}

#[test]
fn every_form_of_the_installation_is_applied_and_makes_the_same_objects() {
    let name = "installed::every_form_of_the_installation_is_applied_and_makes_the_same_objects";
    isolated(name, &["etcd", "kube-apiserver", "helm"], async |programs| {
        let folder = tempfile::tempdir()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let namespace = serde_json::from_value(json!({"metadata": {"name": SYSTEM}}))?;
        Api::<Namespace>::all(server.client().await?).create(&PostParams::default(), &namespace).await?;
        let cluster = KubernetesCluster::management(open(&server.kubeconfig()).await?, folder.path().join("backups"));

        let chart = folder.path().join("chart");
        for (path, text) in helm_chart(&settings())? {
            let path = chart.join(path);
            std::fs::create_dir_all(path.parent().context("no folder")?)?;
            std::fs::write(path, text)?;
        }
        let templated = Command::new(programs.path("helm"))
            .args(["template", "stepgate", "--include-crds", "--namespace", SYSTEM])
            .arg(&chart)
            .env("HOME", folder.path())
            .output()?;
        anyhow::ensure!(templated.status.success(), "{}", String::from_utf8_lossy(&templated.stderr));
        let base = kustomize_base(&settings())?;
        let base = base.into_iter().map(|(name, text)| (format!("install/{name}"), Arc::from(text.into_bytes())));
        let mut forms = [apply(&manifests(&settings())?), apply(&String::from_utf8(templated.stdout)?)].to_vec();
        let mut kustomize = apply("");
        kustomize.sets[0].files = base.collect();
        forms.push(kustomize);

        let mut accepted = Vec::new();
        for form in &forms {
            let mut applied = cluster.apply(form, Timestamp::now()).await?.applied;
            // Helm makes the namespace itself.
            applied.retain(|object| object != "Namespace stepgate-system");
            applied.sort();
            accepted.push(applied);
        }
        assert_eq!(accepted[0].len(), 14);
        assert!(accepted.iter().all(|applied| applied == &accepted[0]), "{accepted:?}");
        Ok(())
    });
}

#[test]
fn what_the_probe_may_write_is_refused_unless_it_is_a_dry_run() {
    let name = "installed::what_the_probe_may_write_is_refused_unless_it_is_a_dry_run";
    isolated(name, NEEDED, async |programs| {
        let folder = tempfile::tempdir()?;
        let server = ApiServer::start(&programs, folder.path(), ApiServerOptions::default()).await?;
        let client = server.client().await?;
        let kinds = [
            ("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck", "machinehealthchecks"),
            ("anywhere.eks.amazonaws.com", "v1alpha1", "FluxConfig", "fluxconfigs"),
        ];
        define(&client, &kinds.map(|kind| definition(kind, "Namespaced"))).await?;
        install(&server, &client).await?;
        let identity = Client::try_from(
            kube::Config::from_custom_kubeconfig(
                kube::config::Kubeconfig::read_from(service_account(&server, SYSTEM, "stepgate").await?)?,
                &kube::config::KubeConfigOptions::default(),
            )
            .await?,
        )?;
        for (group, version, kind, _) in kinds {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api = |client: &Client| Api::<DynamicObject>::namespaced_with(client.clone(), "default", &resource);
            let object = |name: &str| DynamicObject::new(name, &resource);
            let dry_run = PostParams { dry_run: true, ..PostParams::default() };
            api(&client).create(&PostParams::default(), &object("there")).await?;
            api(&identity).create(&dry_run, &object("probe")).await?;
            // A policy takes effect a moment after it was made.
            let refused = async || match api(&identity).create(&PostParams::default(), &object("probe")).await {
                Err(kube::Error::Api(status)) if status.message.contains("calls webhooks by dry runs") => Ok(true),
                Err(error) => Err(error),
                Ok(_) => api(&client).delete("probe", &kube::api::DeleteParams::default()).await.map(|_| false),
            };
            let start = std::time::Instant::now();
            while !refused().await? {
                anyhow::ensure!(start.elapsed() < Duration::from_secs(30), "the policy has no effect");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let patch = json!({"metadata": {"annotations": {"a": "b"}}});
            let merge = kube::api::Patch::Merge(&patch);
            let parameters = |dry_run| kube::api::PatchParams { dry_run, ..kube::api::PatchParams::default() };
            api(&identity).patch("there", &parameters(true), &merge).await?;
            let error = api(&identity).patch("there", &parameters(false), &merge).await.unwrap_err();
            anyhow::ensure!(error.to_string().contains("writes nothing here"), "{error}");
            anyhow::ensure!(api(&client).get("there").await?.metadata.annotations.is_none());
        }
        // Who may write for other reasons, as with `apply: direct`, is not kept from it.
        let admin: k8s_openapi::api::rbac::v1::ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "direct"}, "subjects": [{"kind": "ServiceAccount", "name": "stepgate", "namespace": SYSTEM}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}))?;
        Api::all(client.clone()).create(&PostParams::default(), &admin).await?;
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachineHealthCheck"));
        let api = Api::<DynamicObject>::namespaced_with(identity, "default", &resource);
        let start = std::time::Instant::now();
        while let Err(error) = api.create(&PostParams::default(), &DynamicObject::new("direct", &resource)).await {
            anyhow::ensure!(start.elapsed() < Duration::from_secs(30), "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    });
}

#[test]
fn secrets_are_read_by_their_names_and_listed_by_nobody() {
    let text = manifests(&settings()).unwrap();
    let roles = objects(&text).unwrap();
    let rules = roles.iter().filter(|object| ["ClusterRole", "Role"].contains(&kind(object)));
    let rules = rules.flat_map(|role| role["rules"].as_array().unwrap().iter());
    let verbs: Vec<_> = rules
        // A rule of paths (`nonResourceURLs`) has no resources.
        .filter(|rule| rule["resources"].as_array().into_iter().flatten().any(|resource| resource == "secrets"))
        .map(|rule| rule["verbs"].clone())
        .collect();
    assert_eq!(verbs, [json!(["get"])]);
}
