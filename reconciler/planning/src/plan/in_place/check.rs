//! What keeps machines from being upgraded in place whatever changes: said before anything changes.

use domain::{Problem, ProblemCode};
use in_place::objects::GROUP;
use overlays::{ClusterSpec, Fleet};
use policy::RolloutStrategy;
use rollout::{StageId, StageName};
use yaml::Node;

use super::{Sides, decide, driver};

/// Clusters whose machines are to be upgraded in place, and cannot be as they are described.
#[must_use]
pub fn problems(fleet: &Fleet) -> Vec<Problem> {
    fleet.clusters.iter().flat_map(|cluster| of_cluster(fleet, cluster)).collect()
}

/// Most files say nothing of it, and are not read again.
fn says_something(cluster: &ClusterSpec) -> bool {
    let has = |bytes: &[u8], words: &str| bytes.windows(words.len()).any(|window| window == words.as_bytes());
    cluster.files.iter().any(|file| [GROUP, "InPlace"].iter().any(|words| has(&file.bytes, words)))
}

fn of_cluster(fleet: &Fleet, cluster: &ClusterSpec) -> Vec<Problem> {
    let says_something = says_something(cluster);
    let groups = cluster.worker_groups.iter().filter_map(|group| group.name.parse().ok().map(StageName::Workers));
    let mut problems = Vec::new();
    let mut objects: Option<Vec<Node>> = None;
    for name in std::iter::once(StageName::ControlPlane).chain(groups) {
        let stage = StageId::from(name);
        let policy = fleet.policy.stage_policy(&cluster.name, &stage.to_string()).machines;
        if !says_something && policy.strategy != Some(RolloutStrategy::InPlace) {
            continue;
        }
        let objects = objects
            .get_or_insert_with(|| cluster.files.iter().flat_map(|file| overlays::objects_of(&file.bytes)).collect());
        let sides = Sides {
            cluster,
            stage: &stage.name,
            before: objects.clone(),
            after: objects.clone(),
            cluster_api: driver::cluster_api_of(fleet, cluster),
            fleet,
        };
        let outlook = decide(&stage, &policy, 0, sides.found(&policy));
        let place = &cluster.places.name;
        problems.extend(outlook.blocks.into_iter().map(|block| {
            Problem::new(ProblemCode::InPlace, format!("{stage}: {}", block.message))
                .path(&place.path)
                .at(place.line, place.column)
                .cluster(&cluster.name)
                .hint(block.help)
        }));
    }
    problems
}
