//! Announcements of a rollout that is killed thirty times, by a webhook, Flux and mail: nothing is lost, and nothing is told
//! twice but under the same name.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tests::servers::manifests::apply;
use tests::servers::{FLUX_NAMESPACE, Flux, MailServer, isolated};
use tests::waiting::{LONG_PATIENCE, until_within};

use super::alerts::{alert, listen};
use super::killing::{KILLS, kill_at_random};
use super::machines::{self, CLUSTER, FILE};
use super::scene::{POLICY, Scene};

const OLD: &str = "v1.34.0";
const NEW: &str = "v1.35.0";

/// Each sink tells what the deploy branch shows.
pub const ROUTES: &str = "\
announce:
  routes:
  - {to: hook, rollout: [started, done], stages: {control-plane: [started, done], workers: [started, done]}}
  - {to: flux, rollout: [started, done], stages: {control-plane: [started, done], workers: [started, done]}}
  - {to: mail, rollout: [started, done], stages: {control-plane: [started, done], workers: [started, done]}}
";

/// What there is to hear.
const HEARD: [&str; 8] = [
    "rollout/started/1",
    "control-plane/started/1",
    "control-plane/done/1",
    "workers/blue/started/1",
    "workers/blue/done/1",
    "workers/green/started/1",
    "workers/green/done/1",
    "rollout/done/1",
];

/// A sink of each kind, in a folder: a hook, Flux and mail.
pub fn sinks(folder: &Path, hook: &str, events: &str, mail: &MailServer) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let (user, password) = MailServer::LOGIN;
    let login = format!("user: {user}\npasswordFile: password\ncaFile: {}\n", mail.authority().display());
    let people = "from: Stepgate <stepgate@example.com>\nto: [ops@example.com]\n";
    for (name, text) in [
        ("hook.yaml", format!("kind: webhook\naddress: {hook}\nsecretFile: secret\n")),
        ("flux.yaml", format!("kind: flux\naddress: {events}\n")),
        ("mail.yaml", format!("kind: mail\nserver: {}\n{people}{login}", mail.address())),
        ("secret", "hush".to_owned()),
        ("password", password.to_owned()),
    ] {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// The names of what came, in the order in which each came first, without cluster and rollout.
fn names<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for id in ids {
        let name = id.splitn(3, '/').nth(2).unwrap_or(id).to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What an event is known by.
pub fn id(event: &Value) -> &str {
    event["id"].as_str().unwrap_or_default()
}

#[test]
fn thirty_kills_lose_no_announcement_and_double_none() {
    let name = "announced::thirty_kills_lose_no_announcement_and_double_none";
    let needed: Vec<&str> = machines::needed().into_iter().chain([Flux::NOTIFICATION, MailServer::NEEDED]).collect();
    isolated(name, &needed, async |programs| {
        let mut scene = Scene::start(&programs).await?;
        let _notification = scene.flux.notification(&programs, &scene.server).await?;
        let mail = MailServer::start(&programs, &scene.file("mail"))?;
        let (hooked, hook) = listen().await?;
        let (alerted, address) = listen().await?;
        apply(&scene.client, &alert(&address, "Kustomization")).await?;
        sinks(&scene.file("sinks"), &hook, &scene.flux.events, &mail)?;
        scene.environment.insert("STEPGATE_SINKS", scene.file("sinks").into());
        scene.environment.insert("STEPGATE_ANNOUNCEMENTS", scene.file("announcements.json").into());
        let policy = format!("{POLICY}{ROUTES}");
        let _cluster_api = machines::create(&scene, &programs, OLD, &policy).await?;
        let mut controller = scene.controller()?;
        let watching = scene.file("announcements.json");
        scene.until("announcements have begun", async || Ok(watching.exists().then_some(()))).await?;
        scene.repository.push("Kubernetes 1.35", &[(FILE, &machines::cluster(NEW))])?;
        kill_at_random(&mut controller, KILLS).await?;
        scene.stages_are(CLUSTER, &machines::STAGES).await?;

        let all = async || {
            let heard = names(hooked.lock().unwrap().iter().map(id));
            Ok((heard.len() >= HEARD.len() && mail.messages()?.len() >= HEARD.len()).then_some(()))
        };
        until_within("everything is told", LONG_PATIENCE, all).await?;
        let hooked = hooked.lock().unwrap().clone();
        ensure!(names(hooked.iter().map(id)) == HEARD, "{hooked:#?}");
        let mut known: BTreeMap<&str, &Value> = BTreeMap::new();
        for event in &hooked {
            ensure!(known.insert(id(event), event).is_none_or(|before| before == event), "told otherwise: {event}");
        }

        // Flux drops what it has had before.
        let ours = async || {
            let alerted = alerted.lock().unwrap();
            let ours = alerted.iter().filter(|event| event["reportingController"] == "stepgate");
            let ours: Vec<Value> = ours.cloned().collect();
            Ok((ours.len() >= HEARD.len()).then_some(ours))
        };
        let ours = scene.until("Flux has told everything", ours).await?;
        let reasons: Vec<&str> = ours.iter().filter_map(|event| event["reason"].as_str()).collect();
        ensure!(ours.len() == HEARD.len(), "{reasons:?}");
        ensure!(reasons[0] == "RolloutStarted" && reasons[7] == "RolloutDone", "{reasons:?}");
        let about = json!({"kind": "Kustomization", "namespace": FLUX_NAMESPACE, "name": "machines-cluster"});
        for event in &ours {
            let object = &event["involvedObject"];
            for (field, value) in about.as_object().context("an object")? {
                ensure!(object[field] == *value, "{event}");
            }
            ensure!(event.pointer("/metadata/cluster") == Some(&json!(CLUSTER)), "{event}");
            let revision = event.pointer("/metadata/revision").and_then(Value::as_str).context("no revision")?;
            ensure!(revision.starts_with("deploy@sha1:"), "{revision}");
        }

        // Mail has a thread, and the same mail the same identifier.
        let messages = mail.messages()?;
        let header = |message: &str, name: &str| {
            let line = message.lines().find_map(|line| line.strip_prefix(name).map(str::trim).map(str::to_owned));
            line.with_context(|| format!("no {name} in {message}"))
        };
        let identifiers =
            messages.iter().map(|message| header(message, "Message-ID:")).collect::<anyhow::Result<Vec<_>>>()?;
        let different: std::collections::BTreeSet<&String> = identifiers.iter().collect();
        ensure!(different.len() == HEARD.len(), "{identifiers:?}");
        let threads =
            messages.iter().map(|message| header(message, "In-Reply-To:")).collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(threads.iter().all(|thread| *thread == threads[0]), "{threads:?}");
        ensure!(header(&messages[0], "Auto-Submitted:")? == "auto-generated");
        scene.folder.done();
        Ok(())
    });
}
