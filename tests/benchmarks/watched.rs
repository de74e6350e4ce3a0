//! P10, and the idle part of P8: 10,000 watched machines of 1,000 clusters on a real API server: memory, how soon a process that was killed
//! decides again, and what it costs while nothing changes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use cluster::kubernetes::{Connection, ConnectionSource, KubernetesCluster, ManagementWatches};
use cluster::{Cluster as _, Freshness, ObserveRequest};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use policy::StagePolicy;
use rollout::{Expectation, GateHistory, GateVerdict, KubeletVersions, WorkersExpectation, workers_gate};
use serde_json::{Value, json};
use tests::servers::manifests::{define, kind_in};
use tests::servers::{ApiServer, ApiServerOptions, Programs};

use crate::Environment;
use crate::measure::{Sample, go_module};
use crate::report::{Report, line, median};

/// Clusters, with ten machines each.
const CLUSTERS: usize = 1_000;
const MACHINES_EACH: usize = 10;

/// Bytes of a machine's annotation, so that it has about 4 KB as machines have.
const FILLING: usize = 2_400;

/// How long nothing changes.
const IDLE: Duration = Duration::from_secs(10);

const NAMESPACE: &str = "default";
const MACHINE: (&str, &str) = ("cluster.x-k8s.io/v1beta2", "Machine");

/// Watches as the controller does and decides about one cluster, in a process of its own: `watch-machines KUBECONFIG`.
pub const WATCH_VERB: &str = "watch-machines";

/// Keeps every machine in a store of the client library, in a process of its own: `store-machines KUBECONFIG`.
pub const STORE_VERB: &str = "store-machines";

