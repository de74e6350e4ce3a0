//! What is wrong with a fleet, by whom it concerns: found once, since every cluster asks.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use domain::{Problem, ProblemCode, Scope};

use super::{Fleet, LOCK, POLICY};

/// Which of the problems concern whom, by their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Concerned {
    /// How many problems there were.
    problems: usize,
    fleet: Vec<usize>,
    clusters: HashMap<String, Vec<usize>>,
    /// The first error of each cluster that has one.
    failing: Vec<usize>,
}

impl Concerned {
    fn of(problems: &[Problem]) -> Self {
        let mut concerned = Self { problems: problems.len(), ..Self::default() };
        let mut failing = BTreeSet::new();
        for (place, problem) in problems.iter().enumerate() {
            match &problem.scope {
                Scope::Fleet => concerned.fleet.push(place),
                Scope::Cluster(name) => {
                    concerned.clusters.entry(name.clone()).or_default().push(place);
                    if problem.is_error() && failing.insert(name) {
                        concerned.failing.push(place);
                    }
                }
            }
        }
        concerned
    }

    /// Places of what concerns a cluster: its own, and those of the fleet, in order.
    fn places(&self, cluster: &str) -> Vec<usize> {
        let own = self.clusters.get(cluster).map(Vec::as_slice).unwrap_or_default();
        let mut places: Vec<usize> = self.fleet.iter().chain(own).copied().collect();
        places.sort_unstable();
        places
    }
}

impl Fleet {
    fn concerned(&self) -> Cow<'_, Concerned> {
        let known = self.concerned.get_or_init(|| Concerned::of(&self.problems));
        // Somebody who had it changed may have added one.
        if known.problems == self.problems.len() {
            Cow::Borrowed(known)
        } else {
            Cow::Owned(Concerned::of(&self.problems))
        }
    }

    fn at<'a>(&'a self, places: &[usize]) -> impl Iterator<Item = &'a Problem> + use<'a> {
        let found: Vec<&Problem> = places.iter().filter_map(|place| self.problems.get(*place)).collect();
        found.into_iter()
    }

    /// The problems of a cluster, and those of the fleet, in order of weight.
    pub fn problems_of(&self, cluster: &str) -> impl Iterator<Item = &Problem> + use<'_> {
        self.at(&self.concerned().places(cluster))
    }

    /// The errors that keep `cluster` from being planned: its own, and those of `stepgate.yaml` and `bundles.lock` that
    /// concern everybody. A bad bundle, or a file that belongs to no cluster, stops nobody else.
    pub fn blocking(&self, cluster: &str) -> Vec<&Problem> {
        let concerns = |problem: &&Problem| problem.scope != Scope::Fleet || concerns_everybody(problem);
        self.problems_of(cluster).filter(|problem| problem.is_error()).filter(concerns).collect()
    }

    /// The errors that keep no cluster from being planned: bad bundles that no cluster follows, files of nobody.
    pub fn errors_of_nobody(&self) -> impl Iterator<Item = &Problem> {
        let errors = self.problems.iter().filter(|problem| problem.is_error());
        errors.filter(|problem| problem.scope == Scope::Fleet && !concerns_everybody(problem))
    }

    /// The errors of `stepgate.yaml` and `bundles.lock` that keep every cluster from being planned.
    pub fn errors_of_everybody(&self) -> impl Iterator<Item = &Problem> {
        let errors = self.problems.iter().filter(|problem| problem.is_error());
        errors.filter(|problem| problem.scope == Scope::Fleet && concerns_everybody(problem))
    }

    /// The names of clusters that are not in `clusters` because their files cannot be used, in order: they have errors of
    /// their own in `problems`.
    pub fn unreadable_clusters(&self) -> BTreeSet<&str> {
        let named = self.at(&self.concerned().failing).filter_map(|problem| match &problem.scope {
            Scope::Cluster(name) => Some(name.as_str()),
            Scope::Fleet => None,
        });
        named.filter(|name| self.cluster(name).is_none()).collect()
    }

    /// The first problem that hides what a bundle file holds.
    pub(super) fn unreadable_bundle(&self) -> Option<&Problem> {
        let hidden = |problem: &&Problem| {
            matches!(
                problem.code,
                ProblemCode::Unreadable
                    | ProblemCode::NotText
                    | ProblemCode::TooLarge
                    | ProblemCode::BadYaml
                    | ProblemCode::DuplicateKey
                    | ProblemCode::Symlink
            ) && problem.path.as_ref().is_some_and(|path| path.as_str() == "bundles" || path.is_below("bundles"))
        };
        let mut errors = self.at(&self.concerned().fleet).filter(|problem| problem.is_error());
        errors.find(|problem| problem.code == ProblemCode::BadBundle || hidden(problem))
    }
}

/// Whether an error of the whole fleet keeps every cluster from being planned.
fn concerns_everybody(problem: &Problem) -> bool {
    matches!(problem.code, ProblemCode::BadPolicy | ProblemCode::BadLock)
        || problem.path.as_ref().is_some_and(|path| path.as_str() == POLICY || path.as_str() == LOCK)
}
