//! How many requests it takes to read everything that the gates of a management cluster look at.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, anyhow, ensure};
use cluster::kubernetes::{Connection, ConnectionSource};
use cluster::{ApplyReport, ApplyRequest, BackupRequest, Cluster, ClusterError, ClusterReference, ObserveRequest};
use fetch::{Helm, HelmCharts};
use futures::future::BoxFuture;
use git::{Repository, RepositoryLocation};
use jiff::Timestamp;
use overlays::{Charts, ClusterSpec, Fleet, Manifests};
use rollout::{BackupReport, FluxReference, MarkChange, Observation};
use serde_json::Value;
use stepgate::reconcile::cache::sources::FetchSources;
use stepgate::reconcile::clusters::access::{Clusters, KubernetesClusters};
use stepgate::reconcile::main_loop::clock::SystemClock;
use stepgate::reconcile::observe::explain::Explainer;
use stepgate::reconcile::planner::{Planner, Sources};
use tests::servers::Programs;
use tests::servers::settled::CLUSTER;

use super::scene::Scene;

/// Reads the cluster twice: objects of a kind are lists, what has not changed since is not read again, and nothing is written.
pub async fn assert_reads_by_lists(scene: &Scene, mirror: &Path, programs: &Programs) -> anyhow::Result<()> {
    let mirrors = vec![mirror.to_owned(), mirror.join("substitutes")];
    let sources = WithHelm { manifests: FetchSources::new(mirrors), helm: Helm::new(programs.path("helm")) };
    let repository = Repository::open(&RepositoryLocation::Local(scene.repository.bare()))?;
    let planner = Planner::new(repository, "main".parse()?, Arc::new(sources));
    let reading = planner.read()?;
    let view = planner.view(&reading, CLUSTER)?;
    let expected: usize = view.plan.stages.iter().map(|stage| stage.expectations.len()).sum();
    let kubeconfig = scene.server.user("reader", "system:masters")?;
    let source = ConnectionSource::Kubeconfig { path: Some(kubeconfig), context: None };
    let connection = Connection::open(&source).await?.with_requests_per_second(1000);
    let clusters =
        Watched { clusters: KubernetesClusters::new(connection, scene.file("unused")), times: Arc::default() };
    let is_asked = |line: &Value| line["user"]["username"] == "reader" && line["stage"] == "RequestReceived";
    for _ in 0..2 {
        Explainer::new(&planner, &reading, &clusters, &SystemClock).explain(&view).await?;
    }
    let audit = scene.server.audit()?;
    let received = audit
        .iter()
        .filter(|line| is_asked(line))
        .map(|line| line["requestReceivedTimestamp"].as_str().unwrap_or_default().parse::<Timestamp>());
    let received: Vec<Timestamp> = received.collect::<Result<_, _>>()?;
    // An explanation may read twice: each reading counts by itself.
    let times = clusters.times.lock().map_err(|_| anyhow!("a reading has failed"))?.clone();
    let within = |(from, to): &(Timestamp, Timestamp)| received.iter().filter(|at| (from..=to).contains(at)).count();
    let asked: Vec<usize> = times.iter().map(within).collect();
    let is_write = |line: &&Value| {
        let reads = ["get", "list", "watch"].iter().any(|verb| line["verb"] == **verb);
        !reads && line["requestURI"].as_str().is_none_or(|uri| !uri.contains("dryRun=All"))
    };
    let written: Vec<&Value> = audit.iter().filter(|line| is_asked(line)).filter(is_write).collect();
    ensure!(written.is_empty(), "reading has written: {written:?}");
    let said = format!("{asked:?} requests for each reading, for {expected} expectations");
    println!("{said}");
    let (first, next) = asked.split_first().context("nothing was read")?;
    let is_read_again = !next.is_empty() && next.iter().all(|asked| asked * 2 < expected);
    ensure!(expected > 250 && *first > 0 && is_read_again, "{said}");
    Ok(())
}

/// When a reading began and ended.
type Times = Arc<Mutex<Vec<(Timestamp, Timestamp)>>>;

/// Clusters of which is told when they are read.
struct Watched {
    clusters: KubernetesClusters,
    times: Times,
}

impl Clusters for Watched {
    fn cluster(&self, cluster: &ClusterSpec) -> Arc<dyn Cluster> {
        Arc::new(WatchedCluster { cluster: self.clusters.cluster(cluster), times: Arc::clone(&self.times) })
    }

    fn referred(&self, cluster: &ClusterSpec, reference: &ClusterReference) -> Arc<dyn Cluster> {
        let cluster = self.clusters.referred(cluster, reference);
        Arc::new(WatchedCluster { cluster, times: Arc::clone(&self.times) })
    }
}

struct WatchedCluster {
    cluster: Arc<dyn Cluster>,
    times: Times,
}

impl Cluster for WatchedCluster {
    fn observe<'a>(&'a self, request: &'a ObserveRequest) -> BoxFuture<'a, Observation> {
        Box::pin(async move {
            let from = Timestamp::now();
            let observation = self.cluster.observe(request).await;
            if let Ok(mut times) = self.times.lock() {
                times.push((from, Timestamp::now()));
            }
            observation
        })
    }

    fn back_up<'a>(&'a self, request: &'a BackupRequest) -> BoxFuture<'a, Result<BackupReport, ClusterError>> {
        self.cluster.back_up(request)
    }

    fn order_machines<'a>(
        &'a self,
        changes: &'a [MarkChange],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.cluster.order_machines(changes, at)
    }

    fn nudge<'a>(&'a self, flux: &'a [FluxReference], at: Timestamp) -> BoxFuture<'a, Result<(), ClusterError>> {
        self.cluster.nudge(flux, at)
    }

    fn apply<'a>(
        &'a self,
        request: &'a ApplyRequest,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<ApplyReport, ClusterError>> {
        self.cluster.apply(request, at)
    }
}

/// The sources of the program, with the helm of the tests.
struct WithHelm {
    manifests: FetchSources,
    helm: Helm,
}

impl Sources for WithHelm {
    fn manifests(&self, fleet: &Fleet, allow: &[String]) -> Arc<dyn Manifests> {
        self.manifests.manifests(fleet, allow)
    }

    fn charts(&self, fleet: &Fleet, allow: &[String]) -> Arc<dyn Charts> {
        Arc::new(HelmCharts::new(Ok(self.helm.clone()), self.manifests.manifests(fleet, allow)))
    }
}
