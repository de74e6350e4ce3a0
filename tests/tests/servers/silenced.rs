//! Silences in a real Alertmanager: of one cluster and the alerts that are named, as long as a stage is rolled out.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use stepgate_notify::{Silencer, Sinks};
use tests::servers::{Alertmanager, Folder, isolated};

/// The silences that have not ended, each with its id, cluster and end.
pub async fn living(alertmanager: &Alertmanager) -> anyhow::Result<Vec<(String, String, Timestamp)>> {
    let silences = alertmanager.get("silences").await?;
    let silences = silences.as_array().context("a list")?;
    let living = silences.iter().filter(|silence| silence["status"]["state"] != "expired");
    living
        .map(|silence| {
            let text = |pointer: &str| silence.pointer(pointer).and_then(Value::as_str).context("a text");
            let matchers = silence["matchers"].as_array().context("matchers")?;
            let cluster = matchers.iter().find(|matcher| matcher["name"] == "cluster").context("a cluster")?;
            let cluster = cluster["value"].as_str().context("its name")?.to_owned();
            Ok((text("/id")?.to_owned(), cluster, text("/endsAt")?.parse()?))
        })
        .collect()
}

/// The alerts that are silenced, `alertname cluster`.
async fn silenced(alertmanager: &Alertmanager) -> anyhow::Result<Vec<String>> {
    let alerts = alertmanager.get("alerts?active=false&inhibited=false&unprocessed=false").await?;
    let name = |alert: &Value| {
        let label = |name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
        format!("{} {}", label("alertname"), label("cluster"))
    };
    let mut names: Vec<String> = alerts.as_array().context("a list")?.iter().map(name).collect();
    names.sort();
    Ok(names)
}

#[test]
fn silences_last_as_long_as_a_stage_and_are_of_its_cluster_alone() {
    let name = "silenced::silences_last_as_long_as_a_stage_and_are_of_its_cluster_alone";
    isolated(name, &[Alertmanager::NEEDED], async |programs| {
        let folder = Folder::new()?;
        let alertmanager = Alertmanager::start(&programs, &folder.path().join("alertmanager")).await?;
        let sinks = folder.path().join("sinks");
        std::fs::create_dir_all(&sinks)?;
        let text = format!(
            "kind: alertmanager\naddress: {}\nstages: {{workers: [NodeNotReady, PodsPending], control-plane: [ApiDown]}}\n",
            alertmanager.address()
        );
        std::fs::write(sinks.join("alerts.yaml"), text)?;
        let new_process = || -> anyhow::Result<Silencer> {
            Silencer::of(&Sinks::read(&sinks)?).context("no Alertmanager among the sinks")
        };
        let labels = |alert: &str, cluster: &str| json!({"labels": {"alertname": alert, "cluster": cluster}});
        let alerts = json!([
            labels("NodeNotReady", "prod"),
            labels("NodeNotReady", "test"),
            labels("DiskFull", "prod"),
            labels("ApiDown", "prod"),
        ]);
        alertmanager.post("alerts", &alerts).await?;
        // Somebody else's stays as it is.
        let now = Timestamp::now();
        let foreign = json!({
            "matchers": [{"name": "cluster", "value": "prod", "isRegex": false, "isEqual": true},
                {"name": "alertname", "value": "DiskSlow", "isRegex": false, "isEqual": true}],
            "startsAt": now.to_string(), "endsAt": (now + SignedDuration::from_hours(1)).to_string(),
            "createdBy": "alice", "comment": "mine",
        });
        alertmanager.post("silences", &foreign).await?;

        let rolled = |stage: Option<&str>| -> anyhow::Result<BTreeMap<_, _>> {
            let stage = stage.map(str::parse).transpose()?;
            Ok(BTreeMap::from([("prod".parse()?, stage), ("test".parse()?, None)]))
        };
        let workers = rolled(Some("workers/md-0"))?;
        ensure!(new_process()?.hold(&workers, now).await);
        let first = living(&alertmanager).await?;
        ensure!(first.len() == 2 && first.iter().all(|(_, cluster, _)| cluster == "prod"), "{first:?}");
        let seen = tests::waiting::until("the alert is silenced", async || {
            let seen = silenced(&alertmanager).await?;
            Ok((!seen.is_empty()).then_some(seen))
        });
        let seen = seen.await?;
        ensure!(seen == ["NodeNotReady prod"], "{seen:?}");

        // Another process finds it, and lets it last longer when it would end soon.
        ensure!(new_process()?.hold(&workers, now + SignedDuration::from_mins(1)).await);
        ensure!(living(&alertmanager).await? == first, "it was renewed early, or made twice");
        ensure!(new_process()?.hold(&workers, now + SignedDuration::from_mins(5)).await);
        let renewed = living(&alertmanager).await?;
        ensure!(renewed.len() == 2, "{renewed:?}");
        let end = |silences: &[(String, String, Timestamp)]| silences.iter().map(|(_, _, end)| *end).min();
        ensure!(end(&renewed) > end(&first), "{first:?}, {renewed:?}");
        let ids = |silences: &[(String, String, Timestamp)]| {
            silences.iter().map(|(id, _, _)| id.clone()).collect::<std::collections::BTreeSet<_>>()
        };
        ensure!(ids(&renewed) == ids(&first), "{first:?}, {renewed:?}");

        // The next stage has alerts of its own; one without any silences nothing.
        ensure!(new_process()?.hold(&rolled(Some("control-plane"))?, now).await);
        ensure!(living(&alertmanager).await?.len() == 2 && ids(&living(&alertmanager).await?) != ids(&first));
        ensure!(new_process()?.hold(&rolled(None)?, now).await);
        let left = living(&alertmanager).await?;
        ensure!(left.len() == 1, "only somebody else's is left: {left:?}");
        folder.done();
        Ok(())
    });
}
