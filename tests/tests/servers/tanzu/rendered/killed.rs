//! A release goes up while the controller is killed.

use anyhow::ensure;
use kube::ResourceExt as _;
use serde_json::Value;
use tests::servers::isolated;

use super::{ALL, Bench, FILE, NAME, NEW, OLD, POLICY, SMALL, cluster};
use crate::killing::Kills;
use crate::machines;

/// The parts that have machines, in the order in which they are rolled.
const PARTS: [&str; 3] = ["control-plane", "blue", "green"];

impl Bench {
    /// The part of each machine that was ever made, in the order in which the API server took them.
    fn made(&self) -> anyhow::Result<Vec<&'static str>> {
        let audit = self.scene.server.audit()?;
        let is_made = |line: &&Value| {
            let of = &line["objectRef"];
            line["stage"] == "ResponseComplete"
                && line["responseStatus"]["code"] == 201
                && of["resource"] == "machines"
                && of["apiGroup"] == "cluster.x-k8s.io"
        };
        let part = |line: &Value| {
            let name = line["objectRef"]["name"].as_str().unwrap_or_default();
            PARTS.into_iter().find(|part| name.starts_with(&format!("{NAME}-{part}-")))
        };
        Ok(audit.iter().filter(is_made).filter_map(part).collect())
    }

    /// Every machine of these parts is of this build, and has a node.
    async fn are_done(&self, parts: &[&str], build: &str) -> anyhow::Result<()> {
        for machine in self.machines().await? {
            let name = machine.name_any();
            let is_meant = parts.iter().any(|part| name.starts_with(&format!("{NAME}-{part}-")));
            let version = machine.data.pointer("/spec/version").and_then(Value::as_str);
            let node = machine.data.pointer("/status/nodeRef/name");
            ensure!(!is_meant || version == Some(build) && node.is_some(), "{name}: {version:?}, {node:?}: too early");
        }
        Ok(())
    }
}

#[test]
fn a_release_goes_up_in_order_while_the_controller_is_killed_thirty_times() {
    let name = "tanzu::rendered::killed::a_release_goes_up_in_order_while_the_controller_is_killed_thirty_times";
    isolated(name, &machines::needed(), async |programs| {
        let mut bench = Bench::start(&programs, OLD, SMALL, POLICY).await?;
        let before = bench.all_uids().await?;
        let made = bench.made()?.len();
        let mut controller = bench.scene.controller()?;
        let mut kills = Kills::new(&bench.scene.repository, 1 + ALL.len())?;
        bench.scene.repository.push("Raise the release", &[(FILE, &cluster(NEW, "small", SMALL))])?;
        for commits in 2..=1 + ALL.len() {
            kills.until(&mut controller, commits).await?;
            // What the stages before this one make is there by the time that it is committed.
            let done = PARTS.len().min(commits - 2);
            bench.are_done(&PARTS[..done], "v1.35.1+vmware.2").await?;
        }
        kills.finish(&mut controller).await?;
        bench.rolled(&ALL).await?;
        bench.builds_are("v1.35.1+vmware.2").await?;
        assert!(bench.all_uids().await?.is_disjoint(&before));
        assert_eq!(bench.made()?[made..], PARTS, "one machine of each part, in their order");
        bench.scene.assert_nothing_is_left()?;
        bench.scene.folder.done();
        Ok(())
    });
}