pub fn run(environment: &Environment) -> anyhow::Result<Report> {
    let mut report = Report {
        work: format!("watch {} machines of {CLUSTERS} clusters, and decide after a restart", CLUSTERS * MACHINES_EACH),
        ..Report::default()
    };
    let programs = match Programs::find(&["etcd", "kube-apiserver"]) {
        Ok(programs) => programs,
        Err(missing) => {
            report.notes.push(format!("not measured: {missing:#}"));
            return Ok(report);
        }
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let folder = environment.scratch.path().join("watched");
    let server = runtime.block_on(async {
        let server = ApiServer::start(&programs, &folder, ApiServerOptions::default()).await?;
        fill(&server).await.map(|()| server)
    })?;
    let program = std::env::current_exe()?;
    let mut sides = vec![
        ("stepgate".to_owned(), program.clone(), vec![WATCH_VERB]),
        ("store of kube-rs".to_owned(), program, vec![STORE_VERB]),
    ];
    match go_module(&environment.peers, "machinecache") {
        Ok(peer) => sides.push(("cache of controller-runtime".to_owned(), peer, Vec::new())),
        Err(reason) => report.notes.push(format!("no controller-runtime: {reason}")),
    }
    let mut seen: Vec<Vec<Watched>> = vec![Vec::new(); sides.len()];
    for _ in 0..environment.rounds {
        for ((_, program, arguments), rounds) in sides.iter().zip(&mut seen) {
            rounds.push(watched(program, arguments, &server.kubeconfig())?);
        }
    }
    let all = CLUSTERS * MACHINES_EACH;
    for ((name, ..), rounds) in sides.iter().zip(&seen) {
        report.compare(format!("{name} knows of {all} machines"), rounds.iter().all(|round| round.machines == all));
    }
    let memory = |rounds: &[Watched]| {
        let mut values: Vec<u64> = rounds.iter().map(|round| round.resident).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let ours = memory(seen.first().map(Vec::as_slice).unwrap_or_default());
    let megabytes = |kilobytes: u64| f64::from(u32::try_from(kilobytes).unwrap_or(u32::MAX)) / 1024.0;
    report.goals.push((format!("resident memory {:.1} MiB (goal ≤ 36)", megabytes(ours)), ours <= 36 << 10));
    for (((name, ..), rounds), goal) in sides.iter().zip(&seen).skip(1).zip([2.8, 4.0]) {
        let theirs = memory(rounds);
        let ratio = megabytes(theirs) / megabytes(ours).max(0.001);
        let text = format!("memory of a {name} {:.1} MiB, {ratio:.1}× (goal ≥ {goal}×)", megabytes(theirs));
        report.goals.push((text, ratio >= goal));
    }
    let idle = |rounds: &[Watched]| {
        let mut times: Vec<Duration> =
            rounds.iter().map(|round| round.idle / u32::try_from(IDLE.as_secs()).unwrap_or(1)).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    let mine = idle(seen.first().map(Vec::as_slice).unwrap_or_default());
    report.at_most("P8: processor time in a second in which nothing changes", mine, Duration::from_micros(50));
    if let Some((rounds, (name, ..))) = seen.get(2).zip(sides.get(2)) {
        report.ratio(&format!("P8: that of a {name}"), mine, idle(rounds), 4.5);
    }
    for ((name, ..), rounds) in sides.iter().zip(seen) {
        let samples = |of: fn(&Watched) -> Option<Duration>| -> Vec<Sample> {
            rounds.iter().filter_map(of).map(|wall| Sample { cpu: Duration::ZERO, wall }).collect()
        };
        let decided = samples(|round| round.decided);
        if !decided.is_empty() {
            let restart = median(&decided, |sample| sample.wall);
            report.at_most("from the start of the process to the first decision", restart, Duration::from_millis(800));
            report.row(format!("{name}: until the first decision"), decided);
        }
        report.row(format!("{name}: until every machine is known"), samples(|round| Some(round.known)));
    }
    report.notes.push("processor time is not measured here: most of it is the API server's".to_owned());
    Ok(report)
}

/// What a watching process came to.
#[derive(Clone, Debug)]
struct Watched {
    machines: usize,
    decided: Option<Duration>,
    known: Duration,
    /// In KiB.
    resident: u64,
    /// Processor time in [`IDLE`], in which nothing changed.
    idle: Duration,
}

/// Starts a process that watches, and ends it by SIGKILL once it knows everything.
fn watched(program: &Path, arguments: &[&str], kubeconfig: &Path) -> anyhow::Result<Watched> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .arg(kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut watched = None;
    let mut decided = None;
    for said in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let said = said?;
        match said.split_once(' ') {
            Some(("decided", _)) => decided = Some(start.elapsed()),
            Some(("known", machines)) => {
                let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
                let resident = status.lines().find(|line| line.starts_with("VmRSS")).context("VmRSS")?;
                let resident = resident.split_whitespace().nth(1).context("VmRSS")?.parse()?;
                let known = start.elapsed();
                // What comes with the first list is to be over.
                std::thread::sleep(Duration::from_secs(1));
                let before = processor_time(child.id())?;
                std::thread::sleep(IDLE);
                let idle = processor_time(child.id())?.saturating_sub(before);
                watched = Some(Watched { machines: machines.parse()?, decided, known, resident, idle });
                break;
            }
            _ => bail!("{} said {said:?}", program.display()),
        }
    }
    child.kill()?;
    child.wait()?;
    watched.with_context(|| format!("{} ended before it knew everything", program.display()))
}

/// Time on a processor of all threads of a process, to the nanosecond.
fn processor_time(process: u32) -> anyhow::Result<Duration> {
    let mut all = Duration::ZERO;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let nanoseconds = text.split_whitespace().next().context("schedstat")?.parse()?;
        all = all.saturating_add(Duration::from_nanos(nanoseconds));
    }
    Ok(all)
}

async fn fill(server: &ApiServer) -> anyhow::Result<()> {
    let client = server.client().await?;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "machines.cluster.x-k8s.io"},
        "spec": {"group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "Machine", "plural": "machines", "singular": "machine", "listKind": "MachineList"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": schema}]},
    });
    define(&client, &[definition]).await?;
    let machines = kind_in(&client, MACHINE, NAMESPACE).await?;
    let parameters = PatchParams::apply("benchmark");
    let created = (0..CLUSTERS * MACHINES_EACH).map(|number| {
        let (machines, parameters, machine) = (machines.clone(), parameters.clone(), machine(number));
        async move {
            let name = machine.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
            machines.patch(&name, &parameters, &Patch::Apply(machine)).await
        }
    });
    let created: Vec<_> = created.collect();
    stream::iter(created).buffer_unordered(16).try_collect::<Vec<_>>().await?;
    Ok(())
}

fn cluster(number: usize) -> String {
    format!("cluster-{number:04}")
}

