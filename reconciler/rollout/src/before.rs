//! What a cluster was like before a rollout, and whether what was well then is well now.
//!
//! A runbook notes it down before the first step and compares it after the last one: an upgrade has to leave every workload as well as it found
//! it, also those that it does not touch, and it is not blamed for what was broken already.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::dump::MissingSidecar;
use crate::gate::leftovers;
use crate::observation::{ApiRequests, ConditionStatus, ObjectReference, Observation, Survey};

/// How many broken workloads, and how many templates, are named; the rest of the workloads is counted. A ledger stays small on whatever cluster.
const NAMED: usize = 100;

/// What a cluster was like when its rollout began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Before {
    /// When it was read.
    pub observed_at: Timestamp,
    /// Nodes that were ready.
    pub ready_nodes: u32,
    /// Nodes by the version of their kubelet; those that reported none are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kubelets: BTreeMap<String, u32>,
    /// Deployments, `DaemonSets` and `StatefulSets`.
    pub workloads: u32,
    /// Those that were not ready, as `Kind namespace/name`, in order; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<String>,
    /// How many more were not ready.
    #[serde(default)]
    pub more_broken: u32,
    /// Sidecars that pods asked for and lacked, as `Kind namespace/name (injector)`, in order, at most 100; none where
    /// pods were not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_sidecars: Option<Vec<String>>,
    /// How many more were lacking.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_missing_sidecars: u32,
    /// What the API server had counted; none where it was not asked, or counts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_requests: Option<ApiRequests>,
    /// Digest of the dump that was taken when its first stage was committed; none where none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dump: Option<String>,
    /// Sets of machines, machines and nodes that belonged to nothing, in order; none where they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strays: Option<Vec<String>>,
    /// Templates that objects of the cluster named, in order; at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<ObjectReference>,
}

impl Before {
    /// What a reading says; none where the workloads were not read.
    pub(crate) fn of(observation: &Observation) -> Option<Self> {
        let survey = observation.survey.as_ref()?;
        let mut kubelets = BTreeMap::new();
        for version in observation.nodes.iter().filter_map(|node| node.kubelet_version.clone()) {
            *kubelets.entry(version).or_insert(0u32) += 1;
        }
        let ready = observation.nodes.iter().filter(|node| node.ready == ConditionStatus::True).count();
        let mut broken: Vec<String> = survey.broken.clone();
        broken.sort();
        let more = broken.len().saturating_sub(NAMED);
        broken.truncate(NAMED);
        let sidecars = observation.sidecars.as_ref();
        let missing: Option<Vec<String>> =
            sidecars.map(|reading| reading.missing.iter().take(NAMED).map(MissingSidecar::key).collect());
        let more_missing = sidecars.map_or(0, |reading| reading.missing.len().saturating_sub(NAMED));
        Some(Self {
            observed_at: observation.read_at,
            ready_nodes: u32::try_from(ready).unwrap_or(u32::MAX),
            kubelets,
            workloads: survey.workloads,
            broken,
            more_broken: u32::try_from(more).unwrap_or(u32::MAX),
            missing_sidecars: missing,
            more_missing_sidecars: u32::try_from(more_missing).unwrap_or(u32::MAX),
            api_requests: observation.api_requests.as_ref().and_then(|reading| reading.now.clone()),
            dump: None,
            strays: leftovers::names(observation),
            templates: observation.templates.iter().flat_map(|read| &read.named).take(NAMED).cloned().collect(),
        })
    }

    /// Whether a workload that is broken now may have been so before: it is named, or it may be one of those that are only counted.
    pub(crate) fn excuses(&self, workload: &str, now: &Survey) -> bool {
        let named = |name: &String| name == workload;
        if self.broken.iter().any(named) {
            return true;
        }
        let before = self.broken.len().saturating_add(usize::try_from(self.more_broken).unwrap_or(usize::MAX));
        self.more_broken > 0 && now.broken.len() <= before
    }

    /// Whether pods may have lacked a sidecar before that they lack now, of which there are `now`: it is named, or it may be
    /// one of those that are only counted.
    pub(crate) fn lacked(&self, sidecar: &str, now: usize) -> bool {
        let Some(missing) = &self.missing_sidecars else { return false };
        let more = usize::try_from(self.more_missing_sidecars).unwrap_or(usize::MAX);
        missing.iter().any(|known| known == sidecar) || (more > 0 && now <= missing.len().saturating_add(more))
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Templates;

    fn observation(broken: usize) -> Observation {
        let mut observation = Observation::empty(Timestamp::UNIX_EPOCH);
        let broken = (0..broken).rev().map(|index| format!("Deployment a/d{index:03}")).collect();
        observation.survey = Some(Survey { workloads: 300, broken });
        observation
    }

    #[test]
    fn what_is_noted_down_is_bounded_and_in_order() {
        let before = Before::of(&observation(250)).unwrap();
        assert_eq!((before.broken.len(), before.more_broken, before.workloads), (100, 150, 300));
        assert!(before.broken.is_sorted());
        let template = ObjectReference {
            api_version: "bootstrap.cluster.x-k8s.io/v1beta2".to_owned(),
            kind: "KubeadmConfigTemplate".to_owned(),
            namespace: Some("n".to_owned()),
            name: "md-0".to_owned(),
        };
        let mut many = observation(0);
        many.templates = Some(Templates { named: vec![template.clone(); 101], orphaned: Vec::new() });
        assert_eq!(Before::of(&many).unwrap().templates.len(), 100);
        many.templates = Some(Templates { named: vec![template.clone()], orphaned: Vec::new() });
        assert_eq!(Before::of(&many).unwrap().templates, [template]);
        assert_eq!(Before::of(&Observation::empty(Timestamp::UNIX_EPOCH)), None, "not read is not healthy");
    }

    #[test]
    fn only_what_may_have_been_broken_before_is_excused() {
        let now = |broken: usize| observation(broken).survey.unwrap();
        let few = Before::of(&observation(2)).unwrap();
        assert!(few.excuses("Deployment a/d001", &now(3)));
        assert!(!few.excuses("Deployment a/d002", &now(3)));
        let many = Before::of(&observation(120)).unwrap();
        assert!(many.excuses("Deployment a/d119", &now(120)), "it is one of those that are only counted");
        assert!(!many.excuses("Deployment a/new", &now(121)));
    }
}
