//! The search against every sequence of rollouts, and against chains that people know.

use std::collections::{BTreeMap, BTreeSet};

use bundles::KubernetesMinor;
use proptest::prelude::*;

use super::search::State;
use super::{ChainBundle, ChainGroup, ChainSearch, NoWay};

fn kubernetes(minor: u64) -> KubernetesMinor {
    KubernetesMinor { major: 1, minor }
}

/// A bundle of a minor of EKS Anywhere with Kubernetes minors; nodes differ by `release`.
fn bundle(eksa: u64, minors: impl IntoIterator<Item = u64>, release: u64) -> ChainBundle {
    ChainBundle {
        name: format!("bundles-{eksa}"),
        eksa: Some(format!("v0.{eksa}.0")),
        eksa_minor: Some((0, eksa)),
        nodes: minors.into_iter().map(|minor| (kubernetes(minor), format!("{minor}-{release}"))).collect(),
    }
}

/// The bundles of EKS Anywhere 0.23 to 0.26, with the Kubernetes minors that they really have.
fn real() -> Vec<ChainBundle> {
    vec![bundle(23, 28..=33, 23), bundle(24, 28..=34, 24), bundle(25, 29..=35, 25), bundle(26, 29..=36, 26)]
}

fn group(name: &str, deployed: u64, wanted: u64, has_own: bool) -> ChainGroup {
    let (deployed, wanted) = (Some(kubernetes(deployed)), kubernetes(wanted));
    ChainGroup { name: name.parse().unwrap(), deployed, wanted, has_own }
}

fn search(bundles: Vec<ChainBundle>, deployed: u64, wanted: u64) -> ChainSearch {
    let groups = vec![group("md-0", deployed, wanted, false)];
    ChainSearch { bundles, deployed: kubernetes(deployed), wanted: kubernetes(wanted), groups }
}

