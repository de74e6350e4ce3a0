//! How many requests it takes to read everything that the gates of a management cluster look at.

use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use cluster::kubernetes::{Connection, ConnectionSource};
use fetch::{Helm, HelmCharts};
use git::{Repository, RepositoryLocation};
use overlays::{Charts, Fleet, Manifests};
use serde_json::Value;
use stepgate::controller::access::KubernetesClusters;
use stepgate::controller::clock::SystemClock;
use stepgate::controller::explain::Explainer;
use stepgate::controller::planner::{Planner, Sources};
use stepgate::controller::sources::FetchSources;
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
    let clusters = KubernetesClusters::new(connection, scene.file("unused"));
    let is_asked = |line: &Value| line["user"]["username"] == "reader" && line["stage"] == "RequestReceived";
    let (mut asked, mut seen) = (Vec::new(), 0);
    for _ in 0..2 {
        Explainer::new(&planner, &reading, &clusters, &SystemClock).explain(&view).await?;
        let all = scene.server.audit()?.iter().filter(|line| is_asked(line)).count();
        asked.push(all - seen);
        seen = all;
    }
    let audit = scene.server.audit()?;
    let is_write = |line: &&Value| {
        let reads = ["get", "list", "watch"].iter().any(|verb| line["verb"] == **verb);
        !reads && line["requestURI"].as_str().is_none_or(|uri| !uri.contains("dryRun=All"))
    };
    let written: Vec<&Value> = audit.iter().filter(|line| is_asked(line)).filter(is_write).collect();
    ensure!(written.is_empty(), "reading has written: {written:?}");
    let said = format!("{asked:?} requests for the first reading and the next, for {expected} expectations");
    println!("{said}");
    ensure!(expected > 250 && asked[1] < expected, "{said}");
    Ok(())
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
