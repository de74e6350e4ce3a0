//! etcd on this node: a snapshot before anything is changed, and its lead before its member stops.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use semver::Version;
use serde_json::Value;

use crate::api::pods;
use crate::files::found_at;
use crate::host::static_pods::{self, StaticPod};
use crate::journal::Saved;
use crate::work::{Work, own_path};

const SNAPSHOT: &str = "stepgate-snapshot.db";

/// How long etcd may take to be ready again after a boot.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes one where etcd runs on this node, by the `etcdctl` of its own image.
///
/// # Errors
/// When there is none, or it fails.
pub fn snapshot(work: &mut Work<'_>) -> anyhow::Result<String> {
    let Some(etcd) = static_pods::read(work.root, "etcd")? else { return Ok("no etcd here".to_owned()) };
    if work.choices.trusts_kubeadm_for_etcd {
        return Ok("no snapshot of etcd, as asked".to_owned());
    }
    let folder = data_folder(&etcd);
    let inside = format!("{folder}/{SNAPSHOT}");
    let container = container(work)?;
    etcdctl(work, &container, &["snapshot", "save", &inside])
        .context("no snapshot of etcd (--etcd-backup=kubeadm relies on the copy that kubeadm makes)")?;
    let place = work.root.place(&inside)?;
    let Some(found) = found_at(&place)? else { bail!("etcdctl has written no {inside}") };
    let path = own_path("etcd-snapshot.db")?;
    work.files().put(path.as_str(), &place, found)?;
    work.disk.remove(&place)?;
    work.journal.etcd_snapshot = Some(Saved { path: path.clone(), before: found });
    work.save()?;
    Ok(format!("etcd saved to {path}"))
}

/// What becomes of etcd's lead before this node's member stops: another member leads, the newest first. A lead that stays
/// is said and stops nothing: the other members choose one of them then.
pub fn hand_over(work: &Work<'_>) -> String {
    match handed_over(work) {
        Ok(None) => String::new(),
        Ok(Some(endpoint)) => format!(", etcd is led by {endpoint} now"),
        Err(error) => format!(", etcd's lead stays where it is: {error:#}"),
    }
}

fn handed_over(work: &Work<'_>) -> anyhow::Result<Option<String>> {
    if static_pods::read(work.root, "etcd")?.is_none() || work.choices.trusts_kubeadm_for_etcd {
        return Ok(None);
    }
    let container = container(work)?;
    let own = etcdctl(work, &container, &["endpoint", "status", "--write-out=json"])?;
    let [own] = members(&own)?.try_into().map_err(|_| anyhow!("etcdctl told of several members, not of this one"))?;
    if own.id != own.leader {
        return Ok(None);
    }
    let all = etcdctl(work, &container, &["endpoint", "status", "--cluster", "--write-out=json"])?;
    let Some(next) = next_leader(&own, members(&all)?) else { return Ok(None) };
    etcdctl(work, &container, &["move-leader", &format!("{:x}", next.id)])?;
    Ok(Some(next.endpoint))
}

/// A member as `etcdctl endpoint status` tells of it.
#[derive(Debug, PartialEq, Eq)]
struct Member {
    endpoint: String,
    id: u64,
    leader: u64,
    version: Version,
    is_learner: bool,
}

fn members(text: &str) -> anyhow::Result<Vec<Member>> {
    let told: Vec<Value> = serde_json::from_str(text).context("etcdctl did not answer in JSON")?;
    let member = |told: &Value| {
        let id = |place: &str| told.pointer(place).and_then(Value::as_u64);
        let text = |place: &str| told.pointer(place).and_then(Value::as_str);
        Some(Member {
            endpoint: text("/Endpoint")?.to_owned(),
            id: id("/Status/header/member_id")?,
            leader: id("/Status/leader")?,
            version: text("/Status/version")?.parse().ok()?,
            is_learner: told.pointer("/Status/isLearner").and_then(Value::as_bool).unwrap_or_default(),
        })
    };
    told.iter().map(|told| member(told).context("etcdctl told of a member without id, leader or version")).collect()
}

