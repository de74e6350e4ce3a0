//! What a drain of the nodes that roll would wait for, and what it would lose.
//!
//! By the order in which an API server judges an eviction (`kubernetes/pkg/registry/core/pod/storage/eviction.go`):
//! several budgets refuse for ever, one of them as long as it allows nothing.

use std::collections::BTreeMap;

use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::eviction::{EvictionAnswer, eviction_answer};
use crate::observation::{DisruptionBudget, EvictedPod};

pub(super) const CHECK: Check = Check {
    name: CheckName::Drains,
    looks_at: "pods on nodes that roll: disruption budgets that let none go, and what is lost with them",
    severity: CheckSeverity::Blocking,
    remedy: "let the budget allow one pod to go, or scale its workload up",
    judge,
};

/// How many pods a finding names.
const NAMED: usize = 3;

/// So long a pod may take to end before it is told.
const LONG: u32 = 10 * 60;

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let pods = &judged.inspection.evicted;
    let mut findings = Vec::new();
    let mut of_budget: BTreeMap<(&str, &str), Vec<&EvictedPod>> = BTreeMap::new();
    for pod in pods {
        match pod.budgets.as_slice() {
            [] => {}
            [one] => of_budget.entry((&pod.namespace, one)).or_default().push(pod),
            several => findings.push(several_budgets(pod, several)),
        }
    }
    for budget in &judged.inspection.budgets {
        let covered = of_budget.get(&(budget.namespace.as_str(), budget.name.as_str()));
        findings.extend(covered.and_then(|pods| of(budget, pods)));
    }
    findings.extend(lost(pods, |pod| !pod.has_controller, "gone for good: nothing makes them anew"));
    findings.extend(lost(pods, |pod| pod.local_data, "without what they keep on their node (emptyDir, local volumes)"));
    findings.extend(lost(
        pods,
        |pod| pod.grace > LONG,
        "only after more than 10 minutes: terminationGracePeriodSeconds",
    ));
    findings
}

/// Why a budget lets none of these pods go; none where it does.
fn of(budget: &DisruptionBudget, pods: &[&EvictedPod]) -> Option<CheckFinding> {
    let DisruptionBudget { expected, healthy, desired, .. } = budget;
    let object = FoundObject {
        kind: "PodDisruptionBudget".to_owned(),
        namespace: Some(budget.namespace.clone()),
        name: budget.name.clone(),
    };
    let stale = held(pods, budget, |answer| matches!(answer, EvictionAnswer::Stale(_)));
    if !stale.is_empty() {
        let on = named(&stale);
        let message = format!("its status is stale, so that whether {on} may be evicted is not known");
        return Some(CheckFinding::unknown(message).on(object));
    }
    let refused = held(pods, budget, |answer| matches!(answer, EvictionAnswer::Refused(_)));
    if refused.is_empty() {
        return None;
    }
    let (pods, on) = (refused.as_slice(), named(&refused));
    if pods.iter().all(|pod| pod.drain_ends) {
        let message = format!("lets none go now, so that {on} are deleted past it when nodeDrainTimeout is over");
        return Some(CheckFinding::warn(message).on(object));
    }
    if desired >= expected {
        let message = format!(
            "asks for {desired} of {expected} pods, so that {on} can never be evicted and the drain never ends"
        );
        let remedy = "scale the workload above minAvailable, or allow one with maxUnavailable: 1";
        return Some(CheckFinding::fail(message).on(object).remedy(remedy));
    }
    let message =
        format!("lets none go while {healthy} of {expected} pods are healthy and {desired} are asked for: {on}");
    let remedy = "mend the pods that are not ready, or set unhealthyPodEvictionPolicy: AlwaysAllow";
    Some(CheckFinding::fail(message).on(object).remedy(remedy))
}

/// Those of the pods of a budget to whose eviction it answers so.
fn held<'p>(
    pods: &[&'p EvictedPod],
    budget: &DisruptionBudget,
    wanted: fn(&EvictionAnswer<'_>) -> bool,
) -> Vec<&'p EvictedPod> {
    pods.iter().copied().filter(|pod| wanted(&eviction_answer(pod, false, [budget]))).collect()
}

fn several_budgets(pod: &EvictedPod, budgets: &[String]) -> CheckFinding {
    let message = format!(
        "is selected by the PodDisruptionBudgets {}: an eviction is refused as long as it is more than one",
        budgets.join(" and ")
    );
    CheckFinding::fail(message).on(object(pod)).remedy("let one budget select it")
}

/// One finding for all pods of which something is lost.
fn lost(pods: &[EvictedPod], is_lost: impl Fn(&EvictedPod) -> bool, how: &str) -> Option<CheckFinding> {
    let lost: Vec<&EvictedPod> = pods.iter().filter(|pod| is_lost(pod)).collect();
    let first = lost.first()?;
    let finding = CheckFinding::warn(format!("{} of the nodes that roll leave {how}", named(&lost)));
    let finding = if let [_] = lost.as_slice() { finding.on(object(first)) } else { finding };
    Some(finding.remedy("move what must stay before the rollout"))
}

/// `a/b, a/c and 4 more pods`.
fn named(pods: &[&EvictedPod]) -> String {
    let mut text: Vec<String> =
        pods.iter().take(NAMED).map(|pod| format!("pod {}/{}", pod.namespace, pod.name)).collect();
    let more = pods.len().saturating_sub(NAMED);
    if more > 0 {
        text.push(format!("{more} more"));
    }
    text.join(", ")
}

