//! What the command line of AWS is asked of a cluster: what eksctl does not tell, and all of it where there is no eksctl.
//!
//! Each question starts a program. So only what the stages asked about need is asked for, a few at a time, and an update that
//! has ended is not asked for again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use domain::ClusterName;
use futures::StreamExt as _;
use jiff::Timestamp;
use rollout::{EksAddon, EksNodeGroup, EksPart, EksReading, EksUpdate};
use serde::de::DeserializeOwned;

use super::aws_answers::{self as answers, stack_group};
use super::program::PinnedProgram;
use super::{EksctlTarget, Moment};

/// How many questions are asked at once.
const AT_ONCE: usize = 4;
/// How many insights are described; the rest is told without who has asked.
const DESCRIBED: usize = 10;

/// What is asked of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsQuestion {
    /// The cluster.
    pub target: EksctlTarget,
    /// What stages are about.
    pub parts: Vec<EksPart>,
    /// Whether what stands against an upgrade is asked for.
    pub insights: bool,
    /// Node groups that are replaced, by name, of whose subnets it is asked how many addresses are free.
    pub replaced: Vec<String>,
    /// Types of the instances that are to come.
    pub instance_types: Vec<String>,
    /// Whether eksctl has told of cluster, node groups and add-ons.
    pub knows_eksctl: bool,
}

/// Asks AWS by its pinned command line.
#[derive(Debug)]
pub struct Aws {
    program: PinnedProgram,
    /// Updates that have ended, by cluster and identifier.
    ended: Mutex<BTreeMap<(ClusterName, String), EksUpdate>>,
    answered: Mutex<BTreeMap<ClusterName, (Moment, AwsQuestion, EksReading)>>,
}

impl Aws {
    /// This program.
    #[must_use]
    pub fn new(program: PinnedProgram) -> Self {
        Self { program, ended: Mutex::default(), answered: Mutex::default() }
    }

    /// Adds to a reading what AWS says; what it does not say is noted.
    pub async fn complete(&self, reading: &mut EksReading, question: &AwsQuestion, at: Timestamp) {
        let now = Moment::of(reading.run.as_ref(), at);
        let known = self.answered.lock().unwrap_or_else(PoisonError::into_inner).get(&question.target.cluster).cloned();
        let answer = match known {
            Some((moment, asked, answer)) if asked == *question && moment.counts(&now) => answer,
            _ => {
                let answer = self.ask(question).await;
                let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
                answered.insert(question.target.cluster.clone(), (now, question.clone(), answer.clone()));
                answer
            }
        };
        merge(reading, answer);
    }