/// The member that is to lead: one that was upgraded already, where there is one.
fn next_leader(own: &Member, members: Vec<Member>) -> Option<Member> {
    let others = members.into_iter().filter(|member| member.id != own.id && !member.is_learner);
    others.max_by(|one, other| (&one.version, other.id).cmp(&(&other.version, one.id)))
}

/// Runs etcd's own `etcdctl` in its container, with the certificate of its probe.
fn etcdctl(work: &Work<'_>, container: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let pki = "/etc/kubernetes/pki/etcd";
    let (ca, certificate) = (format!("--cacert={pki}/ca.crt"), format!("--cert={pki}/healthcheck-client.crt"));
    let key = format!("--key={pki}/healthcheck-client.key");
    // A name that is used once: an attempt that was killed may still hold the last one.
    let name = format!("stepgate-{}-{}", std::process::id(), arguments.len());
    let mut all = vec!["--namespace", "k8s.io", "tasks", "exec", "--exec-id", &name, container, "etcdctl"];
    all.extend(["--endpoints=https://127.0.0.1:2379", &ca, &certificate, &key]);
    all.extend(arguments);
    work.run("ctr", &all)
}

fn data_folder(etcd: &StaticPod) -> String {
    let volumes = etcd.manifest.pointer("/spec/volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    let data = volumes.iter().find(|volume| volume.get("name").and_then(Value::as_str) == Some("etcd-data"));
    let path = data.and_then(|volume| volume.pointer("/hostPath/path")).and_then(Value::as_str);
    path.unwrap_or("/var/lib/etcd").to_owned()
}

fn container(work: &Work<'_>) -> anyhow::Result<String> {
    let path = format!("/api/v1/namespaces/kube-system/pods/etcd-{}", work.journal.node);
    let patience = work.deadline.min(Instant::now() + PATIENCE);
    let pod = loop {
        let pod = work.api()?.get(&path, work.deadline)?.context("the API server knows no Pod of etcd here")?;
        if pods::is_ready(&pod) {
            break pod;
        }
        if Instant::now() > patience {
            bail!("etcd of this node is not ready: nothing is begun");
        }
        // After a boot its probe tells later than the API server answers.
        std::thread::sleep(Duration::from_secs(1));
    };
    let id = pod.pointer("/status/containerStatuses/0/containerID").and_then(Value::as_str).unwrap_or_default();
    id.rsplit('/').next().filter(|id| !id.is_empty()).map(str::to_owned).context("etcd of this node has no container")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(of: &[(&str, u64, &str, bool)], leader: u64) -> Vec<Member> {
        let status = |(endpoint, id, version, learner): &(&str, u64, &str, bool)| {
            let mut status = json!({"header": {"cluster_id": 5_320_035_863_017_008_189_u64, "member_id": id, "revision": 1,
                "raft_term": 2}, "version": version, "leader": leader, "raftIndex": 8});
            if *learner {
                status["isLearner"] = json!(true);
            }
            json!({"Endpoint": endpoint, "Status": status})
        };
        members(&Value::Array(of.iter().map(status).collect()).to_string()).unwrap()
    }

    #[test]
    fn lead_goes_to_a_voter_that_was_upgraded_already() {
        let (a, b, c, d) = (12_248_902_185_641_307_362, 11_807_953_553_833_480_120, 12_196_433_759_671_514_744, 7);
        let all =
            [("a", a, "3.6.6", false), ("b", b, "3.6.6", false), ("c", c, "3.6.8", false), ("d", d, "3.7.0", true)];
        let next = |of: &[(&str, u64, &str, bool)]| {
            let mut members = told(of, a);
            let own = members.remove(0);
            next_leader(&own, members).map(|member| member.endpoint)
        };
        assert_eq!(next(&all).as_deref(), Some("c"));
        assert_eq!(next(&all[..2]).as_deref(), Some("b"));
        assert_eq!(next(&all[..1]), None);
        members("no etcd").unwrap_err();
        members("[{\"Endpoint\": \"a\"}]").unwrap_err();
    }
}