fn object(pod: &EvictedPod) -> FoundObject {
    FoundObject { kind: "Pod".to_owned(), namespace: Some(pod.namespace.clone()), name: pod.name.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CheckStatus;
    use crate::observation::Resources;

    fn pod(name: &str) -> EvictedPod {
        EvictedPod {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            node: "worker-1".to_owned(),
            has_controller: true,
            ready: true,
            local_data: false,
            drain_ends: false,
            grace: 30,
            requests: Resources::default(),
            budgets: vec!["budget".to_owned()],
        }
    }

    fn budget(expected: u32, healthy: u32, desired: u32, allowed: u32) -> DisruptionBudget {
        DisruptionBudget {
            namespace: "shop".to_owned(),
            name: "budget".to_owned(),
            expected,
            healthy,
            desired,
            allowed,
            always_allows_unhealthy: false,
            is_stale: false,
            refuses_since: None,
        }
    }

    #[test]
    fn a_budget_is_told_that_lets_none_go() {
        let ready = pod("a");
        for (budget, expected) in [
            (budget(3, 3, 2, 1), None),
            (
                budget(1, 1, 1, 0),
                Some((CheckStatus::Fail, "asks for 1 of 1 pods, so that pod shop/a can never be evicted")),
            ),
            (budget(3, 3, 3, 0), Some((CheckStatus::Fail, "asks for 3 of 3 pods"))),
            (budget(3, 2, 2, 0), Some((CheckStatus::Fail, "lets none go while 2 of 3 pods are healthy"))),
            (
                DisruptionBudget { is_stale: true, ..budget(3, 3, 2, 1) },
                Some((CheckStatus::Unknown, "its status is stale")),
            ),
        ] {
            let found = of(&budget, &[&ready]);
            let told = found.as_ref().map(|found| (found.status, found.message.as_str()));
            match (told, expected) {
                (Some((status, message)), Some((wanted, part))) => {
                    assert!(status == wanted && message.starts_with(part), "{budget:?}: {message}");
                }
                (told, expected) => assert_eq!(told.is_some(), expected.is_some(), "{budget:?}"),
            }
        }
        let timed = EvictedPod { drain_ends: true, ..pod("a") };
        assert_eq!(of(&budget(1, 1, 1, 0), &[&timed]).unwrap().status, CheckStatus::Warn);
        let broken = EvictedPod { ready: false, ..pod("a") };
        let lenient = DisruptionBudget { always_allows_unhealthy: true, ..budget(3, 2, 2, 0) };
        assert!(of(&lenient, &[&broken]).is_none() && of(&lenient, &[&ready]).is_some());
        // What is broken goes as long as enough others are well; the one that is well does not.
        assert!(of(&budget(3, 2, 2, 0), &[&broken]).is_none());
        assert!(of(&budget(3, 1, 2, 0), &[&broken]).is_some());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the time is measured, nothing is decided by it")]
    fn a_forecast_of_thirty_thousand_pods_takes_less_than_a_second() {
        let mut inspection = crate::observation::Inspection::default();
        for number in 0..30_000 {
            let (namespace, budget) = (format!("team-{}", number % 100), format!("budget-{}", number % 1000));
            let node = format!("worker-{}", number % 1000);
            let pod = EvictedPod { namespace, node, budgets: vec![budget], ..pod(&format!("pod-{number}")) };
            inspection.evicted.push(pod);
        }
        for number in 0..1000 {
            let (namespace, name) = (format!("team-{}", number % 100), format!("budget-{number}"));
            let allowed = u32::from(number % 2 == 0);
            inspection.budgets.push(DisruptionBudget { namespace, name, ..budget(30, 30, 29, allowed) });
        }
        let observation = crate::observation::Observation {
            inspection: Some(inspection),
            ..crate::observation::Observation::empty(jiff::Timestamp::UNIX_EPOCH)
        };
        let started = std::time::Instant::now();
        let outcomes = crate::check::outcomes(&crate::ChecksExpectation::default(), &observation);
        let took = started.elapsed();
        let drains = outcomes.iter().find(|outcome| outcome.check == CheckName::Drains).unwrap();
        assert_eq!(drains.findings.len(), 500, "one of each budget that lets none go");
        assert!(took < std::time::Duration::from_secs(1), "{took:?}");
    }

    #[test]
    fn pods_with_several_budgets_never_go_and_lone_ones_do_for_good() {
        let two = several_budgets(&pod("a"), &["one".to_owned(), "two".to_owned()]);
        assert_eq!(two.status, CheckStatus::Fail);
        assert!(two.to_string().starts_with("Pod shop/a: is selected by the PodDisruptionBudgets one and two"));
        let pods = ["a", "b", "c", "d", "e"].map(|name| EvictedPod { has_controller: false, ..pod(name) });
        let found = lost(&pods, |pod| !pod.has_controller, "gone").unwrap();
        assert_eq!(found.to_string(), "pod shop/a, pod shop/b, pod shop/c, 2 more of the nodes that roll leave gone");
        assert_eq!(lost(&pods, |pod| pod.local_data, "gone"), None);
    }
}
