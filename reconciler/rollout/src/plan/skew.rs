//! Which versions may stand side by side: every rule in one table, [`RULES`].

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::plan::Block;
use crate::plan::version::{Numbering, Version, product};
use crate::stage::StageName;
use domain::{ClusterName, GroupName};
use policy::PlanPolicy;

/// From one version to another; the same where nothing changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionStep {
    /// What is deployed; none where nothing is.
    pub deployed: Option<String>,
    /// What is wanted.
    pub target: String,
}

/// The Kubernetes versions of one worker group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupVersions {
    /// The group.
    pub group: GroupName,
    /// Its step.
    pub version: VersionStep,
}

/// The contracts of one Cluster API provider at the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderContracts {
    /// The provider, such as `vSphere`.
    pub name: String,
    /// Contracts in its CRDs' labels (`cluster.x-k8s.io/<contract>`): Cluster API resolves by these.
    pub labels: Vec<String>,
    /// Contract in its `metadata.yaml` for this release.
    pub metadata: Option<String>,
}

/// How long a Kubernetes version is supported without a licence (`endOfStandardSupport` of a bundle).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtendedSupport {
    /// Last day of standard support.
    pub ends: Date,
    /// The day on which the plan is made.
    pub today: Date,
    /// Whether the cluster has a valid licence token.
    pub licensed: bool,
}

/// Whether a control plane may go back a minor. Nobody but EKS takes one back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum MinorBack {
    /// It never may.
    #[default]
    Never,
    /// It may in principle, and not now.
    Closed {
        /// Why.
        reason: String,
        /// What to do.
        help: String,
    },
    /// It may.
    Open,
}

/// Whether a cluster may go through versions in between by rollouts of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chaining {
    /// Nothing is known of what lies in between for a cluster of its kind.
    #[default]
    Unsupported,
    /// The policy does not say so.
    Off,
    /// The policy says so (`chainedUpgrades`).
    On,
}

/// What the skew rules look at. Everything that is not known is absent and its rules do not apply.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SkewFacts {
    /// Kubernetes of the control plane, such as `1.30` or `v1.30.2`.
    pub control_plane: Option<VersionStep>,
    /// Whether that may go back a minor.
    pub minor_back: MinorBack,
    /// Kubernetes of each worker group.
    pub workers: Vec<GroupVersions>,
    /// EKS Anywhere (`spec.eksaVersion`).
    pub eksa: Option<VersionStep>,
    /// EKS Anywhere of the managing cluster, as deployed; for workload clusters.
    pub management_eksa: Option<String>,
    /// EKS Anywhere of the workload clusters, as deployed; for management clusters.
    pub workload_eksa: Vec<(ClusterName, String)>,
    /// EKS Anywhere of the management components (annotation `management-components-version`).
    pub management_components: Option<VersionStep>,
    /// Cluster API core.
    pub cluster_api: Option<VersionStep>,
    /// Contracts that Cluster API core accepts at the target.
    pub core_contracts: Vec<String>,
    /// The other providers at the target.
    pub providers: Vec<ProviderContracts>,
    /// Support of the target Kubernetes version.
    pub extended_support: Option<ExtendedSupport>,
    /// Whether rollouts in between may lead to the target.
    pub chaining: Chaining,
}

/// One rule about versions.
#[derive(Debug, Clone, Copy)]
pub struct SkewRule {
    /// Its name in plans, logs and documentation.
    pub code: &'static str,
    /// What it demands.
    pub statement: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    check: fn(&Rule<'_>, &mut Vec<Block>),
}

struct Rule<'a> {
    code: &'static str,
    facts: &'a SkewFacts,
    policy: &'a PlanPolicy,
    /// Whether the plan goes back to a state of before.
    back: bool,
}

/// A workload cluster would be newer than its management cluster.
pub(super) const NEWER_THAN_MANAGEMENT: &str = "workload-not-newer-than-management";

/// A management cluster would leave its workload clusters behind.
pub(super) const AHEAD_OF_WORKLOADS: &str = "management-ahead-of-workloads";

