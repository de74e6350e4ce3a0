//! What AWS says of a cluster of EKS, as part of a reading of it.

use std::collections::BTreeSet;

use cluster::eksctl::{AwsQuestion, EksPrograms, EksctlTarget};
use cluster::{Cluster, ObserveRequest};
use overlays::ClusterKind;
use planning::{eksctl_names, running_eks_part};
use policy::{Apply, Policy};
use rollout::{EksPart, EksReading, Expectation, Observation};

use crate::reconcile::clusters::access::Clusters;
use crate::reconcile::observe::images;
use crate::reconcile::planner::ClusterView;

/// Reads a cluster and what registries say of its images, and meanwhile asks AWS where it is of EKS.
pub async fn observe(
    clusters: &dyn Clusters,
    policy: &Policy,
    cluster: &dyn Cluster,
    view: &ClusterView,
    request: &ObserveRequest,
) -> Observation {
    // Of other clusters nothing is asked, and every caller up to the loop over clusters would hold the question.
    let ask = Box::pin(ask(clusters.eks_programs(), policy, view, request));
    let (mut observation, eks) = tokio::join!(images::observe(cluster, view, request), ask);
    observation.eks = eks;
    observation
}

/// What AWS says of what a request is about; none where it is about nothing of EKS, or nobody may be asked.
pub async fn ask(
    programs: Option<&EksPrograms>,
    policy: &Policy,
    view: &ClusterView,
    request: &ObserveRequest,
) -> Option<EksReading> {
    let asked = request.expectations.iter().filter_map(|expectation| match expectation {
        Expectation::Eks(expectation) => Some(expectation.part.clone()),
        _ => None,
    });
    let asked: Vec<EksPart> = asked.collect();
    if view.cluster.kind != ClusterKind::Eksctl || asked.is_empty() {
        return None;
    }
    let (name, region) = eksctl_names(&view.cluster.node)?;
    let target = EksctlTarget { cluster: view.name.clone(), name, region };
    let eksctl = programs.and_then(|programs| programs.eksctl.as_ref());
    let aws = programs.and_then(|programs| programs.aws.as_ref());
    let mut reading = match eksctl {
        Some(eksctl) => eksctl.read(&target, request.at).await,
        None if policy.apply_of(view.name.as_str()) == Apply::Eksctl => {
            let reason = "this process was given no eksctl: name one with --eksctl".to_owned();
            let unread = [("what eksctl says".to_owned(), reason)].into_iter().collect();
            EksReading { unread, ..EksReading::default() }
        }
        None if aws.is_some() => EksReading::default(),
        None => return None,
    };
    if let Some(aws) = aws {
        let insights = request.expectations.iter().any(|expectation| matches!(expectation, Expectation::Checks(_)));
        let running = running_eks_part(&view.cluster, &view.directory);
        // While a stage runs, its own part is judged, and what ends a rollout.
        let is_judged = |part: &EksPart| {
            matches!(part, EksPart::Leftovers { .. }) || running.as_ref().is_none_or(|running| running == part)
        };
        let parts = asked.into_iter().filter(is_judged).collect();
        let replaced = request.expectations.iter().find_map(|expectation| match expectation {
            Expectation::Checks(checks) => Some(checks.replaced_groups.as_slice()),
            _ => None,
        });
        let replaced = replaced.unwrap_or_default();
        let types = replaced.iter().filter_map(|group| group.by.as_ref()).flat_map(|by| &by.instance_types);
        let instance_types: BTreeSet<String> = types.cloned().collect();
        let question = AwsQuestion {
            target,
            parts,
            insights,
            replaced: replaced.iter().map(|group| group.name.clone()).collect(),
            instance_types: instance_types.into_iter().collect(),
            knows_eksctl: eksctl.is_some(),
        };
        aws.complete(&mut reading, &question, request.at).await;
    }
    Some(reading)
}
