//! What eksctl is asked of a cluster.

use rollout::EksReading;

use super::program::PinnedProgram;
use super::{EksctlTarget, answers};

/// What AWS says of a cluster by eksctl; what it does not say is noted.
pub(super) async fn ask(program: &PinnedProgram, target: &EksctlTarget) -> EksReading {
    let mut reading = EksReading::default();
    let verified = match target.check() {
        Ok(()) => program.verify().await.map_err(|error| error.to_string()),
        Err(error) => Err(error),
    };
    if let Err(error) = verified {
        reading.unread.insert("what eksctl says".to_owned(), error);
        return reading;
    }
    let EksctlTarget { name, region, .. } = target;
    let get = |words: [&'static str; 2]| get(program, words, name, region);
    let (cluster, groups, addons) =
        tokio::join!(get(["cluster", "--name"]), get(["nodegroup", "--cluster"]), get(["addon", "--cluster"]));
    let mut note = |what: &str, error: String| drop(reading.unread.insert(what.to_owned(), error));
    match cluster.and_then(|text| answers::cluster(&text, name)) {
        Ok(cluster) => reading.cluster = Some(cluster),
        Err(error) => note("the cluster", error),
    }
    match groups.and_then(|text| answers::node_groups(&text)) {
        Ok(groups) => reading.node_groups = Some(groups),
        Err(error) => note("node groups", error),
    }
    match addons.and_then(|text| answers::addons(&text)) {
        Ok(addons) => reading.addons = Some(addons),
        Err(error) => note("add-ons", error),
    }
    reading
}

async fn get(program: &PinnedProgram, [kind, option]: [&str; 2], name: &str, region: &str) -> Result<Vec<u8>, String> {
    let answer = program.answer(&["get", kind, option, name, "--region", region, "-o", "json"]).await;
    answer.map_err(|error| error.to_string())
}
