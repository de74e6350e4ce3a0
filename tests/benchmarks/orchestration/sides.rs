//! Who brings the version to the fleet.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tests::servers::{DEPLOY, Process};

use super::fleet;
use super::scene::{Scene, polled};
use crate::measure::run as command;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Stepgate,
    Script,
    Flux,
}

/// What people write who have no controller for it: one commit, then every cluster is waited for, and looked at in the end.
const SCRIPT: &str = r#"
set -eu
kubectl() { "$KUBECTL" --kubeconfig "$KUBECONFIG" "$@"; }
git fetch --quiet origin deploy && git checkout --quiet -B deploy origin/deploy
sed -i "s/$BEFORE/$VERSION/" clusters/*/cluster/cluster.yaml
git commit --quiet --all --message "$VERSION" && git push --quiet origin HEAD:deploy
commit=$(git rev-parse HEAD)
kubectl annotate --overwrite --namespace flux-system gitrepository/flux-system "reconcile.fluxcd.io/requestedAt=$commit" >/dev/null
for cluster in $CLUSTERS; do
  namespace=fleet-${cluster#cluster-}
  wait_for() { kubectl wait --timeout=20m --namespace "$namespace" "$@" >/dev/null; }
  wait_for "cluster.cluster.x-k8s.io/$cluster" "--for=jsonpath={.spec.topology.version}=$VERSION"
  wait_for kubeadmcontrolplane --all "--for=jsonpath={.status.version}=$VERSION"
  wait_for kubeadmcontrolplane --all --for=condition=Available
  wait_for machinedeployment --all "--for=jsonpath={.spec.template.spec.version}=$VERSION"
  wait_for machinedeployment --all --for=jsonpath={.status.upToDateReplicas}=1
  wait_for machinedeployment --all --for=condition=Available
  "$CLUSTERCTL" describe cluster --kubeconfig "$KUBECONFIG" --namespace "$namespace" "$cluster" >/dev/null
done
"#;

/// As a webhook tells Flux of a push; then Flux waits for the health of what it has applied.
const ALONE: &str = r#"
set -eu
kubectl() { "$KUBECTL" --kubeconfig "$KUBECONFIG" "$@"; }
git fetch --quiet origin deploy && git checkout --quiet -B deploy origin/deploy
sed -i "s/$BEFORE/$VERSION/" clusters/*/cluster/cluster.yaml
grep -q 'wait: true' flux/*/cluster.yaml || sed -i 's/^spec:$/spec:\n  wait: true/' flux/*/cluster.yaml
git commit --quiet --all --message "$VERSION" && git push --quiet origin HEAD:deploy
commit=$(git rev-parse HEAD)
kubectl annotate --overwrite --namespace flux-system gitrepository/flux-system "reconcile.fluxcd.io/requestedAt=$commit" >/dev/null
kubectl wait --timeout=20m --namespace flux-system kustomization --all "--for=jsonpath={.status.lastAppliedRevision}=deploy@sha1:$commit" >/dev/null
kubectl wait --timeout=20m --namespace flux-system kustomization --all --for=condition=Ready >/dev/null
"#;

impl Side {
    pub const ALL: [Self; 3] = [Self::Stepgate, Self::Script, Self::Flux];

    pub fn name(self) -> &'static str {
        match self {
            Self::Stepgate => "stepgate",
            Self::Script => "script",
            Self::Flux => "flux",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Stepgate => "Stepgate",
            Self::Script => "clusterctl, kubectl and git",
            Self::Flux => "Flux alone",
        }
    }

    /// What its word is worth.
    pub fn says(self) -> &'static str {
        match self {
            Self::Stepgate => {
                "done is the commit that closes the rollout: checks before it, a backup, the control plane, the workers after it, and the cluster \
                 compared with before, each gate bound to its commit"
            }
            Self::Script => {
                "done is the end of the script: it waits for versions and conditions, and checks nothing before, saves nothing, stops nowhere \
                 between control plane and workers, and is begun anew by a person when it dies"
            }
            Self::Flux => {
                "done is that every Kustomization is ready with `wait`: Flux waits for no machine, so that this may come before the machines; it has \
                 no order between control plane and workers and no gate"
            }
        }
    }

    /// What runs all the time.
    pub fn start(self, scene: &Scene) -> anyhow::Result<Option<Process>> {
        if self != Self::Stepgate {
            let bare = scene.repository.bare();
            command(&scene.folder, "git", &["clone", "--quiet", &bare.to_string_lossy(), "clone"])?;
            return Ok(None);
        }
        let run = scene.stepgate(&["run", "--listen", "off"])?;
        Process::start(&scene.folder, "stepgate", run).map(Some)
    }

    /// Brings a version: how long it takes from the push until every machine runs it, and until the side says that it is done.
    pub async fn bring(self, scene: &Scene, version: &str, round: usize) -> anyhow::Result<(Duration, Duration)> {
        let begun = Instant::now();
        let done = async {
            match self {
                Self::Stepgate => pushed_to_stepgate(scene, version, round).await,
                Self::Script => script(scene, SCRIPT, version, round).await,
                Self::Flux => script(scene, ALONE, version, round).await,
            }
        };
        let (machines, done) = tokio::join!(scene.until_machines_run(version), done);
        // Whose word failed tells more than whose machines are late.
        let (done, machines) = (done?, machines?);
        Ok((machines.saturating_duration_since(begun), done.saturating_duration_since(begun)))
    }
}

async fn pushed_to_stepgate(scene: &Scene, version: &str, round: usize) -> anyhow::Result<Instant> {
    let files: Vec<(String, String)> = (0..scene.clusters).map(|number| fleet::file(number, version)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    scene.repository.push(version, &files)?;
    let wanted = scene.clusters * round;
    polled("every rollout is closed", async || {
        let closed = scene.git(&["rev-list", "--count", "--grep=: verify, rollout .* is done", DEPLOY])?;
        Ok((closed.parse::<usize>()? >= wanted).then(Instant::now))
    })
    .await
}

async fn script(scene: &Scene, text: &str, version: &str, round: usize) -> anyhow::Result<Instant> {
    let clusters: Vec<String> = (0..scene.clusters).map(fleet::name).collect();
    let path = |name: &str| scene.programs.path(name);
    let programs: [(&str, PathBuf); 3] =
        [("KUBECTL", path("kubectl")), ("CLUSTERCTL", path("clusterctl")), ("KUBECONFIG", scene.server.kubeconfig())];
    let output = tokio::process::Command::new("sh")
        .args(["-c", text])
        .current_dir(scene.folder.join("clone"))
        .envs(programs)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        // Else each call asks the internet whether there is a newer one, and waits a minute where there is none.
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "Person")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "person@example.com")))
        .env("BEFORE", fleet::version(round - 1))
        .env("VERSION", version)
        .env("CLUSTERS", clusters.join(" "))
        .output()
        .await
        .context("run sh")?;
    let ended = Instant::now();
    ensure!(output.status.success(), "the script failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(ended)
}
