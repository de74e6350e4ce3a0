//! The rollouts that lead from what a cluster is at to what is wanted, with the fewest node rollouts.
//!
//! Every rollout is one that could be pushed by itself. EKS Anywhere and the control plane go up one minor at most, and
//! nothing goes down. A worker group follows its control plane in the same rollout as far as one minor reaches. Each
//! bundle on the way has every Kubernetes version that the cluster is at then.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use bundles::KubernetesMinor;

use super::ChainTarget;
use crate::stage::{StageId, StageName};
use domain::GroupName;

/// How many Kubernetes minors a control plane may be ahead of a worker group, half-way through a rollout.
const WORKER_SKEW: i64 = 2;

/// A bundle that a rollout may lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainBundle {
    /// Its name.
    pub name: String,
    /// The version of EKS Anywhere that it belongs to, as written.
    pub eksa: Option<String>,
    /// Major and minor of that; none where they are not known, and then they forbid nothing.
    pub eksa_minor: Option<(u64, u64)>,
    /// The Kubernetes minors that it has, each with what nodes are made of: another text is another node.
    pub nodes: BTreeMap<KubernetesMinor, String>,
}

/// A worker group on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainGroup {
    /// Its name.
    pub name: GroupName,
    /// Where it is; none where it is new.
    pub deployed: Option<KubernetesMinor>,
    /// Where it is to be.
    pub wanted: KubernetesMinor,
    /// Whether that is written on the group: else it has the version of the cluster, all the way.
    pub has_own: bool,
}

/// What is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSearch {
    /// From the deployed bundle to the wanted one, in the order of their versions; a single one where both are the same.
    pub bundles: Vec<ChainBundle>,
    /// Where the control plane is.
    pub deployed: KubernetesMinor,
    /// Where it is to be.
    pub wanted: KubernetesMinor,
    /// The worker groups of the wanted specification.
    pub groups: Vec<ChainGroup>,
}

/// Why no rollouts lead to what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoWay {
    /// The bundles leave out minors of EKS Anywhere.
    #[error("no bundle of EKS Anywhere {} is in the repository", .0.join(", "))]
    Eksa(Vec<String>),
    /// The bundles leave out minors of Kubernetes.
    #[error("no bundle on the way has Kubernetes {}", .0.join(", "))]
    Kubernetes(Vec<String>),
    /// One bundle has not what the next one begins with.
    #[error("from {0} no bundle in the repository leads on, within one minor of EKS Anywhere and of Kubernetes")]
    End(String),
}

/// Where a cluster is on the way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    pub bundle: usize,
    pub control_plane: KubernetesMinor,
    pub groups: Vec<Option<KubernetesMinor>>,
}

/// What is compared of two ways: parts whose nodes are replaced, then rollouts, then who goes up sooner.
type Cost = (usize, usize, Vec<(Reverse<usize>, Reverse<KubernetesMinor>)>);

impl ChainSearch {
    /// What each rollout leads to; empty where nothing changes, a single one where one rollout gets there.
    ///
    /// # Errors
    /// [`NoWay`] names what is missing.
    pub fn targets(&self) -> Result<Vec<ChainTarget>, NoWay> {
        let states = self.states()?;
        let before = std::iter::once(self.start()).chain(states.iter().cloned());
        Ok(before.zip(&states).filter_map(|(from, to)| self.target(&from, to)).collect())
    }

    fn states(&self) -> Result<Vec<State>, NoWay> {
        let (start, goal) = (self.start(), self.goal());
        let mut open = BinaryHeap::from([Reverse(((0, 0, Vec::new()), start, Vec::new()))]);
        let mut settled: BTreeSet<State> = BTreeSet::new();
        while let Some(Reverse((cost, state, path))) = open.pop() {
            if state == goal {
                return Ok(path);
            }
            if !settled.insert(state.clone()) {
                continue;
            }
            for next in self.following(&state).into_iter().filter(|next| !settled.contains(next)) {
                let (parts, rollouts, mut order): Cost = cost.clone();
                order.push((Reverse(next.bundle), Reverse(next.control_plane)));
                let parts = parts.saturating_add(self.rolled(&state, &next).len());
                let path = [path.as_slice(), std::slice::from_ref(&next)].concat();
                open.push(Reverse(((parts, rollouts + 1, order), next, path)));
            }
        }
        Err(self.no_way(&settled))
    }

    pub(super) fn start(&self) -> State {
        let groups = self.groups.iter().map(|group| group.deployed).collect();
        State { bundle: 0, control_plane: self.deployed, groups }
    }

    pub(super) fn goal(&self) -> State {
        let groups = self.groups.iter().map(|group| Some(group.wanted)).collect();
        State { bundle: self.bundles.len().saturating_sub(1), control_plane: self.wanted, groups }
    }

