//! Who may have lost the lead writes nothing.

use std::time::Duration;

use fake_api_server::ServedKind;
use tokio::time::Instant;

use super::acting::{MANIFESTS, apply_request, applying};
use super::*;
use crate::client::server::Answer;
use crate::kubernetes::{Holder, Leadership, Lease};
use crate::{ApplyReport, ClusterError};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases/stepgate";
const DURATION: Duration = Duration::from_secs(1000);

/// A Lease that somebody holds.
fn held(by: &str) -> Script {
    let lease = ServedKind::built_in("coordination.k8s.io/v1", "Lease", "leases");
    Script::default().keeps(lease).holds(LEASE, json!({"spec": {"holderIdentity": by}}))
}

async fn apply(server: &ApiServer, fence: Leadership) -> Result<ApplyReport, ClusterError> {
    let cluster = KubernetesCluster::management(server.connection().fenced(Some(fence)), PathBuf::new());
    cluster.apply(&apply_request(MANIFESTS), "2026-03-01T12:00:00Z".parse().unwrap()).await
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
        let error = apply(&server, fence.clone()).await.unwrap_err().to_string();
        assert!(error.contains("does not lead, or no longer, and writes nothing"), "{error}");
        assert_eq!(written(&server), 0);
    }
    // What keeps nothing may be asked by anybody.
    assert!(server.asked().iter().any(|asked| asked.method == "PATCH"));
    let leads = Leadership::default();
    leads.grant(Instant::now() + DURATION);
    apply(&server, leads).await.unwrap();
    assert!(written(&server) > 4);
}

#[tokio::test]
async fn the_lead_is_dated_from_before_it_was_asked_for_and_ends_before_others_may_take_it() {
    let late = Duration::from_millis(300);
    let lease = json!({"metadata": {"name": "stepgate"}, "spec": {"holderIdentity": "us"}});
    let server = ApiServer::start(held("us").on(&format!("GET {LEASE}"), Answer::Late(late, lease))).await;
    let lease = Lease::new(server.connection(), "n", "stepgate", "us", DURATION);
    assert_eq!(lease.leadership().until(), None);
    assert_eq!(lease.hold("2026-03-01T12:00:00Z".parse().unwrap()).await.unwrap(), Holder::Us);
    let latest = Instant::now() - late + DURATION - DURATION / 5;
    assert!(lease.leadership().until().unwrap() <= latest);
}

#[tokio::test]
async fn the_lead_ends_when_another_holds_the_lease_and_when_it_is_let_go() {
    let server = ApiServer::start(held("us")).await;
    let lease = Lease::new(server.connection(), "n", "stepgate", "us", DURATION);
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    lease.hold(now).await.unwrap();
    // A refused renewal leaves what was granted before.
    let until = lease.leadership().until();
    server.answer(Script::default().on(&format!("GET {LEASE}"), Answer::Error(503, "not ready")));
    assert!(lease.hold(now).await.is_err() && until.is_some() && lease.leadership().until() == until);
    server.answer(held("other"));
    assert_eq!(lease.hold(now).await.unwrap(), Holder::Other(String::from("other")));
    assert_eq!(lease.leadership().until(), None);
    server.answer(held("us"));
    lease.hold(now).await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(lease.leadership().until(), None);
}

#[tokio::test]
async fn of_many_processes_that_ask_at_once_one_leads_and_who_lets_go_is_followed_at_once() {
    let server = ApiServer::start(held("")).await;
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    let lease = |name: usize| Lease::new(server.connection(), "n", "stepgate", &format!("process-{name}"), DURATION);
    let leases: Vec<Lease> = (0..8).map(lease).collect();
    for _ in 0..40 {
        let holders = futures::future::join_all(leases.iter().map(|lease| lease.hold(now))).await;
        let leading: Vec<usize> = (0..8).filter(|&name| leases[name].leadership().until().is_some()).collect();
        let [leader] = leading.as_slice() else { panic!("{leading:?} lead, of {holders:?}") };
        assert!(
            holders
                .iter()
                .enumerate()
                .all(|(name, holder)| (*holder.as_ref().unwrap() == Holder::Us) == (name == *leader))
        );
        leases[*leader].release().await.unwrap();
    }
}