    async fn ask(&self, question: &AwsQuestion) -> EksReading {
        let mut reading = EksReading::default();
        let verified = match question.target.check() {
            Ok(()) => self.program.verify().await.map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        if let Err(error) = verified {
            reading.unread.insert("what aws says".to_owned(), error);
            return reading;
        }
        let asking = Asking { aws: self, target: &question.target };
        let mut unread = BTreeMap::new();
        let mut note = |what: &str, error: String| drop(unread.insert(what.to_owned(), error));
        if !question.knows_eksctl {
            match asking.cluster().await {
                Ok(cluster) => reading.cluster = Some(cluster),
                Err(error) => note("the cluster", error),
            }
            match asking.addons(&question.parts).await {
                Ok(addons) => reading.addons = Some(addons),
                Err(error) => note("add-ons", error),
            }
        }
        let wants_groups = question.parts.iter().any(is_about_groups);
        if wants_groups || !question.knows_eksctl {
            match asking.node_groups(&question.parts).await {
                Ok(groups) => reading.node_groups = Some(groups),
                Err(error) => note("node groups", error),
            }
        }
        match asking.updates(&question.parts).await {
            Ok(updates) => reading.updates = updates,
            Err(error) => note("updates", error),
        }
        let wants_stacks = question.parts.iter().any(|part| matches!(part, EksPart::Leftovers { .. }));
        if wants_stacks || (wants_groups && !question.knows_eksctl) {
            match asking.stacks().await {
                Ok(stacks) => reading.stacks = Some(stacks),
                Err(error) => note("stacks", error),
            }
        }
        if wants_stacks {
            match asking.auto_scaling_groups().await {
                Ok(groups) => reading.auto_scaling_groups = Some(groups),
                Err(error) => note("Auto Scaling groups", error),
            }
        }
        if question.insights {
            match asking.insights().await {
                Ok(insights) => reading.insights = Some(insights),
                Err(error) => note("insights", error),
            }
        }
        if !question.replaced.is_empty() {
            match asking.subnets(&question.replaced).await {
                Ok(subnets) => reading.subnets = Some(subnets),
                Err(error) => note("subnets", error),
            }
            match asking.instance_types(&question.instance_types).await {
                Ok(types) => reading.instance_types = Some(types),
                Err(error) => note("instance types", error),
            }
        }
        reading.unread = unread;
        reading
    }
}

fn is_about_groups(part: &EksPart) -> bool {
    matches!(part, EksPart::NodeGroup { .. } | EksPart::NodeGroupGone { .. } | EksPart::Leftovers { .. })
}

/// What AWS says beside what eksctl has said.
fn merge(reading: &mut EksReading, answer: EksReading) {
    let EksReading { cluster, node_groups, addons, updates, insights, stacks, auto_scaling_groups, .. } = answer;
    let EksReading { subnets, instance_types, unread, .. } = answer;
    (reading.subnets, reading.instance_types) = (subnets, instance_types);
    reading.cluster = reading.cluster.take().or(cluster);
    reading.addons = reading.addons.take().or(addons);
    // Of managed groups EKS tells what is wrong; of others, their stacks.
    let own = stacks.iter().flatten().filter(|stack| stack.status != "DELETE_COMPLETE").map(|stack| EksNodeGroup {
        name: stack.group.clone(),
        status: stack.status.clone(),
        issues: Vec::new(),
    });
    if let Some(managed) = node_groups {
        let known = reading.node_groups.take().unwrap_or_else(|| own.collect());
        let others = known.into_iter().filter(|group| managed.iter().all(|it| it.name != group.name));
        let mut groups: Vec<EksNodeGroup> = managed.iter().cloned().chain(others).collect();
        groups.sort_by(|left, right| left.name.cmp(&right.name));
        reading.node_groups = Some(groups);
    }
    (reading.updates, reading.insights) = (updates, insights);
    (reading.stacks, reading.auto_scaling_groups) = (stacks, auto_scaling_groups);
    reading.unread.extend(unread);
}

pub(super) struct Asking<'a> {
    aws: &'a Aws,
    pub(super) target: &'a EksctlTarget,
}

