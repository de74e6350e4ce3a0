//! What watches have told of workloads: the last words of Deployments and `DaemonSets`, and of the pods in their namespaces.

use std::collections::{BTreeMap, BTreeSet};

use rollout::{RunningImage, WorkloadObservation};

use super::word::{Word, word};
use super::{Seen, topic};
use crate::client::kind::{DAEMON_SET, DEPLOYMENT, Kind, POD};
use crate::objects::{OwnedPod, PodSelector};

/// Namespaces and names of workloads.
#[derive(Debug, Default)]
pub(crate) struct Workloads<'a> {
    /// Deployments.
    pub(crate) deployments: BTreeSet<(&'a str, &'a str)>,
    /// `DaemonSets`.
    pub(crate) daemon_sets: BTreeSet<(&'a str, &'a str)>,
}

/// What was told of these workloads and of their pods; none where something of it was not, and where there are none.
pub(super) fn told(seen: &Seen, workloads: &Workloads<'_>) -> Option<WorkloadObservation> {
    if workloads.deployments.is_empty() && workloads.daemon_sets.is_empty() {
        return None;
    }
    let pods = pods(seen, workloads)?;
    let mut told = WorkloadObservation::default();
    for (namespace, name) in &workloads.deployments {
        let Word::Deployment(word, selector) = word(seen, &DEPLOYMENT, namespace, name)? else { return None };
        let mut deployment = word.clone();
        deployment.running = running(&pods, namespace, selector);
        told.deployments.push(deployment);
    }
    for (namespace, name) in &workloads.daemon_sets {
        let Word::DaemonSet(word, selector) = word(seen, &DAEMON_SET, namespace, name)? else { return None };
        let mut daemon_set = word.clone();
        daemon_set.running = running(&pods, namespace, selector);
        daemon_set.pods = selector.placed(pods.get(namespace).into_iter().flat_map(BTreeMap::values).copied());
        told.daemon_sets.push(daemon_set);
    }
    Some(told)
}

/// Pods by namespace, in the order of their names, which is that of a list.
type Pods<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a OwnedPod>>;

fn pods<'a>(seen: &'a Seen, workloads: &Workloads<'a>) -> Option<Pods<'a>> {
    let namespaces = workloads.deployments.iter().chain(&workloads.daemon_sets).map(|(namespace, _)| *namespace);
    let mut pods: Pods<'_> = namespaces.map(|namespace| (namespace, BTreeMap::new())).collect();
    for ((namespace, name), object) in seen.get(&newest(&POD)?)? {
        if let Some(pods) = pods.get_mut(namespace.as_ref()) {
            let Some(Word::Pod(word)) = object.word.as_deref() else { return None };
            pods.insert(name, word);
        }
    }
    Some(pods)
}

fn newest(kind: &Kind) -> Option<String> {
    kind.versions.first().map(|version| topic(&kind.resource(version)))
}

