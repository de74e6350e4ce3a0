//! What the command line of AWS prints, as values.

use jiff::Timestamp;
use rollout::{
    EksAddon, EksAutoScalingGroup, EksControlPlane, EksInsight, EksInstanceType, EksIssue, EksNodeGroup, EksUpdate,
};
use serde::Deserialize;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Health {
    issues: Vec<Issue>,
}

#[derive(Deserialize)]
struct Issue {
    #[serde(alias = "errorCode")]
    code: String,
    #[serde(default, alias = "errorMessage")]
    message: String,
    #[serde(default, rename = "resourceIds")]
    resources: Vec<String>,
}

impl Issue {
    fn into_value(self) -> EksIssue {
        let on = if self.resources.is_empty() { String::new() } else { format!(" ({})", self.resources.join(", ")) };
        EksIssue { code: self.code, message: format!("{}{on}", self.message) }
    }
}

fn issues(health: Option<Health>) -> Vec<EksIssue> {
    health.unwrap_or_default().issues.into_iter().map(Issue::into_value).collect()
}

#[derive(Deserialize)]
pub(super) struct DescribedCluster {
    cluster: Cluster,
}

#[derive(Deserialize)]
struct Cluster {
    version: Option<String>,
    status: String,
    health: Option<Health>,
    #[serde(rename = "resourcesVpcConfig")]
    network: Option<Network>,
}

#[derive(Deserialize)]
struct Network {
    #[serde(default, rename = "subnetIds")]
    subnets: Vec<String>,
}

impl DescribedCluster {
    /// The subnets of its control plane.
    pub(super) fn subnets(self) -> Result<Vec<String>, String> {
        let network = self.cluster.network.ok_or("its answer names no subnets of the cluster")?;
        Ok(network.subnets)
    }

    pub(super) fn into_value(self) -> Result<EksControlPlane, String> {
        let Cluster { version, status, health, .. } = self.cluster;
        let version = version.ok_or("its answer names no version of the cluster")?;
        Ok(EksControlPlane { version, status, issues: issues(health) })
    }
}

#[derive(Deserialize)]
pub(super) struct NodeGroups {
    pub nodegroups: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct DescribedNodeGroup {
    nodegroup: NodeGroup,
}

#[derive(Deserialize)]
struct NodeGroup {
    #[serde(rename = "nodegroupName")]
    name: String,
    status: String,
    health: Option<Health>,
    #[serde(default)]
    subnets: Vec<String>,
}

impl DescribedNodeGroup {
    /// The subnets of its nodes.
    pub(super) fn into_subnets(self) -> Vec<String> {
        self.nodegroup.subnets
    }

    pub(super) fn into_value(self) -> EksNodeGroup {
        let NodeGroup { name, status, health, .. } = self.nodegroup;
        EksNodeGroup { name, status, issues: issues(health) }
    }
}

#[derive(Deserialize)]
pub(super) struct Addons {
    pub addons: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct DescribedAddon {
    addon: Addon,
}

#[derive(Deserialize)]
struct Addon {
    #[serde(rename = "addonName")]
    name: String,
    #[serde(rename = "addonVersion")]
    version: String,
    status: String,
    health: Option<Health>,
}

impl DescribedAddon {
    pub(super) fn into_value(self) -> EksAddon {
        let Addon { name, version, status, health } = self.addon;
        EksAddon { name, version, status, issues: issues(health) }
    }
}

#[derive(Deserialize)]
pub(super) struct Updates {
    #[serde(rename = "updateIds")]
    pub update_ids: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct DescribedUpdate {
    update: Update,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    id: String,
    status: String,
    #[serde(rename = "type")]
    kind: String,
    created_at: Moment,
    #[serde(default)]
    errors: Vec<Issue>,
}

/// A time as one version of the program writes it, or as another.
#[derive(Deserialize)]
#[serde(untagged)]
enum Moment {
    Text(Timestamp),
    Seconds(f64),
}

impl DescribedUpdate {
    pub(super) fn into_value(self, addon: Option<&str>) -> Result<EksUpdate, String> {
        let Update { id, status, kind, created_at, errors } = self.update;
        let created_at = match created_at {
            Moment::Text(time) => time,
            Moment::Seconds(seconds) => {
                let span = jiff::SignedDuration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
                Timestamp::from_duration(span).map_err(|error| error.to_string())?
            }
        };
        let errors = errors.into_iter().map(Issue::into_value).collect();
        Ok(EksUpdate { id, addon: addon.map(str::to_owned), kind, status, created_at, errors })
    }
}

#[derive(Deserialize)]
pub(super) struct Insights {
    pub insights: Vec<Insight>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Insight {
    pub id: String,
    name: String,
    kubernetes_version: Option<String>,
    insight_status: InsightStatus,
}

#[derive(Deserialize)]
struct InsightStatus {
    status: String,
    #[serde(default)]
    reason: String,
}

impl Insight {
    pub(super) fn passes(&self) -> bool {
        self.insight_status.status == "PASSING"
    }