impl Asking<'_> {
    pub(super) async fn get<T: DeserializeOwned>(&self, words: &[&str]) -> Result<T, String> {
        let common = ["--region", &self.target.region, "--output", "json", "--no-cli-pager"];
        let arguments: Vec<&str> = words.iter().copied().chain(common).collect();
        let answer = self.aws.program.answer(&arguments).await.map_err(|error| error.to_string())?;
        serde_json::from_slice(&answer).map_err(|error| format!("its answer is not as expected: {error}"))
    }

    /// Each of them asked for, a few at once.
    pub(super) async fn each<T, F: Future<Output = Result<T, String>>>(
        names: Vec<String>,
        ask: impl FnMut(String) -> F,
    ) -> Result<Vec<T>, String> {
        let answers: Vec<Result<T, String>> = futures::stream::iter(names).map(ask).buffered(AT_ONCE).collect().await;
        answers.into_iter().collect()
    }

    async fn cluster(&self) -> Result<rollout::EksControlPlane, String> {
        let answer: answers::DescribedCluster =
            self.get(&["eks", "describe-cluster", "--name", &self.target.name]).await?;
        answer.into_value()
    }

    /// The managed groups, each with what is wrong with it where a stage is about it.
    async fn node_groups(&self, parts: &[EksPart]) -> Result<Vec<EksNodeGroup>, String> {
        let cluster = self.target.name.as_str();
        let listed: answers::NodeGroups = self.get(&["eks", "list-nodegroups", "--cluster-name", cluster]).await?;
        let is_wanted = |name: &str| {
            parts.iter().any(|part| match part {
                EksPart::NodeGroup { name: known, .. } | EksPart::NodeGroupGone { name: known } => {
                    known.as_str() == name
                }
                EksPart::Leftovers { groups, .. } => groups.iter().all(|known| known != name),
                EksPart::ControlPlane { .. } | EksPart::Addon { .. } | EksPart::Fargate { .. } => false,
            })
        };
        let wanted = listed.nodegroups.into_iter().filter(|name| is_wanted(name)).collect();
        let described = Self::each(wanted, async |name: String| {
            let words = ["eks", "describe-nodegroup", "--cluster-name", cluster, "--nodegroup-name", &name];
            self.get::<answers::DescribedNodeGroup>(&words).await.map(answers::DescribedNodeGroup::into_value)
        });
        described.await
    }

    async fn addons(&self, parts: &[EksPart]) -> Result<Vec<EksAddon>, String> {
        let wanted: BTreeSet<&str> = addons_of(parts).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let cluster = self.target.name.as_str();
        let listed: answers::Addons = self.get(&["eks", "list-addons", "--cluster-name", cluster]).await?;
        let listed = listed.addons.into_iter().filter(|name| wanted.contains(name.as_str())).collect();
        let described = Self::each(listed, async |name: String| {
            let words = ["eks", "describe-addon", "--cluster-name", cluster, "--addon-name", &name];
            self.get::<answers::DescribedAddon>(&words).await.map(answers::DescribedAddon::into_value)
        });
        described.await
    }

    async fn updates(&self, parts: &[EksPart]) -> Result<Vec<EksUpdate>, String> {
        let mut updates = Vec::new();
        if parts.iter().any(|part| matches!(part, EksPart::ControlPlane { .. })) {
            updates.extend(self.updates_of(None).await?);
        }
        for addon in addons_of(parts) {
            updates.extend(self.updates_of(Some(addon)).await?);
        }
        Ok(updates)
    }

    async fn updates_of(&self, addon: Option<&str>) -> Result<Vec<EksUpdate>, String> {
        let cluster = self.target.name.as_str();
        let of_addon = addon.map(|name| ["--addon-name", name]);
        let mut list = vec!["eks", "list-updates", "--name", cluster];
        list.extend(of_addon.iter().flatten());
        let listed: answers::Updates = match self.get(&list).await {
            Ok(listed) => listed,
            // An add-on that is not there has none.
            Err(error) if addon.is_some() && error.contains("ResourceNotFoundException") => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let described = Self::each(listed.update_ids, |id: String| self.update(id, addon)).await?;
        Ok(described.into_iter().max_by_key(|update| update.created_at).into_iter().collect())
    }

    async fn update(&self, id: String, addon: Option<&str>) -> Result<EksUpdate, String> {
        let key = (self.target.cluster.clone(), id);
        let known = self.aws.ended.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut words = vec!["eks", "describe-update", "--name", &self.target.name, "--update-id", &key.1];
        words.extend(addon.map(|name| ["--addon-name", name]).iter().flatten());
        let update = self.get::<answers::DescribedUpdate>(&words).await?.into_value(addon)?;
        if update.has_ended() {
            self.aws.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(key, update.clone());
        }
        Ok(update)
    }

    async fn insights(&self) -> Result<Vec<rollout::EksInsight>, String> {
        let cluster = self.target.name.as_str();
        let filter = r#"{"categories":["UPGRADE_READINESS"]}"#;
        let words = ["eks", "list-insights", "--cluster-name", cluster, "--filter", filter];
        let listed: answers::Insights = self.get(&words).await?;
        let telling = listed.insights.iter().filter(|insight| !insight.passes()).take(DESCRIBED);
        let described = Self::each(telling.map(|insight| insight.id.clone()).collect(), async |id: String| {
            let words = ["eks", "describe-insight", "--cluster-name", cluster, "--id", &id];
            let answer = self.get::<answers::DescribedInsight>(&words).await?;
            Ok((id, answer))
        });
        let mut described: BTreeMap<String, answers::DescribedInsight> = described.await?.into_iter().collect();
        Ok(listed.insights.iter().map(|insight| insight.value(described.remove(&insight.id))).collect())
    }

    async fn stacks(&self) -> Result<Vec<rollout::EksStack>, String> {
        let listed: answers::Stacks = self.get(&["cloudformation", "list-stacks"]).await?;
        let stacks = listed.stacks.into_iter().filter(|stack| stack.status != "DELETE_COMPLETE");
        let stacks = stacks.filter_map(|stack| {
            let group = stack_group(&stack.name, &self.target.name)?.to_owned();
            Some(rollout::EksStack { name: stack.name, group, status: stack.status })
        });
        Ok(stacks.collect())
    }

    async fn auto_scaling_groups(&self) -> Result<Vec<rollout::EksAutoScalingGroup>, String> {
        let name = &self.target.name;
        let filter = format!("Name=tag-key,Values=k8s.io/cluster/{name},kubernetes.io/cluster/{name}");
        let words = ["autoscaling", "describe-auto-scaling-groups", "--filters", &filter];
        let listed: answers::AutoScalingGroups = self.get(&words).await?;
        Ok(listed.groups.into_iter().map(answers::AutoScalingGroup::into_value).collect())
    }
}

fn addons_of(parts: &[EksPart]) -> impl Iterator<Item = &str> {
    parts.iter().filter_map(|part| match part {
        EksPart::Addon { name, .. } => Some(name.as_str()),
        _ => None,
    })
}

#[cfg(test)]
#[path = "aws_tests.rs"]
mod tests;
