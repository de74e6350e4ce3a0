//! Waves that put clusters before the one that manages them.

use domain::{Problem, ProblemCode, RepoPath, Severity};

use super::{Fleet, POLICY};

/// Each management cluster that comes after clusters that wait for it: where both have something to do, neither begins.
pub(super) fn check(fleet: &Fleet) -> Vec<Problem> {
    let waves = &fleet.policy.waves;
    if waves.is_empty() {
        return Vec::new();
    }
    let place = |name: &str| fleet.policy.wave_of(name).unwrap_or(waves.len());
    let told = fleet.management_clusters().filter_map(|manager| {
        let own = place(&manager.name);
        let before = fleet.managed_by(&manager.name).filter(|cluster| place(&cluster.name) < own);
        let first = before.min_by_key(|cluster| place(&cluster.name))?;
        let wave = &waves.get(place(&first.name))?.name;
        let name = &manager.name;
        let stands = waves.get(own).map_or("is in no wave".to_owned(), |wave| format!("is in wave {}", wave.name));
        let message = format!(
            "management cluster {name} {stands}, and comes after wave {wave}, of which cluster {} waits for it: where both are \
             to change, neither begins",
            first.name
        );
        let problem = Problem::new(ProblemCode::WaveOrder, message).cluster(name).severity(Severity::Warning);
        let problem = problem.hint(format!("put {name} into a wave before {wave}, or into {wave}"));
        Some(match RepoPath::new(POLICY) {
            Ok(path) => problem.path(&path),
            Err(_) => problem,
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use domain::{ProblemCode, RepoPath};

    use crate::{MemoryFiles, read_fleet};

    fn told(waves: &str) -> Vec<String> {
        let cluster = |name: &str| {
            let text = format!(
                "apiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec:\n  \
                 controlPlaneConfiguration: {{count: 1}}\n  datacenterRef: {{kind: DockerDatacenterConfig, name: {name}}}\n  \
                 kubernetesVersion: '1.31'\n  managementCluster: {{name: hub}}\n"
            );
            (format!("clusters/{name}/cluster.yaml").parse::<RepoPath>().unwrap(), text.into_bytes())
        };
        let policy = ("stepgate.yaml".parse().unwrap(), waves.as_bytes().to_vec());
        let files = ["hub", "shop", "desk"].map(cluster).into_iter().chain([policy]);
        let fleet = read_fleet(&files.collect::<MemoryFiles>());
        fleet.problems.iter().filter(|it| it.code == ProblemCode::WaveOrder).map(ToString::to_string).collect()
    }

    #[test]
    fn waves_that_put_clusters_before_their_manager_are_told() {
        let none = told("waves:\n- {name: all, clusters: [shop, desk]}\n");
        assert!(
            none.iter().any(|it| it.contains("hub is in no wave, and comes after wave all, of which cluster desk"))
        );
        let later = told("waves:\n- {name: all, clusters: [shop, desk]}\n- {name: hubs, clusters: [hub]}\n");
        assert!(later.iter().any(|it| it.contains("hub is in wave hubs, and comes after wave all")), "{later:?}");
        for good in [
            "waves:\n- {name: hubs, clusters: [hub]}\n- {name: all, clusters: [shop, desk]}\n",
            "waves:\n- {name: all, clusters: ['*']}\n",
            "waves:\n- {name: hubs, clusters: [hub]}\n",
            "history: {}\n",
        ] {
            assert_eq!(told(good), Vec::<String>::new(), "{good}");
        }
    }
}
