//! How soon a refused eviction is named: by the clock of the API server that refuses it, and by that of the controller's log.

use anyhow::{Context as _, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tests::servers::{Process, isolated};
use tests::waiting::until;

use super::{CLUSTER, CONFIG, FILE, NEEDED, POLICY, Scene};
use crate::drains::asking;

/// What is promised.
const SOON: SignedDuration = SignedDuration::from_secs(5);

const NAMED: &str = "Pod default/web-2 of Deployment default/web: its eviction from Node c is refused";

impl Scene {
    /// Asks once for the eviction of a pod; the code of the answer.
    async fn evict(&self, client: &reqwest::Client, pod: &str) -> anyhow::Result<u16> {
        let url = format!("{}/api/v1/namespaces/default/pods/{pod}/eviction", self.server.url());
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod, "namespace": "default"}});
        let request = client.post(url).header("Content-Type", "application/json").body(body.to_string());
        Ok(request.send().await?.status().as_u16())
    }

    /// When the controller said this of the cluster first.
    async fn logged(&self, text: &str) -> anyhow::Result<Timestamp> {
        let path = self.folder.path().join("stepgate.log");
        let logged = async || {
            let log = std::fs::read_to_string(&path)?;
            let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let says = |line: &Value| line["fields"]["reason"].as_str().is_some_and(|reason| reason.contains(text));
            let line = { lines }.find(says);
            line.map(|line| Ok(line["timestamp"].as_str().context("a line without its time")?.parse()?)).transpose()
        };
        until(&format!("the controller says {text:?}"), logged).await
    }

    /// When the server was asked for what fits, in order.
    fn asked(&self, fits: impl Fn(&Value) -> bool) -> anyhow::Result<Vec<Timestamp>> {
        let audit = self.server.audit()?;
        let answered = audit.iter().filter(|line| line["stage"] == "ResponseComplete" && fits(line));
        let mut times = answered
            .map(|line| Ok(line["requestReceivedTimestamp"].as_str().context("a request without its time")?.parse()?))
            .collect::<anyhow::Result<Vec<Timestamp>>>()?;
        times.sort();
        Ok(times)
    }
}

#[test]
fn a_refused_eviction_is_named_by_a_look_within_five_seconds() {
    let name = "eksctl::refused::a_refused_eviction_is_named_by_a_look_within_five_seconds";
    isolated(name, NEEDED, async |programs| {
        let mut scene = Scene::start(&programs).await?;
        scene.environment.insert("STEPGATE_LOG_LEVEL", "debug".into());
        scene.environment.insert("STEPGATE_LOG_FORMAT", "json".into());
        scene.repository.push("Describe the shop", &[("stepgate.yaml", POLICY), (FILE, CONFIG)])?;
        let said = scene.said(&["adopt", "--yes"])?;
        ensure!(said.contains(&format!("{CLUSTER}: recorded what the source branch says")), "{said}");
        let _controller = Process::start(scene.folder.path(), "stepgate", scene.command(&["run", "--listen", "off"]))?;
        let next = CONFIG.replace("\"1.31\"", "\"1.32\"").replace("v1.11.3-eksbuild.1", "v1.11.4-eksbuild.2");
        scene.repository.push("Kubernetes 1.32", &[(FILE, &next)])?;
        for stage in 2..5 {
            scene.stages_are(stage).await?;
            scene.run_pipeline().await?;
        }
        scene.stages_are(5).await?;

        // One of two pods may go at a time, and nothing is in the way of the first.
        for pod in ["web-1", "web-2"] {
            scene.pod("web", pod, "c").await?;
        }
        scene.budget("web").await?;
        scene.let_one_go("web").await?;
        scene.cordon("c").await?;
        scene.logged("is cordoned and still there").await?;
        let client = asking(&scene.server)?;
        assert_eq!(scene.evict(&client, "web-1").await?, 201);
        assert_eq!(scene.evict(&client, "web-2").await?, 429);

        let named = scene.logged(NAMED).await?;
        let is_refused =
            |line: &Value| line["objectRef"]["subresource"] == "eviction" && line["responseStatus"]["code"] == 429;
        let refused = async || Ok(scene.asked(is_refused)?.first().copied());
        let refused = until("the refusal is in the audit log", refused).await?;
        let is_look = |line: &Value| line["objectRef"]["resource"] == "poddisruptionbudgets" && line["verb"] == "list";
        let looks = scene.asked(is_look)?;
        let look = looks.iter().rfind(|look| **look < named).context("named by nobody who has looked")?;
        let (looked, told) = (look.duration_since(refused), named.duration_since(refused));
        println!("from the refusal to the look {looked:#}, to its word {told:#}");
        // How long a look takes is the machine's; when it begins is ours.
        ensure!(looked <= SOON, "looked for after {looked:#}");
        scene.waits_for("by PodDisruptionBudget default/web: ").await?;
        scene.folder.done();
        Ok(())
    });
}
