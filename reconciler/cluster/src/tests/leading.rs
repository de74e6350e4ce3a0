//! Who may have lost the lead writes nothing.

use std::time::Duration;

use tokio::time::Instant;

use super::acting::{MANIFESTS, apply_request, applying};
use super::*;
use crate::client::server::Answer;
use crate::kubernetes::{Holder, Leadership, Lease};
use crate::{ApplyReport, ClusterError};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases/stepgate";
const DURATION: Duration = Duration::from_secs(1000);

/// A Lease that this process holds and renews.
fn held() -> (Script, Value) {
    let lease = json!({"metadata": {"name": "stepgate", "resourceVersion": "1"}, "spec": {"holderIdentity": "us"}});
    (Script::default().object(LEASE, lease.clone()).on(&format!("PATCH {LEASE}"), Answer::Echo), lease)
}

async fn apply(server: &ApiServer, fence: Leadership, dry_run: bool) -> Result<ApplyReport, ClusterError> {
    let cluster = KubernetesCluster::management(server.connection().fenced(Some(fence)), PathBuf::new());
    cluster.apply(&apply_request(MANIFESTS, dry_run), "2026-03-01T12:00:00Z".parse().unwrap()).await
}

fn written(server: &ApiServer) -> usize {
    let is_write = |asked: &&crate::client::server::Asked| asked.method != "GET" && !asked.query.contains("dryRun=All");
    server.asked().iter().filter(is_write).count()
}

#[tokio::test]
async fn only_the_process_that_leads_applies_anything() {
    let server = ApiServer::start(applying()).await;
    let (never, expired, ended) = (Leadership::default(), Leadership::default(), Leadership::default());
    expired.grant(Instant::now());
    ended.grant(Instant::now() + DURATION);
    ended.end();
    for fence in [never, expired, ended] {
        let error = apply(&server, fence.clone(), false).await.unwrap_err().to_string();
        assert!(error.contains("does not lead, or no longer, and writes nothing"), "{error}");
        assert_eq!(written(&server), 0);
    }
    // What keeps nothing may be asked by anybody.
    apply(&server, Leadership::default(), true).await.unwrap();
    assert_eq!(written(&server), 0);
    let leads = Leadership::default();
    leads.grant(Instant::now() + DURATION);
    apply(&server, leads, false).await.unwrap();
    assert!(written(&server) > 4);
}

#[tokio::test]
async fn the_lead_is_dated_from_before_it_was_asked_for_and_ends_before_others_may_take_it() {
    let (script, lease) = held();
    let late = Duration::from_millis(300);
    let server = ApiServer::start(script.on(&format!("GET {LEASE}"), Answer::Late(late, lease))).await;
    let lease = Lease::new(server.connection(), "n", "stepgate", "us", DURATION);
    assert_eq!(lease.leadership().until(), None);
    assert_eq!(lease.hold("2026-03-01T12:00:00Z".parse().unwrap()).await.unwrap(), Holder::Us);
    let latest = Instant::now() - late + DURATION - DURATION / 5;
    assert!(lease.leadership().until().unwrap() <= latest);
}

#[tokio::test]
async fn the_lead_ends_when_another_holds_the_lease_and_when_it_is_let_go() {
    let (script, _) = held();
    let server = ApiServer::start(script.clone()).await;
    let lease = Lease::new(server.connection(), "n", "stepgate", "us", DURATION);
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    lease.hold(now).await.unwrap();
    // A refused renewal leaves what was granted before.
    let until = lease.leadership().until();
    server.answer(Script::default().on(&format!("GET {LEASE}"), Answer::Error(503, "not ready")));
    assert!(lease.hold(now).await.is_err() && until.is_some() && lease.leadership().until() == until);
    let other = json!({"metadata": {"name": "stepgate", "resourceVersion": "2"}, "spec": {"holderIdentity": "other"}});
    server.answer(Script::default().object(LEASE, other));
    assert_eq!(lease.hold(now).await.unwrap(), Holder::Other(String::from("other")));
    assert_eq!(lease.leadership().until(), None);
    server.answer(script);
    lease.hold(now).await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(lease.leadership().until(), None);
}