    pub(super) fn value(&self, described: Option<DescribedInsight>) -> EksInsight {
        let (details, recommendation) = described.map(DescribedInsight::told).unwrap_or_default();
        EksInsight {
            name: self.name.clone(),
            version: self.kubernetes_version.clone(),
            status: self.insight_status.status.clone(),
            reason: self.insight_status.reason.clone(),
            details,
            recommendation,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct DescribedInsight {
    insight: InsightDetail,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InsightDetail {
    recommendation: Option<String>,
    #[serde(default)]
    category_specific_summary: Summary,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Summary {
    deprecation_details: Vec<Deprecation>,
    addon_compatibility_details: Vec<AddonCompatibility>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Deprecation {
    #[serde(default)]
    usage: String,
    #[serde(default)]
    replaced_with: String,
    #[serde(default)]
    stop_serving_version: String,
    #[serde(default)]
    client_stats: Vec<Client>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    number_of_requests_last30_days: i64,
    last_request_time: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddonCompatibility {
    name: String,
    #[serde(default)]
    compatible_versions: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    kubernetes_resource_uri: Option<String>,
    arn: Option<String>,
}

impl DescribedInsight {
    /// So many of each are named.
    const NAMED: usize = 5;

    fn told(self) -> (Vec<String>, Option<String>) {
        let InsightDetail { recommendation, category_specific_summary: summary, resources } = self.insight;
        let mut details = Vec::new();
        for known in summary.deprecation_details.into_iter().take(Self::NAMED) {
            let Deprecation { usage, replaced_with, stop_serving_version, client_stats } = known;
            let mut detail = format!("{usage} goes with {stop_serving_version}, write {replaced_with}");
            for client in client_stats.iter().take(Self::NAMED) {
                let last = client.last_request_time.as_ref().map(|time| time.to_string().replace('"', ""));
                detail.push_str(&format!(
                    ", asked {} times by {}, the last time at {}",
                    client.number_of_requests_last30_days,
                    client.user_agent,
                    last.as_deref().unwrap_or("a time that is not told")
                ));
            }
            details.push(detail);
        }
        for addon in summary.addon_compatibility_details.into_iter().take(Self::NAMED) {
            let versions = addon.compatible_versions.join(", ");
            details.push(format!("add-on {} needs one of {versions}", addon.name));
        }
        let named = resources.into_iter().filter_map(|resource| resource.kubernetes_resource_uri.or(resource.arn));
        details.extend(named.take(Self::NAMED));
        (details, recommendation)
    }
}

#[derive(Deserialize)]
pub(super) struct Stacks {
    #[serde(rename = "StackSummaries", default)]
    pub stacks: Vec<Stack>,
}

#[derive(Deserialize)]
pub(super) struct Stack {
    #[serde(rename = "StackName")]
    pub name: String,
    #[serde(rename = "StackStatus")]
    pub status: String,
}

/// The node group of a stack that eksctl has made for a cluster.
pub(super) fn stack_group<'a>(stack: &'a str, cluster: &str) -> Option<&'a str> {
    stack.strip_prefix("eksctl-")?.strip_prefix(cluster)?.strip_prefix("-nodegroup-")
}

#[derive(Deserialize)]
pub(super) struct Subnets {
    #[serde(rename = "Subnets", default)]
    pub subnets: Vec<Subnet>,
}

#[derive(Deserialize)]
pub(super) struct Subnet {
    #[serde(rename = "SubnetId")]
    pub id: String,
    #[serde(rename = "AvailableIpAddressCount")]
    pub free: u64,
}

#[derive(Deserialize)]
pub(super) struct InstanceTypes {
    #[serde(rename = "InstanceTypes", default)]
    pub types: Vec<InstanceType>,
}

#[derive(Deserialize)]
pub(super) struct InstanceType {
    #[serde(rename = "InstanceType")]
    name: String,
    #[serde(rename = "NetworkInfo")]
    network: InterfacesInfo,
}

#[derive(Deserialize)]
struct InterfacesInfo {
    #[serde(rename = "MaximumNetworkInterfaces")]
    interfaces: u64,
    #[serde(rename = "Ipv4AddressesPerInterface")]
    addresses: u64,
}

impl InstanceType {
    pub(super) fn into_value(self) -> EksInstanceType {
        let InterfacesInfo { interfaces, addresses } = self.network;
        EksInstanceType { name: self.name, interfaces, addresses }
    }
}

#[derive(Deserialize)]
pub(super) struct AutoScalingGroups {
    #[serde(rename = "AutoScalingGroups", default)]
    pub groups: Vec<AutoScalingGroup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct AutoScalingGroup {
    auto_scaling_group_name: String,
    #[serde(default)]
    desired_capacity: u32,
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Tag {
    key: String,
    #[serde(default)]
    value: String,
}

impl AutoScalingGroup {
    pub(super) fn into_value(self) -> EksAutoScalingGroup {
        let names = ["eks:nodegroup-name", "alpha.eksctl.io/nodegroup-name"];
        let group = self.tags.into_iter().find(|tag| names.contains(&tag.key.as_str())).map(|tag| tag.value);
        EksAutoScalingGroup { name: self.auto_scaling_group_name, group, desired: self.desired_capacity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_both_versions_of_the_program_are_read() {
        let update = |created: &str| {
            let text = format!(
                r#"{{"update":{{"id":"u","status":"Failed","type":"VersionUpdate","params":[],"createdAt":{created},
                "errors":[{{"errorCode":"IpNotAvailable","errorMessage":"none left","resourceIds":["subnet-1"]}}]}}}}"#
            );
            serde_json::from_str::<DescribedUpdate>(&text).unwrap().into_value(None).unwrap()
        };
        let (new, old) = (update("\"2024-03-01T10:00:00+00:00\""), update("1709287200.0"));
        assert_eq!(new, old);
        let error = EksIssue { code: "IpNotAvailable".to_owned(), message: "none left (subnet-1)".to_owned() };
        assert_eq!(new.errors, [error]);
    }

    #[test]
    fn an_insight_names_who_asked_last() {
        let text = r#"{"insight":{"id":"i","recommendation":"migrate","resources":[{"kubernetesResourceUri":"/apis/x"}],
            "categorySpecificSummary":{"deprecationDetails":[{"usage":"/apis/policy/v1beta1","replacedWith":"/apis/policy/v1",
            "stopServingVersion":"1.25","clientStats":[{"userAgent":"helm","numberOfRequestsLast30Days":3,
            "lastRequestTime":"2026-11-01T00:00:00Z"}]}],"addonCompatibilityDetails":[]}}}"#;
        let (details, recommendation) = serde_json::from_str::<DescribedInsight>(text).unwrap().told();
        let detail = "/apis/policy/v1beta1 goes with 1.25, write /apis/policy/v1, asked 3 times by helm, the last time at \
                      2026-11-01T00:00:00Z";
        assert_eq!(details, [detail, "/apis/x"]);
        assert_eq!(recommendation.as_deref(), Some("migrate"));
    }

    #[test]
    fn stacks_of_another_cluster_are_no_leftovers() {
        assert_eq!(stack_group("eksctl-shop-nodegroup-ng-1-31", "shop"), Some("ng-1-31"));
        assert_eq!(stack_group("eksctl-shop-cluster", "shop"), None);
        assert_eq!(stack_group("eksctl-shop-eu-nodegroup-ng-1-31", "shop"), None);
    }
}
