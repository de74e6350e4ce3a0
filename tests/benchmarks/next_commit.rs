//! P9: what the last gate waits for comes true in the cluster, and the next stage's commit is on the fleet repository.
//!
//! The program, the API server, git and the controllers of workloads are real; Pods are said to run by a fake kubelet. This benchmark does what
//! Flux would do: it writes into the status of Flux's objects that a commit was applied. From the answer to the last such write until the deploy
//! branch moves is one trial.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use stepgate::demo::{DemoSettings, FleetFiles};
use tests::servers::manifests::{define, kind, kind_in, list, objects};
use tests::servers::settled::{self, CLUSTER, FakeEksAnywhere, NODES};
use tests::servers::{
    ApiServer, ApiServerOptions, DEPLOY, FLUX_NAMESPACE, FakeKubelet, FleetRepository, GitServer, Process, Programs,
};

use crate::Environment;
use crate::measure::{Sample, run as command};
use crate::report::Report;

/// Runs the program itself, in a process of its own: `stepgate ARGUMENTS…`.
pub const PROGRAM_VERB: &str = "stepgate";

/// Components whose overlays each push changes, and so the stages of each rollout.
const COMPONENTS: [&str; 5] = ["cert-manager", "capi", "eks-a", "cilium", "flux"];

/// Measured trials of each round.
const TRIALS: usize = 150;

/// Kubernetes of the demo before its bump.
const KUBERNETES: &str = "v1.33.5";

const GIT_REPOSITORY: (&str, &str) = ("source.toolkit.fluxcd.io/v1", "GitRepository");
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

/// Who the controller is to the API server.
const USER: &str = "\"username\":\"stepgate\"";

/// How long anything may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(120);

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let trials = environment.rounds * TRIALS;
    let mut report = Report {
        work: format!("{trials} times: the last thing a gate waits for comes true, the next stage is committed"),
        ..Report::default()
    };
    let programs = match Programs::find(&["etcd", "kube-apiserver", "kube-controller-manager"]) {
        Ok(programs) => programs,
        Err(missing) => {
            report.notes.push(format!("not measured: {missing:#}"));
            return Ok(report);
        }
    };
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let folder = environment.scratch.path().join("next-commit");
        let scene = Scene::start(&programs, &folder).await?;
        for (name, quiet, over_http) in [
            ("bare repository, after quiet", Duration::from_millis(700), false),
            ("bare repository, amid other changes", Duration::ZERO, false),
            ("over HTTP, after quiet", Duration::from_millis(700), true),
        ] {
            let (mut times, asked) = scene.measure(name, trials, quiet, over_http).await?;
            times.sort_unstable();
            let at = |share: usize| times.get(times.len().saturating_sub(1) * share / 100).copied().unwrap_or_default();
            report.at_most(&format!("{name}: p50"), at(50), Duration::from_millis(10));
            report.at_most(&format!("{name}: p99"), at(99), Duration::from_millis(50));
            report.notes.push(format!("{name}: {asked:.0} requests to the API server for a stage"));
            let samples = times.iter().map(|wall| Sample { cpu: Duration::ZERO, wall: *wall }).collect();
            report.row(name, samples);
        }
        anyhow::Ok(())
    })?;
    report.notes.push("processor time is not measured here; Kargo and Flux look every 10 to 30 s".to_owned());
    Ok(report)
}

/// [`PROGRAM_VERB`].
pub fn program(arguments: &[String]) -> anyhow::Result<()> {
    let status =
        stepgate::cli::main(std::iter::once("stepgate").chain(arguments.iter().map(String::as_str)).map(Into::into));
    ensure!(status == std::process::ExitCode::SUCCESS, "stepgate ended with {status:?}");
    Ok(())
}

/// A management cluster in which everything is as the deploy branch says.
struct Scene {
    folder: PathBuf,
    server: ApiServer,
    client: Client,
    repository: FleetRepository,
    git: GitServer,
    _kubelet: FakeKubelet,
    _eks_anywhere: FakeEksAnywhere,
}