fn running(pods: &Pods<'_>, namespace: &str, selector: &PodSelector) -> Vec<RunningImage> {
    selector.running(pods.get(namespace).into_iter().flat_map(BTreeMap::values).copied())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::DynamicObject;
    use serde_json::{Value, json};

    use super::*;
    use crate::watch::{ChangeScope, Changes, Filter, Interest, State};

    /// Watches of the Deployment `capi-system/manager`, and of the pods in its namespace, for one cluster.
    struct Watched {
        state: State,
        changes: Arc<Changes>,
    }

    impl Watched {
        fn new() -> Self {
            let mut state = State::default();
            let mut interest = Interest::default();
            let namespaces = BTreeSet::from(["capi-system".to_owned()]);
            interest.add(DEPLOYMENT.resource("v1"), Filter::named([("capi-system", "manager")]), ChangeScope::Gate);
            interest.add(POD.resource("v1"), Filter::In(namespaces), ChangeScope::Gate);
            state.interests.set("prod", interest);
            Self { state, changes: Arc::default() }
        }

        fn applied(&mut self, kind: &Kind, namespace: &str, name: &str, more: Value) {
            let resource = kind.resource("v1");
            let mut object = DynamicObject::new(name, &resource).within(namespace).data(more);
            object.metadata.labels = Some(BTreeMap::from([("app".to_owned(), name[..7].to_owned())]));
            self.state.applied(&topic(&resource), &resource, &object, &self.changes);
        }

        /// The replicas that are available, and the pods, as far as they were told.
        fn told(&self, deployment: &str) -> Option<(Option<u32>, Vec<String>)> {
            let deployments = BTreeSet::from([("capi-system", deployment)]);
            let told = told(&self.state.seen, &Workloads { deployments, ..Workloads::default() })?;
            let [deployment] = told.deployments.as_slice() else { panic!("{told:?}") };
            let pods = deployment.running.iter().map(|running| running.pod.clone());
            Some((deployment.available_replicas, pods.collect()))
        }
    }

    fn deployment(available: u32) -> Value {
        json!({"spec": {"selector": {"matchLabels": {"app": "manager"}}}, "status": {"availableReplicas": available}})
    }

    fn pod() -> Value {
        json!({"status": {"phase": "Running", "containerStatuses": [{"name": "manager", "ready": true}]}})
    }

    #[test]
    fn the_last_words_of_a_workload_are_told_with_those_of_its_pods() {
        let mut watched = Watched::new();
        assert_eq!(watched.told("manager"), None);
        watched.applied(&DEPLOYMENT, "capi-system", "manager", deployment(0));
        assert_eq!(watched.told("manager"), None, "no pods were told of");
        for (namespace, name) in [
            ("capi-system", "manager-b"),
            ("capi-system", "manager-a"),
            ("capi-system", "another"),
            ("other", "manager-c"),
        ] {
            watched.applied(&POD, namespace, name, pod());
        }
        let pods = || vec!["manager-a".to_owned(), "manager-b".to_owned()];
        assert_eq!(watched.told("manager"), Some((Some(0), pods())));
        watched.applied(&DEPLOYMENT, "capi-system", "manager", deployment(2));
        assert_eq!(watched.told("manager"), Some((Some(2), pods())));
        assert_eq!(watched.told("another"), None, "it was not told of");
    }

    #[test]
    fn where_there_is_no_room_nothing_is_told_but_that_something_has_changed() {
        let mut watched = Watched::new();
        watched.state.memory = host::memory::Account::of(0);
        let changed = |watched: &Watched| watched.changes.take().contains_key("prod");
        for available in [1, 2] {
            watched.applied(&DEPLOYMENT, "capi-system", "manager", deployment(available));
            assert!(changed(&watched));
        }
        watched.applied(&DEPLOYMENT, "capi-system", "manager", deployment(2));
        assert!(!changed(&watched));
        watched.applied(&POD, "capi-system", "manager-a", pod());
        assert_eq!(watched.told("manager"), None);
        // It counts even so, for as long as it is kept.
        assert!(watched.state.memory.taken() > 0);
        watched.state.seen.clear();
        assert_eq!(watched.state.memory.taken(), 0);
    }

    #[test]
    fn what_is_told_counts_with_its_size() {
        let mut watched = Watched::new();
        watched.state.memory = host::memory::Account::of(1 << 20);
        watched.applied(&POD, "capi-system", "manager-a", pod());
        let small = watched.state.memory.taken();
        let containers: Vec<Value> =
            (0..50).map(|number| json!({"name": format!("container-{number}"), "ready": true})).collect();
        watched.applied(&POD, "capi-system", "manager-a", json!({"status": {"containerStatuses": containers}}));
        let large = watched.state.memory.taken();
        assert!(small > 100 && large > small + 50 * 100, "{small} {large}");
    }

    #[test]
    fn where_nobody_looks_at_a_pod_any_more_nothing_is_told() {
        let mut watched = Watched::new();
        watched.applied(&DEPLOYMENT, "capi-system", "manager", deployment(1));
        watched.applied(&POD, "capi-system", "manager-a", pod());
        assert!(watched.told("manager").is_some());
        watched.state.interests.remove("prod");
        watched.applied(&POD, "capi-system", "manager-a", pod());
        assert_eq!(watched.told("manager"), None);
    }

    #[test]
    fn nothing_is_told_of_no_workloads() {
        let mut watched = Watched::new();
        watched.applied(&POD, "capi-system", "manager-a", pod());
        assert_eq!(told(&watched.state.seen, &Workloads::default()), None);
    }
}
