//! kubeadm: replaced and run. Its word is not the proof: it says SUCCESS while a controller-manager ends again and
//! again, and it rolls back only what takes the API away.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::files::manifest::Component;
use crate::host::etcd;
use crate::host::services::owe_restart;
use crate::host::static_pods::{self, CONTROL_PLANE};
use crate::journal::{Role, State};
use crate::proof::{Wanted, images_of_target, prove};
use crate::step::Step;
use crate::work::{Work, own_path};

/// What does not hold by then does not come by waiting: the way back is nearer than the end of the attempt.
const PROOF: Duration = Duration::from_secs(300);

/// Replaces and runs, and looks at what has come of it.
///
/// # Errors
/// When kubeadm fails, or static Pods do not run as it wrote them.
pub fn perform(work: &mut Work<'_>) -> anyhow::Result<String> {
    let changed = work.install(Component::Kubeadm)?;
    let configuration = own_path("upgrade.yaml")?;
    // JSON is YAML too.
    let text = serde_json::to_string_pretty(&upgrade_configuration(work))?;
    work.files().write_text(&configuration, &text)?;
    let files = work.component(Component::Kubeadm);
    let program = files.iter().find(|file| file.path.name() == "kubeadm").context("the release has no kubeadm")?;
    let verb = if work.journal.role == Role::FirstControlPlane { "apply" } else { "node" };
    let lead = if work.journal.role.is_control_plane() { etcd::hand_over(work) } else { String::new() };
    // It changes kubelet's configuration; the new kubelet may be the same program.
    owe_restart(work, "kubelet")?;
    let result = work.run(program.path.as_str(), &["upgrade", verb, "--config", configuration.as_str()]);
    if let Err(error) = result {
        bail!("{error:#}\n{}", what_it_left(work));
    }
    if work.journal.role.is_control_plane() {
        // kubelet is still the old one; a control plane that is not healthy is seen before that changes.
        let is_over = work.journal.record(Step::Kubelet).state == State::Succeeded;
        let version = if is_over { &work.journal.target.kubernetes_version } else { &work.journal.version_before };
        let version = version.clone();
        work.host.deadline = work.deadline.min(Instant::now() + PROOF);
        prove(work, &Wanted { version, kubelet: None, images: images_of_target(work)? })?;
    }
    let digests = work.told_of_program(Component::Kubeadm, "kubeadm");
    Ok(format!("{changed} files replaced, kubeadm upgrade {verb} succeeded{lead}{digests}"))
}

/// `CoreDNS` is left alone: what is in its ConfigMap is nowhere else.
fn upgrade_configuration(work: &Work<'_>) -> Value {
    let version = work.journal.target.kubernetes_version.to_string();
    // What these two check is not done.
    let mut ignored = vec!["CoreDNSUnsupportedPlugins", "CoreDNSMigration"];
    ignored.extend(work.choices.ignored_preflight_errors.iter().map(String::as_str));
    let policy = &work.choices.image_pull_policy;
    let skipped = ["addon/coredns"];
    json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "UpgradeConfiguration",
        "apply": {
            "kubernetesVersion": version,
            "forceUpgrade": true,
            "ignorePreflightErrors": ignored,
            "imagePullPolicy": policy,
            "skipPhases": skipped,
        },
        "node": {"ignorePreflightErrors": ignored, "imagePullPolicy": policy, "skipPhases": skipped},
        "timeouts": {"upgradeManifests": "5m0s"},
    })
}

fn what_it_left(work: &Work<'_>) -> String {
    if !work.journal.role.is_control_plane() {
        return "kubeadm changes no program of a worker: its kubelet runs on as before".to_owned();
    }
    let told = CONTROL_PLANE.iter().filter_map(|name| match static_pods::read(work.root, name) {
        Ok(pod) => pod.map(|pod| pod.image),
        Err(error) => Some(format!("{error:#}")),
    });
    format!("kubeadm left these manifests: {}", told.collect::<Vec<_>>().join(", "))
}