/// Every rule about versions that stand side by side.
pub const RULES: &[SkewRule] = &[
    SkewRule {
        code: "kubernetes-minor-step",
        statement: "the control plane goes up one Kubernetes minor at a time",
        source: "EKS-A preflight `upgrade cluster kubernetes version increment`; KubeadmControlPlane webhook",
        check: |rule, blocks| {
            if let Some(step) = &rule.facts.control_plane {
                let what = format!("{} of the control plane", product(&step.target));
                rule.at_most_up(1, &what, step, Some(StageName::ControlPlane), blocks);
            }
        },
    },
    SkewRule {
        code: "kubernetes-never-down",
        statement: "Kubernetes never goes back a minor but where EKS takes it back, and back a patch only with allowDowngrade",
        source: "EKS-A preflight `upgrade cluster kubernetes version increment`; etcd's schema has no way back",
        check: |rule, blocks| {
            if let Some(step) = &rule.facts.control_plane {
                let stage = Some(StageName::ControlPlane);
                let what = format!("{} of the control plane", product(&step.target));
                match &rule.facts.minor_back {
                    MinorBack::Never => rule.never_down(&what, Numbering::Kubernetes, step, stage, blocks),
                    MinorBack::Closed { reason, help } => {
                        let message = format!("{what} would go from {} down to {}: {reason}", shown(step), step.target);
                        rule.block(stage, message, help, blocks);
                    }
                    MinorBack::Open => {}
                }
            }
            for group in &rule.facts.workers {
                let stage = Some(StageName::Workers(group.group.clone()));
                let what = format!("{} of worker group {}", product(&group.version.target), group.group);
                rule.never_down(&what, Numbering::Kubernetes, &group.version, stage, blocks);
            }
        },
    },
    SkewRule {
        code: "worker-minor-step",
        statement: "a worker group goes up one Kubernetes minor at a time",
        source: "EKS-A preflight `upgrade cluster worker node group kubernetes version increment`",
        check: |rule, blocks| {
            for group in &rule.facts.workers {
                let stage = Some(StageName::Workers(group.group.clone()));
                let what = format!("{} of worker group {}", product(&group.version.target), group.group);
                rule.at_most_up(1, &what, &group.version, stage, blocks);
            }
        },
    },
    SkewRule {
        code: "worker-not-newer",
        statement: "no worker group is newer than the control plane",
        source: "Kubernetes version skew policy; EKS-A preflight `worker node group kubernetes version increment`",
        check: |rule, blocks| {
            let Some(control_plane) = rule.facts.control_plane.as_ref().map(|step| &step.target) else { return };
            for group in &rule.facts.workers {
                let worker = &group.version.target;
                if Numbering::Kubernetes.is_known_above(worker, control_plane) {
                    let message = format!(
                        "worker group {} is to be at {worker}, the control plane at {control_plane}",
                        group.group
                    );
                    let help = "lower the group's kubernetesVersion, or raise the control plane's";
                    rule.block(Some(StageName::Workers(group.group.clone())), message, help, blocks);
                }
            }
        },
    },
    SkewRule {
        code: "control-plane-worker-skew",
        statement: "the control plane is at most two Kubernetes minors ahead of any worker group, also half-way through the rollout",
        source: "EKS-A preflight `worker node group kubernetes version increment` (its documentation allows three)",
        check: |rule, blocks| {
            let Some(control_plane) = rule.facts.control_plane.as_ref().and_then(|step| Version::parse(&step.target))
            else {
                return;
            };
            for group in &rule.facts.workers {
                // The group's old version is what the new control plane meets first.
                let versions = [group.version.deployed.as_deref(), Some(group.version.target.as_str())];
                for worker in versions.into_iter().flatten().filter_map(Version::parse) {
                    if control_plane.major == worker.major && control_plane.minor > worker.minor + 2 {
                        let message = format!(
                            "worker group {} at {worker} under a control plane at {control_plane}",
                            group.group
                        );
                        let help = "bring the worker group up first";
                        rule.block(Some(StageName::Workers(group.group.clone())), message, help, blocks);
                        break;
                    }
                }
            }
        },
    },
    SkewRule {
        code: "eksa-minor-step",
        statement: "EKS Anywhere goes up one minor at a time and never down",
        source: "EKS-A preflight `eksaVersion skew`",
        check: |rule, blocks| {
            if let Some(step) = &rule.facts.eksa {
                rule.at_most_up(1, "EKS Anywhere", step, None, blocks);
                rule.never_down("EKS Anywhere", Numbering::Component, step, None, blocks);
            }
        },
    },
    SkewRule {
        code: NEWER_THAN_MANAGEMENT,
        statement: "a workload cluster's EKS Anywhere is not newer than its management cluster's",
        source: "EKS-A preflight `management cluster eksaVersion`",
        check: |rule, blocks| {
            let workload = rule.facts.eksa.as_ref().and_then(|step| Version::parse(&step.target));
            let management = rule.facts.management_eksa.as_deref().and_then(Version::parse);
            if let (Some(workload), Some(management)) = (workload, management)
                && workload.is_known_above(management)
            {
                let message = format!("EKS Anywhere is to be at {workload}, the management cluster is at {management}");
                rule.block(None, message, "bring the management cluster up first", blocks);
            }
        },
    },
    SkewRule {
        code: AHEAD_OF_WORKLOADS,
        statement: "a management cluster's EKS Anywhere is at most one minor ahead of its workload clusters",
        source: "EKS-A documentation (not enforced there)",
        check: |rule, blocks| {
            let Some(management) = rule.facts.eksa.as_ref().and_then(|step| Version::parse(&step.target)) else {
                return;
            };
            for (cluster, version) in &rule.facts.workload_eksa {
                let Some(workload) = Version::parse(version) else { continue };
                if (management.major, management.minor) > (workload.major, workload.minor + 1) {
                    let message =
                        format!("EKS Anywhere is to be at {management}, workload cluster {cluster} is at {workload}");
                    rule.block(None, message, &format!("bring {cluster} up first"), blocks);
                }
            }
        },
    },
    SkewRule {
        code: "management-components-ahead",
        statement: "management components are at most one minor ahead of their cluster's EKS Anywhere, and never behind what they were",
        source: "EKS-A annotation management-components-version",
        check: |rule, blocks| {
            let Some(components) = &rule.facts.management_components else { return };
            let what = "EKS Anywhere of the management components";
            rule.never_down(what, Numbering::Component, components, Some(StageName::EksA), blocks);
            let cluster = rule
                .facts
                .eksa
                .as_ref()
                .and_then(|step| Version::parse(step.deployed.as_deref().unwrap_or(&step.target)));
            if let (Some(cluster), Some(components)) = (cluster, Version::parse(&components.target))
                && (components.major, components.minor) > (cluster.major, cluster.minor + 1)
            {
                let message = format!("management components are to be at {components}, the cluster is at {cluster}");
                rule.block(Some(StageName::EksA), message, "bring the cluster's eksaVersion up first", blocks);
            }
        },
    },
    SkewRule {
        code: "cluster-api-minor-step",
        statement: "Cluster API goes up three minors at most, and down only with allowDowngrade",
        source: "clusterctl upgrade apply (since v1.10)",
        check: |rule, blocks| {
            if let Some(step) = &rule.facts.cluster_api {
                rule.at_most_up(3, "Cluster API", step, Some(StageName::Capi), blocks);
                // On the way back its definitions tell whether the door is open.
                if rule.goes_down(step) && !rule.policy.allow_downgrade && !rule.back {
                    let message = format!("Cluster API would go from {} down to {}", shown(step), step.target);
                    rule.block(
                        Some(StageName::Capi),
                        message,
                        "set allowDowngrade for the cluster if that is meant",
                        blocks,
                    );
                }
            }
        },
    },
    SkewRule {
        code: "contract-not-accepted",
        statement: "every provider has a contract that Cluster API core accepts",
        source: "Cluster API contract labels; clusterctl upgrade apply",
        check: |rule, blocks| {
            let accepted = &rule.facts.core_contracts;
            if accepted.is_empty() {
                return;
            }
            for provider in &rule.facts.providers {
                let contracts: Vec<&String> = match provider.labels.as_slice() {
                    [] => provider.metadata.iter().collect(),
                    labels => labels.iter().collect(),
                };
                if !contracts.iter().any(|contract| accepted.contains(contract)) {
                    let has = contracts.iter().map(|contract| contract.as_str()).collect::<Vec<_>>().join(", ");
                    let has = if has.is_empty() { "none" } else { &has };
                    let message =
                        format!("provider {} has contract {has}, core accepts {}", provider.name, accepted.join(", "));
                    rule.block(
                        Some(StageName::Capi),
                        message,
                        "take a release of the provider that has one of these contracts",
                        blocks,
                    );
                }
            }
        },
    },
    SkewRule {
        code: "extended-support",
        statement: "after standard support a Kubernetes version needs a licence token",
        source: "EKS-A preflight `validate extended kubernetes version support is supported`",
        check: |rule, blocks| {
            if let Some(support) = &rule.facts.extended_support
                && support.today > support.ends
                && !support.licensed
            {
                let message = format!("standard support of the Kubernetes version ended on {}", support.ends);
                let help = "set spec.licenseToken to a valid token of its own, or go to a later Kubernetes version";
                rule.block(Some(StageName::ControlPlane), message, help, blocks);
            }
        },
    },
];