    /// Where one rollout may lead to.
    fn following(&self, state: &State) -> Vec<State> {
        let mut found = Vec::new();
        for (bundle, candidate) in self.bundles.iter().enumerate().skip(state.bundle) {
            if !self.may_follow(state.bundle, candidate) {
                continue;
            }
            for control_plane in [Some(state.control_plane), above(state.control_plane)].into_iter().flatten() {
                if control_plane > self.wanted {
                    continue;
                }
                let groups = self.groups.iter().zip(&state.groups);
                let groups =
                    groups.map(|(group, at)| group.at(*at, control_plane).map(Some)).collect::<Option<Vec<_>>>();
                let Some(groups) = groups else { continue };
                let has = |minor: &KubernetesMinor| candidate.nodes.contains_key(minor);
                if has(&control_plane) && groups.iter().flatten().all(has) {
                    found.push(State { bundle, control_plane, groups });
                }
            }
        }
        found.retain(|next| next != state);
        found
    }

    fn may_follow(&self, from: usize, to: &ChainBundle) -> bool {
        let from = self.bundles.get(from).and_then(|bundle| bundle.eksa_minor);
        match (from, to.eksa_minor) {
            (Some((major, minor)), Some(next)) => next == (major, minor) || next == (major, minor.saturating_add(1)),
            _ => true,
        }
    }

    /// The stages of one rollout that replace nodes.
    fn rolled(&self, from: &State, to: &State) -> Vec<StageId> {
        let nodes = |state: &State, minor: KubernetesMinor| {
            self.bundles.get(state.bundle).and_then(|bundle| bundle.nodes.get(&minor))
        };
        let rolls = |old: KubernetesMinor, new: KubernetesMinor| old != new || nodes(from, old) != nodes(to, new);
        let control_plane = rolls(from.control_plane, to.control_plane).then(|| StageName::ControlPlane.into());
        let groups = self.groups.iter().zip(from.groups.iter().zip(&to.groups)).filter_map(|(group, (old, new))| {
            let is_rolled = (*old).zip(*new).is_some_and(|(old, new)| rolls(old, new));
            is_rolled.then(|| StageName::Workers(group.name.clone()).into())
        });
        control_plane.into_iter().chain(groups).collect()
    }

    fn target(&self, from: &State, to: &State) -> Option<ChainTarget> {
        let bundle = self.bundles.get(to.bundle)?;
        let own = self.groups.iter().zip(&to.groups).filter(|(group, _)| group.has_own);
        Some(ChainTarget {
            kubernetes: to.control_plane.to_string(),
            workers: own.filter_map(|(group, minor)| Some((group.name.clone(), minor.as_ref()?.to_string()))).collect(),
            bundle: bundle.name.clone(),
            eksa: bundle.eksa.clone(),
            rolls: self.rolled(from, to),
        })
    }

    /// The first link that is missing.
    fn no_way(&self, reached: &BTreeSet<State>) -> NoWay {
        let ends = self.bundles.first().zip(self.bundles.last());
        if let Some((Some((major, first)), Some((_, last)))) =
            ends.map(|(one, other)| (one.eksa_minor, other.eksa_minor))
        {
            let has = |minor: &u64| self.bundles.iter().any(|bundle| bundle.eksa_minor == Some((major, *minor)));
            // However far apart they are, the first ones tell.
            let missing: Vec<String> = (first.saturating_add(1)..last)
                .filter(|minor| !has(minor))
                .map(|minor| format!("v{major}.{minor}"))
                .take(3)
                .collect();
            if !missing.is_empty() {
                return NoWay::Eksa(missing);
            }
        }
        let has = |minor: &KubernetesMinor| self.bundles.iter().any(|bundle| bundle.nodes.contains_key(minor));
        let minors = std::iter::successors(above(self.deployed), |minor| above(*minor));
        let missing: Vec<String> = minors
            .take_while(|minor| *minor <= self.wanted)
            .filter(|minor| !has(minor))
            .map(|minor| minor.to_string())
            .take(3)
            .collect();
        if !missing.is_empty() {
            return NoWay::Kubernetes(missing);
        }
        let furthest = reached.iter().max_by_key(|state| (state.control_plane, state.bundle));
        let target = furthest.and_then(|state| self.target(state, state));
        NoWay::End(target.map(|target| target.to_string()).unwrap_or_default())
    }
}

impl ChainGroup {
    /// Where the group is after a rollout that leaves the control plane at a minor; none where it cannot come there.
    fn at(&self, deployed: Option<KubernetesMinor>, control_plane: KubernetesMinor) -> Option<KubernetesMinor> {
        let follows = if self.has_own { self.wanted.min(control_plane) } else { control_plane };
        let Some(deployed) = deployed else { return Some(follows) };
        let next = above(deployed)?;
        let reached = if self.has_own { follows.min(next) } else { follows };
        // Its nodes of before meet the new control plane first.
        let skew = control_plane.minors_above(deployed)?;
        (reached >= deployed && reached <= next && skew <= WORKER_SKEW).then_some(reached)
    }
}

fn above(minor: KubernetesMinor) -> Option<KubernetesMinor> {
    Some(KubernetesMinor { minor: minor.minor.checked_add(1)?, ..minor })
}
