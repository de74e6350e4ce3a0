//! A program in the place of the command line of AWS that answers as that does.

use super::super::program::{ProgramKind, digest_of};
use super::super::tests::write_program;
use super::*;

const AWS: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
echo "$@" >> asked
case "$1 $2" in
  "--version ") echo "aws-cli/2.15.30 Python/3.11.8 Linux/6.1" ;;
  "eks describe-cluster") echo '{"cluster":{"name":"shop","version":"1.31","status":"UPDATING","health":{"issues":[]},
    "resourcesVpcConfig":{"subnetIds":["subnet-a","subnet-b"]}}}' ;;
  "eks list-nodegroups") echo '{"nodegroups":["ng-1-31","ng-1-32"]}' ;;
  "eks describe-nodegroup") echo '{"nodegroup":{"nodegroupName":"ng-1-32","status":"DEGRADED","subnets":["subnet-b"],"health":{"issues":[
    {"code":"AsgInstanceLaunchFailures","message":"no capacity","resourceIds":["eks-ng"]}]}}}' ;;
  "eks list-updates") echo '{"updateIds":["u1","u2"]}' ;;
  "eks describe-update") case "$*" in
      *u1*) echo '{"update":{"id":"u1","status":"Successful","type":"VersionUpdate","createdAt":"2026-01-01T00:00:00+00:00"}}' ;;
      *) echo '{"update":{"id":"u2","status":"InProgress","type":"VersionUpdate","createdAt":"2026-02-01T00:00:00+00:00"}}' ;;
    esac ;;
  "eks list-insights") echo "An error occurred (AccessDeniedException) when calling the ListInsights operation" >&2; exit 254 ;;
  "cloudformation list-stacks") echo '{"StackSummaries":[{"StackName":"eksctl-shop-nodegroup-old","StackStatus":"DELETE_FAILED"},
    {"StackName":"eksctl-shop-nodegroup-gone","StackStatus":"DELETE_COMPLETE"},{"StackName":"other","StackStatus":"CREATE_COMPLETE"}]}' ;;
  "autoscaling describe-auto-scaling-groups") echo '{"AutoScalingGroups":[{"AutoScalingGroupName":"eks-old-1","DesiredCapacity":1,
    "Tags":[{"Key":"eks:nodegroup-name","Value":"old"}]}]}' ;;
  "ec2 describe-subnets") echo '{"Subnets":[{"SubnetId":"subnet-a","AvailableIpAddressCount":7,"AvailabilityZone":"z"},
    {"SubnetId":"subnet-b","AvailableIpAddressCount":240}]}' ;;
  "ec2 describe-instance-types") echo '{"InstanceTypes":[{"InstanceType":"m5.large","NetworkInfo":
    {"MaximumNetworkInterfaces":3,"Ipv4AddressesPerInterface":10}}]}' ;;
  *) echo "unknown: $*" >&2; exit 252 ;;
esac
"#;

fn aws(folder: &std::path::Path) -> Aws {
    let path = folder.join("aws");
    write_program(&path, AWS);
    let digest = digest_of(&path).unwrap();
    Aws::new(PinnedProgram::new(ProgramKind::Aws, path, digest, "2.15.30"))
}

fn question(parts: Vec<EksPart>, insights: bool) -> AwsQuestion {
    let target =
        EksctlTarget { cluster: "shop".parse().unwrap(), name: "shop".to_owned(), region: "eu-west-1".to_owned() };
    AwsQuestion { target, parts, insights, replaced: Vec::new(), instance_types: Vec::new(), knows_eksctl: false }
}

fn control_plane() -> EksPart {
    EksPart::ControlPlane { version: "1.32".to_owned() }
}

async fn read(aws: &Aws, question: &AwsQuestion, second: i64) -> EksReading {
    let mut reading = EksReading::default();
    aws.complete(&mut reading, question, Timestamp::from_second(second).unwrap()).await;
    reading
}

