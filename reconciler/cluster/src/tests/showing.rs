//! What is shown in the management cluster, and whose tokens it knows.

use domain::ClusterName;
use fake_api_server::ServedKind;
use secrecy::SecretString;

use super::*;
use crate::client::review::review;
use crate::client::server::Answer;
use crate::kubernetes::{Permit, Projection, RequestError, RolloutView};

const ROLLOUTS: &str = "/apis/stepgate.dev/v1alpha1/namespaces/stepgate-system/rollouts";

/// A server with the definition of Rollout.
fn defined() -> Script {
    Script::default()
        .serves(&[("stepgate.dev/v1alpha1", &[("rollouts", "Rollout", true)])])
        .keeps(ServedKind::custom("stepgate.dev/v1alpha1", "Rollout", "rollouts"))
        .keeps(ServedKind::built_in("v1", "Event", "events"))
}

fn view(state: &'static str) -> RolloutView {
    let cluster = "prod".parse::<ClusterName>().unwrap().to_string();
    RolloutView {
        cluster,
        state,
        stage: None,
        message: "a".to_owned(),
        help: None,
        commit: None,
        kept: Vec::new(),
        tanzu: None,
    }
}

#[tokio::test]
async fn a_definition_that_comes_later_is_noticed_within_a_minute() {
    let server = ApiServer::start(Script::default()).await;
    let mut projection = Projection::new(server.connection(), "stepgate-system");
    let start: jiff::Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    projection.show(&[view("done")], start).await.unwrap();
    server.answer(defined());
    projection.show(&[view("done")], start + jiff::SignedDuration::from_secs(40)).await.unwrap();
    assert!(server.lines().contains(&format!("PATCH {ROLLOUTS}/prod/status")), "{:?}", server.lines());
}

#[tokio::test]
async fn an_event_that_another_process_told_is_told() {
    // Each has read before another one wrote.
    let server = ApiServer::start(defined().list(ROLLOUTS, &[])).await;
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    let show = async |state| {
        Projection::new(server.connection(), "stepgate-system").show(&[view(state)], now).await.unwrap();
    };
    // Two processes tell the same, and one of them something else of the same version.
    show("done").await;
    show("done").await;
    show("held").await;
    let asked = server.asked();
    let events = asked.iter().filter(|asked| asked.path.ends_with("/events"));
    let names: Vec<&str> = events.map(|event| event.body["metadata"]["name"].as_str().unwrap()).collect();
    assert!(names[0] == names[1] && names[1] != names[2] && names[0].starts_with("prod."), "{names:?}");
}

#[tokio::test]
async fn a_machine_that_is_kept_is_told_once_with_the_command() {
    let server = ApiServer::start(defined()).await;
    let mut projection = Projection::new(server.connection(), "stepgate-system");
    let start: jiff::Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let line = "Machine fleet/old: kubectl annotate machines.cluster.x-k8s.io old -n fleet a-".to_owned();
    let kept = RolloutView { kept: vec![line.clone()], ..view("waiting") };
    for second in 0..3 {
        projection.show(std::slice::from_ref(&kept), start + jiff::SignedDuration::from_secs(second)).await.unwrap();
    }
    // Another process, in which nothing else is new.
    Projection::new(server.connection(), "stepgate-system").show(&[kept], start).await.unwrap();
    let asked = server.asked();
    let events = asked.iter().filter(|asked| asked.path.ends_with("/events") && asked.body["reason"] == "MachineKept");
    let told: Vec<_> = events.map(|event| (&event.body["metadata"]["name"], &event.body["message"])).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0] == told[1] && *told[0].1 == json!(line), "{told:?}");
}

#[tokio::test]
async fn tokens_are_permitted_as_the_server_says() {
    let known = |user: Value| Answer::Json(json!({"status": {"authenticated": true, "user": user}}));
    let allowed = |allowed: bool| Answer::Json(json!({"status": {"allowed": allowed}}));
    let prometheus = json!({"username": "system:serviceaccount:monitoring:prometheus", "groups": ["g"], "uid": "u", "extra": {"k": ["v"]}});
    let reviews = "POST /apis/authentication.k8s.io/v1/tokenreviews";
    let accesses = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";
    for (answer, access, expected) in [
        (known(prometheus.clone()), allowed(true), Permit::Granted),
        (known(prometheus.clone()), allowed(false), Permit::Denied),
        (known(json!({})), allowed(true), Permit::Unknown),
        (Answer::Json(json!({"status": {"error": "expired"}})), allowed(true), Permit::Unknown),
        (
            Answer::Json(json!({"status": {"authenticated": "true", "user": prometheus}})),
            allowed(true),
            Permit::Unknown,
        ),
        (known(prometheus.clone()), Answer::Json(json!({"status": {"allowed": true, "denied": true}})), Permit::Denied),
    ] {
        let server = ApiServer::start(Script::default().on(reviews, answer).on(accesses, access)).await;
        let token = SecretString::from("CANARY");
        assert_eq!(review(&server.connection(), &token, "/metrics").await.unwrap(), expected);
        let asked = server.asked();
        assert_eq!(asked[0].body["spec"], json!({"token": "CANARY"}));
        if let Some(access) = asked.get(1) {
            let wanted = json!({"user": prometheus["username"], "groups": ["g"], "uid": "u", "extra": {"k": ["v"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
            assert_eq!(access.body["spec"], wanted);
        }
    }
    let server =
        ApiServer::start(Script::default().on(reviews, Answer::Error(403, "may not create tokenreviews"))).await;
    let error = review(&server.connection(), &SecretString::from("CANARY"), "/metrics").await.unwrap_err();
    assert!(matches!(error, RequestError::Forbidden { .. }) && !format!("{error:?}").contains("CANARY"), "{error:?}");
}
