//! Whether the node is healthy at a version: read off its files, its processes and the API server, never believed.

use std::time::{Duration, Instant};

use anyhow::bail;
use jiff::Timestamp;
use serde_json::Value;

use crate::api::node_object;
use crate::api::pods;
use crate::files::digest::Digest;
use crate::files::root::Root;
use crate::host::services::{Service, boot_id, digest_of_process, service};
use crate::host::static_pods::{self, CONTROL_PLANE, StaticPod};
use crate::version::KubernetesVersion;
use crate::work::Work;

/// What has to be true.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Of the kubelet that runs and registers.
    pub version: KubernetesVersion,
    /// Of kubelet's program; none when the upgrade does not replace it.
    pub kubelet: Option<Digest>,
    /// Images of static Pods, by name: as kubeadm has written or as they were before.
    pub images: Vec<(String, WantedImage)>,
}

/// What a static Pod is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedImage {
    /// One of this tag.
    Tag(String),
    /// This one.
    Exactly(String),
    /// Whatever its manifest says.
    OfManifest,
}

/// Waits until everything is true, and stays so.
///
/// # Errors
/// All that is not true when the time is over.
pub fn prove(work: &Work<'_>, wanted: &Wanted) -> anyhow::Result<String> {
    let mut since: Option<(Instant, String)> = None;
    loop {
        // A look that the end of the time cuts short would only say that.
        let problems = match look(work, wanted)? {
            Ok(identity) => match &since {
                Some((start, same)) if *same == identity => {
                    if start.elapsed() >= work.choices.soak {
                        let soak = work.choices.soak.as_secs();
                        return Ok(format!("kubelet {} Ready, for {soak} s without a restart", wanted.version));
                    }
                    Vec::new()
                }
                _ => {
                    since = Some((Instant::now(), identity));
                    Vec::new()
                }
            },
            Err(problems) => {
                since = None;
                problems
            }
        };
        if work.time_left() <= 2 * BETWEEN_LOOKS {
            if problems.is_empty() {
                bail!("the node did not stay the same for {} s: something restarts", work.choices.soak.as_secs());
            }
            bail!("the node is not proven healthy at {}: {}", wanted.version, problems.join("; "));
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// The pause between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// One look: what must not change while everything holds, or all that is not true.
///
/// # Errors
/// When something cannot be read at all.
pub fn look(work: &Work<'_>, wanted: &Wanted) -> anyhow::Result<Result<String, Vec<String>>> {
    let api = work.api()?;
    let mut problems = Vec::new();
    let mut identity = Vec::new();
    let kubelet = service(work, "kubelet")?;
    problems.extend(why_kubelet_is_not(work.root, &kubelet, wanted.kubelet));
    identity.push(format!("{kubelet:?}"));
    let node = node_object::read(api, &work.journal.node, work.deadline)?;
    let boot = boot_id(work.root)?;
    problems.extend(why_node_is_not(&node, wanted, &boot, kubelet_start(work.root, &kubelet)));
    let pods = api.list(&pods::path_of_node(&work.journal.node), work.deadline)?;
    let mut tasks = None;
    for (name, image) in &wanted.images {
        let Some(manifest) = static_pods::read(work.root, name)? else {
            problems.push(format!("{} is missing", static_pods::path(name)));
            continue;
        };
        problems.extend(why_manifest_is_not(&manifest, image));
        if tasks.is_none() {
            tasks = Some(work.run("ctr", &["--namespace", "k8s.io", "tasks", "list"])?);
        }
        let pod = pods.iter().find(|pod| is_mirror_of(pod, name, &work.journal.node));
        match container(pod, &manifest, digest_of(work, &manifest.image), tasks.as_deref().unwrap_or_default()) {
            Ok(container) => identity.push(container),
            Err(problem) => problems.push(problem),
        }
    }
    let ready = pods::ready_daemon_sets(&pods);
    for name in work.journal.daemon_sets.iter().filter(|name| !ready.contains(name)) {
        let (namespace, object) = name.split_once('/').unwrap_or_default();
        let path = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets/{object}");
        if api.get(&path, work.deadline)?.is_some() {
            problems.push(format!("DaemonSet {name} has no ready Pod here, and had one before"));
        }
    }
    Ok(if problems.is_empty() { Ok(identity.join(" ")) } else { Err(problems) })
}

fn why_kubelet_is_not(root: &Root, kubelet: &Service, wanted: Option<Digest>) -> Option<String> {
    let Some(process) = kubelet.process.filter(|_| kubelet.state == "active") else {
        return Some(format!("kubelet is {}, and not active", kubelet.state));
    };
    match (digest_of_process(root, process), wanted) {
        (Ok(runs), Some(wanted)) if runs != wanted => Some(format!("kubelet runs {runs}, and {wanted} is wanted")),
        (Err(error), _) => Some(format!("kubelet: {error:#}")),
        _ => None,
    }
}

/// When kubelet was started, in seconds since 1970: by the clock that it writes into the Node's conditions.
fn kubelet_start(root: &Root, kubelet: &Service) -> Option<i64> {
    let since_boot = kubelet.active_since.parse::<i64>().ok()? / 1_000_000;
    let stat = std::fs::read_to_string(root.unfollowed("/proc/stat")).ok()?;
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<i64>().ok()?;
    Some(boot + since_boot)
}

fn why_node_is_not(node: &Value, wanted: &Wanted, boot: &str, kubelet_start: Option<i64>) -> Vec<String> {
    let text = |path: &str| node.pointer(path).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let mut problems = Vec::new();
    let version = text("/status/nodeInfo/kubeletVersion");
    if !version.parse::<KubernetesVersion>().is_ok_and(|version| version.is_same_release(&wanted.version)) {
        problems.push(format!("the Node says kubelet {version}, and {} is wanted", wanted.version));
    }
    let told = text("/status/nodeInfo/bootID");
    if told != boot {
        problems.push(format!("the Node tells of boot {told}, and the machine's is {boot}"));
    }
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let is_ready = |condition: &&Value| condition.get("type").and_then(Value::as_str) == Some("Ready");
    let ready = conditions.and_then(|all| all.iter().find(is_ready));
    let field = |name: &str| ready.and_then(|ready| ready.get(name)).and_then(Value::as_str).unwrap_or("unknown");
    if field("status") != "True" {
        problems.push(format!("the Node is not Ready: {}", field("message")));
    }
    // While no controller looks, a Node stays Ready whose kubelet is gone: only what this kubelet wrote counts. Its
    // time has whole seconds, and so has that of the boot.
    let heartbeat = field("lastHeartbeatTime").parse::<Timestamp>().ok().map(|time| time.as_second());
    match (heartbeat, kubelet_start) {
        (Some(heartbeat), Some(start)) if heartbeat + 1 >= start => {}
        (_, None) => problems.push("it is not known since when kubelet runs".to_owned()),
        _ => problems.push("the Node was not heard of since kubelet was started".to_owned()),
    }
    problems
}

fn why_manifest_is_not(manifest: &StaticPod, wanted: &WantedImage) -> Option<String> {
    let is_wanted = match wanted {
        WantedImage::Tag(tag) => static_pods::tag(&manifest.image) == tag,
        WantedImage::Exactly(image) => manifest.image == *image,
        WantedImage::OfManifest => true,
    };
    let wanted = match wanted {
        WantedImage::Tag(text) | WantedImage::Exactly(text) => text.as_str(),
        WantedImage::OfManifest => "",
    };
    (!is_wanted).then(|| format!("{} has image {}, and {wanted} is wanted", manifest.name, manifest.image))
}

fn is_mirror_of(pod: &Value, name: &str, node: &str) -> bool {
    pods::name(pod) == format!("kube-system/{name}-{node}")
}

fn digest_of(work: &Work<'_>, image: &str) -> Option<Digest> {
    work.journal.images.iter().find(|known| known.reference == image).and_then(|known| known.digest)
}

/// The container that is ready by the API server's word, and runs by containerd's.
fn container(pod: Option<&Value>, manifest: &StaticPod, digest: Option<Digest>, tasks: &str) -> Result<String, String> {
    let name = &manifest.name;
    let pod = pod.ok_or_else(|| format!("the API server knows no Pod of {name} here"))?;
    let image = pod.pointer("/spec/containers/0/image").and_then(Value::as_str).unwrap_or_default();
    if image != manifest.image {
        return Err(format!("{name} is of {image} for the API server, and of {} in its manifest", manifest.image));
    }
    let status = pod.pointer("/status/containerStatuses/0");
    let text = |field: &str| status.and_then(|status| status.get(field)).and_then(Value::as_str).unwrap_or_default();
    if !pods::is_ready(pod) {
        let waiting = status.and_then(|status| status.pointer("/state/waiting/reason")).and_then(Value::as_str);
        return Err(format!("{name} is not ready{}", waiting.map(|why| format!(" ({why})")).unwrap_or_default()));
    }
    if let Some(digest) = digest.filter(|digest| !text("imageID").ends_with(&digest.to_string())) {
        return Err(format!("{name} runs {}, and {digest} is wanted", text("imageID")));
    }
    let id = text("containerID").rsplit('/').next().unwrap_or_default().to_owned();
    let runs = tasks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first() == Some(&id.as_str()) && words.last() == Some(&"RUNNING")
    });
    if runs && !id.is_empty() { Ok(id) } else { Err(format!("{name}: containerd does not run its container {id}")) }
}

/// All static Pods of the control plane that the node has, as they are to be after the upgrade.
///
/// # Errors
/// When a manifest cannot be read.
pub fn images_of_target(work: &Work<'_>) -> anyhow::Result<Vec<(String, WantedImage)>> {
    let mut images = Vec::new();
    if work.journal.role.is_control_plane() {
        let tag = work.journal.target.kubernetes_version.to_string();
        for name in CONTROL_PLANE {
            if name != "etcd" {
                images.push((name.to_owned(), WantedImage::Tag(tag.clone())));
            } else if static_pods::read(work.root, name)?.is_some() {
                images.push((name.to_owned(), WantedImage::OfManifest));
            }
        }
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BOOT: &str = "b007";

    fn node(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut node = json!({"status": {
            "nodeInfo": {"kubeletVersion": "v1.36.4", "bootID": BOOT},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:10Z"}],
        }});
        change(&mut node);
        let wanted = Wanted { version: "v1.36.4-eks-1-36-2".parse().unwrap(), kubelet: None, images: Vec::new() };
        let start = "2026-01-01T00:00:08Z".parse::<Timestamp>().unwrap().as_second();
        why_node_is_not(&node, &wanted, BOOT, Some(start))
    }

    #[test]
    fn node_counts_only_by_what_this_kubelet_wrote() {
        assert_eq!(node(|_| {}), [""; 0]);
        for (path, value, why) in [
            ("/status/nodeInfo/kubeletVersion", "v1.35.4", "kubelet v1.35.4"),
            ("/status/nodeInfo/bootID", "before", "boot before"),
            ("/status/conditions/0/status", "Unknown", "not Ready"),
            // A dead kubelet's Node stays Ready while no controller looks.
            ("/status/conditions/0/lastHeartbeatTime", "2026-01-01T00:00:06Z", "was not heard of"),
        ] {
            let problems = node(|node| *node.pointer_mut(path).unwrap() = json!(value));
            assert!(problems.len() == 1 && problems[0].contains(why), "{why} in {problems:?}");
        }
    }

    fn checked(change: impl FnOnce(&mut Value), tasks: &str) -> Result<String, String> {
        let image = "registry.test/kube-apiserver:v1.36.4";
        let mut pod = json!({
            "metadata": {"namespace": "kube-system", "name": "kube-apiserver-cp1"},
            "spec": {"containers": [{"image": image}]},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"containerID": "containerd://abc", "imageID": format!("registry.test/x@{}", Digest::of(b"image"))}],
            },
        });
        change(&mut pod);
        let manifest =
            static_pods::parse(format!("spec: {{containers: [{{image: \"{image}\"}}]}}").as_bytes(), "kube-apiserver");
        container(Some(&pod), &manifest.unwrap(), Some(Digest::of(b"image")), tasks)
    }

    #[test]
    fn container_counts_when_api_server_and_containerd_agree() {
        let tasks = "TASK    PID    STATUS\nabc     12     RUNNING\n";
        assert_eq!(checked(|_| {}, tasks), Ok("abc".to_owned()));
        let why = |change: fn(&mut Value), tasks| checked(change, tasks).unwrap_err();
        assert!(why(|_| {}, "abc 12 STOPPED\n").contains("containerd does not run"));
        assert!(why(|_| {}, "abcd 12 RUNNING\n").contains("containerd does not run"));
        let old =
            |pod: &mut Value| pod["spec"]["containers"][0]["image"] = json!("registry.test/kube-apiserver:v1.35.4");
        assert!(why(old, tasks).contains("is of registry.test/kube-apiserver:v1.35.4 for the API server"));
        let other =
            |pod: &mut Value| pod["status"]["containerStatuses"][0]["imageID"] = json!("registry.test/x@sha256:00");
        assert!(why(other, tasks).contains("is wanted"));
        let crashing = |pod: &mut Value| {
            pod["status"]["conditions"][0]["status"] = json!("False");
            pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        };
        assert!(why(crashing, tasks).contains("not ready (CrashLoopBackOff)"));
    }

    #[test]
    fn manifest_that_kubeadm_rolled_back_is_named() {
        let manifest =
            static_pods::parse(b"spec: {containers: [{image: \"r.test:5000/etcd:3.6.6-0@sha256:ab\"}]}", "etcd");
        let manifest = manifest.unwrap();
        assert_eq!(why_manifest_is_not(&manifest, &WantedImage::Tag("3.6.6-0".to_owned())), None);
        let why = why_manifest_is_not(&manifest, &WantedImage::Tag("3.6.8-0".to_owned())).unwrap();
        assert!(why.contains("etcd has image r.test:5000/etcd:3.6.6-0"), "{why}");
    }
}
