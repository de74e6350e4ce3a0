//! A management cluster in which everything is as the deploy branch says, and the program beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stepgate::demo::{DemoSettings, FleetFiles};
use tests::servers::manifests::{define, kind, kind_in, objects};
use tests::servers::settled::{self, CLUSTER, FakeEksAnywhere, NODES};
use tests::servers::{
    ApiServer, ApiServerOptions, DEPLOY, FLUX_NAMESPACE, FakeKubelet, FleetRepository, GitServer, Programs,
};

use super::PROGRAM_VERB;
use super::flux::GIT_REPOSITORY;
use crate::measure::run as command;

/// Kubernetes of the demo before its bump.
const KUBERNETES: &str = "v1.33.5";

/// Who the controller is to the API server.
const USER: &str = "\"username\":\"stepgate\"";

/// A management cluster in which everything is as the deploy branch says.
pub(super) struct Scene {
    pub(super) folder: PathBuf,
    pub(super) server: ApiServer,
    pub(super) client: Client,
    pub(super) repository: FleetRepository,
    pub(super) git: GitServer,
    pub(super) _kubelet: FakeKubelet,
    pub(super) _eks_anywhere: FakeEksAnywhere,
}

impl Scene {
    pub(super) async fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let settings = DemoSettings { folder: folder.to_owned(), bundles: None, mirrors: Vec::new(), broken: None };
        let mut files = FleetFiles::of(&settings)?.before;
        files.retain(|path, _| !path.starts_with("clusters/team-"));
        prepare_manifests(&folder.join("mirror"))?;
        files.insert("stepgate.yaml".to_owned(), policy(false).into_bytes());
        let repository = FleetRepository::create(&folder.join("repository"))?;
        let texts: BTreeMap<&str, String> = files
            .iter()
            .map(|(path, bytes)| Ok((path.as_str(), String::from_utf8(bytes.clone())?)))
            .collect::<anyhow::Result<_>>()?;
        let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
        repository.push("Describe the fleet", &texts)?;
        // Anonymous pushes over HTTP.
        command(&repository.bare(), "git", &["config", "http.receivepack", "true"])?;

        let server =
            ApiServer::start(programs, &folder.join("management"), ApiServerOptions { controllers: true }).await?;
        let client = server.client().await?;
        let kubelet = FakeKubelet::start(&client, &NODES, KUBERNETES).await?;
        let git = GitServer::start(repository.served().0).await?;
        let eks_anywhere = FakeEksAnywhere::start(&client);
        let scene = Self {
            folder: folder.to_owned(),
            server,
            client,
            repository,
            git,
            _kubelet: kubelet,
            _eks_anywhere: eks_anywhere,
        };
        let adopted = scene.stepgate(false, &["adopt", "--yes"])?.output()?;
        ensure!(adopted.status.success(), "stepgate adopt: {}", String::from_utf8_lossy(&adopted.stderr));
        scene.apply_everything().await?;
        settled::create(&scene.client, KUBERNETES).await?;
        Ok(scene)
    }

    /// The program, on the bare repository or on the same over HTTP.
    pub(super) fn stepgate(&self, over_http: bool, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(PROGRAM_VERB)
            .args(arguments)
            .env("STEPGATE_KUBECONFIG", self.server.user("stepgate", "system:masters")?)
            .env("STEPGATE_BACKUPS", self.folder.join("backups"))
            .env("STEPGATE_MIRROR", self.folder.join("mirror"))
            .env("XDG_CACHE_HOME", self.folder.join("cache"));
        if over_http {
            command.env("STEPGATE_REPO", self.git.url(self.repository.served().1));
        } else {
            command.env("STEPGATE_REPO", self.repository.bare());
        }
        Ok(command)
    }

    /// What Flux applies of the deploy branch, applied in its name: definitions and namespaces, then the rest.
    pub(super) async fn apply_everything(&self) -> anyhow::Result<()> {
        let mut found = Vec::new();
        for folder in [format!("clusters/{CLUSTER}"), format!("flux/{CLUSTER}")] {
            for path in self.repository.deployed_files(&folder)? {
                let is_manifest =
                    path.ends_with(".yaml") && !path.ends_with("rollout.yaml") && !path.ends_with("kustomization.yaml");
                if is_manifest {
                    found.extend(objects(&self.repository.deployed(&path)?)?);
                }
            }
        }
        let source = json!({"apiVersion": GIT_REPOSITORY.0, "kind": GIT_REPOSITORY.1,
            "metadata": {"name": "flux-system", "namespace": FLUX_NAMESPACE},
            "spec": {"interval": "1h", "url": "http://localhost", "ref": {"branch": DEPLOY}}});
        found.push(source);
        let (definitions, rest): (Vec<Value>, Vec<Value>) =
            found.into_iter().partition(|object| kind(object) == "CustomResourceDefinition");
        define(&self.client, &other_definitions()).await?;
        define(&self.client, &definitions).await?;
        let (namespaces, rest): (Vec<Value>, Vec<Value>) =
            rest.into_iter().partition(|object| kind(object) == "Namespace");
        for object in definitions.iter().chain(&namespaces).chain(&rest) {
            self.apply(object).await.with_context(|| format!("could not apply {object}"))?;
        }
        Ok(())
    }

    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let (api_version, kind) = (api_version.context("no apiVersion")?, kind.context("no kind")?);
        let parameters = PatchParams::apply("kustomize-controller").force();
        let name = name.context("no name")?;
        let api = match text("/metadata/namespace") {
            Some(namespace) => kind_in(&self.client, (api_version, kind), namespace).await?,
            None => tests::servers::manifests::kind_of_cluster(&self.client, (api_version, kind)).await?,
        };
        api.patch(name, &parameters, &Patch::Apply(object)).await?;
        Ok(())
    }

    /// Requests of the controller so far.
    pub(super) fn requests(&self) -> anyhow::Result<usize> {
        let mut found = 0;
        for entry in std::fs::read_dir(self.server.folder())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("audit") && name.ends_with(".log") {
                let is_asked = |line: &&str| line.contains(USER) && line.contains("\"RequestReceived\"");
                found += std::fs::read_to_string(&path)?.lines().filter(is_asked).count();
            }
        }
        Ok(found)
    }
}

/// The policy of the fleet.
pub(super) fn policy(approved: bool) -> String {
    let approval = if approved { "approval: stage\n" } else { "" };
    format!(
        "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\ndeploy: {{branch: deploy}}\nsoak: 0s\ntimeout: 30m\n{approval}"
    )
}

/// Takes the webhooks out of the demo's manifests, which no Pod answers here, and lets objects have a status of their own.
fn prepare_manifests(folder: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            prepare_manifests(&path)?;
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let documents: Vec<&str> =
            text.split("---\n").filter(|document| !document.contains("kind: ValidatingWebhookConfiguration")).collect();
        let text = documents.join("---\n").replace("    schema:\n", "    subresources: {status: {}}\n    schema:\n");
        std::fs::write(&path, text)?;
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