#[track_caller]
fn check(search: &ChainSearch, expected: &[&str]) {
    let targets = search.targets().unwrap();
    let told = targets.iter().map(|target| format!("{} {}", target.kubernetes, target.bundle));
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn a_bundle_and_a_minor_of_kubernetes_go_together() {
    // Three steps of each, and nodes are replaced three times only.
    let expected = ["1.34 bundles-24", "1.35 bundles-25", "1.36 bundles-26"];
    check(&search(real(), 33, 36), &expected);
    // Who has fewer minors to go takes them as soon as they are there.
    check(&search(real(), 31, 33), &["1.32 bundles-24", "1.33 bundles-25", "1.33 bundles-26"]);
    check(&search(real(), 28, 28 + 4), &["1.29 bundles-24", "1.30 bundles-25", "1.31 bundles-26", "1.32 bundles-26"]);
}

#[test]
fn one_rollout_is_no_chain_and_none_is_needed_where_nothing_changes() {
    check(&search(vec![bundle(24, 31..=34, 1), bundle(25, 31..=35, 2)], 31, 32), &["1.32 bundles-25"]);
    check(&search(vec![bundle(24, 31..=34, 1)], 31, 31), &[]);
    check(&search(vec![bundle(24, 31..=34, 1)], 31, 33), &["1.32 bundles-24", "1.33 bundles-24"]);
}

#[test]
fn a_rollout_without_new_nodes_is_taken_where_it_saves_some() {
    // Of the first two bundles nodes are the same: Kubernetes waits for the third one.
    let bundles = vec![bundle(24, 31..=34, 1), bundle(25, 31..=34, 1), bundle(26, 31..=34, 2)];
    check(&search(bundles.clone(), 31, 32), &["1.31 bundles-25", "1.32 bundles-26"]);
    let targets = search(bundles, 31, 32).targets().unwrap();
    let rolls: Vec<usize> = targets.iter().map(|target| target.rolls.len()).collect();
    assert_eq!(rolls, [0, 2]);
}

#[test]
fn a_group_with_its_own_version_follows_as_far_as_it_is_to_go() {
    let mut wanted = search(real(), 31, 33);
    wanted.groups = vec![group("gpu", 31, 32, true), group("late", 30, 33, true)];
    let targets = wanted.targets().unwrap();
    let told = |name: &str| -> Vec<String> {
        targets.iter().map(|target| target.workers[&name.parse().unwrap()].clone()).collect()
    };
    assert_eq!(
        (told("gpu"), told("late")),
        (vec!["1.32".into(); 3], vec!["1.31".into(), "1.32".into(), "1.33".into()])
    );
}

#[test]
fn the_missing_link_is_named() {
    let without = |eksa: u64| real().into_iter().filter(|bundle| bundle.eksa_minor != Some((0, eksa))).collect();
    let check = |search: ChainSearch, expected: &str| {
        assert_eq!(search.targets().unwrap_err().to_string(), expected);
    };
    check(search(without(25), 33, 34), "no bundle of EKS Anywhere v0.25 is in the repository");
    let no_32 = vec![bundle(24, [31], 1), bundle(25, [31, 33], 2)];
    check(search(no_32, 31, 33), "no bundle on the way has Kubernetes 1.32");
    let apart = vec![bundle(24, [31, 32], 1), bundle(25, [33, 34], 2), bundle(26, [34], 3)];
    assert!(search(apart.clone(), 31, 34).targets().is_ok());
    let apart = vec![apart[0].clone(), bundle(25, [34], 2), bundle(26, [33, 34], 3)];
    check(
        search(apart, 31, 34),
        "from Kubernetes 1.32 with bundles-24 (v0.24.0) no bundle in the repository leads on, within one minor of EKS \
         Anywhere and of Kubernetes",
    );
}

/// Whether one rollout may lead from one state to another, by the rules as people know them.
fn is_legal(search: &ChainSearch, from: &State, to: &State) -> bool {
    let (old, new) = (&search.bundles[from.bundle], &search.bundles[to.bundle]);
    let minor = |bundle: &ChainBundle| bundle.eksa_minor.unwrap().1;
    let steps = |old: KubernetesMinor, new: KubernetesMinor| new.minor >= old.minor && new.minor <= old.minor + 1;
    let groups = search.groups.iter().zip(from.groups.iter().zip(&to.groups)).all(|(group, (old, new))| {
        let (old, new) = (old.unwrap(), new.unwrap());
        let follows =
            if group.has_own { group.wanted.minor.min(to.control_plane.minor) } else { to.control_plane.minor };
        // It follows at once, as far as one minor reaches.
        let expected = if group.has_own { follows.min(old.minor + 1) } else { follows };
        steps(old, new) && new.minor == expected && to.control_plane.minor <= old.minor + 2
    });
    from != to
        && to.bundle >= from.bundle
        && minor(new) <= minor(old) + 1
        && steps(from.control_plane, to.control_plane)
        && groups
        && std::iter::once(&to.control_plane).chain(to.groups.iter().flatten()).all(|it| new.nodes.contains_key(it))
}

fn all_states(search: &ChainSearch) -> Vec<State> {
    let minors: Vec<KubernetesMinor> = (30..=35).map(kubernetes).collect();
    let mut states = Vec::new();
    for bundle in 0..search.bundles.len() {
        for control_plane in &minors {
            let mut groups: Vec<Vec<Option<KubernetesMinor>>> = vec![Vec::new()];
            for _ in &search.groups {
                groups = groups
                    .iter()
                    .flat_map(|known| minors.iter().map(move |minor| [known.as_slice(), &[Some(*minor)]].concat()))
                    .collect();
            }
            states.extend(groups.into_iter().map(|groups| State { bundle, control_plane: *control_plane, groups }));
        }
    }
    states
}

/// Parts whose nodes are replaced from one state to another.
fn parts(search: &ChainSearch, from: &State, to: &State) -> usize {
    let nodes = |state: &State, minor: KubernetesMinor| search.bundles[state.bundle].nodes[&minor].clone();
    let rolls = |old, new| usize::from(old != new || nodes(from, old) != nodes(to, new));
    let groups = from.groups.iter().flatten().zip(to.groups.iter().flatten()).map(|(old, new)| rolls(*old, *new));
    rolls(from.control_plane, to.control_plane) + groups.sum::<usize>()
}

/// The least parts and rollouts of any way, by relaxing every pair of states until nothing gets better.
fn least(search: &ChainSearch) -> Option<(usize, usize)> {
    let states = all_states(search);
    let mut costs: BTreeMap<&State, (usize, usize)> = BTreeMap::new();
    let start = states.iter().find(|state| **state == search.start())?;
    costs.insert(start, (0, 0));
    loop {
        let mut better: Vec<(&State, (usize, usize))> = Vec::new();
        for (from, (rolled, rollouts)) in &costs {
            for to in states.iter().filter(|to| is_legal(search, from, to)) {
                let cost = (rolled + parts(search, from, to), rollouts + 1);
                if costs.get(to).is_none_or(|known| cost < *known) {
                    better.push((to, cost));
                }
            }
        }
        if better.is_empty() {
            return states.iter().find(|state| **state == search.goal()).and_then(|goal| costs.get(goal).copied());
        }
        for (state, cost) in better {
            let known = costs.entry(state).or_insert(cost);
            *known = cost.min(*known);
        }
    }
}

prop_compose! {
    fn any_search()(
        minors in prop::collection::btree_set(20u64..24, 1..=4),
        first in 20u64..22,
        kept in prop::collection::vec((prop::collection::btree_set(30u64..=34, 1..=5), 0u64..3), 4),
        deployed in 30u64..=32,
        up in 0u64..=3,
        groups in prop::collection::vec((0u64..=2, 0u64..=2, any::<bool>()), 0..=2),
    ) -> ChainSearch {
        let eksa: BTreeSet<u64> = minors.into_iter().map(|minor| minor.max(first)).collect();
        let bundles = eksa.iter().zip(&kept).map(|(eksa, (minors, release))| bundle(*eksa, minors.iter().copied(), *release));
        let mut bundles: Vec<ChainBundle> = bundles.collect();
        let wanted = deployed + up;
        let groups: Vec<ChainGroup> = groups
            .into_iter()
            .enumerate()
            .map(|(index, (behind, below, has_own))| {
                let at = (deployed - behind.min(deployed - 30)).min(deployed);
                let to = if has_own { wanted.saturating_sub(below).max(at) } else { wanted };
                group(&format!("g{index}"), at, to, has_own)
            })
            .collect();
        // What is deployed is part of its bundle.
        let release = bundles[0].nodes.values().next().unwrap().rsplit('-').next().unwrap().to_owned();
        let present = std::iter::once(deployed).chain(groups.iter().map(|group| group.deployed.unwrap().minor));
        let present: Vec<u64> = present.collect();
        for minor in present {
            bundles[0].nodes.insert(kubernetes(minor), format!("{minor}-{release}"));
        }
        ChainSearch { bundles, deployed: kubernetes(deployed), wanted: kubernetes(wanted), groups }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_other_sequence_of_rollouts_replaces_fewer_nodes(search in any_search()) {
        let expected = least(&search);
        match search.targets() {
            Ok(targets) => {
                let rolled = targets.iter().map(|target| target.rolls.len()).sum::<usize>();
                prop_assert_eq!(Some((rolled, targets.len())), expected);
                if let Some(last) = targets.last() {
                    prop_assert_eq!(&last.kubernetes, &search.wanted.to_string());
                    prop_assert_eq!(&last.bundle, &search.bundles.last().unwrap().name);
                }
                prop_assert_eq!(search.targets().unwrap(), targets);
            }
            Err(NoWay::Eksa(_) | NoWay::Kubernetes(_) | NoWay::End(_)) => prop_assert_eq!(expected, None),
        }
    }
}
