//! A certificate that is lost in the middle of a rollout.

use anyhow::ensure;
use kube::ResourceExt as _;
use serde_json::Value;
use tests::servers::isolated;
use tests::waiting::{LONG_PATIENCE, until_within};

use super::{Bench, FILE, NAME, NEW, POLICY, SMALL, cluster, delete};
use crate::machines::{self, NAMESPACE};

impl Bench {
    /// Waits until Cluster API leaves the cluster alone by our lease, or does not any more.
    async fn stands_still(&self, still: bool) -> anyhow::Result<()> {
        let stands = async || {
            let cluster = self.root().await?;
            let paused = cluster.data.pointer("/spec/paused").and_then(Value::as_bool).unwrap_or_default();
            let leased = cluster.annotations().contains_key("stepgate.dev/pause");
            Ok((paused == still && leased == still).then_some(()))
        };
        let waited = until_within(&format!("the cluster stands still: {still}"), LONG_PATIENCE, stands).await;
        match waited {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.scene.why(NAME).await?.to_string())),
        }
    }
}

#[test]
fn a_cluster_stands_still_while_what_its_machines_trust_is_lost() {
    let name = "tanzu::rendered::certificates::a_cluster_stands_still_while_what_its_machines_trust_is_lost";
    isolated(name, &machines::needed(), async |programs| {
        let mut bench = Bench::start(&programs, NEW, SMALL, POLICY).await?;
        let client = bench.scene.client.clone();
        let _controller = bench.scene.controller()?;
        bench.scene.repository.push("Larger machines", &[(FILE, &cluster(NEW, "large", SMALL))])?;
        bench.scene.stage_is(NAME, "workers/green").await?;
        let lost = std::time::Instant::now();
        delete(&client, ("v1", "Secret"), NAMESPACE, &format!("{NAME}-proxy")).await?;
        bench.stands_still(true).await?;
        assert!(lost.elapsed() < std::time::Duration::from_secs(60), "{:?}", lost.elapsed());
        bench
            .scene
            .why_says(NAME, &[&format!("Secret {NAMESPACE}/{NAME}-proxy"), "its machines trust no other"])
            .await?;

        // Another one may have been made meanwhile, which no machine knows.
        for arguments in [
            &["hold", NAME, "--reason", "certificates", "--yes"][..],
            &["restore", NAME, "--certificates", "--overwrite-newer", "--yes"][..],
            &["resume", NAME, "--yes"][..],
        ] {
            let output = bench.scene.stepgate(arguments).output()?;
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            ensure!(output.status.success(), "{arguments:?}: {said}");
        }
        bench.stands_still(false).await?;
        bench.rolled(&["workers/green", "templates", "verify"]).await?;
        bench.scene.folder.done();
        Ok(())
    });
}