impl Scene {
    async fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let settings = DemoSettings { folder: folder.to_owned(), bundles: None, mirrors: Vec::new(), broken: None };
        let mut files = FleetFiles::of(&settings)?.before;
        files.retain(|path, _| !path.starts_with("clusters/team-"));
        prepare_manifests(&folder.join("mirror"))?;
        let policy =
            "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\ndeploy: {branch: deploy}\nsoak: 0s\ntimeout: 30m\n";
        files.insert("stepgate.yaml".to_owned(), policy.as_bytes().to_vec());
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
    fn stepgate(&self, over_http: bool, arguments: &[&str]) -> anyhow::Result<Command> {
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
    async fn apply_everything(&self) -> anyhow::Result<()> {
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

    /// Rollouts, until there were enough trials: their times, and requests to the API server for each stage.
    async fn measure(
        &self,
        name: &str,
        trials: usize,
        quiet: Duration,
        over_http: bool,
    ) -> anyhow::Result<(Vec<Duration>, f64)> {
        let mut head = self.repository.head()?;
        self.applied(&head, None).await?;
        let mut run = self.stepgate(over_http, &["run", "--listen", "off"])?;
        run.env("STEPGATE_REQUESTS_PER_SECOND", "1000");
        let mut controller = Process::start(&self.folder, &format!("stepgate-{}", name.replace([' ', ','], "-")), run)?;
        let before = self.requests()?;
        let (mut times, mut stages) = (Vec::new(), 0_u32);
        let measured = async {
            while times.len() < trials {
                self.push(&format!("{name} {stages}"))?;
                let mut last_change = None;
                loop {
                    let (next, moved) = self.moved(&head).await?;
                    times.extend(last_change.map(|at| moved.saturating_duration_since(at)));
                    head = next;
                    stages += 1;
                    let stage = self.stage(&head)?;
                    if stage == "verify" {
                        self.applied(&head, None).await?;
                        break;
                    }
                    self.applied(&head, Some(&stage)).await?;
                    tokio::time::sleep(quiet).await;
                    let applied = self.reconciled(&head, kustomization(&stage)).await?;
                    // After the last stage comes the verification, which looks at machines twice, a second apart.
                    last_change = (stage != "flux").then_some(applied);
                }
            }
            anyhow::Ok(())
        };
        let measured = measured.await;
        let asked = self.requests()?.saturating_sub(before);
        let last = controller.last_lines();
        controller.kill()?;
        measured.with_context(|| last)?;
        Ok((times, f64::from(u32::try_from(asked)?) / f64::from(stages.max(1))))
    }

    /// A person changes the overlays of every component.
    fn push(&self, text: &str) -> anyhow::Result<()> {
        let overlay = format!(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\ncommonAnnotations: {{example.com/trial: {text:?}}}\n"
        );
        let paths = COMPONENTS.map(|component| format!("overlays/{component}/kustomization.yaml"));
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), overlay.as_str())).collect();
        self.repository.push(text, &files).map(drop)
    }

    /// Flux has fetched this commit, and applied it but for what this stage's Kustomization holds.
    async fn applied(&self, head: &str, but: Option<&str>) -> anyhow::Result<()> {
        let sources = kind_in(&self.client, GIT_REPOSITORY, FLUX_NAMESPACE).await?;
        let revision = format!("{DEPLOY}@sha1:{head}");
        let generation = sources.get("flux-system").await?.metadata.generation;
        let status = json!({"observedGeneration": generation, "conditions": [ready(generation)], "artifact": {"revision": revision,
            "digest": "sha256:0", "path": "a", "url": "a", "lastUpdateTime": "2026-01-01T00:00:00Z"}});
        sources.patch_status("flux-system", &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
        for known in list(&self.client, KUSTOMIZATION, FLUX_NAMESPACE).await? {
            let name = known.metadata.name.unwrap_or_default();
            if but.is_none_or(|stage| kustomization(stage) != name) {
                self.reconciled(head, name).await?;
            }
        }
        Ok(())
    }

    /// Flux has applied what one Kustomization holds of this commit; when that was answered.
    async fn reconciled(&self, head: &str, name: String) -> anyhow::Result<Instant> {
        let api = kind_in(&self.client, KUSTOMIZATION, FLUX_NAMESPACE).await?;
        let generation = api.get(&name).await?.metadata.generation;
        let revision = format!("{DEPLOY}@sha1:{head}");
        let status = json!({"observedGeneration": generation, "conditions": [ready(generation)],
            "lastAppliedRevision": revision, "lastAttemptedRevision": revision});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
        Ok(Instant::now())
    }

    /// What the deploy branch holds next, and when it was seen.
    async fn moved(&self, head: &str) -> anyhow::Result<(String, Instant)> {
        let reference = self.repository.bare().join("refs/heads").join(DEPLOY);
        let start = Instant::now();
        loop {
            // The reference may be packed meanwhile; then the next commit unpacks it.
            let now = std::fs::read_to_string(&reference).unwrap_or_default();
            if !now.is_empty() && now.trim() != head {
                return Ok((now.trim().to_owned(), Instant::now()));
            }
            ensure!(start.elapsed() < PATIENCE, "nothing was committed after {head}");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    fn stage(&self, head: &str) -> anyhow::Result<String> {
        let format = "--format=%(trailers:key=Stepgate-Stage,valueonly,separator=)";
        command(&self.repository.bare(), "git", &["log", "-1", format, head])
    }

    /// Requests of the controller so far.
    fn requests(&self) -> anyhow::Result<usize> {
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

fn kustomization(stage: &str) -> String {
    let directory = match stage {
        "flux" => "flux-system",
        stage => stage,
    };
    format!("{CLUSTER}-{directory}")
}

fn ready(generation: Option<i64>) -> Value {
    json!({"type": "Ready", "status": "True", "reason": "Succeeded", "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
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
