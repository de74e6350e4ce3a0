//! What the next rollout of a cluster leads to: what is wanted, or the next target of a chain.

use std::collections::BTreeMap;

use bundles::{KubernetesMinor, KubernetesVersion};
use overlays::{BundleFile, BundleReference, ClusterKind, ClusterSpec, Fleet};
use rollout::{Block, Chain, ChainGroup, ChainSearch, ChainTarget, Ledger, LedgerState, NoWay};

use super::candidates::{between, chain_bundle};

/// What is asked of a cluster, and what it is at.
pub struct Asked<'a> {
    /// The fleet of the source commit.
    pub fleet: &'a Fleet,
    /// The cluster there.
    pub cluster: &'a ClusterSpec,
    /// The cluster as it is deployed; none where it is not.
    pub deployed: Option<&'a ClusterSpec>,
    /// The fleet that the deployed state was rendered from, with the cluster at what it was rendered for.
    pub base: Option<&'a Fleet>,
    /// The record of its last rollout.
    pub ledger: Option<&'a Ledger>,
    /// The cluster in the source commit of that record, where the rollout runs.
    pub before: Option<&'a ClusterSpec>,
}

/// What the next rollout leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Course {
    /// What the source commit asks for.
    Direct,
    /// The current target of a chain.
    Chain(Chain),
    /// Nothing: no rollouts lead to what is asked for.
    Nowhere(Block),
}

impl Course {
    /// The code of what says that a link of a chain is missing.
    pub const BROKEN_CHAIN: &str = "broken-chain";
}

/// What the next rollout of a cluster leads to.
#[must_use]
pub fn course(asked: &Asked<'_>) -> Course {
    if asked.cluster.kind != ClusterKind::EksAnywhere {
        return Course::Direct;
    }
    let Ok(bundle) = overlays::bundle_for(asked.fleet, asked.cluster) else { return Course::Direct };
    let Some(end) = wanted(asked, bundle) else { return Course::Direct };
    let running = asked.ledger.filter(|ledger| ledger.state == LedgerState::Running);
    if let Some(chain) =
        running.and_then(|ledger| ledger.chain.as_ref()).and_then(|chain| kept(asked, chain, bundle, &end))
    {
        return Course::Chain(chain);
    }
    let allowed = asked.fleet.policy.chains_upgrades(&asked.cluster.name);
    // A rollout that began as a single one ends as one, as long as nothing else is asked for.
    let is_same = running.is_some() && asked.before.is_some_and(|before| versions(before) == versions(asked.cluster));
    if !allowed || is_same {
        return Course::Direct;
    }
    let Some(search) = from_deployed(asked, bundle) else { return Course::Direct };
    let reached = continued(asked, &end);
    match search.targets() {
        Ok(targets) if reached.len() + targets.len() > 1 && !targets.is_empty() => {
            Course::Chain(Chain { rollout: reached.len() + 1, targets: [reached, targets].concat() })
        }
        Ok(_) => Course::Direct,
        Err(_) if running.is_some() => Course::Direct,
        Err(reason) => Course::Nowhere(block(asked, &search, &end, &reason)),
    }
}

/// The chain of a rollout that runs: its target stays, and leads to what is asked for now; none where no rollouts lead from there to it.
fn kept(asked: &Asked<'_>, chain: &Chain, bundle: &BundleFile, end: &ChainTarget) -> Option<Chain> {
    let current = chain.current()?;
    if chain.end().is_some_and(|known| known.is_same(end)) {
        return Some(chain.clone());
    }
    let at = asked.fleet.bundles.iter().find(|file| file.bundles.name == current.bundle)?;
    let minor = |text: &String| text.parse::<KubernetesMinor>().ok();
    let groups = groups(asked.cluster, |name| {
        let own = name.parse().ok().and_then(|name| current.workers.get(&name));
        minor(own.unwrap_or(&current.kubernetes))
    })?;
    let search = ChainSearch {
        bundles: between(asked.fleet, asked.cluster, (asked.fleet, at), bundle)?,
        deployed: minor(&current.kubernetes)?,
        wanted: minor(&end.kubernetes)?,
        groups,
    };
    let rest = search.targets().ok()?;
    Some(Chain { rollout: chain.rollout, targets: [chain.reached(), rest.as_slice()].concat() })
}

