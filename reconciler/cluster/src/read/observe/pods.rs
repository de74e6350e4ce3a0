//! The pods of workloads: by the names that watches have told, where these are few and the workload itself counts as many, else by lists.
//!
//! A list may wait for a tenth of a second until the server's cache has heard of everything that etcd holds, also of other kinds; a single object is
//! read from etcd at once. What is read is as fresh either way.
//!
//! Where a workload counts another number of pods than are told, or one has gone, all are listed.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use rollout::{RunningImage, WorkloadObservation};

use crate::client::concurrent::concurrently;
use crate::client::connection::Connection;
use crate::client::error::RequestError;
use crate::client::kind::{DAEMON_SET, DEPLOYMENT, Kind, POD};
use crate::objects::{self, OwnedPod};

/// The most pods of one reading that are asked for one by one.
const SINGLY: usize = 16;

/// Names of the pods of workloads, as watches have told of them: where to ask, and no more.
#[derive(Debug, Default)]
pub(super) struct ToldPods(BTreeMap<Workload, BTreeSet<String>>);

/// Kind, namespace and name.
type Workload = (&'static str, String, String);

impl ToldPods {
    /// Those of these workloads; none where there are many.
    pub(super) fn of(told: &WorkloadObservation) -> Self {
        let names = |running: &[RunningImage]| running.iter().map(|running| running.pod.clone()).collect();
        let key = |kind: &Kind, namespace: &str, name: &str| (kind.kind, namespace.to_owned(), name.to_owned());
        let deployments = told.deployments.iter();
        let deployments =
            deployments.map(|known| (key(&DEPLOYMENT, &known.namespace, &known.name), names(&known.running)));
        let daemon_sets = told.daemon_sets.iter();
        let daemon_sets =
            daemon_sets.map(|known| (key(&DAEMON_SET, &known.namespace, &known.name), names(&known.running)));
        let told: BTreeMap<Workload, BTreeSet<String>> = deployments.chain(daemon_sets).collect();
        if told.values().map(BTreeSet::len).sum::<usize>() > SINGLY { Self::default() } else { Self(told) }
    }

    /// Reads them, by their names; none for each that has gone.
    pub(super) async fn read(&self, connection: &Connection) -> NamedPods {
        let resource = POD.resource("v1");
        let named =
            self.0.iter().flat_map(|((_, namespace, _), names)| names.iter().map(|name| (namespace.clone(), name)));
        let places: BTreeSet<(String, &String)> = named.collect();
        let requests =
            places.iter().map(|(namespace, name)| connection.get(&resource, Some(namespace), name)).collect();
        let found = concurrently(requests).await;
        let read = |((namespace, name), found): ((String, &String), Result<Option<DynamicObject>, _>)| {
            ((namespace, name.clone()), found.map(|object| object.as_ref().map(OwnedPod::of)))
        };
        NamedPods(places.into_iter().zip(found).map(read).collect())
    }

    /// The names of a workload's pods, where it was told of as many as it counts itself now.
    fn names(&self, kind: &'static str, object: &DynamicObject) -> Option<&BTreeSet<String>> {
        let metadata = &object.metadata;
        let key = (kind, metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
        let counted = usize::try_from(objects::pods_of_status(object)).ok();
        self.0.get(&key).filter(|names| Some(names.len()) == counted)
    }
}

/// Pods that were asked for by their names: by namespace and name.
#[derive(Debug)]
pub(super) struct NamedPods(BTreeMap<(String, String), Result<Option<OwnedPod>, RequestError>>);

impl NamedPods {
    /// Those of these workloads of one namespace; none where others may be there.
    fn all_of(
        &self,
        namespace: &str,
        workloads: &[(&'static str, &DynamicObject)],
        told: &ToldPods,
    ) -> Result<Option<Vec<OwnedPod>>, RequestError> {
        let names: Option<Vec<_>> = workloads.iter().map(|(kind, object)| told.names(kind, object)).collect();
        let Some(names) = names.filter(|names| !names.is_empty()) else { return Ok(None) };
        let pod = |name: &String| match self.0.get(&(namespace.to_owned(), name.clone())) {
            Some(found) => found.clone(),
            None => Ok(None),
        };
        let names: BTreeSet<&String> = names.into_iter().flatten().collect();
        // Where one has gone another one is in its place.
        names.into_iter().map(pod).collect()
    }
}

/// The pods of the workloads of one namespace, or all that there are in it.
pub(super) async fn pods(
    connection: &Connection,
    namespace: &str,
    workloads: &[(&'static str, &DynamicObject)],
    told: &ToldPods,
    named: &NamedPods,
) -> Result<Vec<OwnedPod>, RequestError> {
    if let Some(pods) = named.all_of(namespace, workloads, told)? {
        return Ok(pods);
    }
    Ok(connection.list(&POD, Some("v1"), Some(namespace), None).await?.iter().map(OwnedPod::of).collect())
}

#[cfg(test)]
mod tests {
    use rollout::Deployment;

    use super::*;

    fn told(pods: usize) -> ToldPods {
        let running = |index| RunningImage {
            pod: format!("manager-{index}"),
            container: "manager".to_owned(),
            image: String::new(),
            digest: None,
            ready: true,
            waiting: None,
            deleting: false,
        };
        let (namespace, name) = ("capi-system".to_owned(), "manager".to_owned());
        let running = (0..pods).map(running).collect();
        let deployments = vec![Deployment { namespace, name, running, ..Deployment::default() }];
        ToldPods::of(&WorkloadObservation { deployments, daemon_sets: Vec::new() })
    }

    #[test]
    fn many_pods_are_not_asked_for_one_by_one() {
        assert_eq!(told(SINGLY).0.values().map(BTreeSet::len).sum::<usize>(), SINGLY);
        assert!(told(SINGLY + 1).0.is_empty());
    }
}
