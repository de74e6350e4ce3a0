//! Pods that are deleted past their budget while a worker group is drained, where the policy names the group, a time and a limit.

use std::sync::Arc;

use cluster::ForceRequest;
use domain::GroupName;
use jiff::Timestamp;
use overlays::ClusterKind;
use policy::{ForceDrain, Policy};
use rollout::forcing::{ForceAct, next_forced};
use rollout::{Observation, Reason, StageId, StageName, World};

use crate::reconcile::Controller;
use crate::reconcile::clusters::cluster_timeout::ClusterTimeout;
use crate::reconcile::planner::{ClusterView, FleetReading};

impl Controller {
    /// Deletes the pod that is refused longest, where the policy lets that, and says what was done, or why no more is.
    pub(super) async fn force_refused(
        &self,
        reading: &FleetReading,
        view: &Arc<ClusterView>,
        world: &World,
        stage: &StageId,
        answering: &ClusterTimeout,
    ) -> Option<Reason> {
        let StageName::Workers(group) = &stage.name else { return None };
        let rule = rule(&reading.fleet.policy, view, group.as_str())?;
        let drains = world.observation.as_deref().filter(|read| read.confirmed)?.drains.as_ref()?;
        let rollout = &view.directory.ledger()?.rollout;
        let now = self.clock.now();
        let forced = match next_forced(drains, &rule, group.as_str(), rollout, now) {
            ForceAct::Nothing => return None,
            ForceAct::Spent { pods } => return Some(told_spent(group, pods)),
            ForceAct::Force(forced) => forced,
        };
        let pod = &forced.pod.pod;
        let subject = format!("Pod {}/{}", pod.namespace, pod.name);
        tracing::warn!(
            cluster.name = %view.name, pod = %subject, budget = forced.budget, rollout.id = %rollout,
            "deletes a pod past its budget, which has refused its eviction since {}", forced.since
        );
        let request = ForceRequest {
            namespace: &pod.namespace,
            pod: &pod.name,
            node: &pod.node,
            budget: forced.budget,
            group: group.as_str(),
            rollout,
            counted: forced.counted,
        };
        let cluster = self.handle(reading, view);
        let told = match answering.wait(self.clock.as_ref(), cluster.force(&request)).await {
            Ok(()) => {
                let budget = format!("{}/{}", pod.namespace, forced.budget);
                let message = format!(
                    "is deleted past PodDisruptionBudget {budget}, which refuses it since {} (forceDrain)",
                    forced.since
                );
                Reason::on(subject, message)
            }
            Err(error) => {
                let help = "let Stepgate delete pods and patch poddisruptionbudgets there, or take forceDrain out";
                Reason::on(subject, format!("could not be deleted past its budget: {error}")).help(help)
            }
        };
        // Only a new reading shows it.
        self.remember(&view.name, |memory| memory.fast_path.forget());
        Some(told)
    }
}

/// That as many pods of a stage were deleted as the policy lets, where another one would be.
pub(in crate::reconcile) fn spent(
    policy: &Policy,
    view: &ClusterView,
    stage: &StageId,
    observation: &Observation,
    now: Timestamp,
) -> Option<Reason> {
    let StageName::Workers(group) = &stage.name else { return None };
    let rule = rule(policy, view, group.as_str())?;
    let rollout = &view.directory.ledger()?.rollout;
    match next_forced(observation.drains.as_ref()?, &rule, group.as_str(), rollout, now) {
        ForceAct::Spent { pods } => Some(told_spent(group, pods)),
        ForceAct::Nothing | ForceAct::Force(_) => None,
    }
}

fn told_spent(group: &GroupName, pods: u32) -> Reason {
    let deleted = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
    let message = format!("{deleted} of {group} went past their budget in this rollout: no more may (forceDrain)");
    Reason::new(message).help("let the budgets above let a pod go, or raise `pods` of forceDrain for the group")
}

/// What the policy lets be forced of a group.
fn rule(policy: &Policy, view: &ClusterView, group: &str) -> Option<ForceDrain> {
    let rules = view.befores.force_drain(policy, view.name.as_str());
    rules.into_iter().find(|rule| names(rule, group, view))
}

/// Whether a rule is about a group: by its name, or by what the names of eksctl's groups have in common.
fn names(rule: &ForceDrain, group: &str, view: &ClusterView) -> bool {
    let is_of_eksctl = view.cluster.kind == ClusterKind::Eksctl;
    rule.group == group || (is_of_eksctl && overlays::eksctl::stem(&view.cluster.node, group) == rule.group)
}