#[tokio::test]
async fn each_stage_is_told_what_it_is_about() {
    let folder = tempfile::tempdir().unwrap();
    let aws = aws(folder.path());
    let group = EksPart::NodeGroup { name: "ng-1-32".parse().unwrap(), version: None, nodes: 1 };
    let read_group = read(&aws, &question(vec![group], false), 1).await;
    let groups = read_group.node_groups.unwrap();
    let told: Vec<_> = groups.iter().map(|group| (group.name.as_str(), group.status.as_str())).collect();
    assert_eq!(told, [("ng-1-32", "DEGRADED"), ("old", "DELETE_FAILED")]);
    assert_eq!(groups[0].issues[0].message, "no capacity (eks-ng)");

    let groups = vec!["ng-1-31".to_owned(), "ng-1-32".to_owned()];
    let left = EksPart::Leftovers { cluster: "shop".to_owned(), groups };
    let left = read(&aws, &question(vec![left], false), 2).await;
    assert_eq!(left.stacks.unwrap().iter().map(|stack| stack.group.as_str()).collect::<Vec<_>>(), ["old"]);
    assert_eq!(left.auto_scaling_groups.unwrap()[0].group.as_deref(), Some("old"));
    assert_eq!(left.unread, BTreeMap::new());
}

#[tokio::test]
async fn updates_that_have_ended_are_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let aws = aws(folder.path());
    for second in [0, 5, 100] {
        let reading = read(&aws, &question(vec![control_plane()], false), second).await;
        assert_eq!(reading.cluster.map(|cluster| cluster.status).as_deref(), Some("UPDATING"));
        let updates: Vec<_> = reading.updates.iter().map(|update| (update.id.as_str(), update.has_ended())).collect();
        assert_eq!(updates, [("u2", false)]);
    }
    let asked = std::fs::read_to_string(folder.path().join("asked")).unwrap();
    let count = |words: &str| asked.lines().filter(|line| line.contains(words)).count();
    // The second question came too soon after the first one.
    assert_eq!((count("describe-update --name shop --update-id u1"), count("--update-id u2")), (1, 2));
    assert!(
        asked.lines().skip(1).all(|line| line.contains("--region eu-west-1 --output json --no-cli-pager")),
        "{asked}"
    );
}

#[tokio::test]
async fn subnets_are_told_with_free_addresses_and_who_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let aws = aws(folder.path());
    let replaced = vec!["ng-1-32".to_owned()];
    let asked = AwsQuestion { replaced, instance_types: vec!["m5.large".to_owned()], ..question(Vec::new(), false) };
    let told = read(&aws, &asked, 1).await;
    let subnets: Vec<_> = told.subnets.iter().flatten().map(|it| (it.id.as_str(), it.free, it.groups.len())).collect();
    assert_eq!(subnets, [("subnet-a", 7, 0), ("subnet-b", 240, 1)]);
    assert!(told.subnets.iter().flatten().all(|subnet| subnet.of_cluster));
    let types: Vec<_> = told.instance_types.iter().flatten().map(|it| (it.interfaces, it.addresses)).collect();
    assert_eq!((types.as_slice(), told.unread.len()), ([(3, 10)].as_slice(), 0));

    let hostile = AwsQuestion { instance_types: vec!["--profile".to_owned()], ..asked };
    let told = read(&aws, &hostile, 2).await;
    assert!(told.unread["instance types"].contains("is not a valid type of instances"), "{:?}", told.unread);
}

#[tokio::test]
async fn what_aws_refuses_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let reading = read(&aws(folder.path()), &question(vec![control_plane()], true), 0).await;
    let reason = reading.unread.get("insights").unwrap();
    assert!(reason.contains("AccessDeniedException"), "{reason}");
    assert_eq!(reading.insights, None);
}

#[tokio::test]
async fn a_region_of_the_repository_reaches_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let aws = aws(folder.path());
    let mut question = question(vec![control_plane()], true);
    question.target.region = "eu-west-1.example.com/#".to_owned();
    let reading = read(&aws, &question, 0).await;
    assert!(reading.unread.values().all(|reason| reason.contains("is not a valid region")), "{:?}", reading.unread);
    assert_eq!(reading.unread.len(), 1);
    assert!(!folder.path().join("asked").exists());
}
