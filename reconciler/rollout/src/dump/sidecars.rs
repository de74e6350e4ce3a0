//! Sidecars that pods ask for and lack, by owner.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::pods::restart;
use super::{DumpedPod, PodOwner};

/// A sidecar that pods of one owner ask for and lack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingSidecar {
    /// What the pods belong to.
    pub owner: PodOwner,
    /// Who puts it in, such as `istio`.
    pub injector: String,
    /// What is missing of it, in order.
    pub missing: Vec<String>,
    /// How many pods lack it.
    pub pods: u32,
    /// How many pods the owner has.
    pub of: u32,
    /// The command that makes these pods anew.
    pub restart: String,
}

impl MissingSidecar {
    /// By what it is known again: `Kind namespace/name (injector)`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{} ({})", self.owner, self.injector)
    }
}

impl fmt::Display for MissingSidecar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { injector, missing, pods, of, .. } = self;
        write!(formatter, "{pods} of {of} pods lack {injector}: {}", missing.join(", "))
    }
}

/// What the pods of each owner lack, in order. Pods that have ended or are ending lack nothing.
#[must_use]
pub fn missing_sidecars(pods: &[DumpedPod]) -> Vec<MissingSidecar> {
    let mut owners: BTreeMap<&PodOwner, Vec<&DumpedPod>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.has_ended() && pod.deleted_at.is_none()) {
        owners.entry(&pod.owner).or_default().push(pod);
    }
    owners.into_iter().flat_map(|(owner, pods)| missing_of(owner, &pods)).collect()
}

fn missing_of(owner: &PodOwner, pods: &[&DumpedPod]) -> Vec<MissingSidecar> {
    let mut lacking: BTreeMap<&str, (Vec<&DumpedPod>, BTreeSet<&str>)> = BTreeMap::new();
    for pod in pods {
        for injection in pod.injections.iter().filter(|injection| !injection.missing.is_empty()) {
            let (short, missing) = lacking.entry(injection.injector.as_str()).or_default();
            short.push(pod);
            missing.extend(injection.missing.iter().map(String::as_str));
        }
    }
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let missing = lacking.into_iter().map(|(injector, (short, missing))| MissingSidecar {
        owner: owner.clone(),
        injector: injector.to_owned(),
        missing: missing.into_iter().map(str::to_owned).collect(),
        pods: number(short.len()),
        of: number(pods.len()),
        restart: restart(owner, &short),
    });
    missing.collect()
}

#[cfg(test)]
mod tests {
    use super::super::Injection;
    use super::*;

    fn pod(kind: &str, name: &str, phase: &str, missing: &[&str]) -> DumpedPod {
        DumpedPod {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            owner: PodOwner { kind: kind.to_owned(), namespace: "shop".to_owned(), name: "web".to_owned() },
            node: None,
            phase: phase.to_owned(),
            ready: 1,
            expected: 1,
            restarts: 0,
            containers: Vec::new(),
            quality: None,
            created_at: None,
            deleted_at: None,
            injections: vec![Injection {
                injector: "istio".to_owned(),
                missing: missing.iter().map(|it| (*it).to_owned()).collect(),
            }],
        }
    }

    #[test]
    fn what_pods_lack_is_told_by_owner_with_the_restart() {
        let pods = [
            pod("Deployment", "web-1", "Running", &["container istio-proxy"]),
            pod("Deployment", "web-2", "Running", &[]),
            pod("Deployment", "web-3", "Succeeded", &["container istio-proxy"]),
            pod("Pod", "by-hand", "Running", &["container istio-proxy"]),
        ];
        let told = missing_sidecars(&pods);
        let told: Vec<_> = told.iter().map(|it| (it.key(), it.to_string(), it.restart.as_str())).collect();
        let lacks = |count: &str| format!("{count} pods lack istio: container istio-proxy");
        let expected = [
            (
                "Deployment shop/web (istio)".to_owned(),
                lacks("1 of 2"),
                "kubectl rollout restart deployment/web -n shop",
            ),
            ("Pod shop/web (istio)".to_owned(), lacks("1 of 1"), "kubectl delete pod by-hand -n shop"),
        ];
        assert_eq!(told, expected);
    }
}