/// The targets of a chain that leads to the same, and whose rollouts have ended.
fn continued(asked: &Asked<'_>, end: &ChainTarget) -> Vec<ChainTarget> {
    let chain =
        asked.ledger.filter(|ledger| ledger.state == LedgerState::Done).and_then(|ledger| ledger.chain.as_ref());
    let chain = chain.filter(|chain| chain.end().is_some_and(|known| known.is_same(end)));
    chain.map(|chain| chain.reached().to_vec()).unwrap_or_default()
}

fn from_deployed(asked: &Asked<'_>, bundle: &BundleFile) -> Option<ChainSearch> {
    let (deployed, base) = (asked.deployed?, asked.base?);
    let before = overlays::bundle_for(base, base.cluster(&asked.cluster.name)?).ok()?;
    let at: BTreeMap<&str, &str> =
        deployed.worker_groups.iter().map(|group| (group.name.as_str(), group.kubernetes_version.as_str())).collect();
    let search = ChainSearch {
        bundles: between(asked.fleet, asked.cluster, (base, before), bundle)?,
        deployed: minor(&deployed.kubernetes_version)?,
        wanted: minor(&asked.cluster.kubernetes_version)?,
        groups: groups(asked.cluster, |name| at.get(name).and_then(|text| minor(text)))?,
    };
    // What goes down, or to another major, is no chain; why it is refused is told by the rules about versions.
    let is_up = |from: KubernetesMinor, to: KubernetesMinor| to.minors_above(from).is_some_and(|minors| minors >= 0);
    let groups_go_up = search.groups.iter().all(|group| group.deployed.is_none_or(|from| is_up(from, group.wanted)));
    (is_up(search.deployed, search.wanted) && groups_go_up).then_some(search)
}

fn groups(cluster: &ClusterSpec, deployed: impl Fn(&str) -> Option<KubernetesMinor>) -> Option<Vec<ChainGroup>> {
    let group = |group: &overlays::WorkerGroup| {
        Some(ChainGroup {
            name: group.name.parse().ok()?,
            deployed: deployed(&group.name),
            wanted: minor(&group.kubernetes_version)?,
            has_own: group.own_kubernetes_version,
        })
    };
    cluster.worker_groups.iter().map(group).collect()
}

/// The end of a chain: what the source commit asks for.
fn wanted(asked: &Asked<'_>, bundle: &BundleFile) -> Option<ChainTarget> {
    let own = asked.cluster.worker_groups.iter().filter(|group| group.own_kubernetes_version);
    let workers =
        own.filter_map(|group| Some((group.name.parse().ok()?, minor(&group.kubernetes_version)?.to_string())));
    let known = chain_bundle(asked.fleet, asked.cluster, bundle);
    Some(ChainTarget {
        kubernetes: minor(&asked.cluster.kubernetes_version)?.to_string(),
        workers: workers.collect(),
        bundle: known.name,
        eksa: known.eksa,
        rolls: Vec::new(),
    })
}

fn minor(version: &str) -> Option<KubernetesMinor> {
    Some(version.parse::<KubernetesVersion>().ok()?.minor())
}

/// Everything that a specification says of versions.
fn versions(cluster: &ClusterSpec) -> (&str, Option<&BundleReference>, Vec<(&str, &str)>) {
    let groups = cluster.worker_groups.iter();
    let groups = groups.map(|group| (group.name.as_str(), group.kubernetes_version.as_str()));
    (cluster.kubernetes_version.as_str(), cluster.bundle_reference.as_ref(), groups.collect())
}

fn block(asked: &Asked<'_>, search: &ChainSearch, end: &ChainTarget, reason: &NoWay) -> Block {
    let from = search.bundles.first().map(|bundle| ChainTarget {
        kubernetes: search.deployed.to_string(),
        workers: BTreeMap::new(),
        bundle: bundle.name.clone(),
        eksa: bundle.eksa.clone(),
        rolls: Vec::new(),
    });
    let from = from.map(|from| from.to_string()).unwrap_or_default();
    let names_version = matches!(asked.cluster.bundle_reference, Some(BundleReference::EksaVersion(_)));
    let files = if names_version { "the Bundles manifest and the EKSARelease" } else { "the Bundles manifest" };
    let help = match reason {
        NoWay::Eksa(_) => format!(
            "add {files} of one release of each to bundles/, and fetch what it names by `stepgate bundle fetch`"
        ),
        NoWay::Kubernetes(_) | NoWay::End(_) => format!(
            "add {files} of a release that has the next minor as well to bundles/, or ask for less: then for the rest"
        ),
    };
    Block {
        code: Course::BROKEN_CHAIN.to_owned(),
        stage: None,
        message: format!("no rollouts lead from {from} to {end}: {reason}"),
        help,
    }
}
