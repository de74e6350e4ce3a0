//! What is encrypted with SOPS among the objects of clusters: Flux has to know how to decrypt it.

use kustomize_rs::flux::is_encrypted;
use yaml::Node;

use crate::{ClusterSpec, Fleet};
use domain::{Problem, ProblemCode};
use policy::Apply;

/// The objects that Flux would not decrypt, once each cluster is recorded.
pub(super) fn check(fleet: &Fleet) -> Vec<Problem> {
    fleet.clusters.iter().filter_map(|cluster| check_cluster(fleet, cluster)).collect()
}

fn check_cluster(fleet: &Fleet, cluster: &ClusterSpec) -> Option<Problem> {
    let is_direct = fleet.policy.apply == Apply::Direct;
    let is_known = fleet.policy.flux.decryption.is_some()
        || fleet.flux_settings.get(&cluster.name).is_some_and(|settings| settings.carried.contains_key("decryption"));
    if is_known && !is_direct {
        return None;
    }
    let holds = |text: &[u8]| {
        let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
        has(b"sops") || has(b"Secret")
    };
    let mut objects = cluster.files.iter().filter(|file| holds(&file.bytes)).flat_map(|file| {
        let nodes = crate::objects_of(&file.bytes);
        nodes.into_iter().map(|node| (file.path.clone(), node)).collect::<Vec<_>>()
    });
    let (path, node) = objects.find(|(_, node)| is_encrypted(node))?;
    let text = |path: &[&str]| node.at(path).and_then(Node::as_str).unwrap_or_default().to_owned();
    let what = format!("{} {:?} is encrypted with SOPS", text(&["kind"]), text(&["metadata", "name"]));
    let (message, hint) = if is_direct {
        let hint = "let Flux apply the deploy branch, or keep the object out of the files of clusters";
        (format!("{what}, and `apply: direct` decrypts nothing"), hint)
    } else {
        let hint = "set flux.decryption in stepgate.yaml, as in `decryption: {secret: sops-age}`";
        (format!("{what}, and nothing here says how Flux decrypts it"), hint)
    };
    let problem = Problem::new(ProblemCode::MissingDecryption, message).path(&path).at(node.span.line().max(1), 1);
    Some(problem.cluster(&cluster.name).hint(hint))
}
