//! What people hear of rollouts: in order, each thing once, whatever dies in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use serde_json::Value;
use stepgate::reconcile::{Controller, ReconcileReport};
use stepgate_notify::{Notifier, Sinks};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::fleet::{CLUSTERS, Fleet, is_done};

/// How often everything is killed.
const KILLS: u32 = 30;

/// A route that tells everything.
const ANNOUNCE: &str = "\nannounce:\n  routes:\n  - to: hook\n    stages:\n";

fn announcing(policy: String) -> String {
    let stages = ["bundle", "cert-manager", "capi", "eks-a", "cilium-preflight", "cilium", "flux", "control-plane"];
    let all = "[upcoming, started, done, rolled-back]";
    let told = |stage: &str| format!("      {stage}: {all}\n");
    let stages: String = stages.into_iter().chain(["etcd", "workers", "verify"]).map(told).collect();
    policy + ANNOUNCE + &stages
}

/// Where people listen: a webhook on this machine, and what came there.
struct Listener {
    runtime: Runtime,
    folder: TempDir,
    arrived: Arc<Mutex<Vec<Value>>>,
}

impl Listener {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let arrived: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&arrived);
        let router = Router::new().fallback(async move |headers: HeaderMap, body: Bytes| {
            let event: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(headers["idempotency-key"], event["id"].as_str().unwrap());
            kept.lock().unwrap().push(event);
        });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await });
        let folder = tempfile::tempdir().unwrap();
        let hook = format!("kind: webhook\naddress: http://{address}/\nsecretFile: secret\n");
        std::fs::write(folder.path().join("hook.yaml"), hook).unwrap();
        std::fs::write(folder.path().join("secret"), "hush").unwrap();
        Self { runtime, folder, arrived }
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("announcements.json")
    }

    /// What a process begins with.
    fn notifier(&self) -> Notifier {
        let sinks = Sinks::read(self.folder.path()).unwrap();
        let _entered = self.runtime.enter();
        Notifier::open(sinks, &self.journal(), Arc::new(|_: &str, _| ())).unwrap()
    }

    /// Tells everything there is to tell.
    fn tell(&self, fleet: &Fleet, controller: &Controller, pass: &ReconcileReport, notifier: &mut Notifier) {
        note(fleet, controller, pass, notifier);
        self.runtime.block_on(async {
            while notifier.queued() > 0 {
                notifier.deliver().await;
            }
        });
    }

    /// What came, each thing once, in the order in which it came first; fails where the same name had other content.
    fn heard(&self, cluster: &str) -> Vec<String> {
        let arrived = self.arrived.lock().unwrap();
        let (mut order, mut known) = (Vec::new(), BTreeMap::new());
        for event in arrived.iter() {
            let name = event["id"].as_str().unwrap().to_owned();
            let Some(rest) = name.strip_prefix(&format!("{cluster}/")) else { continue };
            match known.insert(name.clone(), event.clone()) {
                None => order.push(rest.split_once('/').unwrap().1.to_owned()),
                Some(before) => assert_eq!(before, *event, "{name} was told twice, and not the same"),
            }
        }
        order
    }
}

pub fn note(fleet: &Fleet, controller: &Controller, pass: &ReconcileReport, notifier: &mut Notifier) {
    let announcer = controller.announcer().unwrap();
    let happened = announcer.happened(notifier.head(), pass).unwrap();
    notifier.note(happened, fleet.clock_now());
}

/// What is to be heard of a rollout by its commits: begun, each stage begun and passed, done.
fn expected(fleet: &Fleet, cluster: &str) -> Vec<String> {
    let stages = fleet.stages(cluster);
    let mut heard = vec!["rollout/started/1".to_owned()];
    let (_, stages) = stages.split_last().unwrap();
    heard.extend(stages.iter().flat_map(|stage| [format!("{stage}/started/1"), format!("{stage}/done/1")]));
    heard.push("rollout/done/1".to_owned());
    heard
}

fn without_upcoming(heard: Vec<String>) -> Vec<String> {
    heard.into_iter().filter(|name| !name.contains("/upcoming/")).collect()
}

#[test]
fn a_rollout_is_announced_stage_by_stage_in_order() {
    let (fleet, listener) = (Fleet::with_policy(announcing), Listener::start());
    let (controller, mut notifier) = (fleet.controller(), listener.notifier());
    listener.tell(&fleet, &controller, &fleet.pass(&controller), &mut notifier);
    assert!(listener.arrived.lock().unwrap().is_empty(), "nothing had happened");
    fleet.bump();
    loop {
        let pass = fleet.pass(&controller);
        listener.tell(&fleet, &controller, &pass, &mut notifier);
        if is_done(&pass) {
            break;
        }
        fleet.wait(Some(&pass));
    }
    for cluster in CLUSTERS {
        let heard = listener.heard(cluster);
        assert_eq!(heard[0], "rollout/upcoming/1", "{cluster}");
        assert_eq!(without_upcoming(heard), expected(&fleet, cluster), "{cluster}");
    }
    let arrived = listener.arrived.lock().unwrap().clone();
    let upcoming = arrived.iter().find(|event| event["type"] == "dev.stepgate.rollout.upcoming").unwrap();
    assert!(upcoming["data"]["text"].as_str().unwrap().contains("felt: pods in worker group"), "{upcoming}");
    assert_eq!(arrived.len(), CLUSTERS.iter().map(|cluster| listener.heard(cluster).len()).sum::<usize>());
}

#[test]
fn nothing_is_lost_or_told_otherwise_when_everything_is_killed_at_random() {
    let seed = std::env::var("STEPGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("STEPGATE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (fleet, listener) = (Fleet::with_policy(announcing), Listener::start());
    let (mut controller, mut notifier) = (fleet.controller(), listener.notifier());
    note(&fleet, &controller, &fleet.pass(&controller), &mut notifier);
    fleet.bump();
    let mut kills = 0;
    loop {
        let pass = fleet.pass(&controller);
        let is_killed = kills < KILLS && random.u8(..3) == 0;
        if is_killed {
            kills += 1;
            // Before anything is read, after it is written down, or while it is told.
            if random.bool() {
                note(&fleet, &controller, &pass, &mut notifier);
                let some = Duration::from_micros(random.u64(..3000));
                let telling = async { tokio::time::timeout(some, notifier.deliver()).await };
                let _ = listener.runtime.block_on(telling);
            }
            // A request under way ends within the runtime that it was begun in.
            let _entered = listener.runtime.enter();
            (controller, notifier) = (fleet.controller(), listener.notifier());
        } else {
            listener.tell(&fleet, &controller, &pass, &mut notifier);
        }
        if is_done(&pass) && !is_killed {
            break;
        }
        fleet.wait(Some(&pass));
    }
    assert!(kills > 5, "the rollout was over after {kills} kills");
    for cluster in CLUSTERS {
        let heard = without_upcoming(listener.heard(cluster));
        assert_eq!(heard, expected(&fleet, cluster), "{cluster}");
    }
    assert_is_bounded(&listener.journal());
}

fn assert_is_bounded(journal: &Path) {
    let bytes = std::fs::metadata(journal).unwrap().len();
    assert!(bytes < 64 << 10, "{bytes} bytes for three clusters");
}
