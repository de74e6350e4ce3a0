//! A fleet without Flux: the program itself applies what it commits, in a management cluster, as a Pod there. What is not real are Pods: a fake
//! kubelet says that they run, and Services answer for the webhooks in them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use cluster::kubernetes::rollout_definition;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stepgate::demo::{DemoKind, DemoSettings, FleetFiles};
use tests::servers::manifests::{apply, define, kind, kind_in, kind_of_cluster, objects};
use tests::servers::settled::{self, CLUSTER, FakeEksAnywhere, NODES};
use tests::servers::{
    ApiServer, ApiServerOptions, FakeKubelet, FakeWebhooks, FleetRepository, Folder, Process, Programs, Trouble,
    isolated, pod,
};
use tests::waiting::{LONG_PATIENCE, until, until_within};

const NEEDED: &[&str] = &["etcd", "kube-apiserver", "kube-controller-manager"];

const POLICY: &str = "\
apiVersion: stepgate.dev/v1alpha1
kind: Policy
deploy: {branch: deploy}
apply: direct
soak: 1s
timeout: 30m
";

/// Kubernetes of the demo, which stays.
const KUBERNETES: &str = "v1.33.5";

/// The service account of the program.
const SYSTEM: &str = "stepgate-system";
const ACCOUNT: &str = "stepgate";

/// What the bump changes of the bundle.
const COMPONENTS: [&str; 5] = ["certManager", "clusterAPI", "bootstrap", "controlPlane", "docker"];

/// The commits of the deploy branch: recorded, each component, closed.
const STAGES: [&str; 5] = ["verify", "cert-manager", "capi", "bundle", "verify"];

/// An image of the next bundle.
const LOST: &str = "registry.example.com/kubernetes-sigs/cluster-api/cluster-api-controller:v1.12.2-eks-a-81\
    @sha256:4a47b3288a8528574bb2dffc791e7b02eaaa537ae4d99012f028a9395206c21b";

const OVERLAY: &str = "overlays/cert-manager/kustomization.yaml";

/// What the platform team adds to cert-manager, and later does not.
const NOTE: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note, namespace: cert-manager}\ndata: {text: hello}\n";

const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");

