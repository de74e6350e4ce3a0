//! The commands: each is about one stage, and does nothing where nothing is to be done.

use rollout::eksctl::EksctlVerb;

use super::EksctlTarget;

/// The arguments of a command that may take so many minutes, with this file.
pub(super) fn arguments(verb: &EksctlVerb, target: &EksctlTarget, file: &str, minutes: u64) -> Vec<String> {
    let timeout = format!("{minutes}m");
    let with_file = |words: &[&str]| -> Vec<String> {
        words.iter().copied().chain(["-f", file, "--timeout", &timeout]).map(str::to_owned).collect()
    };
    let by_name = |words: &[&str], name: &str| -> Vec<String> {
        let cluster = ["--cluster", &target.name, "--region", &target.region, "--name", name];
        words.iter().copied().chain(cluster).chain(["--timeout", &timeout]).map(str::to_owned).collect()
    };
    match verb {
        EksctlVerb::UpgradeCluster => with_file(&["upgrade", "cluster", "--approve"]),
        EksctlVerb::CreateAddon { .. } => with_file(&["create", "addon", "--wait"]),
        EksctlVerb::UpdateAddon { .. } => with_file(&["update", "addon", "--wait"]),
        EksctlVerb::DeleteAddon { name } => by_name(&["delete", "addon"], name.as_str()),
        EksctlVerb::CreateNodeGroup { .. } => with_file(&["create", "nodegroup"]),
        EksctlVerb::DeleteNodeGroup { name } => by_name(&["delete", "nodegroup", "--drain", "--wait"], name.as_str()),
    }
}
