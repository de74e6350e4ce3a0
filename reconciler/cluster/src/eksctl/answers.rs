//! What `eksctl get … -o json` prints, as values.

use rollout::{EksAddon, EksControlPlane, EksIssue, EksNodeGroup};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Cluster {
    name: Option<String>,
    version: Option<String>,
    status: String,
    health: Option<Health>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Health {
    #[serde(default)]
    issues: Option<Vec<Issue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Issue {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NodeGroup {
    name: String,
    status: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Addon {
    name: String,
    version: String,
    status: String,
    #[serde(default)]
    issues: Option<Vec<Issue>>,
}

/// A list that Go prints as `null` where it is empty.
fn list<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<Vec<T>, String> {
    let list: Option<Vec<T>> =
        serde_json::from_slice(text).map_err(|error| format!("its answer is not as expected: {error}"))?;
    Ok(list.unwrap_or_default())
}

fn issues(issues: Option<Vec<Issue>>) -> Vec<EksIssue> {
    let issue = |issue: Issue| EksIssue { code: issue.code, message: issue.message.unwrap_or_default() };
    issues.into_iter().flatten().map(issue).collect()
}

/// Of `eksctl get cluster`.
pub(super) fn cluster(text: &[u8], name: &str) -> Result<EksControlPlane, String> {
    let clusters: Vec<Cluster> = list(text)?;
    let found = clusters.into_iter().find(|cluster| cluster.name.as_deref() == Some(name));
    let Cluster { version, status, health, .. } = found.ok_or_else(|| format!("its answer holds no cluster {name}"))?;
    let version = version.ok_or_else(|| format!("its answer names no version of cluster {name}"))?;
    Ok(EksControlPlane { version, status, issues: issues(health.and_then(|health| health.issues)) })
}

/// Of `eksctl get nodegroup`.
pub(super) fn node_groups(text: &[u8]) -> Result<Vec<EksNodeGroup>, String> {
    let groups: Vec<NodeGroup> = list(text)?;
    let group = |NodeGroup { name, status }: NodeGroup| EksNodeGroup { name, status, issues: Vec::new() };
    Ok(groups.into_iter().map(group).collect())
}

/// Of `eksctl get addon`.
pub(super) fn addons(text: &[u8]) -> Result<Vec<EksAddon>, String> {
    let addons: Vec<Addon> = list(text)?;
    let addon = |addon: Addon| EksAddon {
        name: addon.name,
        version: addon.version,
        status: addon.status,
        issues: issues(addon.issues),
    };
    Ok(addons.into_iter().map(addon).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_eksctl_are_read() {
        let text = br#"[{"Arn":"arn:aws:eks:eu-west-1:1:cluster/shop","Health":{"Issues":[{"Code":"SubnetNotFound",
            "Message":"subnet-1","ResourceIds":["subnet-1"]}]},"Name":"shop","Status":"ACTIVE","Version":"1.31"}]"#;
        let read = cluster(text, "shop").unwrap();
        assert_eq!((read.version.as_str(), read.status.as_str()), ("1.31", "ACTIVE"));
        assert_eq!(read.issues, [EksIssue { code: "SubnetNotFound".to_owned(), message: "subnet-1".to_owned() }]);
        assert!(cluster(text, "other").unwrap_err().contains("no cluster other"));
        let text =
            br#"[{"StackName":"","Cluster":"shop","Name":"ng-1-31","Status":"ACTIVE","MaxSize":2,"Type":"managed"}]"#;
        assert_eq!(node_groups(text).unwrap().first().map(|group| group.name.as_str()), Some("ng-1-31"));
        assert_eq!(node_groups(b"null").unwrap(), []);
        let text = br#"[{"Name":"coredns","Version":"v1.11.3-eksbuild.1","NewerVersion":"","Status":"DEGRADED",
            "Issues":[{"Code":"InsufficientNumberOfReplicas","Message":"none ready","ResourceIDs":null}]}]"#;
        assert_eq!(addons(text).unwrap().first().map(|addon| addon.issues.len()), Some(1));
        assert!(addons(b"Error: no").unwrap_err().contains("not as expected"));
    }
}
