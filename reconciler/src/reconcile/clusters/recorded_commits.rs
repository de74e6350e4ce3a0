//! What a cluster itself tells of the commit that it was brought to: where git knows of no record, it may.

use domain::CommitId;
use jiff::Timestamp;
use rollout::{Block, Observation, Reachability};

use crate::reconcile::clusters::missing::MissingRecord;
use crate::reconcile::planner::{ClusterView, FleetReading, Planner};
use cluster::{Cluster, Freshness, NotedCommit, ObserveRequest};
use git::{LastSeen, SeenBy};

/// What a cluster told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterTold {
    /// It was brought to a commit where it has a record, or that cannot be looked at.
    Lost(MissingRecord),
    /// Nothing of a record.
    Nothing,
    /// It did not answer; why.
    Unreachable(String),
}

/// Asks a cluster without a ledger which commit Flux applied there, and which one Stepgate noted.
pub async fn ask(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    cluster: &dyn Cluster,
    now: Timestamp,
) -> ClusterTold {
    let request = ObserveRequest {
        expectations: Vec::new(),
        kustomizations: view.flux_references(),
        deployed: std::sync::Arc::default(),
        freshness: Freshness::Fresh,
        at: now,
    };
    let observation = cluster.observe(&request).await;
    let mut silent = match &observation.reachable {
        Reachability::Unreachable { reason } => Some(reason.clone()),
        Reachability::Reachable => {
            ["Kustomization", "GitRepository"].into_iter().find_map(|kind| observation.unread.get(kind)).cloned()
        }
    };
    let mut seen = applied(view, &observation);
    let noted = cluster.noted_commits(view.name.as_str()).await.unwrap_or_else(|error| {
        silent.get_or_insert(error.to_string());
        Vec::new()
    });
    for NotedCommit { commit, branch, by } in noted {
        let has_record = planner.holds_ledger(&reading.layout, &commit, Some(&view.name));
        // What cannot be looked at is of the deploy branch if it says so, or where there is no branch that it could be older than.
        let is_of_branch =
            branch.map_or_else(|| reading.deploy.is_none(), |branch| branch == reading.layout.branch.as_str());
        if has_record.unwrap_or(is_of_branch) && !seen.iter().any(|known| known.commit == commit) {
            seen.push(LastSeen { commit, by: SeenBy::Other(by) });
        }
    }
    let with_record =
        |seen: &LastSeen| planner.holds_ledger(&reading.layout, &seen.commit, Some(&view.name)) != Some(false);
    seen.retain(with_record);
    // What git knows is the newest only where the cluster has answered, and knows of nothing newer.
    if let Some(MissingRecord::Lost { seen: known, .. }) = view.missing.as_ref().filter(|_| silent.is_none()) {
        seen.push(known.clone());
    }
    match (newest(planner, seen), silent) {
        (Some(seen), _) if reading.deploy.is_none() => ClusterTold::Lost(MissingRecord::Lost { seen, asked: true }),
        (Some(seen), _) => ClusterTold::Lost(MissingRecord::Rewritten(seen)),
        (None, Some(reason)) => ClusterTold::Unreachable(reason),
        (None, None) => ClusterTold::Nothing,
    }
}

/// What forbids the rollout of a cluster without a ledger, with what the cluster tells of it; none where it has nothing to add.
pub async fn blocks(
    planner: &Planner,
    reading: &FleetReading,
    view: &ClusterView,
    cluster: &dyn Cluster,
    now: Timestamp,
) -> Option<Vec<Block>> {
    let missing = view.missing.as_ref().filter(|missing| missing.asks_cluster())?;
    let block = |missing: &MissingRecord| missing.block(&view.name, &reading.layout, planner.repository());
    let said = block(missing);
    let told = match ask(planner, reading, view, cluster, now).await {
        ClusterTold::Lost(told) => block(&told),
        ClusterTold::Unreachable(reason) => Block {
            help: format!("{}; the cluster was asked now and does not tell: {reason}", said.help),
            ..said.clone()
        },
        ClusterTold::Nothing if *missing == MissingRecord::NoBranch => Block {
            help: format!(
                "the cluster knows of no record either: {}",
                missing.first_time(&view.name, planner.repository())
            ),
            ..said.clone()
        },
        ClusterTold::Nothing => return None,
    };
    let others = view.plan.blocked.iter().filter(|other| **other != said).cloned();
    Some([told].into_iter().chain(others).collect())
}

/// What Flux fetched and applied by the cluster's own Kustomizations, in the order in which it is believed.
fn applied(view: &ClusterView, observation: &Observation) -> Vec<LastSeen> {
    let seen = |commit: &Option<CommitId>, kind: &str, namespace: &str, name: &str| {
        let by = SeenBy::Other(format!("Flux in {kind} {namespace}/{name}"));
        commit.clone().map(|commit| LastSeen { commit, by })
    };
    let flux = &observation.flux;
    let is_own = |namespace: &str, name: &str| {
        view.kustomizations.values().any(|own| own.namespace == namespace && own.name == name)
    };
    let own: Vec<_> = flux.kustomizations.iter().filter(|it| is_own(&it.namespace, &it.name)).collect();
    let sources = flux.sources.iter().filter(|source| {
        own.iter().any(|it| {
            let namespace = it.source_namespace.as_ref().unwrap_or(&it.namespace);
            it.source.as_ref() == Some(&source.name) && *namespace == source.namespace
        })
    });
    let fetched = sources.map(|it| seen(&it.artifact_revision, "GitRepository", &it.namespace, &it.name));
    let tried = own.iter().map(|it| seen(&it.last_attempted_revision, "Kustomization", &it.namespace, &it.name));
    let done = own.iter().map(|it| seen(&it.last_applied_revision, "Kustomization", &it.namespace, &it.name));
    let mut all: Vec<LastSeen> = Vec::new();
    for seen in fetched.chain(tried).chain(done).flatten() {
        if !all.iter().any(|known| known.commit == seen.commit) {
            all.push(seen);
        }
    }
    all
}

/// The newest of these commits: what is believed first, unless another one descends from it.
fn newest(planner: &Planner, seen: Vec<LastSeen>) -> Option<LastSeen> {
    seen.into_iter().reduce(
        |best, other| {
            if planner.repository().descends(&other.commit, &best.commit) { other } else { best }
        },
    )
}
