//! Whether Cluster API has one Runtime Extension to ask before it upgrades machines in place. With none it replaces them, and
//! with two it does neither.

use std::collections::BTreeSet;

use policy::CheckName;

use super::{Check, CheckFinding, CheckSeverity, FoundObject, Judged};
use crate::observation::{IN_PLACE_HOOKS, RuntimeExtensions};

pub(super) const CHECK: Check = Check {
    name: CheckName::RuntimeExtensions,
    looks_at: "Runtime Extensions that answer Cluster API's hooks for upgrades in place: one for each hook where machines stay",
    severity: CheckSeverity::Blocking,
    remedy: "see `kubectl get extensionconfigs`, and reconciler/docs/in-place.md",
    judge,
};

/// The kind of the objects.
pub(crate) const KIND: &str = "ExtensionConfig";

/// What makes two into one.
pub(crate) const RIVALS_REMEDY: &str =
    "let one of them answer there: narrow spec.namespaceSelector of the others, or delete their ExtensionConfig";

fn judge(judged: &Judged<'_>) -> Vec<CheckFinding> {
    let wanted: BTreeSet<&str> = judged.expectation.in_place_hooks.iter().map(String::as_str).collect();
    if let Some(reason) = judged.observation.unread.get(KIND).filter(|_| !wanted.is_empty()) {
        return vec![CheckFinding::unknown(format!("ExtensionConfigs could not be read: {reason}"))];
    }
    let Some(read) = &judged.observation.runtime_extensions else {
        let unknown = || CheckFinding::unknown("ExtensionConfigs were not read yet");
        return wanted.first().map(|_| unknown()).into_iter().collect();
    };
    let own = judged.observation.clusters.iter().map(|cluster| cluster.namespace.as_str());
    let namespaces: BTreeSet<&str> = own.chain(wanted.iter().copied()).collect();
    let mut findings: Vec<CheckFinding> =
        namespaces.iter().filter_map(|namespace| rivals(read, namespace, wanted.contains(namespace))).collect();
    if wanted.is_empty() {
        return findings;
    }
    findings.extend(wanted.iter().filter_map(|namespace| missing(read, namespace)));
    let undiscovered = read.extensions.iter().filter_map(|known| Some((known, known.undiscovered.as_ref()?)));
    findings.extend(undiscovered.map(|(known, why)| {
        CheckFinding::warn(format!("Cluster API does not know what it answers: {why}")).on(object(&known.name))
    }));
    findings.extend(read.managers_without.iter().map(|manager| {
        let message = format!("manager {manager} has its feature gate InPlaceUpdates off: machines would be replaced");
        CheckFinding::fail(message).remedy(
            "switch on RuntimeSDK and InPlaceUpdates of the core manager, and InPlaceUpdates of the control plane's",
        )
    }));
    findings
}

fn object(name: &str) -> FoundObject {
    FoundObject { kind: KIND.to_owned(), namespace: None, name: name.to_owned() }
}

fn rivals(read: &RuntimeExtensions, namespace: &str, is_wanted: bool) -> Option<CheckFinding> {
    let (names, hooks) = read.rivals(namespace)?;
    let message = told_of_rivals(&names, &hooks, namespace);
    let finding = if is_wanted { CheckFinding::fail(message) } else { CheckFinding::warn(message) };
    Some(finding.on(object(names.last().copied().unwrap_or_default())).remedy(RIVALS_REMEDY))
}

/// Who answers the same, and what follows.
pub(crate) fn told_of_rivals(names: &[&str], hooks: &[&str], namespace: &str) -> String {
    let (names, hooks) = (names.join(" and "), hooks.join(", "));
    format!(
        "{names} answer {hooks} in namespace {namespace}: Cluster API takes one alone, and rolls no machine while there are more"
    )
}

/// The hooks that nobody answers.
fn missing(read: &RuntimeExtensions, namespace: &str) -> Option<CheckFinding> {
    let is_missing = |hook: &&&str| read.answering(hook, namespace).next().is_none();
    let hooks: Vec<&str> = IN_PLACE_HOOKS.iter().filter(is_missing).copied().collect();
    let message = format!(
        "no Runtime Extension answers {} in namespace {namespace}: machines would be replaced",
        hooks.join(", ")
    );
    let remedy =
        "install it: `stepgate install --export --in-place`; Cluster API has to run with its feature gate RuntimeSDK";
    (!hooks.is_empty()).then(|| CheckFinding::fail(message).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::{CheckStatus, outcomes};
    use super::*;
    use crate::expectation::ChecksExpectation;
    use crate::observation::{Inspection, Observation, RuntimeExtension};

    fn extension(name: &str, hooks: &[&str], namespaces: &[&str]) -> RuntimeExtension {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        RuntimeExtension {
            name: name.to_owned(),
            hooks: texts(hooks),
            namespaces: texts(namespaces),
            undiscovered: None,
        }
    }

    fn told(wanted: &[&str], read: Option<RuntimeExtensions>) -> (CheckStatus, Vec<String>) {
        let expectation = ChecksExpectation {
            in_place_hooks: wanted.iter().map(|namespace| (*namespace).to_owned()).collect(),
            ..ChecksExpectation::default()
        };
        let observation = Observation {
            runtime_extensions: read,
            inspection: Some(Inspection::default()),
            ..Observation::empty(Timestamp::UNIX_EPOCH)
        };
        let all = outcomes(&expectation, &observation);
        let outcome = all.into_iter().find(|outcome| outcome.check == CheckName::RuntimeExtensions).unwrap();
        (outcome.status, outcome.findings.iter().map(ToString::to_string).collect())
    }

    fn read(extensions: Vec<RuntimeExtension>) -> Option<RuntimeExtensions> {
        Some(RuntimeExtensions { extensions, managers_without: Vec::new() })
    }

    #[test]
    fn machines_stay_where_one_extension_answers_and_nowhere_else() {
        let ours = || extension("stepgate", &IN_PLACE_HOOKS, &["factory"]);
        assert_eq!(told(&["factory"], read(vec![ours()])), (CheckStatus::Pass, Vec::new()));
        assert_eq!(told(&[], read(Vec::new())), (CheckStatus::Pass, Vec::new()));
        let elsewhere = extension("other", &["UpdateMachine"], &["office"]);
        assert_eq!(told(&["factory"], read(vec![ours(), elsewhere])).0, CheckStatus::Pass);
        for (extensions, says) in [
            (
                vec![ours(), extension("other", &["UpdateMachine"], &["factory"])],
                "other and stepgate answer UpdateMachine",
            ),
            (Vec::new(), "no Runtime Extension answers CanUpdateMachine, CanUpdateMachineSet, UpdateMachine"),
            (
                vec![extension("a", &["UpdateMachine"], &["factory"])],
                "answers CanUpdateMachine, CanUpdateMachineSet in",
            ),
            (vec![extension("a", &IN_PLACE_HOOKS, &["office"])], "in namespace factory: machines would be replaced"),
        ] {
            let (status, findings) = told(&["factory"], read(extensions));
            assert!(status == CheckStatus::Fail && findings[0].contains(says), "{findings:?}");
        }
        assert_eq!(told(&["factory"], None).0, CheckStatus::Unknown);
        assert_eq!(told(&[], None).0, CheckStatus::Pass);
        let off = RuntimeExtensions { extensions: vec![ours()], managers_without: vec!["capi-system/capi".to_owned()] };
        assert!(
            told(&["factory"], Some(off)).1[0].contains("capi-system/capi has its feature gate InPlaceUpdates off")
        );
    }
}