/// How many days before its end the support of a Kubernetes version is warned about.
const SUPPORT_WARNING_DAYS: i32 = 60;

/// What the rules forbid.
pub(super) fn violations(facts: &SkewFacts, policy: &PlanPolicy, back: bool) -> Vec<Block> {
    let mut blocks = Vec::new();
    for rule in RULES {
        (rule.check)(&Rule { code: rule.code, facts, policy, back }, &mut blocks);
    }
    blocks
}

/// What the rules allow and a person should know.
pub(super) fn warnings(facts: &SkewFacts) -> Vec<String> {
    let mut warnings = Vec::new();
    for provider in &facts.providers {
        if let Some(metadata) = &provider.metadata
            && !provider.labels.is_empty()
            && !provider.labels.contains(metadata)
        {
            warnings.push(format!(
                "provider {}: metadata.yaml says contract {metadata}, its CRDs are labelled {}; Cluster API resolves by the label",
                provider.name,
                provider.labels.join(", ")
            ));
        }
    }
    if let Some(support) = &facts.extended_support
        && let Ok(left) = support.today.until(support.ends)
        && (0..=SUPPORT_WARNING_DAYS).contains(&left.get_days())
        && left.get_months() == 0
        && left.get_years() == 0
    {
        warnings.push(format!("standard support of the Kubernetes version ends on {}", support.ends));
    }
    for step in
        [&facts.control_plane, &facts.eksa, &facts.management_components, &facts.cluster_api].into_iter().flatten()
    {
        for text in step.deployed.iter().chain([&step.target]) {
            if Version::parse(text).is_none() {
                warnings.push(format!("version {text:?} cannot be compared: the rules about its skew do not apply"));
            }
        }
    }
    warnings
}

