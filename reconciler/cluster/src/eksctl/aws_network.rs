//! What the command line of AWS is asked of subnets, and of the addresses that instances may have.

use std::collections::{BTreeMap, BTreeSet};

use super::aws::Asking;
use super::aws_answers as answers;

impl Asking<'_> {
    /// Subnets of the cluster, and of managed node groups that are replaced.
    pub(super) async fn subnets(&self, replaced: &[String]) -> Result<Vec<rollout::EksSubnet>, String> {
        let cluster = self.target.name.as_str();
        let described: answers::DescribedCluster = self.get(&["eks", "describe-cluster", "--name", cluster]).await?;
        let of_cluster = described.subnets()?;
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let listed: answers::NodeGroups = self.get(&["eks", "list-nodegroups", "--cluster-name", cluster]).await?;
        let wanted = listed.nodegroups.into_iter().filter(|name| replaced.contains(name)).collect();
        let described = Self::each(wanted, async |name: String| {
            let words = ["eks", "describe-nodegroup", "--cluster-name", cluster, "--nodegroup-name", &name];
            let group = self.get::<answers::DescribedNodeGroup>(&words).await?;
            Ok((name, group.into_subnets()))
        });
        for (name, subnets) in described.await? {
            subnets.into_iter().for_each(|subnet| groups.entry(subnet).or_default().push(name.clone()));
        }
        let ids: BTreeSet<&str> = of_cluster.iter().chain(groups.keys()).map(String::as_str).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let words: Vec<&str> = ["ec2", "describe-subnets", "--subnet-ids"].into_iter().chain(ids).collect();
        let listed: answers::Subnets = self.get(&words).await?;
        let subnets = listed.subnets.into_iter().map(|subnet| rollout::EksSubnet {
            groups: groups.remove(&subnet.id).unwrap_or_default(),
            of_cluster: of_cluster.contains(&subnet.id),
            id: subnet.id,
            free: subnet.free,
        });
        Ok(subnets.collect())
    }

    /// How many addresses instances of these types may have.
    pub(super) async fn instance_types(&self, names: &[String]) -> Result<Vec<rollout::EksInstanceType>, String> {
        let is_type = |name: &String| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-')
                && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        };
        if let Some(name) = names.iter().find(|name| !is_type(name)) {
            return Err(format!("{name:?} is not a valid type of instances: mend instanceType"));
        }
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let names = names.iter().map(String::as_str);
        let words: Vec<&str> =
            ["ec2", "describe-instance-types", "--instance-types"].into_iter().chain(names).collect();
        let listed: answers::InstanceTypes = self.get(&words).await?;
        Ok(listed.types.into_iter().map(answers::InstanceType::into_value).collect())
    }
}