/// A machine of some 4 KB.
fn machine(number: usize) -> Value {
    let cluster = cluster(number / MACHINES_EACH);
    let name = format!("{cluster}-md-0-{number:05}");
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<Value> =
        ["Available", "Ready", "UpToDate", "BootstrapConfigReady", "InfrastructureReady", "NodeHealthy", "NodeReady"]
            .into_iter()
            .map(condition)
            .collect();
    json!({
        "apiVersion": MACHINE.0, "kind": MACHINE.1,
        "metadata": {"name": name, "namespace": NAMESPACE,
            "labels": {"cluster.x-k8s.io/cluster-name": cluster, "cluster.x-k8s.io/deployment-name": format!("{cluster}-md-0")},
            "annotations": {"benchmark/filling": "x".repeat(FILLING)}},
        "spec": {"clusterName": cluster, "version": "v1.33.0", "bootstrap": {"dataSecretName": name}},
        "status": {"phase": "Running", "nodeRef": {"name": name}, "conditions": conditions},
    })
}

/// What the gate of a cluster's workers asks for.
fn expectation(cluster: &str) -> anyhow::Result<WorkersExpectation> {
    Ok(WorkersExpectation {
        namespace: NAMESPACE.to_owned(),
        cluster: cluster.to_owned(),
        group: "md-0".parse()?,
        version: "v1.34.0".to_owned(),
        replicas: None,
        infrastructure_template: None,
        bootstrap_template: None,
        kubelet_versions: KubeletVersions::WhenReported,
    })
}

async fn connection(kubeconfig: &str) -> anyhow::Result<Connection> {
    let source = ConnectionSource::Kubeconfig { path: Some(kubeconfig.into()), context: None };
    Ok(Connection::open(&source).await?)
}

/// [`WATCH_VERB`].
pub fn watch(arguments: &[String]) -> anyhow::Result<()> {
    let [kubeconfig] = arguments else { bail!("{WATCH_VERB} KUBECONFIG") };
    tokio::runtime::Runtime::new()?.block_on(async {
        let connection = connection(kubeconfig).await?;
        let watches = Arc::new(ManagementWatches::default());
        let mut followed = Vec::new();
        for number in 0..CLUSTERS {
            let name = cluster(number);
            let own = KubernetesCluster::management(connection.clone(), std::path::PathBuf::from("unused"))
                .watched(&name, &watches);
            let expectation = expectation(&name)?;
            let request = ObserveRequest {
                expectations: vec![Expectation::Workers(expectation.clone())],
                kustomizations: Vec::new(),
                deployed: Arc::default(),
                freshness: Freshness::Fresh,
                at: Timestamp::now(),
            };
            if number == 0 {
                own.follow(&request, &[]).await;
                let observation = own.observe(&request).await;
                let (verdict, _) =
                    workers_gate(&expectation, &observation, &StagePolicy::default(), &GateHistory::default());
                ensure!(observation.machines.len() == MACHINES_EACH, "{observation:?}");
                ensure!(matches!(verdict, GateVerdict::Wait { .. }), "{verdict:?}");
                line("decided to wait for the machines of the first cluster");
            }
            followed.push((own, request));
        }
        for (own, request) in &followed {
            own.follow(request, &[]).await;
        }
        while watches.objects() < CLUSTERS * MACHINES_EACH {
            // Nobody is told of an object that has not changed.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        line(&format!("known {}", watches.objects()));
        std::future::pending::<anyhow::Result<()>>().await
    })
}

/// [`STORE_VERB`].
pub fn store(arguments: &[String]) -> anyhow::Result<()> {
    let [kubeconfig] = arguments else { bail!("{STORE_VERB} KUBECONFIG") };
    tokio::runtime::Runtime::new()?.block_on(async {
        let options = kube::config::KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kube::config::Kubeconfig::read_from(kubeconfig)?, &options);
        let client = kube::Client::try_from(config.await?)?;
        let machines = kind_in(&client, MACHINE, NAMESPACE).await?;
        let kind = kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "cluster.x-k8s.io",
            "v1beta2",
            "Machine",
        ));
        let writer = reflector::store::Writer::new(kind);
        let store = writer.as_reader();
        // The end of the first list is an event as well: only then is the store whole.
        let events = reflector(writer, watcher(machines, watcher::Config::default())).default_backoff();
        let mut events = std::pin::pin!(events);
        while store.len() < CLUSTERS * MACHINES_EACH {
            events.try_next().await?;
        }
        line(&format!("known {}", store.len()));
        std::future::pending::<anyhow::Result<()>>().await
    })
}
