//! P9: what the last gate waits for comes true in the cluster, and the next stage's commit is on the fleet repository.
//!
//! The program, the API server, git and the controllers of workloads are real; Pods are said to run by a fake kubelet. This benchmark does what
//! Flux would do: it writes into the status of Flux's objects that a commit was applied. From the answer to the last such write until the deploy
//! branch moves is one trial; where people approve, until the proposal is on its branch, which this benchmark merges then.

use std::collections::{BTreeMap, BTreeSet};
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

/// The ways after the first are measured so many times less often.
const PART: usize = 7;

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
        let quiet = Duration::from_millis(700);
        let (whole, part) = (trials, trials.div_ceil(PART));
        for way in [
            Way { name: "bare repository, after quiet", trials: whole, quiet, over_http: false, approved: false },
            Way {
                name: "bare repository, amid other changes",
                trials: part,
                quiet: Duration::ZERO,
                over_http: false,
                approved: false,
            },
            Way { name: "over HTTP, after quiet", trials: part, quiet, over_http: true, approved: false },
            Way {
                name: "bare repository, proposed to people, after quiet",
                trials: part,
                quiet,
                over_http: false,
                approved: true,
            },
        ] {
            let name = way.name;
            let (mut times, asked) = scene.measure(&way).await?;
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

/// One way of use.
struct Way {
    name: &'static str,
    /// At least so many are measured.
    trials: usize,
    /// Between what everything else says and what the gate waits for.
    quiet: Duration,
    /// Whether the repository is served by git's own HTTP backend.
    over_http: bool,
    /// Whether people approve each stage.
    approved: bool,
}

/// A stage that is there next.
struct Next {
    /// Its commit, or the merge of it.
    head: String,
    stage: String,
    /// When it was seen, on the deploy branch or proposed.
    seen: Instant,
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
    async fn measure(&self, way: &Way) -> anyhow::Result<(Vec<Duration>, f64)> {
        let name = way.name;
        if way.approved {
            self.repository.push("Ask people for each stage", &[("stepgate.yaml", &policy(true))])?;
        }
        let mut head = self.repository.head()?;
        self.applied(&head, None).await?;
        let mut run = self.stepgate(way.over_http, &["run", "--listen", "off"])?;
        run.env("STEPGATE_REQUESTS_PER_SECOND", "1000");
        let mut controller = Process::start(&self.folder, &format!("stepgate-{}", name.replace([' ', ','], "-")), run)?;
        let before = self.requests()?;
        let (mut times, mut stages) = (Vec::new(), 0_u32);
        let measured = async {
            while times.len() < way.trials {
                self.push(&format!("{name} {stages}"))?;
                let mut last_change = None;
                loop {
                    let next = self.next(&head, way.approved).await?;
                    times.extend(last_change.map(|at| next.seen.saturating_duration_since(at)));
                    head = next.head;
                    stages += 1;
                    if next.stage == "verify" {
                        self.applied(&head, None).await?;
                        break;
                    }
                    self.applied(&head, Some(&next.stage)).await?;
                    tokio::time::sleep(way.quiet).await;
                    let applied = self.reconciled(&head, kustomization(&next.stage)).await?;
                    // After the last stage comes the verification, which looks at machines twice, a second apart.
                    last_change = (next.stage != "flux").then_some(applied);
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

    /// What the deploy branch holds next; where people approve, as soon as it is proposed, which is merged here.
    async fn next(&self, head: &str, approved: bool) -> anyhow::Result<Next> {
        let branches = self.repository.bare().join("refs/heads");
        let start = Instant::now();
        let mut stale = BTreeSet::new();
        loop {
            // The reference may be packed meanwhile; then the next commit unpacks it.
            let deployed = std::fs::read_to_string(branches.join(DEPLOY)).unwrap_or_default();
            if !deployed.is_empty() && deployed.trim() != head {
                let seen = Instant::now();
                return Ok(Next { stage: self.stage(deployed.trim())?, head: deployed.trim().to_owned(), seen });
            }
            for proposed in if approved { proposals(&branches) } else { Vec::new() } {
                let seen = Instant::now();
                if !stale.insert(proposed.clone()) || self.git(&["rev-parse", &format!("{proposed}^")])? != head {
                    continue;
                }
                return Ok(Next { stage: self.stage(&proposed)?, head: self.merge(head, &proposed)?, seen });
            }
            ensure!(start.elapsed() < PATIENCE, "nothing was committed after {head}");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }

    /// A person merges what was proposed on the head of the deploy branch.
    fn merge(&self, head: &str, proposed: &str) -> anyhow::Result<String> {
        let person = ["-c", "user.name=Person", "-c", "user.email=person@example.com"];
        let tree = format!("{proposed}^{{tree}}");
        let merge = ["commit-tree", "-m", "Merge what was proposed", "-p", head, "-p", proposed, &tree];
        let merged = self.git(&[&person[..], &merge[..]].concat())?;
        self.git(&["update-ref", &format!("refs/heads/{DEPLOY}"), &merged, head])?;
        Ok(merged)
    }

    fn stage(&self, head: &str) -> anyhow::Result<String> {
        self.git(&["log", "-1", "--format=%(trailers:key=Stepgate-Stage,valueonly,separator=)", head])
    }

    fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        Ok(command(&self.repository.bare(), "git", arguments)?.trim().to_owned())
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

/// The policy of the fleet.
fn policy(approved: bool) -> String {
    let approval = if approved { "approval: stage\n" } else { "" };
    format!(
        "apiVersion: stepgate.dev/v1alpha1\nkind: Policy\ndeploy: {{branch: deploy}}\nsoak: 0s\ntimeout: 30m\n{approval}"
    )
}

/// The commits of all branches that Stepgate proposes on.
fn proposals(branches: &Path) -> Vec<String> {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let waves = entries(&branches.join("stepgate"));
    let commits = waves.flat_map(|wave| entries(&wave).collect::<Vec<_>>());
    let read = commits.filter_map(|branch| Some(std::fs::read_to_string(branch).ok()?.trim().to_owned()));
    // Not what git is just writing.
    read.filter(|commit| commit.len() == 40).collect()
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