fn shown(step: &VersionStep) -> &str {
    step.deployed.as_deref().unwrap_or("nothing")
}

impl Rule<'_> {
    fn block(&self, stage: Option<StageName>, message: String, help: &str, blocks: &mut Vec<Block>) {
        blocks.push(Block { code: self.code.to_owned(), stage: stage.map(Into::into), message, help: help.to_owned() });
    }

    fn at_most_up(
        &self,
        minors: u64,
        what: &str,
        step: &VersionStep,
        stage: Option<StageName>,
        blocks: &mut Vec<Block>,
    ) {
        let (Some(deployed), Some(target)) =
            (step.deployed.as_deref().and_then(Version::parse), Version::parse(&step.target))
        else {
            return;
        };
        if target.major > deployed.major
            || target.minor > deployed.minor.saturating_add(minors) && target.major == deployed.major
        {
            let message = format!("{what} would go from {} to {}", shown(step), step.target);
            let next = deployed.minor.saturating_add(minors);
            let first = format!("go to {}.{next} first", deployed.major);
            let help = match self.facts.chaining {
                Chaining::Off if minors == 1 => format!(
                    "{first}, or set chainedUpgrades for the cluster: then each minor in between is a rollout of its own"
                ),
                Chaining::Off | Chaining::On | Chaining::Unsupported => first,
            };
            self.block(stage, message, &help, blocks);
        }
    }

    fn never_down(
        &self,
        what: &str,
        numbering: Numbering,
        step: &VersionStep,
        stage: Option<StageName>,
        blocks: &mut Vec<Block>,
    ) {
        let (Some(deployed), Some(target)) =
            (step.deployed.as_deref().and_then(Version::parse), Version::parse(&step.target))
        else {
            return;
        };
        let minor_down = (target.major, target.minor) < (deployed.major, deployed.minor);
        let is_down = numbering.is_known_above(shown(step), &step.target);
        if minor_down || (is_down && !self.policy.allow_downgrade && !self.back) {
            let message = format!("{what} would go from {} down to {}", shown(step), step.target);
            let help = if minor_down && self.back {
                "a minor is a one-way door: put back what came after it (`--to` with the stage that went through it), \
                 or repair forward; the last resort is a new control plane on a backup of etcd from before"
                    .to_owned()
            } else if minor_down {
                format!("stay at {}: there is no way back", shown(step))
            } else {
                "set allowDowngrade for the cluster if that is meant".to_owned()
            };
            self.block(stage, message, &help, blocks);
        }
    }

    fn goes_down(&self, step: &VersionStep) -> bool {
        match (step.deployed.as_deref().and_then(Version::parse), Version::parse(&step.target)) {
            (Some(deployed), Some(target)) => deployed.is_known_above(target),
            _ => false,
        }
    }
}
