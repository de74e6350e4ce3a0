//! How large pages are and how long they take, of a fleet of a thousand clusters whose rollouts have forty stages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use maud::Markup;

use super::{FleetQuery, cluster, fleet, rollout};
use crate::dashboard::detail::{ClusterReport, StageLine};
use crate::dashboard::reader::FleetReader;
use crate::dashboard::snapshot::{ClusterRow, ReadBy, Snapshot};
use crate::demo::{DemoKind, DemoSettings, FleetFiles};
use crate::reconcile::cache::sources::FetchSources;
use crate::reconcile::clusters::access::NoAccess;
use crate::reconcile::planner::Planner;
use git::{Repository, RepositoryLocation};

const CLUSTERS: usize = 1000;
const STAGES: usize = 40;

/// What issue 36 asks of each page.
const LARGEST: usize = 60_000;
const LONGEST: Duration = Duration::from_millis(50);

/// The demonstration's fleet after its rollout, with as many clusters.
async fn large(folder: &std::path::Path) -> Snapshot {
    let (folder, kind) = (folder.to_owned(), DemoKind::default());
    let settings = DemoSettings { folder, kind, bundles: None, mirrors: Vec::new(), broken: None };
    crate::demo::run(&settings, &mut |_, _| {}).await.unwrap();
    let repository = Repository::open(&RepositoryLocation::Local(settings.folder.join("fleet.git"))).unwrap();
    let sources = FetchSources::new(FleetFiles::of(&settings).unwrap().mirrors);
    let planner = Planner::new(repository, "main".parse().unwrap(), Arc::new(sources));
    let clusters = Arc::new(NoAccess::new("nobody asks".to_owned()));
    let mut snapshot = FleetReader::new(planner, clusters, ReadBy::Web).read().await.unwrap();
    let like = snapshot.clusters[0].clone();
    let row = |number: usize| {
        let state = ["done", "waiting", "running", "held"][number % 4].to_owned();
        let status =
            crate::report::ClusterStatus { cluster: format!("cluster-{number:04}"), state, ..like.status.clone() };
        let (environment, wave) = (Some(format!("region-{}", number % 9)), Some(format!("wave-{}", number % 5)));
        ClusterRow { status, environment, wave, stages: STAGES, stages_done: number % STAGES, ..like.clone() }
    };
    snapshot.clusters.extend((1..=CLUSTERS).map(row));
    snapshot
}

/// The page, once it is known how long it takes at best: other programs take their time too.
fn measured(what: &str, page: impl Fn() -> Markup) {
    let times = (0..5).map(|_| {
        let begun = Instant::now();
        (page().into_string().len(), begun.elapsed())
    });
    let (size, took) = times.min_by_key(|(_, took)| *took).unwrap();
    assert!(size < LARGEST, "{what} has {size} bytes");
    assert!(took < LONGEST, "{what} took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_thousand_clusters_with_forty_stages_are_small_and_quick() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = large(folder.path()).await;
    for query in ["", "page=20", "state=held&sort=since", "name=cluster-09&environment=region-3&wave=wave-1"] {
        let query: FleetQuery = asked(query);
        measured("the fleet", || fleet(&snapshot, &query));
    }
    let name = snapshot.clusters[0].status.cluster.clone();
    let mut report: ClusterReport = snapshot.cluster(&name).unwrap();
    let record = report.rollout_record.as_mut().unwrap();
    let stage = |number: usize| StageLine {
        name: format!("workers/group-{number}"),
        state: "pending".to_owned(),
        is_next: number == 0,
    };
    record.stages = (0..STAGES).map(stage).collect();
    measured("a cluster", || cluster(&snapshot, &name, &report));
    measured("a rollout", || rollout(&snapshot, &name, &report.rollout_record));
}

/// A query as a browser sends it.
fn asked(query: &str) -> FleetQuery {
    let address = format!("http://localhost/?{query}").parse().unwrap();
    let axum::extract::Query(query) = axum::extract::Query::try_from_uri(&address).unwrap();
    query
}