struct Scene {
    folder: Folder,
    server: ApiServer,
    client: Client,
    repository: FleetRepository,
    /// What the program finds in a Pod.
    pod: [(&'static str, String); 2],
}

impl Scene {
    async fn start(programs: &Programs) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let repository = FleetRepository::create(&folder.path().join("repository"))?;
        let management = folder.path().join("management");
        let server = ApiServer::start(
            programs,
            &management,
            ApiServerOptions { controllers: true, ..ApiServerOptions::default() },
        )
        .await?;
        let client = server.client().await?;
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": SYSTEM}});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM}]});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}});
        apply(&client, &[namespace, account, binding]).await?;
        let pod = pod(&server, SYSTEM, ACCOUNT).await?;
        Ok(Self { folder, server, client, repository, pod })
    }

    /// The program as it runs in a Pod: no kubeconfig tells it where the cluster is.
    fn stepgate(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stepgate-in-tests"));
        command
            .args(arguments)
            .env_remove("KUBECONFIG")
            .env("HOME", self.folder.path())
            .env("STEPGATE_IN_CLUSTER", "true")
            .env("STEPGATE_REPO", self.repository.bare())
            .env("STEPGATE_MIRROR", self.folder.path().join("mirror"))
            .env("STEPGATE_BACKUPS", self.folder.path().join("backups"))
            .envs(self.pod.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Where the cluster stands, as the controller shows it there: another process does not know what this one has applied.
    async fn reasons(&self) -> anyhow::Result<String> {
        let rollouts = kind_in(&self.client, ("stepgate.dev/v1alpha1", "Rollout"), SYSTEM).await?;
        let shown = rollouts.get_opt(CLUSTER).await?;
        Ok(shown.map(|rollout| rollout.data["status"].to_string()).unwrap_or_default())
    }

    /// Waits until the reasons are as they should be.
    async fn reasons_are(&self, is_said: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let mut reasons = String::new();
        let said = async || {
            reasons = self.reasons().await?;
            Ok(is_said(&reasons).then_some(()))
        };
        let waited = until("the Rollout says so", said).await;
        waited.with_context(|| format!("said instead: {reasons}"))
    }

    /// Waits until these stages are committed, and nothing else.
    async fn stages_are(&self, stages: &[&str]) -> anyhow::Result<()> {
        let committed = async || Ok((self.repository.stages()?.len() >= stages.len()).then_some(()));
        if let Err(error) = until_within(&format!("{stages:?} are committed"), LONG_PATIENCE, committed).await {
            return Err(error.context(format!("{:?}: {}", self.repository.stages()?, self.reasons().await?)));
        }
        assert_eq!(self.repository.stages()?, stages);
        Ok(())
    }

    /// Somebody else takes over how many replicas a Deployment has, by server-side apply.
    async fn scale(&self, name: &str, replicas: u32) -> anyhow::Result<()> {
        let theirs = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": replicas}});
        let deployments = kind_in(&self.client, DEPLOYMENT, name).await?;
        deployments.patch(name, &PatchParams::apply("somebody").force(), &Patch::Apply(theirs)).await?;
        Ok(())
    }

    /// Everything on the deploy branch is in the cluster, and every object of it was applied by Stepgate.
    async fn assert_is_applied(&self) -> anyhow::Result<()> {
        let mut seen = 0;
        for path in self.repository.deployed_files(&format!("clusters/{CLUSTER}"))? {
            let is_manifest =
                path.ends_with(".yaml") && !path.ends_with("rollout.yaml") && !path.ends_with("kustomization.yaml");
            for object in if is_manifest { objects(&self.repository.deployed(&path)?)? } else { Vec::new() } {
                let text = |path: &str| object.pointer(path).and_then(Value::as_str);
                let (api_version, name) =
                    (text("/apiVersion").context("no version")?, text("/metadata/name").context("no name")?);
                let api = match text("/metadata/namespace") {
                    Some(namespace) => kind_in(&self.client, (api_version, kind(&object)), namespace).await?,
                    None => kind_of_cluster(&self.client, (api_version, kind(&object))).await?,
                };
                let found = api.get(name).await.with_context(|| format!("{path}: {} {name}", kind(&object)))?;
                let managers = found.metadata.managed_fields.unwrap_or_default();
                let is_ours = managers.iter().any(|entry| {
                    entry.manager.as_deref() == Some("stepgate") && entry.operation.as_deref() == Some("Apply")
                });
                // The API server itself forgets who manages an object without any field when it is applied for the second time.
                assert!(is_ours || !has_fields(&object), "{path}: {} {name}: {managers:?}", kind(&object));
                seen += 1;
            }
        }
        ensure!(seen > 20, "{seen} objects on the deploy branch");
        Ok(())
    }
}

/// Whether a manifest says more than which object it is.
fn has_fields(object: &Value) -> bool {
    let known = ["apiVersion", "kind", "metadata", "name", "namespace"];
    let places = [Some(object), object.get("metadata")];
    let mut fields = places.into_iter().flatten().filter_map(Value::as_object).flatten();
    fields.any(|(field, _)| !known.contains(&field.as_str()))
}

#[test]
fn without_flux_a_pod_applies_what_it_commits_stage_by_stage_and_never_fights() {
    let name = "direct_rollout::without_flux_a_pod_applies_what_it_commits_stage_by_stage_and_never_fights";
    isolated(name, NEEDED, async |programs| {
        let scene = Scene::start(&programs).await?;
        let kubelet = FakeKubelet::start(&scene.client, &NODES, KUBERNETES).await?;
        let _webhooks = FakeWebhooks::start(&scene.client).await?;
        let _eks_anywhere = FakeEksAnywhere::start(&scene.client);
        define(&scene.client, &other_definitions()).await?;
        define(&scene.client, &[rollout_definition()?]).await?;
        let (before, bumped) = fleet(scene.folder.path())?;
        let before: Vec<(&str, &str)> = before.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        scene.repository.push("Describe the fleet", &before)?;
        let adopted = scene.stepgate(&["adopt", "--yes"]).output()?;
        ensure!(adopted.status.success(), "stepgate adopt: {}", String::from_utf8_lossy(&adopted.stderr));

        // Before anything is bumped, what was recorded is applied: here that is everything.
        kubelet.trouble(LOST, Trouble::ImagePullBackOff);
        let _controller = Process::start(scene.folder.path(), "stepgate", scene.stepgate(&["run", "--listen", "off"]))?;
        let bumped: Vec<(&str, &str)> = bumped.iter().map(|(path, text)| (*path, text.as_str())).collect();
        scene.repository.push("Take the next cert-manager and Cluster API", &bumped)?;
        let notes = kind_in(&scene.client, ("v1", "ConfigMap"), "cert-manager").await?;
        until("the note is applied", async || Ok(notes.get_opt("note").await?)).await?;
        settled::create(&scene.client, KUBERNETES).await?;

        scene.stages_are(&STAGES[..3]).await?;
        scene.reasons_are(|reasons| reasons.contains("ImagePullBackOff")).await?;
        // The note left git with the stage of its component.
        ensure!(notes.get_opt("note").await?.is_none(), "what left git was not deleted");

        // A field of somebody else stops everything, though nothing else is in the way any more.
        scene.scale("cert-manager", 2).await?;
        scene.reasons_are(|reasons| reasons.contains("somebody")).await?;
        kubelet.recover(&[LOST.to_owned()]).await?;
        let alone = |reasons: &str| reasons.contains("somebody") && !reasons.contains("ImagePullBackOff");
        scene.reasons_are(alone).await?;
        assert_eq!(scene.repository.stages()?, STAGES[..3]);
        // With the value of git it is nobody's alone.
        scene.scale("cert-manager", 1).await?;
        scene.stages_are(&STAGES).await?;

        scene.assert_is_applied().await?;
        let identity = format!("system:serviceaccount:{SYSTEM}:{ACCOUNT}");
        let audit = scene.server.audit()?;
        let ours = |line: &&Value| line["user"]["username"] == identity.as_str() && line["verb"] == "patch";
        ensure!(audit.iter().any(|line| ours(&line)), "nothing was applied as {identity}");
        scene.folder.done();
        Ok(())
    });
}

/// Texts by path.
type Files<P> = Vec<(P, String)>;

/// The files of the demo's management cluster, and what the bump changes of them. The manifests are written below `folder`.
fn fleet(folder: &Path) -> anyhow::Result<(Files<String>, Files<&'static str>)> {
    let settings = DemoSettings {
        folder: folder.to_owned(),
        kind: DemoKind::EksAnywhere,
        bundles: None,
        mirrors: Vec::new(),
        broken: None,
    };
    let FleetFiles { mut before, bump, .. } = FleetFiles::of(&settings)?;
    prepare_manifests(&folder.join("mirror"))?;
    before.retain(|path, _| !path.starts_with("clusters/team-"));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
    let overlay = text(&before[OVERLAY])?;
    let bundle = text(&before["bundles/bundles-80.yaml"])?;
    let bumped = mixed(&bundle, &text(&bump["bundles/bundles-81.yaml"])?);
    before.insert("stepgate.yaml".to_owned(), POLICY.into());
    before.insert(OVERLAY.to_owned(), format!("{overlay}resources: [note.yaml]\n").into());
    before.insert("overlays/cert-manager/note.yaml".to_owned(), NOTE.into());
    let before = before.iter().map(|(path, bytes)| Ok((path.clone(), text(bytes)?))).collect::<anyhow::Result<_>>()?;
    Ok((before, vec![("bundles/bundles-80.yaml", bumped), (OVERLAY, overlay)]))
}

/// The bundle `before` with the components of the one `after` that the bump is about.
fn mixed(before: &str, after: &str) -> String {
    let is_component =
        |line: &str| line.starts_with("    ") && line[4..].starts_with(|first: char| first.is_alphabetic());
    let parts = |text: &str| {
        let mut parts = vec![String::new()];
        for line in text.lines() {
            if is_component(line) {
                parts.push(String::new());
            }
            parts.last_mut().unwrap().extend([line, "\n"]);
        }
        parts
    };
    let pairs = parts(before).into_iter().zip(parts(after));
    let is_bumped = |part: &str| COMPONENTS.iter().any(|name| part.trim_start().starts_with(&format!("{name}:")));
    let text: String = pairs.map(|(before, after)| if is_bumped(&after) { after } else { before }).collect();
    text.replace("name: bundles-80", "name: bundles-81").replace("number: 80", "number: 81")
}

/// Lets objects have a status of their own, and leaves one webhook, whose version is a real one: nothing else can be asked for as it is.
fn prepare_manifests(folder: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            prepare_manifests(&path)?;
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let is_kept = |document: &&str| {
            !document.contains("kind: ValidatingWebhookConfiguration") || document.contains("cert-manager.io")
        };
        let documents: Vec<&str> = text.split("---\n").filter(is_kept).collect();
        let text = documents.join("---\n").replace("    schema:\n", "    subresources: {status: {}}\n    schema:\n");
        std::fs::write(&path, text.replace("apiVersions: [\"*\"]", "apiVersions: [v1]"))?;
    }
    Ok(())
}

/// Kinds that the demo's manifests do not define.
fn other_definitions() -> Vec<Value> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    [
        ("distro.eks.amazonaws.com", "v1alpha1", "Release", "releases"),
        ("anywhere.eks.amazonaws.com", "v1alpha1", "DockerDatacenterConfig", "dockerdatacenterconfigs"),
        ("cluster.x-k8s.io", "v1beta2", "MachineSet", "machinesets"),
    ]
    .map(|(group, version, kind, plural)| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema}]}})
    })
    .to_vec()
}
