//! The dashboard by the word of a real API server: it knows people by their tokens, and says what each may do. A cluster that is held there
//! is held in real Flux.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use tests::servers::manifests::{apply, kind_in};
use tests::servers::{FLUX_NAMESPACE, Flux, isolated, service_account_token_for};

use super::machines::{self, CLUSTER, FILE};
use super::scene::{POLICY, Scene};

const ADDRESS: &str = "127.0.0.1:8090";
const SYSTEM: &str = "stepgate-system";
const KUSTOMIZATION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");

/// The Kustomization that is paused.
const NAME: &str = "machines-cluster";

/// Accounts by what each may do to Rollouts in Stepgate's own namespace.
fn accounts() -> Vec<Value> {
    let group = "rbac.authorization.k8s.io";
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})];
    for (name, rules) in [
        ("somebody", json!([])),
        ("viewer", json!([{"verbs": ["view"]}])),
        ("operator", json!([{"verbs": ["view", "hold", "resume"]}])),
        ("neighbour", json!([{"verbs": ["view"]}, {"verbs": ["hold"], "resourceNames": ["another"]}])),
    ] {
        let mut rules = rules;
        for rule in rules.as_array_mut().into_iter().flatten() {
            rule["apiGroups"] = json!(["stepgate.dev"]);
            rule["resources"] = json!(["rollouts"]);
        }
        let metadata = json!({"name": name, "namespace": SYSTEM});
        objects.extend([
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}),
            json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}),
            json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]}),
        ]);
    }
    objects
}

/// Status and text of a page for whoever shows this token.
async fn get(path: &str, token: Option<&str>) -> anyhow::Result<(u16, String)> {
    let request = reqwest::Client::new().get(format!("http://{ADDRESS}{path}"));
    let request = token.into_iter().fold(request, |request, token| request.bearer_auth(token));
    let answer = request.send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// The same of an action on the cluster, about the plan that it has.
async fn act(verb: &str, token: &str, more: &str) -> anyhow::Result<(u16, String)> {
    let (_, offers) = get(&format!("/clusters/{CLUSTER}/actions.json"), Some(token)).await?;
    let offers: Value = serde_json::from_str(&offers).context(offers)?;
    let hold = offers["offers"].as_array().and_then(|all| all.iter().find(|offer| offer["verb"] == "hold"));
    let plan = hold.and_then(|hold| hold["offered"]["plan"].as_str()).context("no plan")?;
    let request = reqwest::Client::new().post(format!("http://{ADDRESS}/clusters/{CLUSTER}/actions/{verb}"));
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let answer = request.bearer_auth(token).body(format!("plan={plan}{more}")).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// `spec.suspend`, and the lease.
async fn state(scene: &Scene) -> anyhow::Result<(bool, Option<Value>)> {
    let object = kind_in(&scene.client, KUSTOMIZATION, FLUX_NAMESPACE).await?.get(NAME).await?;
    let lease = object.metadata.annotations.unwrap_or_default().remove("stepgate.dev/pause");
    let lease = lease.map(|text| serde_json::from_str(&text)).transpose()?;
    Ok((object.data.pointer("/spec/suspend") == Some(&json!(true)), lease))
}

#[test]
fn people_do_on_the_dashboard_what_the_cluster_lets_each_of_them_do() {
    let name = "acted::people_do_on_the_dashboard_what_the_cluster_lets_each_of_them_do";
    let needed: Vec<&str> =
        ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter().chain(Flux::NEEDED).collect();
    isolated(name, &needed, async |programs| {
        let mut scene = Scene::start(&programs).await?;
        let files = [("stepgate.yaml", POLICY), (FILE, &machines::cluster("v1.34.0"))];
        scene.repository.push("Describe the fleet", &files)?;
        scene.adopt()?;
        scene.connect_flux().await?;
        apply(&scene.client, &accounts()).await?;
        let there = async || Ok(state(&scene).await.is_ok().then_some(()));
        scene.until("Flux has made the Kustomization", there).await?;
        for (variable, value) in [
            ("STEPGATE_MANAGEMENT_CLUSTER", "management"),
            ("STEPGATE_WEB_LISTEN", ADDRESS),
            ("STEPGATE_WEB_AUTHENTICATION", "kubernetes"),
        ] {
            scene.environment.insert(variable, value.into());
        }
        let mut controller = scene.controller()?;
        controller.wait_until(async || get("/login", None).await.is_ok_and(|(status, _)| status == 200)).await?;

        let token = async |name: &str| service_account_token_for(&scene.server, "default", name, "stepgate").await;
        let (viewer, operator) = (token("viewer").await?, token("operator").await?);
        let for_another = "https://kubernetes.default.svc";
        let of_cluster = service_account_token_for(&scene.server, "default", "operator", for_another).await?;
        let (somebody, forged) = (token("somebody").await?, format!("{operator}x"));
        let shown = async || Ok((get("/fleet.json", Some(&viewer)).await?.0 == 200).then_some(()));
        scene.until("the fleet is shown", shown).await?;
        for (token, expected) in [
            (None, 401),
            (Some("nonsense"), 401),
            (Some(forged.as_str()), 401),
            (Some(of_cluster.as_str()), 401),
            (Some(somebody.as_str()), 403),
            (Some(viewer.as_str()), 200),
            (Some(operator.as_str()), 200),
        ] {
            let (status, text) = get("/fleet.json", token).await?;
            ensure!(status == expected, "{expected} expected, {status} answered: {text}");
        }

        // Each does what its role names, to the clusters that it names.
        let why = "&reason=the+auditors+are+in+the+house&lasts=10m";
        for account in [&viewer, &token("neighbour").await?] {
            let (status, text) = act("hold", account, why).await?;
            ensure!(status == 403 && text.contains("may not hold"), "{status}: {text}");
        }
        let (status, text) = act("rollback", &operator, "").await?;
        ensure!(status == 403, "{status}: {text}");
        assert_eq!(state(&scene).await?, (false, None));
        let (status, text) = act("hold", &operator, why).await?;
        ensure!(status == 200 && text.contains("held until"), "{status}: {text}");
        let (suspended, lease) = state(&scene).await?;
        let lease = lease.context("no lease")?;
        assert_eq!((suspended, &lease["reason"]), (true, &json!("the auditors are in the house")));
        assert_eq!(lease["owner"], "system:serviceaccount:default:operator");
        let (status, text) = act("resume", &operator, "").await?;
        ensure!(status == 200 && text.contains("goes on"), "{status}: {text}");
        assert_eq!(state(&scene).await?, (false, None));

        // What was done is on record.
        let events = Api::<Event>::namespaced(scene.client.clone(), SYSTEM);
        let told = async || {
            let events = events.list(&ListParams::default()).await?;
            let actions = events.items.into_iter().filter(|event| event.reason.as_deref() == Some("WebAction"));
            let told: Vec<String> = actions.filter_map(|event| event.message).collect();
            let has = |verb: &str| told.iter().any(|line| line.contains("default:operator") && line.contains(verb));
            Ok((has("hold: ") && has("resume: ")).then_some(()))
        };
        scene.until("the actions are told as events", told).await?;
        let log = std::fs::read_to_string(scene.file("stepgate.log"))?;
        ensure!(log.contains("WebAction") && !log.contains(&operator), "the log tells the actions, and no token");
        scene.folder.done();
        Ok(())
    });
}
